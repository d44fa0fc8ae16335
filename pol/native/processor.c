/* The instruction sets of the processor, and the rounding of the calling thread. */

#include "exact.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#define INTERFACE 11 /* version of this library's interface, raised with every change of its parameters or instructions */
#define HAS_AVX2 1
#define HAS_AVXVNNI 2
#define HAS_AVX512VNNI 4
#define HAS_DOTPROD 8

EXPORT int assay_interface(void)
{
    return INTERFACE;
}

#if defined(__x86_64__)

#define LEAF1 (1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29) /* FMA, MOVBE, XGETBV, AVX, F16C */
#define LEAF7 (1u << 3 | 1u << 5 | 1u << 8)                           /* BMI1, AVX2, BMI2 */
#define EXTENDED (1u << 5)                                            /* LZCNT */
#define AVX512 (1u << 16 | 1u << 17 | 1u << 30 | 1u << 31)            /* leaf 7, b: F, DQ, BW, VL */
#define AVX512_VNNI (1u << 11)                                        /* leaf 7, c */
#define AVX_VNNI (1u << 4)                                            /* leaf 7.1, a */
#define YMM 0x6u                                                      /* registers that the operating system saves */
#define ZMM 0xe6u

/* Return the instruction sets. All of them require x86-64-v3 and an operating system that saves the wide registers. */
static int instruction_sets(void)
{
    unsigned a, b, c, d, kept, high, more = 0, found = HAS_AVX2;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & LEAF1) != LEAF1)
        return 0;
    __asm__("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    if ((kept & YMM) != YMM)
        return 0;
    if (!__get_cpuid(0x80000001u, &a, &b, &c, &d) || (c & EXTENDED) != EXTENDED)
        return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & LEAF7) != LEAF7)
        return 0;
    if ((b & AVX512) == AVX512 && (c & AVX512_VNNI) && (kept & ZMM) == ZMM)
        found |= HAS_AVX512VNNI;
    if (a >= 1 && __get_cpuid_count(7, 1, &more, &b, &c, &d) && (more & AVX_VNNI))
        found |= HAS_AVXVNNI;
    return (int)found;
}

#elif defined(__aarch64__) && defined(__linux__)

static int instruction_sets(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? HAS_DOTPROD : 0;
}

#else

static int instruction_sets(void)
{
    return 0;
}

#endif

/* Return the bits of the processor's instruction sets, of those for which libraries are built. */
EXPORT int assay_processor(void)
{
    return instruction_sets();
}

/* Return whether this thread rounds to nearest, ties to even, and keeps subnormal numbers. */
EXPORT int assay_rounds_exactly(void)
{
    volatile float one = 1.0f, third = 0x1.8p-24f, tiny = 0x1p-140f, half = 0.5f;
    volatile double small = 0x1p-1060;
    int keeps = tiny * half != 0.0f && small * (double)half != 0.0;
    int nearest = one + third == 0x1.000002p0f && one + half * third == one && -one - third == -0x1.000002p0f;
    return keeps && nearest;
}
