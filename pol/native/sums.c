/* Halving sums of FP32 (pol/ops/reduce.py). The elements are padded with zeros to a power of two, and the upper half is
 * added to the lower half until one element is left.
 *
 * If the elements are visited in the order of their reversed bits, the pairs of this tree are those of a binary counter.
 * Each element is added to the sum that waits at its level, and the result moves up one level. A sum thus reads each
 * element once, and needs memory for one partial sum per level. The zeros of the padding must be added, since -0 + 0 is +0.
 */

#include "exact.h"

#define LEVELS 40
#define COLUMNS 256
#define NARROW 16 /* least length of a row for which a loop of its own is worthwhile */

static int levels_of(int64_t n)
{
    int levels = 0;
    while (((int64_t)1 << levels) < n)
        levels++;
    return levels;
}

/* Sum [n, inner] over n by adding whole halves; ``room`` holds half a power of two of rows. */
static void sum_halves(const float *x, int64_t n, int64_t inner, float *RESTRICT room, float *result)
{
    int64_t half = inner << (levels_of(n) - 1), paired = n * inner - half;
    for (int64_t i = 0; i < paired; i++)
        room[i] = x[i] + x[half + i];
    for (int64_t i = paired; i < half; i++)
        room[i] = x[i] + 0.0f;
    while (half > inner) {
        half >>= 1;
        for (int64_t i = 0; i < half; i++)
            room[i] = room[i] + room[half + i];
    }
    memcpy(result, room, (size_t)inner * sizeof *result);
}

/* Sum ``width`` columns of n rows that are ``stride`` elements apart; n is at least 2. */
static void sum_columns(const float *x, int64_t n, int64_t stride, int64_t width, float *result)
{
    float waiting[LEVELS][COLUMNS];
    int levels = levels_of(n);
    int64_t pairs = (int64_t)1 << (levels - 1), lower = 0;
    for (int64_t pair = 0; pair < pairs; pair++) {
        int64_t upper = lower + pairs;
        /* The number of sums that wait below is the number of ones at the end of the counter. */
        int level = __builtin_ctzll(~(uint64_t)pair);
        float *RESTRICT sum = waiting[level];
        const float *a = x + lower * stride, *b = x + upper * stride;
        if (upper < n)
            for (int64_t j = 0; j < width; j++)
                sum[j] = a[j] + b[j];
        else
            for (int64_t j = 0; j < width; j++)
                sum[j] = a[j] + 0.0f;
        for (int below = 0; below < level; below++) {
            const float *RESTRICT other = waiting[below];
            for (int64_t j = 0; j < width; j++)
                sum[j] = other[j] + sum[j];
        }
        /* Increment the number with reversed bits; the carry moves down. */
        int64_t bit = pairs >> 1;
        for (; lower & bit; bit >>= 1)
            lower ^= bit;
        lower |= bit;
    }
    memcpy(result, waiting[levels - 1], (size_t)width * sizeof *result);
}

/* Sum x, of shape [outer, n, inner], over n. Returns 0 if there is not enough memory. */
EXPORT int assay_sum(const float *x, int64_t outer, int64_t n, int64_t inner, float *result)
{
    if (n == 1) {
        memcpy(result, x, (size_t)(outer * inner) * sizeof *x);
        return 1;
    }
    if (inner < NARROW) {
        float *room = scratch(((size_t)inner << (levels_of(n) - 1)) * sizeof *room);
        if (room == NULL)
            return 0;
        for (int64_t i = 0; i < outer; i++)
            sum_halves(x + i * n * inner, n, inner, room, result + i * inner);
        return 1;
    }
    for (int64_t i = 0; i < outer; i++)
        for (int64_t first = 0; first < inner; first += COLUMNS) {
            int64_t width = inner - first < COLUMNS ? inner - first : COLUMNS;
            sum_columns(x + i * n * inner + first, n, inner, width, result + i * inner + first);
        }
    return 1;
}
