/* Narrow products with AVX2, and with the instructions for neural networks (VNNI) of AVX and of AVX-512.
 *
 * With 15 bits, a unit is a pair of INT16. The sum s of eight products fits into INT32. Two totals are kept: the sum of all
 * s modulo 2^32, and the sum of their upper halves. The first total minus 2^16 times the second is the sum of all lower
 * halves. That sum is below 2^32, so it is known exactly. Without VNNI, integers of 8 bits use the same loop, since their
 * whole sum fits into INT32.
 *
 * With VNNI, integers of 8 bits are bytes, and a unit is four bytes. The instruction multiplies unsigned by signed bytes.
 * The bytes of the right operand are therefore increased by 128, and each total begins with -128 times the sum of its row.
 * The total may overflow INT32 in between. It is right modulo 2^32, and its final value fits.
 */

#ifndef ASSAY_NARROW_X86_H
#define ASSAY_NARROW_X86_H

#include <immintrin.h>

#include "narrow.h"

#define COLUMNS 16
#define UNIT 4 /* bytes */

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define ROWS 8
#define VECTORS 1
#define READ_AGAIN(x)
typedef __m512i Vector;
#define DO(name) _mm512_##name
#define ADD_PAIRS _mm512_dpwssd_epi32
#define ADD_QUADS _mm512_dpbusd_epi32
#else
#define ROWS 3
#define VECTORS 2
#define READ_AGAIN(x) __asm__("" : "+r"(x))
typedef __m256i Vector;
#define DO(name) _mm256_##name
#define ADD_PAIRS _mm256_dpwssd_avx_epi32
#define ADD_QUADS _mm256_dpbusd_avx_epi32
#endif

#if defined(ADD_PAIRS) && (defined(__AVX512VNNI__) || defined(__AVXVNNI__))
#define VNNI 1
#define HEAD (4 * ROWS)
#else
#define VNNI 0
#define HEAD 0
#endif

static inline int in_bytes(int bits)
{
    return VNNI && bits == 8;
}

static inline int64_t form_size(int bits)
{
    return in_bytes(bits) ? BLOCK : 2 * BLOCK;
}

/* --- packing --------------------------------------------------------------------------------------------------- */

static inline __m256i digits(__m256 x, __m256 first, __m256 second)
{
    __m256 scaled = _mm256_mul_ps(_mm256_mul_ps(x, first), second);
    scaled = _mm256_and_ps(scaled, _mm256_cmp_ps(scaled, scaled, _CMP_ORD_Q));
    return _mm256_cvtps_epi32(scaled);
}

/* Transpose four lines of pairs, with one pair of each lane, to eight lanes of eight k. */
static inline void lanes_of_pairs(const __m256i p[4], Form out[LANES])
{
    __m256i a = _mm256_unpacklo_epi32(p[0], p[1]), b = _mm256_unpackhi_epi32(p[0], p[1]);
    __m256i c = _mm256_unpacklo_epi32(p[2], p[3]), d = _mm256_unpackhi_epi32(p[2], p[3]);
    __m256i lanes[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d),
                        _mm256_unpackhi_epi64(b, d)};
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((__m128i *)&out[i], _mm256_castsi256_si128(lanes[i]));
        _mm_storeu_si128((__m128i *)&out[i + 4], _mm256_extracti128_si256(lanes[i], 1));
    }
}

/* Transpose eight lanes of eight k to four lines of pairs. */
static inline void pairs_of_lanes(const Form lanes[LANES], __m256i p[4])
{
    __m256i r[4];
    for (int i = 0; i < 4; i++)
        r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)&lanes[i])),
                                       _mm_loadu_si128((const __m128i *)&lanes[i + 4]), 1);
    __m256i a = _mm256_unpacklo_epi32(r[0], r[1]), b = _mm256_unpackhi_epi32(r[0], r[1]);
    __m256i c = _mm256_unpacklo_epi32(r[2], r[3]), d = _mm256_unpackhi_epi32(r[2], r[3]);
    p[0] = _mm256_unpacklo_epi64(a, c);
    p[1] = _mm256_unpackhi_epi64(a, c);
    p[2] = _mm256_unpacklo_epi64(b, d);
    p[3] = _mm256_unpackhi_epi64(b, d);
}

