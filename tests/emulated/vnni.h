/* The instructions that the kernels take from AVX-512 and VNNI, in plain C: so the very same source runs on a processor with
 * AVX2 (-include vnni.h -DEMULATED=512, or 256 for AVX-VNNI). Each is what Intel's manual says of it.
 */

#ifndef ASSAY_EMULATED_VNNI_H
#define ASSAY_EMULATED_VNNI_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* No register has such a vector. */
#define HELD(vector) (void)(vector)

#if EMULATED == 512
#define __AVX512F__ 1
#define __AVX512BW__ 1
#define __AVX512VNNI__ 1
typedef __m512i Emulated;
#else
#define __AVXVNNI__ 1
typedef __m256i Emulated;
#endif

#define NUMBERS (sizeof(Emulated) / 4)

typedef union {
    Emulated vector;
    uint32_t lanes[NUMBERS]; /* unsigned, for all sums are modulo 2^32 */
    int16_t words[2 * NUMBERS];
    uint8_t unsigned_bytes[4 * NUMBERS];
    int8_t bytes[4 * NUMBERS];
} EmulatedLanes;

#define EACH_LANE for (size_t i = 0; i < NUMBERS; i++)

/* VPDPWSSD: the products of two pairs of INT16, added to INT32 without saturation. */
static inline Emulated emulated_dpwssd(Emulated sum, Emulated a, Emulated b)
{
    EmulatedLanes r = {sum}, x = {a}, y = {b};
    EACH_LANE
        for (size_t j = 2 * i; j < 2 * i + 2; j++)
            r.lanes[i] += (uint32_t)(x.words[j] * y.words[j]);
    return r.vector;
}

/* VPDPBUSD: the products of four bytes without a sign by four with one, added to INT32 without saturation. */
static inline Emulated emulated_dpbusd(Emulated sum, Emulated a, Emulated b)
{
    EmulatedLanes r = {sum}, x = {a}, y = {b};
    EACH_LANE
        for (size_t j = 4 * i; j < 4 * i + 4; j++)
            r.lanes[i] += (uint32_t)(x.unsigned_bytes[j] * y.bytes[j]);
    return r.vector;
}

#if EMULATED == 512

#define _mm512_dpwssd_epi32 emulated_dpwssd
#define _mm512_dpbusd_epi32 emulated_dpbusd

static inline Emulated emulated_madd(Emulated a, Emulated b)
{
    EmulatedLanes none = {.lanes = {0}};
    return emulated_dpwssd(none.vector, a, b);
}
#define _mm512_madd_epi16 emulated_madd

static inline Emulated emulated_set1(int32_t value)
{
    EmulatedLanes r;
    EACH_LANE
        r.lanes[i] = (uint32_t)value;
    return r.vector;
}
#define _mm512_set1_epi32 emulated_set1

static inline Emulated emulated_add(Emulated a, Emulated b)
{
    EmulatedLanes r = {a}, y = {b};
    EACH_LANE
        r.lanes[i] += y.lanes[i];
    return r.vector;
}
#define _mm512_add_epi32 emulated_add

static inline Emulated emulated_sub(Emulated a, Emulated b)
{
    EmulatedLanes r = {a}, y = {b};
    EACH_LANE
        r.lanes[i] -= y.lanes[i];
    return r.vector;
}
#define _mm512_sub_epi32 emulated_sub

static inline Emulated emulated_slli(Emulated a, unsigned count)
{
    EmulatedLanes r = {a};
    EACH_LANE
        r.lanes[i] = r.lanes[i] << count;
    return r.vector;
}
#define _mm512_slli_epi32 emulated_slli

static inline Emulated emulated_loadu(const void *from)
{
    EmulatedLanes r;
    memcpy(&r, from, sizeof r);
    return r.vector;
}
#define _mm512_loadu_si512 emulated_loadu

static inline int32_t emulated_reduce_add(Emulated a)
{
    EmulatedLanes x = {a};
    uint32_t sum = 0;
    EACH_LANE
        sum += x.lanes[i];
    return (int32_t)sum;
}
#define _mm512_reduce_add_epi32 emulated_reduce_add

typedef union {
    __m512d vector;
    double numbers[8];
} EmulatedNumbers;

static inline __m512d emulated_set1_pd(double value)
{
    EmulatedNumbers r;
    for (int i = 0; i < 8; i++)
        r.numbers[i] = value;
    return r.vector;
}
#define _mm512_set1_pd emulated_set1_pd

static inline __m512d emulated_fmadd_pd(__m512d a, __m512d b, __m512d c)
{
    EmulatedNumbers r = {c}, x = {a}, y = {b};
    for (int i = 0; i < 8; i++)
        r.numbers[i] = fma(x.numbers[i], y.numbers[i], r.numbers[i]);
    return r.vector;
}
#define _mm512_fmadd_pd emulated_fmadd_pd

#else

#define _mm256_dpwssd_avx_epi32 emulated_dpwssd
#define _mm256_dpbusd_avx_epi32 emulated_dpbusd

#endif

#endif
