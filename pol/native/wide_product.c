/* Products in integers of 22 bits (pol/ops/product.py). Both operands are packed as FP64.
 *
 * In FP64, sums of 2,048 products are exact in any order, fused or not: 2,048 x 2,080,768^2 < 2^53. The sums of such blocks
 * are added in the order of the summed dimension, with one rounding per addition.
 *
 * A panel holds ROWS rows of the left operand, or COLUMNS columns of the right one. For each k, it holds one number per row
 * or column. Elements outside of an operand are zero.
 */

#include "product.h"

/* WIDTH is the number of elements of a vector. VECTORS is the number of vectors in a line of a tile, as registers allow. */
#if defined(__AVX512F__)
#include <immintrin.h>
#define WIDTH 8
#define VECTORS 2
#elif defined(__FMA__) && defined(__AVX__)
#include <immintrin.h>
#define WIDTH 4
#define VECTORS 2
#elif defined(__aarch64__)
#include <arm_neon.h>
#define WIDTH 2
#define VECTORS 4
#else
#define WIDTH 2
#define VECTORS 2
#endif

#define EXACT 2048
#define ROWS 6
#define COLUMNS (WIDTH * VECTORS)
#define LEFT_BYTES (384 * 1024) /* bytes of a block of the left operand at once, which fit into the second-level cache */
#define TOGETHER 64             /* largest number of panels of the left operand at once */

typedef double Vector __attribute__((vector_size(8 * WIDTH), may_alias));
typedef union {
    Vector vectors[VECTORS];
    double numbers[COLUMNS];
} Line;
typedef Line Tile[ROWS];

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* --- packing --------------------------------------------------------------------------------------------------- */

/* Write the panels of ``width`` lanes. */
static inline void pack(const Operand *x, const Scales *s, int64_t summed, int64_t width, double *RESTRICT panels)
{
    for (int64_t lane = 0; lane < x->lanes; lane += width, panels += width * summed) {
        int64_t lanes = smaller(x->lanes - lane, width);
        const float *data = x->data + lane * x->lane, *first = s->first + lane, *second = s->second + lane;
        if (lanes == width && x->lane == 1) {
            for (int64_t k = 0; k < summed; k++)
                for (int64_t i = 0; i < width; i++)
                    panels[k * width + i] = integer_of(data[k * x->k + i], first[i], second[i]);
            continue;
        }
        for (int64_t i = 0; i < lanes; i++)
            for (int64_t k = 0; k < summed; k++)
                panels[k * width + i] = integer_of(data[i * x->lane + k * x->k], first[i], second[i]);
        for (int64_t i = lanes; i < width; i++)
            for (int64_t k = 0; k < summed; k++)
                panels[k * width + i] = 0.0;
    }
}

/* --- the inner loop -------------------------------------------------------------------------------------------- */

static inline void add_product(Vector *sum, double a, const Vector *b)
{
#if WIDTH == 8
    *sum = _mm512_fmadd_pd(_mm512_set1_pd(a), *b, *sum);
#elif WIDTH == 4
    *sum = _mm256_fmadd_pd(_mm256_set1_pd(a), *b, *sum);
#elif defined(__aarch64__)
    *sum = vfmaq_n_f64(*sum, *b, a);
#else
    *sum += a * *b;
#endif
}

/* Add the exact sums over one block of ``count`` k to a tile. */
static void add_block(const double *a, const double *b, int64_t count, Tile tile)
{
    const Vector none = {0.0};
    Vector sums[ROWS][VECTORS];
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int c = 0; c < VECTORS; c++)
            sums[r][c] = none;
    for (int64_t k = 0; k < count; k++, a += ROWS, b += COLUMNS) {
        const Vector *right = (const Vector *)b;
#pragma GCC unroll 6
        for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
            for (int c = 0; c < VECTORS; c++)
                add_product(&sums[r][c], a[r], &right[c]);
    }
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int c = 0; c < VECTORS; c++)
            tile[r].vectors[c] += sums[r][c];
}

/* --- the whole ------------------------------------------------------------------------------------------------- */

static void write_tile(const Tile tile, const Block *of, int64_t row, int64_t column)
{
    for (int64_t r = 0; r < ROWS && row + r < of->rows; r++)
        for (int64_t c = 0; c < COLUMNS && column + c < of->columns; c++)
            of->result[(row + r) * of->stride + column + c] =
                (float)(tile[r].numbers[c] * of->of_left.inverse[row + r] * of->of_right.inverse[column + c]);
}

static void multiply(const Block *of)
{
    const double *a = (const double *)(const void *)of->left, *b = (const double *)(const void *)of->right;
    int64_t summed = of->summed;
    int64_t panels = rounded(of->rows, ROWS) / ROWS, together = LEFT_BYTES / (8 * ROWS * smaller(summed, EXACT));
    together = smaller(together, TOGETHER);
    for (int64_t first = 0; first < panels; first += together)
        for (int64_t column = 0; column < of->columns; column += COLUMNS) {
            int64_t end = smaller(first + together, panels);
            Tile tiles[TOGETHER];
            memset(tiles, 0, (size_t)(end - first) * sizeof *tiles);
            for (int64_t k = 0; k < summed; k += EXACT)
                for (int64_t p = first; p < end; p++)
                    add_block(a + ROWS * (p * summed + k), b + column * summed + COLUMNS * k, smaller(summed - k, EXACT),
                              tiles[p - first]);
            for (int64_t p = first; p < end; p++)
                write_tile(tiles[p - first], of, p * ROWS, column);
        }
}

/* --- in parts -------------------------------------------------------------------------------------------------- */

static int64_t left_size(int64_t rows, int64_t summed, int bits)
{
    (void)bits;
    return 8 * rounded(rows, ROWS) * summed;
}

static int64_t right_size(int64_t columns, int64_t summed, int bits)
{
    (void)bits;
    return 8 * rounded(columns, COLUMNS) * summed;
}

static void pack_left(const Operand *x, const Scales *s, int64_t summed, int bits, char *panels)
{
    (void)bits;
    pack(x, s, summed, ROWS, (double *)(void *)panels);
}

static void pack_right(const Operand *x, const Scales *s, int64_t summed, int bits, char *panels)
{
    (void)bits;
    pack(x, s, summed, COLUMNS, (double *)(void *)panels);
}

static void add(const char *left, const char *right, int64_t rows, int64_t columns, int64_t summed, int bits, double *totals,
                int64_t stride)
{
    (void)bits;
    const double *a = (const double *)(const void *)left, *b = (const double *)(const void *)right;
    for (int64_t column = 0; column < columns; column += COLUMNS)
        for (int64_t row = 0; row < rows; row += ROWS) {
            Tile tile;
            memset(tile, 0, sizeof tile);
            add_block(a + row * summed, b + column * summed, summed, tile);
            for (int64_t r = 0; r < ROWS && row + r < rows; r++)
                for (int64_t c = 0; c < COLUMNS && column + c < columns; c++)
                    totals[(row + r) * stride + column + c] += tile[r].numbers[c];
        }
}

const Panels WIDE_PANELS = {ROWS, COLUMNS, left_size, right_size, pack_left, pack_right, multiply, add};
