/* Narrow products on ARM, with NEON, which every 64-bit processor has, or with products of bytes (dotprod).
 *
 * With NEON alone, the integers are INT16, and a unit is one integer. The sum s of eight products of 15-bit integers fits
 * into INT32. Two totals are kept: the sum of all s modulo 2^32, and the sum of their upper halves. The first total minus
 * 2^16 times the second is the sum of all lower halves. That sum is below 2^32, so it is known exactly.
 *
 * With dotprod, a unit is four bytes. Integers of 15 bits are two digits, q = 128 x high + low with low in -64..63, and
 * their product consists of three sums. Each fits into INT32 for the largest summed dimension: 131,072 x 127^2,
 * 131,072 x 2 x 127 x 64, and 131,072 x 64^2.
 */

#ifndef ASSAY_NARROW_NEON_H
#define ASSAY_NARROW_NEON_H

#include <arm_neon.h>

#include "narrow_plain.h"

#define ROWS 4
#define COLUMNS 8
#define VECTORS 2
#define HEAD 0

/* Repeat a statement for each row and vector of a tile. */
#define EACH                                                                                              \
    _Pragma("GCC unroll 4") for (int r = 0; r < ROWS; r++)                                                \
        _Pragma("GCC unroll 2") for (int c = 0; c < VECTORS; c++)

#if defined(__ARM_FEATURE_DOTPROD)

#define UNIT 4 /* bytes */

typedef struct {
    int32_t high[ROWS][COLUMNS], middle[ROWS][COLUMNS], low[ROWS][COLUMNS];
} Tile;

static inline int64_t form_size(int bits)
{
    return bits == 8 ? BLOCK : 2 * BLOCK;
}

/* Convert a lane to eight bytes, or to eight high and eight low digits. */
static inline ALWAYS int32_t form(Form *lane, int bits)
{
    int16x8_t integers = vld1q_s16(lane->integers);
    if (bits == 8) {
        vst1_s8(lane->bytes, vmovn_s16(integers));
        return 0;
    }
    int16x8_t high = vrshrq_n_s16(integers, 7), low = vsubq_s16(integers, vshlq_n_s16(high, 7));
    vst1q_s8(lane->bytes, vcombine_s8(vmovn_s16(high), vmovn_s16(low)));
    return 0;
}

static inline ALWAYS void put_right(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, int bits,
                                    char *panel)
{
    Form lanes[LANES];
    block_of(x, s, lane, k, summed, lanes);
    for (int i = 0; i < LANES; i++) {
        form(&lanes[i], bits);
        for (int u = 0; u < form_size(bits) / UNIT; u++)
            memcpy(panel + UNIT * (u * COLUMNS + i), lanes[i].bytes + UNIT * u, UNIT);
    }
}

/* Even and odd quads have separate sums, so that a product need not wait for the previous one. */
static void multiply_bytes(const int8_t *a, const int8_t *b, int64_t blocks, Tile *tile)
{
    int32x4_t even[ROWS][VECTORS], odd[ROWS][VECTORS];
    EACH even[r][c] = odd[r][c] = vdupq_n_s32(0);
    for (int64_t n = 0; n < blocks; n++, a += ROWS * BLOCK, b += BLOCK * COLUMNS)
        EACH {
            int8x8_t row = vld1_s8(a + r * BLOCK);
            even[r][c] = vdotq_lane_s32(even[r][c], vld1q_s8(b + 16 * c), row, 0);
            odd[r][c] = vdotq_lane_s32(odd[r][c], vld1q_s8(b + 16 * (VECTORS + c)), row, 1);
        }
    EACH vst1q_s32(tile->low[r] + 4 * c, vaddq_s32(even[r][c], odd[r][c]));
}

#define ADD_DIGITS(q)                                                                                     \
    EACH {                                                                                                \
        int8x16_t row = vld1q_s8(a + r * 2 * BLOCK);                                                      \
        int8x16_t upper = vld1q_s8(b + 16 * ((q) * VECTORS + c));                                         \
        int8x16_t lower = vld1q_s8(b + 16 * ((2 + (q)) * VECTORS + c));                                   \
        high[r][c] = vdotq_laneq_s32(high[r][c], upper, row, q);                                          \
        middle[r][c] = vdotq_laneq_s32(middle[r][c], lower, row, q);                                      \
        low[r][c] = vdotq_laneq_s32(low[r][c], lower, row, 2 + (q));                                      \
        middle[r][c] = vdotq_laneq_s32(middle[r][c], upper, row, 2 + (q));                                \
    }

