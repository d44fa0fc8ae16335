/* Halving sums of FP32 (pol/ops/reduce.py): the upper half, padded with zeros to a power of two, is added to the lower
 * one until one element is left.
 *
 * The pairs of that tree are those of a binary counter when the elements come in the order of their reversed bits: each
 * element is added to the sum that waits at its level, and the result goes up. So a sum needs one look at each element,
 * and memory for one partial sum a level. An element beyond the end is a zero, which has to be added: -0 + 0 is +0.
 */

#include "exact.h"

#define LEVELS 40
#define COLUMNS 256

static int levels_of(int64_t n)
{
    int levels = 0;
    while (((int64_t)1 << levels) < n)
        levels++;
    return levels;
}

static int64_t reversed(int64_t i, int levels)
{
    int64_t result = 0;
    for (int bit = 0; bit < levels; bit++)
        result |= (i >> bit & 1) << (levels - 1 - bit);
    return result;
}

/* One row of n elements, with the room of half a power of two. */
static float sum_row(const float *x, int64_t n, float *RESTRICT room)
{
    int64_t half = (int64_t)1 << (levels_of(n) - 1), paired = n - half;
    for (int64_t i = 0; i < paired; i++)
        room[i] = x[i] + x[half + i];
    for (int64_t i = paired; i < half; i++)
        room[i] = x[i] + 0.0f;
    while (half > 1) {
        half >>= 1;
        for (int64_t i = 0; i < half; i++)
            room[i] = room[i] + room[half + i];
    }
    return room[0];
}

/* ``width`` columns of n rows that lie ``stride`` apart; n is at least 2. */
static void sum_columns(const float *x, int64_t n, int64_t stride, int64_t width, float *result)
{
    float waiting[LEVELS][COLUMNS];
    int levels = levels_of(n);
    int64_t pairs = (int64_t)1 << (levels - 1);
    for (int64_t pair = 0; pair < pairs; pair++) {
        int64_t lower = reversed(pair, levels - 1), upper = lower + pairs;
        /* As many sums wait below as the counter has ones at its end. */
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
    }
    memcpy(result, waiting[levels - 1], (size_t)width * sizeof *result);
}

/* Sum x, of shape [outer, n, inner], over n. Returns 0 where there is no memory. */
EXPORT int assay_sum(const float *x, int64_t outer, int64_t n, int64_t inner, float *result)
{
    if (n == 1) {
        memcpy(result, x, (size_t)(outer * inner) * sizeof *x);
        return 1;
    }
    if (inner == 1) {
        float *room = scratch(((size_t)1 << (levels_of(n) - 1)) * sizeof *room);
        if (room == NULL)
            return 0;
        for (int64_t i = 0; i < outer; i++)
            result[i] = sum_row(x + i * n, n, room);
        return 1;
    }
    for (int64_t i = 0; i < outer; i++)
        for (int64_t first = 0; first < inner; first += COLUMNS) {
            int64_t width = inner - first < COLUMNS ? inner - first : COLUMNS;
            sum_columns(x + i * n * inner + first, n, inner, width, result + i * inner + first);
        }
    return 1;
}
