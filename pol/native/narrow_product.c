/* Products in integers of 8 and 15 bits (pol/ops/product.py). Both operands are packed as integers, in panels.
 *
 * With 8 bits, every sum of a product fits into INT32: 131,072 x 127^2 < 2^31. With 15 bits, the sum of eight products fits:
 * 8 x 16,256^2 < 2^31. Each instruction set combines such sums in its own way. In FP64, all sums are exact.
 */

#if defined(__AVX2__)
#include "narrow_x86.h"
#elif defined(__aarch64__)
#include "narrow_neon.h"
#else
#include "narrow_portable.h"
#endif

#define LEFT_BYTES (192 * 1024) /* bytes of the left operand at once, which fit into the second-level cache */

static int64_t panel_of_left(int64_t blocks, int bits)
{
    return HEAD + blocks * ROWS * form_size(bits);
}

static int64_t left_size(int64_t rows, int64_t summed, int bits)
{
    return rounded(rows, ROWS) / ROWS * panel_of_left(rounded(summed, BLOCK) / BLOCK, bits);
}

static int64_t right_size(int64_t columns, int64_t summed, int bits)
{
    return rounded(columns, COLUMNS) * (rounded(summed, BLOCK) / BLOCK) * form_size(bits);
}

static inline ALWAYS void pack_rows(const Operand *x, const Scales *s, int64_t summed, int bits, char *panels)
{
    int64_t blocks = rounded(summed, BLOCK) / BLOCK, rows = rounded(x->lanes, ROWS);
    int64_t size = form_size(bits), panel = panel_of_left(blocks, bits);
    for (int64_t lane = 0; lane < rows; lane += LANES) {
        int64_t count = rows - lane < LANES ? rows - lane : LANES;
        int32_t sums[LANES] = {0};
        char *places[LANES];
        for (int64_t i = 0; i < count; i++)
            places[i] = panels + (lane + i) / ROWS * panel + HEAD + (lane + i) % ROWS * size;
        for (int64_t b = 0; b < blocks; b++) {
            Form lanes[LANES];
            block_of(x, s, lane, b * BLOCK, summed, lanes);
            for (int64_t i = 0; i < count; i++) {
                sums[i] += form(&lanes[i], bits);
                memcpy(places[i] + b * ROWS * size, &lanes[i], (size_t)size);
            }
        }
#if HEAD
        for (int64_t i = 0; i < count; i++)
            memcpy(panels + (lane + i) / ROWS * panel + (lane + i) % ROWS * 4, &sums[i], 4);
#endif
    }
}

/* The code is compiled twice, so that the number of copied bytes is a constant. */
static void pack_left(const Operand *x, const Scales *s, int64_t summed, int bits, char *panels)
{
    if (bits == 8)
        pack_rows(x, s, summed, 8, panels);
    else
        pack_rows(x, s, summed, 15, panels);
}

static inline ALWAYS void pack_columns(const Operand *x, const Scales *s, int64_t summed, int bits, char *panels)
{
    int64_t blocks = rounded(summed, BLOCK) / BLOCK, size = form_size(bits);
    for (int64_t lane = 0; lane < x->lanes; lane += COLUMNS)
        for (int64_t b = 0; b < blocks; b++, panels += size * COLUMNS)
            for (int half = 0; half < COLUMNS; half += LANES)
                put_right(x, s, lane + half, b * BLOCK, summed, bits, panels + UNIT * half);
}

static void pack_right(const Operand *x, const Scales *s, int64_t summed, int bits, char *panels)
{
    if (bits == 8)
        pack_columns(x, s, summed, 8, panels);
    else
        pack_columns(x, s, summed, 15, panels);
}

static inline ALWAYS void write_tile(const Tile *tile, const Block *of, int64_t row, int64_t column, int bits)
{
    int64_t width = of->columns - column < COLUMNS ? of->columns - column : COLUMNS;
    for (int64_t r = 0; r < ROWS && row + r < of->rows; r++) {
        float *RESTRICT out = of->result + (row + r) * of->stride + column;
        const double inverse = of->of_left.inverse[row + r], *others = of->of_right.inverse + column;
        for (int64_t c = 0; c < width; c++)
            out[c] = (float)(sum_of(tile, r, c, bits) * inverse * others[c]);
    }
}

static inline ALWAYS void multiply_block(const Block *of, int bits)
{
    int64_t blocks = rounded(of->summed, BLOCK) / BLOCK, column_size = blocks * form_size(bits);
    int64_t panel = panel_of_left(blocks, bits), panels = rounded(of->rows, ROWS) / ROWS;
    int64_t together = LEFT_BYTES / panel > 0 ? LEFT_BYTES / panel : 1;
    for (int64_t first = 0; first < panels; first += together)
        for (int64_t column = 0; column < of->columns; column += COLUMNS)
            for (int64_t p = first; p < panels && p < first + together; p++) {
                Tile tile;
                multiply_tile(of->left + p * panel, of->right + column * column_size, blocks, bits, &tile);
                write_tile(&tile, of, p * ROWS, column, bits);
            }
}

static void multiply(const Block *block)
{
    if (block->bits == 8)
        multiply_block(block, 8);
    else
        multiply_block(block, 15);
}

/* --- in parts -------------------------------------------------------------------------------------------------- */

static inline ALWAYS void add_tiles(const char *a, const char *b, int64_t rows, int64_t columns, int64_t blocks, int bits,
                                    double *totals, int64_t stride)
{
    int64_t panel = panel_of_left(blocks, bits), panels = rounded(rows, ROWS) / ROWS, column_size = blocks * form_size(bits);
    int64_t together = LEFT_BYTES / panel > 0 ? LEFT_BYTES / panel : 1;
    for (int64_t first = 0; first < panels; first += together)
        for (int64_t column = 0; column < columns; column += COLUMNS) {
            int64_t width = columns - column < COLUMNS ? columns - column : COLUMNS;
            for (int64_t p = first; p < panels && p < first + together; p++) {
                Tile tile;
                multiply_tile(a + p * panel, b + column * column_size, blocks, bits, &tile);
                for (int64_t r = 0; r < ROWS && p * ROWS + r < rows; r++) {
                    double *RESTRICT out = totals + (p * ROWS + r) * stride + column;
                    for (int64_t c = 0; c < width; c++)
                        out[c] += sum_of(&tile, r, c, bits);
                }
            }
        }
}

static void add(const char *left, const char *right, int64_t rows, int64_t columns, int64_t summed, int bits, double *totals,
                int64_t stride)
{
    int64_t blocks = rounded(summed, BLOCK) / BLOCK;
    if (bits == 8)
        add_tiles(left, right, rows, columns, blocks, 8, totals, stride);
    else
        add_tiles(left, right, rows, columns, blocks, 15, totals, stride);
}

/* Lanes of the left operand are packed LANES at a time. After LEFT_LANES lanes, they fill whole panels. */
#define LEFT_LANES (LANES % ROWS ? LANES * ROWS : LANES)

const Panels NARROW_PANELS = {LEFT_LANES, COLUMNS, left_size, right_size, pack_left, pack_right, multiply, add};
