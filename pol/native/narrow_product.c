/* Products in integers of 8 and 15 bits (pol/ops/product.py): both operands are packed as INT16.
 *
 * With 8 bits all that a product may sum fits INT32: 131,072 x 127^2 < 2^31. With 15 bits eight products along the summed
 * dimension, four pairs of them, do: 8 x 16,256^2 < 2^31. So after every eight the sum is split into 16 bits and the rest,
 * which are summed apart; both stay inside INT32 up to 2^18 summed elements, and joined in FP64 they are exact.
 *
 * The panels: of the left operand ROWS rows, for each block of eight k the eight of each row; of the right one COLUMNS
 * columns, for each block four lines of pairs, a pair for each column. What lies outside of an operand is zero.
 */

#include "product.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define BLOCK 8
#define ROWS 3
#define COLUMNS 16
#define LANES 8
#define LEFT_BYTES (192 * 1024) /* of the left operand at once: it stays in the second cache */

/* --- packing --------------------------------------------------------------------------------------------------- */

/* Eight lanes from ``lane``, eight k from ``k``, into out[lane][k]; zeros beyond the operand. */
static void pack_edge(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, int16_t out[LANES][BLOCK])
{
    memset(out, 0, LANES * BLOCK * sizeof out[0][0]);
    for (int64_t i = 0; i < LANES && lane + i < x->lanes; i++)
        for (int64_t j = 0; j < BLOCK && k + j < summed; j++)
            out[i][j] = (int16_t)integer_of(x->data[(lane + i) * x->lane + (k + j) * x->k], s->first[lane + i],
                                            s->second[lane + i]);
}

#if defined(__AVX2__)

static inline __m256i digits(__m256 x, __m256 first, __m256 second)
{
    __m256 scaled = _mm256_mul_ps(_mm256_mul_ps(x, first), second);
    scaled = _mm256_and_ps(scaled, _mm256_cmp_ps(scaled, scaled, _CMP_ORD_Q));
    return _mm256_cvtps_epi32(scaled);
}

/* Four lines of pairs, a lane each, become eight lanes of eight k. */
static inline void lanes_of_pairs(const __m256i p[4], int16_t out[LANES][BLOCK])
{
    __m256i a = _mm256_unpacklo_epi32(p[0], p[1]), b = _mm256_unpackhi_epi32(p[0], p[1]);
    __m256i c = _mm256_unpacklo_epi32(p[2], p[3]), d = _mm256_unpackhi_epi32(p[2], p[3]);
    __m256i lanes[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d),
                        _mm256_unpackhi_epi64(b, d)};
    for (int i = 0; i < 4; i++) {
        _mm_storeu_si128((__m128i *)out[i], _mm256_castsi256_si128(lanes[i]));
        _mm_storeu_si128((__m128i *)out[i + 4], _mm256_extracti128_si256(lanes[i], 1));
    }
}

/* The other way round: lines of pairs, COLUMNS apart. */
static inline void pairs_of_lanes(const __m128i lanes[8], int16_t *out)
{
    __m256i r[4];
    for (int i = 0; i < 4; i++)
        r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(lanes[i]), lanes[i + 4], 1);
    __m256i a = _mm256_unpacklo_epi32(r[0], r[1]), b = _mm256_unpackhi_epi32(r[0], r[1]);
    __m256i c = _mm256_unpacklo_epi32(r[2], r[3]), d = _mm256_unpackhi_epi32(r[2], r[3]);
    _mm256_storeu_si256((__m256i *)out, _mm256_unpacklo_epi64(a, c));
    _mm256_storeu_si256((__m256i *)(out + 2 * COLUMNS), _mm256_unpackhi_epi64(a, c));
    _mm256_storeu_si256((__m256i *)(out + 4 * COLUMNS), _mm256_unpacklo_epi64(b, d));
    _mm256_storeu_si256((__m256i *)(out + 6 * COLUMNS), _mm256_unpackhi_epi64(b, d));
}

/* Eight k of one lane, where they lie side by side. */
static inline __m128i packed_line(const float *x, float first, float second)
{
    __m256i q = digits(_mm256_loadu_ps(x), _mm256_set1_ps(first), _mm256_set1_ps(second));
    return _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
}

/* Four lines of pairs of eight lanes that lie side by side. */
static inline void packed_pairs(const float *x, int64_t stride, __m256 first, __m256 second, __m256i p[4])
{
    for (int i = 0; i < 4; i++) {
        __m256i even = digits(_mm256_loadu_ps(x + 2 * i * stride), first, second);
        __m256i odd = digits(_mm256_loadu_ps(x + (2 * i + 1) * stride), first, second);
        p[i] = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa);
    }
}

