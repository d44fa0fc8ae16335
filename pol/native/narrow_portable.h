/* Narrow products of INT16 in plain C. The sum of eight products of 15-bit integers fits into INT32. Its lower 16 bits and
 * the rest are summed separately. With 8 bits, the whole sum fits into INT32.
 */

#ifndef ASSAY_NARROW_PORTABLE_H
#define ASSAY_NARROW_PORTABLE_H

#include "narrow.h"

#define ROWS 3
#define COLUMNS 16
#define UNIT 4 /* bytes: a pair */
#define HEAD 0

typedef struct {
    int32_t low[ROWS][COLUMNS], high[ROWS][COLUMNS]; /* the sum is high x 2^16 + low */
} Tile;

#include "narrow_int16.h"

static inline ALWAYS void multiply_tile(const char *left, const char *right, int64_t blocks, int bits, Tile *tile)
{
    const int16_t *a = (const int16_t *)left, *b = (const int16_t *)right;
    memset(tile, 0, sizeof *tile);
    for (int64_t n = 0; n < blocks; n++, a += ROWS * BLOCK, b += BLOCK * COLUMNS)
        for (int r = 0; r < ROWS; r++) {
            int32_t sum[COLUMNS] = {0};
            for (int p = 0; p < BLOCK / 2; p++)
                for (int c = 0; c < COLUMNS; c++) {
                    const int16_t *pair = b + 2 * (p * COLUMNS + c);
                    sum[c] += (int32_t)a[r * BLOCK + 2 * p] * pair[0] + (int32_t)a[r * BLOCK + 2 * p + 1] * pair[1];
                }
            for (int c = 0; c < COLUMNS; c++) {
                int32_t rest = bits == 8 ? sum[c] : sum[c] & 0xffff;
                tile->low[r][c] += rest;
                tile->high[r][c] += (sum[c] - rest) / 65536;
            }
        }
}

static inline double sum_of(const Tile *tile, int64_t r, int64_t c, int bits)
{
    return bits == 8 ? (double)tile->low[r][c] : (double)tile->high[r][c] * 65536.0 + (double)tile->low[r][c];
}

#endif