/* Return eight contiguous k of one lane as integers. */
static inline __m128i packed_line(const float *x, float first, float second)
{
    __m256i q = digits(_mm256_loadu_ps(x), _mm256_set1_ps(first), _mm256_set1_ps(second));
    return _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
}

/* Return eight k of eight adjacent lanes as four lines of pairs. */
static inline void packed_pairs(const Operand *x, const Scales *s, int64_t lane, int64_t k, __m256i p[4])
{
    const float *data = x->data + lane + k * x->k;
    __m256 first = _mm256_loadu_ps(s->first + lane), second = _mm256_loadu_ps(s->second + lane);
    for (int i = 0; i < 4; i++) {
        __m256i even = digits(_mm256_loadu_ps(data + 2 * i * x->k), first, second);
        __m256i odd = digits(_mm256_loadu_ps(data + (2 * i + 1) * x->k), first, second);
        p[i] = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa);
    }
}

static void block_of(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, Form out[LANES])
{
    if (!is_whole(x, lane, k, summed) || (x->k != 1 && x->lane != 1)) {
        block_of_edge(x, s, lane, k, summed, out);
    } else if (x->k == 1) {
        for (int i = 0; i < LANES; i++)
            _mm_storeu_si128((__m128i *)&out[i],
                             packed_line(x->data + (lane + i) * x->lane + k, s->first[lane + i], s->second[lane + i]));
    } else {
        __m256i pairs[4];
        packed_pairs(x, s, lane, k, pairs);
        lanes_of_pairs(pairs, out);
    }
}

/* Convert a lane to bytes if the form is bytes, and return their sum; otherwise return 0. */
static inline ALWAYS int32_t form(Form *lane, int bits)
{
    if (!in_bytes(bits))
        return 0;
    __m128i integers = _mm_loadu_si128((const __m128i *)lane), bytes = _mm_packs_epi16(integers, integers);
    _mm_storel_epi64((__m128i *)lane, bytes);
    __m128i larger = _mm_xor_si128(bytes, _mm_set1_epi8(-128));
    return _mm_cvtsi128_si32(_mm_sad_epu8(larger, _mm_setzero_si128())) - 128 * BLOCK;
}

/* Combine two lines of pairs into one line of quads, increased by 128. */
static inline __m256i quads_of_pairs(__m256i first, __m256i second)
{
    const __m256i order = _mm256_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 0, 1, 8, 9, 2, 3, 10, 11, 4,
                                           5, 12, 13, 6, 7, 14, 15);
    return _mm256_xor_si256(_mm256_shuffle_epi8(_mm256_packs_epi16(first, second), order), _mm256_set1_epi8(-128));
}

static inline ALWAYS void put_right(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, int bits,
                                    char *panel)
{
    __m256i pairs[4];
    if (is_whole(x, lane, k, summed) && x->lane == 1) {
        packed_pairs(x, s, lane, k, pairs);
    } else {
        Form lanes[LANES];
        block_of(x, s, lane, k, summed, lanes);
        pairs_of_lanes(lanes, pairs);
    }
    if (in_bytes(bits)) {
        _mm256_storeu_si256((__m256i *)panel, quads_of_pairs(pairs[0], pairs[1]));
        _mm256_storeu_si256((__m256i *)(panel + 4 * COLUMNS), quads_of_pairs(pairs[2], pairs[3]));
        return;
    }
    for (int i = 0; i < 4; i++)
        _mm256_storeu_si256((__m256i *)(panel + 4 * i * COLUMNS), pairs[i]);
}

/* --- the inner loop -------------------------------------------------------------------------------------------- */

typedef struct {
    int32_t low[ROWS][COLUMNS], high[ROWS][COLUMNS]; /* the sum is high x 2^16 + low */
} Tile;

typedef int32_t Unit __attribute__((may_alias));

/* Keep a value in one register. Otherwise, GCC keeps sums in two types and runs out of registers. */
#if !defined(HELD) && !defined(__clang__)
#define HELD(vector) __asm__("" : "+v"(vector))
#elif !defined(HELD)
#define HELD(vector) (void)(vector)
#endif

static inline Vector held(Vector sum)
{
    HELD(sum);
    return sum;
}

