/* exp, log, tanh and erf of each element, rounded once to FP32. */

#include "functions.h"

#define ELEMENTWISE(name, function)                                               \
    EXPORT void name(const float *RESTRICT x, float *RESTRICT result, int64_t n) \
    {                                                                             \
        for (int64_t i = 0; i < n; i++)                                           \
            result[i] = (float)function((double)x[i]);                            \
    }

ELEMENTWISE(assay_exp, exp_of)
ELEMENTWISE(assay_log, log_of)
ELEMENTWISE(assay_tanh, tanh_of)
ELEMENTWISE(assay_erf, erf_of)
