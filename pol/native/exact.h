/* What all kernels share.
 *
 * Every kernel gives the bits of its NumPy reference (pol/ops), whatever instruction set it was compiled for. So each
 * operation is rounded once, as written: the build forbids contraction (-ffp-contract=off), and nothing here relies on
 * the order in which a compiler may sum.
 */

#ifndef ASSAY_EXACT_H
#define ASSAY_EXACT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define RESTRICT __restrict__

/* It is there several times, once for each number that is known when it is compiled. */
#define ALWAYS __attribute__((always_inline))

static inline double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* 2^k for k in -1022..1023. */
static inline double power_of_two(int64_t k)
{
    return double_of((uint64_t)(k + 1023) << 52);
}

/* Memory that the calling thread keeps from call to call, aligned to a cache line; NULL where there is none. */
void *scratch(size_t bytes);

/* Give the memory of the calling thread back. */
void forget_scratch(void);

#endif
