/* exp, log, tanh and erf: the FP64 sequences of pol/ops/functions.py. */

#ifndef ASSAY_FUNCTIONS_H
#define ASSAY_FUNCTIONS_H

#include "exact.h"

/* Adding and subtracting MAGIC rounds a number below 2^51 to an integer, ties to even. The low bits of the sum hold it. */
static const double MAGIC = 0x1.8p52;

static const double LN2_HIGH = 6.93147180369123816490e-01;
static const double LN2_LOW = 1.90821492927058770002e-10;
static const double INVERSE_LN2 = 1.44269504088896338700e00;
static const double SQRT2 = 1.41421356237309514547e00;

static inline double clamp(double x, double low, double high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

static inline double exp_of(double x)
{
    x = clamp(x, -200.0, 200.0);
    double shifted = x * INVERSE_LN2 + MAGIC;
    double k = shifted - MAGIC;
    double high = x - k * LN2_HIGH;
    double low = k * LN2_LOW;
    double r = high - low;
    double t = r * r;
    double p = t * 4.13813679705723846039e-08 + -1.65339022054652515390e-06;
    p = p * t + 6.61375632143793436117e-05;
    p = p * t + -2.77777777770155933842e-03;
    p = p * t + 1.66666666666666019037e-01;
    double c = r - t * p;
    double power = double_of((bits_of(shifted) + 1023) << 52);
    return (((r * c) / (2.0 - c) - low) + high + 1.0) * power;
}

static inline double log_of(double x)
{
    uint64_t bits = bits_of(x);
    /* With the biased exponent in the low bits of 2^52, the exponent becomes an FP64 number without a conversion. */
    double k = double_of((bits >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0);
    double m = double_of((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    int upper = m > SQRT2;
    m = upper ? m * 0.5 : m;
    k = upper ? k + 1.0 : k;
    double f = m - 1.0;
    double s = f / (f + 2.0);
    double z = s * s;
    double w = z * z;
    double even = w * 1.531383769920937332e-01 + 2.222219843214978396e-01;
    even = even * w + 3.999999999940941908e-01;
    double odd = w * 1.479819860511658591e-01 + 1.818357216161805012e-01;
    odd = odd * w + 2.857142874366239149e-01;
    odd = odd * w + 6.666666666666735130e-01;
    double r = w * even + z * odd;
    double half = f * f * 0.5;
    double result = k * LN2_HIGH - ((half - (s * (half + r) + k * LN2_LOW)) - f);
    result = x > 0.0 ? result : NAN;
    result = x == 0.0 ? -INFINITY : result;
    return x == INFINITY ? INFINITY : result;
}

static inline double tanh_of(double x)
{
    double a = fabs(x);
    double e = exp_of(a * -2.0);
    double quotient = (1.0 - e) / (e + 1.0);
    double series = a - a * a * a * (1.0 / 3.0);
    double result = a < 0x1p-12 ? series : quotient;
    return x < 0.0 ? -result : result;
}

static inline double erf_of(double x)
{
    x = clamp(x, -6.0, 6.0);
    double a = fabs(x);
    double z = x * x;
    double t = z * 9.60497373987051638749e0 + 9.00260197203842689217e1;
    t = t * z + 2.23200534594684319226e3;
    t = t * z + 7.00332514112805075473e3;
    t = t * z + 5.55923013010394962768e4;
    double u = z * 1.0 + 3.35617141647503099647e1;
    u = u * z + 5.21357949780152679795e2;
    u = u * z + 4.59432382970980127987e3;
    u = u * z + 2.26290000613890934246e4;
    u = u * z + 4.92673942608635921086e4;
    double inner = x * t / u;
    double p = a * 2.46196981473530512524e-10 + 5.64189564831068821977e-1;
    p = p * a + 7.46321056442269912687e0;
    p = p * a + 4.86371970985681366614e1;
    p = p * a + 1.96520832956077098242e2;
    p = p * a + 5.26445194995477358631e2;
    p = p * a + 9.34528527171957607540e2;
    p = p * a + 1.02755188689515710272e3;
    p = p * a + 5.57535335369399327526e2;
    double q = a * 1.0 + 1.32281951154744992508e1;
    q = q * a + 8.67072140885989742329e1;
    q = q * a + 3.54937778887819891062e2;
    q = q * a + 9.75708501743205489753e2;
    q = q * a + 1.82390916687909736289e3;
    q = q * a + 2.24633760818710981792e3;
    q = q * a + 1.65666309194161350182e3;
    q = q * a + 5.57535340817727675546e2;
    double tail = 1.0 - exp_of(-z) * p / q;
    double outer = x < 0.0 ? -tail : tail;
    return a <= 1.0 ? inner : outer;
}

#endif
