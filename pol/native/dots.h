/* Sums of products of contiguous lines of INT16, without packing into panels.
 *
 * The sums are those of narrow_x86.h. Here the lanes of a vector are positions along the summed dimension. A tile therefore
 * needs one register per sum, and adds the lanes of each register at its end.
 */

#ifndef ASSAY_DOTS_H
#define ASSAY_DOTS_H

#include "product.h"

#define DOT 128 /* the number of summed elements is a multiple of it */

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)

#include <immintrin.h>

#define DOTS 1
#define DOT_ROWS 4
#define SINGLE 4 /* columns that are computed at once for one row */

#if !defined(HELD) && !defined(__clang__)
#define HELD(vector) __asm__("" : "+v"(vector))
#elif !defined(HELD)
#define HELD(vector) (void)(vector)
#endif

/* Add ``rows`` x ``columns`` sums over ``blocks`` blocks of DOT elements to totals. */
static inline ALWAYS void add_tile(const int16_t *a, int64_t a_line, const int16_t *b, int64_t b_line, int rows, int columns,
                                   int64_t blocks, int split, double *totals, int64_t stride, int64_t width)
{
    const __m512i upper = _mm512_set1_epi32(0x10000); /* a pair of 0 and 1 */
    __m512i all[DOT_ROWS][SINGLE], high[DOT_ROWS][SINGLE];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++)
            all[r][c] = high[r][c] = _mm512_set1_epi32(0);
    for (int64_t n = 0; n < blocks; n++, a += DOT, b += DOT) {
        __m512i sums[DOT_ROWS][SINGLE];
#pragma GCC unroll 4
        for (int p = 0; p < 4; p++) {
            __m512i right[SINGLE];
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++)
                right[c] = _mm512_loadu_si512(b + c * b_line + 32 * p);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                __m512i left = _mm512_loadu_si512(a + r * a_line + 32 * p);
#pragma GCC unroll 4
                for (int c = 0; c < columns; c++) {
                    sums[r][c] = p ? _mm512_dpwssd_epi32(sums[r][c], left, right[c]) : _mm512_madd_epi16(left, right[c]);
                    HELD(sums[r][c]);
                }
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) {
                all[r][c] = _mm512_add_epi32(all[r][c], sums[r][c]);
                HELD(all[r][c]);
                if (split) {
                    high[r][c] = _mm512_dpwssd_epi32(high[r][c], sums[r][c], upper);
                    HELD(high[r][c]);
                }
            }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns && c < width; c++) {
            int32_t low = _mm512_reduce_add_epi32(_mm512_sub_epi32(all[r][c], _mm512_slli_epi32(high[r][c], 16)));
            int32_t above = split ? _mm512_reduce_add_epi32(high[r][c]) : 0;
            totals[r * stride + c] += (double)above * 65536.0 + (double)low;
        }
}

#define ADD_ROWS(rows, columns)                                                                           \
    for (int64_t c = 0; c < width; c += columns)                                                          \
        add_tile(a, a_line, right + c * b_line, b_line, rows, columns, blocks, split, out + c, stride,    \
                 width - c);                                                                              \
    break

static inline ALWAYS void add_strip(const int16_t *left, int64_t a_line, const int16_t *right, int64_t b_line, int64_t lines,
                                    int64_t width, int64_t blocks, int split, double *totals, int64_t stride)
{
    for (int64_t r = 0; r < lines; r += DOT_ROWS) {
        const int16_t *a = left + r * a_line;
        double *out = totals + r * stride;
        switch (lines - r) {
        case 1: ADD_ROWS(1, 4);
        case 2: ADD_ROWS(2, 4);
        case 3: ADD_ROWS(3, 2);
        default: ADD_ROWS(4, 2);
        }
    }
}

/* Add the products of lines to [lines, width] of totals. The lines are ``a_line`` and ``b_line`` elements apart, and padded
 * with zeros to a multiple of DOT. The right operand has memory for a multiple of SINGLE lines.
 */
static void add_dots(const int16_t *left, int64_t a_line, const int16_t *right, int64_t b_line, int64_t lines, int64_t width,
                     int64_t summed, int bits, double *totals, int64_t stride)
{
    int64_t blocks = rounded(summed, DOT) / DOT;
    if (bits == 8)
        add_strip(left, a_line, right, b_line, lines, width, blocks, 0, totals, stride);
    else
        add_strip(left, a_line, right, b_line, lines, width, blocks, 1, totals, stride);
}

#else
#define DOTS 0
#endif

#endif
