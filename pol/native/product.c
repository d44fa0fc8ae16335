/* The product of matrices (pol/ops/product.py): operands scaled to integers, exact sums, one rounding.
 *
 * narrow_product.c and wide_product.c pack and multiply the integers. Both operands are packed in parts, and the result is
 * computed in parts, so that several threads share the work and nothing is packed twice.
 */

#include "crew.h"
#include "product.h"

#define AT_ONCE (256 * 1024) /* bytes of rows at once; they are read twice, so they should fit into the second-level cache */

static size_t panels_size(int64_t lanes, int is_left, int64_t summed, int bits)
{
    const Panels *panels = panels_of(bits);
    return (size_t)(is_left ? panels->left_size(lanes, summed, bits) : panels->right_size(lanes, summed, bits));
}

size_t packed_size(const Operand *x, int is_left, int64_t summed, int bits)
{
    return scales_size(x->lanes) + panels_size(x->lanes, is_left, summed, bits) + 64;
}

Side place_side(const Operand *x, int is_left, int is_packed, int64_t summed, int bits, char **room)
{
    Side side = {.x = *x, .is_left = is_left, .is_packed = is_packed};
    side.scales = place_scales(x->lanes, room);
    side.panels = carve(room, panels_size(x->lanes, is_left, summed, bits));
    return side;
}

/* Return the first lane of a part; lanes are divided in multiples of ``together``. */
static int64_t begin_of(int64_t lanes, int64_t together, int64_t part, int64_t parts)
{
    if (parts == 1)
        return part ? lanes : 0;
    int64_t begin = rounded(lanes, together) / together * part / parts * together;
    return begin < lanes ? begin : lanes;
}

static Scales scales_from(const Scales *s, int64_t lane)
{
    return (Scales){s->first + lane, s->second + lane, s->inverse + lane, s->largest + lane};
}

static void pack_lanes(const Side *side, int64_t summed, int bits, int64_t begin, int64_t end)
{
    const Panels *panels = panels_of(bits);
    const Operand *x = &side->x, some = {x->data + begin * x->lane, x->lane, x->k, end - begin};
    Scales scales = scales_from(&side->scales, begin);
    char *to = side->panels + panels_size(begin, side->is_left, summed, bits);
    memset(scales.largest, 0, (size_t)some.lanes * sizeof *scales.largest);
    if (side->largest == NULL)
        see_largest(&some, summed, scales.largest);
    else
        for (int64_t i = 0; i < some.lanes; i++)
            scales.largest[i] = magnitude(side->largest[begin + i]);
    set_scales(&scales, some.lanes, bits);
    if (side->is_left)
        panels->pack_left(&some, &scales, summed, bits, to);
    else
        panels->pack_right(&some, &scales, summed, bits, to);
}

void pack_part(const Side *side, int64_t summed, int bits, int64_t part, int64_t parts)
{
    const Panels *panels = panels_of(bits);
    int64_t lanes = side->x.lanes, together = side->is_left ? panels->rows : panels->columns;
    int64_t begin = begin_of(lanes, together, part, parts), end = begin_of(lanes, together, part + 1, parts), some = end;
    if (side->is_packed)
        return;
    /* Only if a lane is contiguous; other lanes are read together, row by row. */
    if (side->x.k == 1 && summed)
        some = rounded(AT_ONCE / 4 / summed + 1, together);
    for (; begin < end; begin += some)
        pack_lanes(side, summed, bits, begin, begin + some < end ? begin + some : end);
}

int place_product(Whole *whole, const Operand *left, const Operand *right, char *const packed[2])
{
    int64_t summed = whole->summed;
    size_t size = 64 + (packed[0] ? 0 : packed_size(left, 1, summed, whole->bits)) +
                  (packed[1] ? 0 : packed_size(right, 0, summed, whole->bits));
    char *room = scratch(size), *first = packed[0], *second = packed[1];
    if (room == NULL)
        return 0;
    whole->left = place_side(left, 1, first != NULL, summed, whole->bits, first ? &first : &room);
    whole->right = place_side(right, 0, second != NULL, summed, whole->bits, second ? &second : &room);
    return 1;
}

/* Write the exact sums of a block at ``sums``, whose rows are ``stride`` elements apart. */
static void sum_block(const Block *block, int64_t *sums)
{
    int64_t columns = block->columns, stride = block->stride;
    double *totals = (double *)(void *)sums;
    for (int64_t r = 0; r < block->rows; r++)
        memset(totals + r * stride, 0, (size_t)columns * sizeof *totals);
    panels_of(block->bits)->add(block->left, block->right, block->rows, columns, block->summed, block->bits, totals, stride);
    /* FP64 and INT64 have the same size, so each sum is converted in its place. */
    for (int64_t r = 0; r < block->rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            double total;
            int64_t sum;
            memcpy(&total, totals + r * stride + c, sizeof total);
            sum = (int64_t)total;
            memcpy(sums + r * stride + c, &sum, sizeof sum);
        }
}

