/* Products in integers of 8 and 15 bits (pol/ops/product.py): both operands are packed as integers, in panels.
 *
 * With 8 bits all that a product may sum fits INT32: 131,072 x 127^2 < 2^31. With 15 bits eight products along the summed
 * dimension do: 8 x 16,256^2 < 2^31. What is made of that, each instruction set knows; joined in FP64 all sums are exact.
 */

#if defined(__AVX2__)
#include "narrow_x86.h"
#elif defined(__aarch64__)
#include "narrow_neon.h"
#else
#include "narrow_portable.h"
#endif

#define LEFT_BYTES (192 * 1024) /* of the left operand at once: it stays in the second cache */

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

static void pack_left(const Operand *x, const Scales *s, int64_t summed, int bits, char *panels)
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

static void pack_right(const Operand *x, const Scales *s, int64_t summed, int bits, char *panels)
{
    int64_t blocks = rounded(summed, BLOCK) / BLOCK, size = form_size(bits);
    for (int64_t lane = 0; lane < x->lanes; lane += COLUMNS)
        for (int64_t b = 0; b < blocks; b++, panels += size * COLUMNS)
            for (int half = 0; half < COLUMNS; half += LANES)
                put_right(x, s, lane + half, b * BLOCK, summed, bits, panels + UNIT * half);
}

static inline ALWAYS void write_tile(const Tile *tile, const Scales *left, const Scales *right, int64_t row, int64_t column,
                                     int64_t rows, int64_t columns, int bits, float *RESTRICT result)
{
    int64_t width = columns - column < COLUMNS ? columns - column : COLUMNS;
    for (int64_t r = 0; r < ROWS && row + r < rows; r++) {
        float *RESTRICT out = result + (row + r) * columns + column;
        const double inverse = left->inverse[row + r], *others = right->inverse + column;
        for (int64_t c = 0; c < width; c++)
            out[c] = (float)(sum_of(tile, r, c, bits) * inverse * others[c]);
    }
}

/* Bytes that an operand takes with its scales. */
static inline size_t packed_size(int64_t lanes, int is_left, int64_t summed, int bits)
{
    return scales_size(lanes) + (size_t)(is_left ? left_size(lanes, summed, bits) : right_size(lanes, summed, bits)) + 64;
}

/* Pack an operand into ``room``, behind its scales, or find there what was packed before. */
static inline ALWAYS char *pack(const Operand *x, int is_left, int is_packed, int64_t summed, int bits, char **room, Scales *s)
{
    *s = is_packed ? place_scales(x->lanes, room) : find_scales(x, summed, bits, room);
    char *panels = carve(room, (size_t)(is_left ? left_size(x->lanes, summed, bits) : right_size(x->lanes, summed, bits)));
    if (is_packed)
        return panels;
    if (is_left)
        pack_left(x, s, summed, bits, panels);
    else
        pack_right(x, s, summed, bits, panels);
    return panels;
}

int pack_narrow(const Operand *x, int is_left, int64_t summed, int bits, char *room, int64_t bytes)
{
    Scales scales;
    if (packed_size(x->lanes, is_left, summed, bits) > (size_t)bytes)
        return 0;
    pack(x, is_left, 0, summed, bits, &room, &scales);
    return 1;
}

static inline ALWAYS int multiply(const Operand *left, const Operand *right, Packed packed, int64_t summed, int bits,
                                  float *result)
{
    int64_t rows = left->lanes, columns = right->lanes, blocks = rounded(summed, BLOCK) / BLOCK;
    int64_t panel = panel_of_left(blocks, bits), panels = rounded(rows, ROWS) / ROWS, column_size = blocks * form_size(bits);
    char *room = scratch(64 + (packed.left ? 0 : packed_size(rows, 1, summed, bits)) +
                         (packed.right ? 0 : packed_size(columns, 0, summed, bits)));
    if (room == NULL)
        return 0;
    Scales of_left, of_right;
    char *a = pack(left, 1, packed.left != NULL, summed, bits, packed.left ? &packed.left : &room, &of_left);
    char *b = pack(right, 0, packed.right != NULL, summed, bits, packed.right ? &packed.right : &room, &of_right);
    int64_t together = LEFT_BYTES / panel > 0 ? LEFT_BYTES / panel : 1;
    for (int64_t first = 0; first < panels; first += together)
        for (int64_t column = 0; column < columns; column += COLUMNS)
            for (int64_t p = first; p < panels && p < first + together; p++) {
                Tile tile;
                multiply_tile(a + p * panel, b + column * column_size, blocks, bits, &tile);
                write_tile(&tile, &of_left, &of_right, p * ROWS, column, rows, columns, bits, result);
            }
    return 1;
}

int multiply_narrow(const Operand *left, const Operand *right, Packed packed, int64_t summed, int bits, float *result)
{
    return bits == 8 ? multiply(left, right, packed, summed, 8, result) : multiply(left, right, packed, summed, 15, result);
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

const Panels NARROW_PANELS = {left_size, right_size, pack_left, pack_right, add};