static void pack_lanes(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, int16_t out[LANES][BLOCK])
{
    if (lane + LANES > x->lanes || k + BLOCK > summed || (x->k != 1 && x->lane != 1)) {
        pack_edge(x, s, lane, k, summed, out);
    } else if (x->k == 1) {
        for (int i = 0; i < LANES; i++)
            _mm_storeu_si128((__m128i *)out[i],
                             packed_line(x->data + (lane + i) * x->lane + k, s->first[lane + i], s->second[lane + i]));
    } else {
        __m256i pairs[4];
        packed_pairs(x->data + lane + k * x->k, x->k, _mm256_loadu_ps(s->first + lane), _mm256_loadu_ps(s->second + lane),
                     pairs);
        lanes_of_pairs(pairs, out);
    }
}

static void pack_pairs(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, int16_t *out)
{
    if (lane + LANES <= x->lanes && k + BLOCK <= summed && x->lane == 1) {
        __m256i pairs[4];
        packed_pairs(x->data + lane + k * x->k, x->k, _mm256_loadu_ps(s->first + lane), _mm256_loadu_ps(s->second + lane),
                     pairs);
        for (int i = 0; i < 4; i++)
            _mm256_storeu_si256((__m256i *)(out + 2 * i * COLUMNS), pairs[i]);
        return;
    }
    int16_t block[LANES][BLOCK];
    __m128i lanes[LANES];
    pack_lanes(x, s, lane, k, summed, block);
    for (int i = 0; i < LANES; i++)
        lanes[i] = _mm_loadu_si128((const __m128i *)block[i]);
    pairs_of_lanes(lanes, out);
}

#else

static void pack_lanes(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, int16_t out[LANES][BLOCK])
{
    pack_edge(x, s, lane, k, summed, out);
}

static void pack_pairs(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, int16_t *out)
{
    int16_t block[LANES][BLOCK];
    pack_edge(x, s, lane, k, summed, block);
    for (int p = 0; p < BLOCK / 2; p++)
        for (int i = 0; i < LANES; i++) {
            out[2 * (p * COLUMNS + i)] = block[i][2 * p];
            out[2 * (p * COLUMNS + i) + 1] = block[i][2 * p + 1];
        }
}

#endif

static void pack_left(const Operand *x, const Scales *s, int64_t summed, int16_t *panels)
{
    int64_t blocks = (summed + BLOCK - 1) / BLOCK;
    int64_t panel_size = blocks * ROWS * BLOCK, rows = (x->lanes + ROWS - 1) / ROWS * ROWS;
    for (int64_t lane = 0; lane < rows; lane += LANES)
        for (int64_t b = 0; b < blocks; b++) {
            int16_t lanes[LANES][BLOCK];
            pack_lanes(x, s, lane, b * BLOCK, summed, lanes);
            for (int64_t i = 0; i < LANES && lane + i < rows; i++) {
                int64_t panel = (lane + i) / ROWS, row = (lane + i) % ROWS;
                memcpy(panels + panel * panel_size + (b * ROWS + row) * BLOCK, lanes[i], sizeof lanes[i]);
            }
        }
}

static void pack_right(const Operand *x, const Scales *s, int64_t summed, int16_t *panels)
{
    int64_t blocks = (summed + BLOCK - 1) / BLOCK;
    for (int64_t lane = 0; lane < x->lanes; lane += COLUMNS)
        for (int64_t b = 0; b < blocks; b++, panels += BLOCK * COLUMNS)
            for (int half = 0; half < COLUMNS; half += LANES)
                pack_pairs(x, s, lane + half, b * BLOCK, summed, panels + 2 * half);
}

/* --- the inner loop -------------------------------------------------------------------------------------------- */

typedef struct {
    int32_t low[ROWS][COLUMNS], high[ROWS][COLUMNS]; /* the sum is high x 2^16 + low */
} Tile;

/* It is there twice, with and without the splitting of sums: the compiler sees which it is. */
#define ALWAYS __attribute__((always_inline))

#if defined(__AVX2__)

static inline ALWAYS void add_sum(__m256i sum, int split, __m256i *low, __m256i *high)
{
    *low = _mm256_add_epi32(*low, split ? _mm256_and_si256(sum, _mm256_set1_epi32(0xffff)) : sum);
    if (split)
        *high = _mm256_add_epi32(*high, _mm256_srai_epi32(sum, 16));
}