static inline Vector add_pairs(Vector sum, Vector a, Vector b)
{
#if VNNI
    return ADD_PAIRS(sum, a, b);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
#endif
}

static inline Vector add_upper_half(Vector high, Vector sum)
{
#if VNNI
    return ADD_PAIRS(high, sum, DO(set1_epi32)(0x10000)); /* a pair of 0 and 1 */
#else
    return _mm256_add_epi32(high, _mm256_srai_epi32(sum, 16));
#endif
}

static inline ALWAYS void multiply_pairs(const char *left, const char *panel, int64_t blocks, int split, Tile *tile)
{
    const Unit *a = (const Unit *)(left + HEAD);
    const Vector *b = (const Vector *)panel;
    Vector all[ROWS][VECTORS], high[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int c = 0; c < VECTORS; c++)
            all[r][c] = DO(set1_epi32)(0), high[r][c] = DO(set1_epi32)(0);
    for (int64_t n = 0; n < blocks; n++, a += ROWS * 4, b += VECTORS * 4)
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            READ_AGAIN(b);
            Vector pair = DO(set1_epi32)(a[4 * r]), sums[VECTORS];
#pragma GCC unroll 2
            for (int c = 0; c < VECTORS; c++)
                sums[c] = DO(madd_epi16)(pair, b[c]);
#pragma GCC unroll 3
            for (int p = 1; p < 4; p++) {
                pair = DO(set1_epi32)(a[4 * r + p]);
#pragma GCC unroll 2
                for (int c = 0; c < VECTORS; c++)
                    sums[c] = held(add_pairs(sums[c], pair, b[p * VECTORS + c]));
            }
#pragma GCC unroll 2
            for (int c = 0; c < VECTORS; c++) {
                all[r][c] = held(DO(add_epi32)(all[r][c], sums[c]));
                if (split)
                    high[r][c] = held(add_upper_half(high[r][c], sums[c]));
            }
        }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int c = 0; c < VECTORS; c++) {
            Vector low = DO(sub_epi32)(all[r][c], DO(slli_epi32)(high[r][c], 16));
            memcpy(tile->low[r] + c * COLUMNS / VECTORS, &low, sizeof low);
            memcpy(tile->high[r] + c * COLUMNS / VECTORS, &high[r][c], sizeof low);
        }
}

#if VNNI

/* Even and odd quads have separate sums, so that a product need not wait for the previous one. */
static inline void multiply_quads(const char *left, const char *panel, int64_t blocks, Tile *tile)
{
    const Unit *begin = (const Unit *)left, *a = (const Unit *)(left + HEAD);
    const Vector *b = (const Vector *)panel;
    Vector sums[ROWS][VECTORS][2];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int c = 0; c < VECTORS; c++) {
            sums[r][c][0] = DO(set1_epi32)(-128 * begin[r]);
            sums[r][c][1] = DO(set1_epi32)(0);
        }
    for (int64_t n = 0; n < blocks; n++, a += ROWS * 2, b += VECTORS * 2)
#pragma GCC unroll 2
        for (int q = 0; q < 2; q++)
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++) {
                Vector quad = DO(set1_epi32)(a[2 * r + q]);
#pragma GCC unroll 2
                for (int c = 0; c < VECTORS; c++)
                    sums[r][c][q] = held(ADD_QUADS(sums[r][c][q], b[q * VECTORS + c], quad));
            }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int c = 0; c < VECTORS; c++) {
            Vector all = DO(add_epi32)(sums[r][c][0], sums[r][c][1]);
            memcpy(tile->low[r] + c * COLUMNS / VECTORS, &all, sizeof all);
        }
}

#endif

static inline ALWAYS void multiply_tile(const char *left, const char *right, int64_t blocks, int bits, Tile *tile)
{
#if VNNI
    if (bits == 8) {
        multiply_quads(left, right, blocks, tile);
        return;
    }
#endif
    multiply_pairs(left, right, blocks, bits != 8, tile);
}

static inline double sum_of(const Tile *tile, int64_t r, int64_t c, int bits)
{
    return bits == 8 ? (double)tile->low[r][c] : (double)tile->high[r][c] * 65536.0 + (double)tile->low[r][c];
}

#endif