/* The rows are divided into parts, or the columns if they have more panels. */
void multiply_part(const Whole *whole, int64_t part, int64_t parts)
{
    const Panels *panels = panels_of(whole->bits);
    const Side *left = &whole->left, *right = &whole->right;
    int64_t rows = left->x.lanes, columns = right->x.lanes, summed = whole->summed, row = 0, column = 0, end;
    Block block = {left->panels, right->panels, left->scales, right->scales, rows, columns, summed, columns, whole->bits,
                   whole->result};
    if (rows * panels->columns >= columns * panels->rows) {
        row = begin_of(rows, panels->rows, part, parts);
        end = begin_of(rows, panels->rows, part + 1, parts);
        block.rows = end - row;
        block.left += panels->left_size(row, summed, whole->bits);
        block.of_left = scales_from(&left->scales, row);
    } else {
        column = begin_of(columns, panels->columns, part, parts);
        end = begin_of(columns, panels->columns, part + 1, parts);
        block.columns = end - column;
        block.right += panels->right_size(column, summed, whole->bits);
        block.of_right = scales_from(&right->scales, column);
    }
    if (!block.rows || !block.columns)
        return;
    if (whole->sums != NULL) {
        sum_block(&block, whole->sums + row * columns + column);
        return;
    }
    block.result += row * columns + column;
    panels->multiply(&block);
}

/* Multiply ``count`` pairs of matrices, [rows, summed] by [summed, columns]. The matrices of a pair begin at ``left`` and
 * ``right`` plus their offsets; the results are stored one after another. Strides and offsets are in elements. Returns 0 if
 * there is not enough memory.
 */
EXPORT int assay_product(int bits, int64_t count, const int64_t *left_offsets, const int64_t *right_offsets, const float *left,
                         int64_t left_row, int64_t left_k, const float *right, int64_t right_k, int64_t right_column,
                         float *result, int64_t rows, int64_t summed, int64_t columns)
{
    static char *const none[2] = {NULL, NULL};
    for (int64_t i = 0; i < count; i++) {
        Operand a = {left + left_offsets[i], left_row, left_k, rows};
        Operand b = {right + right_offsets[i], right_column, right_k, columns};
        Whole whole = {.summed = summed, .bits = bits, .result = result + i * rows * columns};
        if (!place_product(&whole, &a, &b, none))
            return 0;
        pack_part(&whole.left, summed, bits, 0, 1);
        pack_part(&whole.right, summed, bits, 0, 1);
        multiply_part(&whole, 0, 1);
    }
    return 1;
}

typedef struct {
    Whole whole;
    int64_t parts;
} Summing;

static void pack_sums(const void *context, int64_t part)
{
    const Summing *shared = context;
    const Whole *whole = &shared->whole;
    pack_part(&whole->left, whole->summed, whole->bits, part, shared->parts);
    pack_part(&whole->right, whole->summed, whole->bits, part, shared->parts);
}

static void add_sums(const void *context, int64_t part)
{
    const Summing *shared = context;
    multiply_part(&shared->whole, part, shared->parts);
}

/* Compute the exact sums of products of integers, for matrices as in assay_product. The largest magnitude of each row of
 * the left matrices and of each column of the right ones is given, one matrix after another, because a lane may go on
 * elsewhere. With 22 bits, ``summed`` is at most WHOLE. The threads of ``crew`` share a product of at least twice ``grain``
 * operations. Returns 0 if there is not enough memory.
 */
EXPORT int assay_integer_sums(int bits, int64_t count, const int64_t *left_offsets, const int64_t *right_offsets,
                              const float *left, int64_t left_row, int64_t left_k, const float *right, int64_t right_k,
                              int64_t right_column, const float *left_largest, const float *right_largest, int64_t *sums,
                              int64_t rows, int64_t summed, int64_t columns, Crew *crew, int64_t grain)
{
    static char *const none[2] = {NULL, NULL};
    double operations = 2.0 * (double)rows * (double)summed * (double)columns;
    Crew *own = operations < 2.0 * (double)grain ? NULL : crew_take(crew);
    int64_t i = 0;
    for (; i < count; i++) {
        Operand a = {left + left_offsets[i], left_row, left_k, rows};
        Operand b = {right + right_offsets[i], right_column, right_k, columns};
        Summing shared = {{.summed = summed, .bits = bits, .sums = sums + i * rows * columns}, crew_size(own)};
        if (!place_product(&shared.whole, &a, &b, none))
            break;
        shared.whole.left.largest = left_largest + i * rows;
        shared.whole.right.largest = right_largest + i * columns;
        crew_expect(own, operations, 0.0);
        crew_do(own, shared.parts, pack_sums, &shared);
        crew_do(own, shared.parts, add_sums, &shared);
    }
    crew_give_back(own);
    return i == count;
}