static void multiply_digits(const int8_t *a, const int8_t *b, int64_t blocks, Tile *tile)
{
    int32x4_t high[ROWS][VECTORS], middle[ROWS][VECTORS], low[ROWS][VECTORS];
    EACH high[r][c] = middle[r][c] = low[r][c] = vdupq_n_s32(0);
    for (int64_t n = 0; n < blocks; n++, a += ROWS * 2 * BLOCK, b += 2 * BLOCK * COLUMNS) {
        ADD_DIGITS(0)
        ADD_DIGITS(1)
    }
    EACH {
        vst1q_s32(tile->high[r] + 4 * c, high[r][c]);
        vst1q_s32(tile->middle[r] + 4 * c, middle[r][c]);
        vst1q_s32(tile->low[r] + 4 * c, low[r][c]);
    }
}

static inline ALWAYS void multiply_tile(const char *left, const char *right, int64_t blocks, int bits, Tile *tile)
{
    if (bits == 8)
        multiply_bytes((const int8_t *)left, (const int8_t *)right, blocks, tile);
    else
        multiply_digits((const int8_t *)left, (const int8_t *)right, blocks, tile);
}

static inline double sum_of(const Tile *tile, int64_t r, int64_t c, int bits)
{
    double low = (double)tile->low[r][c];
    return bits == 8 ? low : (double)tile->high[r][c] * 16384.0 + (double)tile->middle[r][c] * 128.0 + low;
}

#else

#define UNIT 2 /* bytes */

typedef struct {
    uint32_t low[ROWS][COLUMNS];
    int32_t high[ROWS][COLUMNS]; /* the sum is high x 2^16 + low */
} Tile;

#include "narrow_int16.h"

#define ADD_PRODUCT(k)                                                                                    \
    first = vmlal_laneq_s16(first, vget_low_s16(lines[k]), row, k);                                       \
    second = vmlal_high_laneq_s16(second, lines[k], row, k);

static inline ALWAYS void multiply_tile(const char *left, const char *right, int64_t blocks, int bits, Tile *tile)
{
    const int16_t *a = (const int16_t *)left, *b = (const int16_t *)right;
    uint32x4_t all[ROWS][VECTORS];
    int32x4_t high[ROWS][VECTORS];
    EACH all[r][c] = vdupq_n_u32(0), high[r][c] = vdupq_n_s32(0);
    for (int64_t n = 0; n < blocks; n++, a += ROWS * BLOCK, b += BLOCK * COLUMNS) {
        int16x8_t lines[BLOCK];
#pragma GCC unroll 8
        for (int j = 0; j < BLOCK; j++)
            lines[j] = vld1q_s16(b + j * COLUMNS);
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; r++) {
            int16x8_t row = vld1q_s16(a + r * BLOCK);
            int32x4_t first = vmull_laneq_s16(vget_low_s16(lines[0]), row, 0);
            int32x4_t second = vmull_high_laneq_s16(lines[0], row, 0);
            ADD_PRODUCT(1)
            ADD_PRODUCT(2)
            ADD_PRODUCT(3)
            ADD_PRODUCT(4)
            ADD_PRODUCT(5)
            ADD_PRODUCT(6)
            ADD_PRODUCT(7)
            all[r][0] = vaddq_u32(all[r][0], vreinterpretq_u32_s32(first));
            all[r][1] = vaddq_u32(all[r][1], vreinterpretq_u32_s32(second));
            if (bits != 8) {
                high[r][0] = vsraq_n_s32(high[r][0], first, 16);
                high[r][1] = vsraq_n_s32(high[r][1], second, 16);
            }
        }
    }
    EACH {
        uint32x4_t upper = vshlq_n_u32(vreinterpretq_u32_s32(high[r][c]), 16);
        vst1q_u32(tile->low[r] + 4 * c, vsubq_u32(all[r][c], upper));
        vst1q_s32(tile->high[r] + 4 * c, high[r][c]);
    }
}

static inline double sum_of(const Tile *tile, int64_t r, int64_t c, int bits)
{
    return bits == 8 ? (double)(int32_t)tile->low[r][c] : (double)tile->high[r][c] * 65536.0 + (double)tile->low[r][c];
}

#endif

#endif
