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
#define NARROW 16 /* below it a row is too short to be worth a loop of its own */

static int levels_of(int64_t n)
{
    int levels = 0;
    while (((int64_t)1 << levels) < n)
        levels++;
    return levels;
}

/* [n, inner], with the room of half a power of two of rows: whole halves are added, element by element. */
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

/* ``width`` columns of n rows that lie ``stride`` apart; n is at least 2. */
static void sum_columns(const float *x, int64_t n, int64_t stride, int64_t width, float *result)
{
    float waiting[LEVELS][COLUMNS];
    int levels = levels_of(n);
    int64_t pairs = (int64_t)1 << (levels - 1), lower = 0;
    for (int64_t pair = 0; pair < pairs; pair++) {
        int64_t upper = lower + pairs;
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
        /* The next number of reversed bits: the carry goes down. */
        int64_t bit = pairs >> 1;
        for (; lower & bit; bit >>= 1)
            lower ^= bit;
        lower |= bit;
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