static inline __m256i pair_of(const int16_t *a)
{
    int32_t pair;
    memcpy(&pair, a, sizeof pair);
    return _mm256_set1_epi32(pair);
}

static inline ALWAYS void multiply(const int16_t *a, const int16_t *b, int64_t blocks, int split, Tile *tile)
{
    __m256i low[ROWS][2], high[ROWS][2];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < 2; c++)
            low[r][c] = high[r][c] = _mm256_setzero_si256();
    for (int64_t n = 0; n < blocks; n++, a += ROWS * BLOCK, b += BLOCK * COLUMNS) {
        const __m256i *right = (const __m256i *)b;
#pragma GCC unroll 3
        for (int r = 0; r < ROWS; r++) {
            __m256i pair = pair_of(a + r * BLOCK);
            __m256i first = _mm256_madd_epi16(pair, right[0]), second = _mm256_madd_epi16(pair, right[1]);
#pragma GCC unroll 3
            for (int p = 1; p < 4; p++) {
                pair = pair_of(a + r * BLOCK + 2 * p);
                first = _mm256_add_epi32(first, _mm256_madd_epi16(pair, right[2 * p]));
                second = _mm256_add_epi32(second, _mm256_madd_epi16(pair, right[2 * p + 1]));
            }
            add_sum(first, split, &low[r][0], &high[r][0]);
            add_sum(second, split, &low[r][1], &high[r][1]);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < 2; c++) {
            _mm256_storeu_si256((__m256i *)(tile->low[r] + 8 * c), low[r][c]);
            _mm256_storeu_si256((__m256i *)(tile->high[r] + 8 * c), high[r][c]);
        }
}

#else

static inline ALWAYS void multiply(const int16_t *a, const int16_t *b, int64_t blocks, int split, Tile *tile)
{
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
                int32_t rest = split ? sum[c] & 0xffff : sum[c];
                tile->low[r][c] += rest;
                tile->high[r][c] += (sum[c] - rest) / 65536;
            }
        }
}

#endif

/* --- the whole ------------------------------------------------------------------------------------------------- */

static void write_tile(const Tile *tile, const Scales *left, const Scales *right, int64_t row, int64_t column,
                       int64_t rows, int64_t columns, float *RESTRICT result)
{
    int64_t width = columns - column < COLUMNS ? columns - column : COLUMNS;
    for (int64_t r = 0; r < ROWS && row + r < rows; r++) {
        float *RESTRICT out = result + (row + r) * columns + column;
        const double inverse = left->inverse[row + r], *others = right->inverse + column;
        for (int64_t c = 0; c < width; c++) {
            double sum = (double)tile->high[r][c] * 65536.0 + (double)tile->low[r][c];
            out[c] = (float)(sum * inverse * others[c]);
        }
    }
}

int multiply_narrow(const Operand *left, const Operand *right, int64_t summed, int bits, float *result)
{
    int64_t rows = left->lanes, columns = right->lanes, blocks = rounded(summed, BLOCK) / BLOCK;
    size_t left_size = (size_t)(rounded(rows, ROWS) * blocks * BLOCK), right_size = (size_t)(rounded(columns, COLUMNS) * blocks * BLOCK);
    char *room = scratch(scales_size(rows) + scales_size(columns) + 2 * (left_size + right_size) + 2 * 64);
    if (room == NULL)
        return 0;
    Scales of_left = find_scales(left, summed, bits, &room), of_right = find_scales(right, summed, bits, &room);
    int16_t *a = carve(&room, 2 * left_size), *b = carve(&room, 2 * right_size);
    pack_left(left, &of_left, summed, a);
    pack_right(right, &of_right, summed, b);
    int64_t panel = blocks * ROWS * BLOCK, panels = rounded(rows, ROWS) / ROWS;
    int64_t together = LEFT_BYTES / (2 * panel) > 0 ? LEFT_BYTES / (2 * panel) : 1;
    for (int64_t first = 0; first < panels; first += together)
        for (int64_t column = 0; column < columns; column += COLUMNS)
            for (int64_t p = first; p < panels && p < first + together; p++) {
                Tile tile;
                const int16_t *of_rows = a + p * panel, *of_columns = b + column * blocks * BLOCK;
                if (bits == 8)
                    multiply(of_rows, of_columns, blocks, 0, &tile);
                else
                    multiply(of_rows, of_columns, blocks, 1, &tile);
                write_tile(&tile, &of_left, &of_right, p * ROWS, column, rows, columns, result);
            }
    return 1;
}
