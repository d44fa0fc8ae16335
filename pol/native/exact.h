/* Definitions that all kernels share.
 *
 * Every kernel gives the bits of its NumPy reference (pol/ops) on every instruction set. Each operation is therefore
 * rounded once, as written. The build forbids contraction (-ffp-contract=off), and no kernel depends on the order in which
 * a compiler sums.
 */

#ifndef ASSAY_EXACT_H
#define ASSAY_EXACT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define RESTRICT __restrict__

/* An inlined function is compiled once for each constant argument, for example for each number of bits. */
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

/* Return 2^k for k in -1022..1023. */
static inline double power_of_two(int64_t k)
{
    return double_of((uint64_t)(k + 1023) << 52);
}

/* Return memory that the calling thread keeps from call to call, aligned to a cache line; NULL if it cannot be allocated. */
void *scratch(size_t bytes);

/* Free the memory of the calling thread. */
void forget_scratch(void);

#endif
