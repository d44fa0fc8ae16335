/* The product of a matrix and the windows of a value (pol/ops/windows.py): what windows read is laid out a strip at a time.
 *
 * What they read is a matrix: a row for each channel and place in a window, a column for each window. Where each element
 * lies is the sum of an offset of its row and one of its column, so a strip of it is copied run by run; from there on
 * products know it as any other operand.
 */

#include <stdlib.h>

#include "product.h"
#include "program.h"

#define STRIP 64        /* columns of the right operand at once */
#define LINE (WHOLE + 16) /* floats of a line of a transposed strip: lines a power of two apart fight for the cache */
#define FEW 2           /* rows that are not worth panels */
#define FEW_SUMMED 128
#define WIDE_STRIP 256  /* of few rows */
#define SIDE 16
#define SOME 8           /* floats that are copied at once */
#define DEEP 8          /* products of 15 bits whose sum fits INT32 */

/* Sizes and strides, from the innermost dimension on. */
typedef struct {
    int64_t dims, sizes[DIMENSIONS], strides[DIMENSIONS];
} Axis;

typedef struct {
    int64_t left_base, left_offset, x_base, x_offset, result_base, result_offset;
    int64_t bits, transposed, groups, rows;
    int64_t left_group, left_row, left_k, x_group; /* strides */
    Axis places, windows;
} Product;

/* One group. ``offsets`` has one for each row of the matrix. */
typedef struct {
    const Product *product;
    Operand left;
    const float *x, *limit; /* behind the last element that windows of any group read */
    const int64_t *offsets;
    int64_t height, count; /* rows and columns of the matrix */
    float *result;
    int64_t begin, end; /* columns of the result */
} Columns;

typedef struct {
    int64_t offset, length;
} Span;

typedef struct {
    const Product *product;
    const Run *run;
    int64_t parts, of_group;
    int failed;
} Shared;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t size_of(const Axis *axis)
{
    int64_t size = 1;
    for (int64_t d = 0; d < axis->dims; d++)
        size *= axis->sizes[d];
    return size;
}

/* The largest offset; some strides are negative. */
static int64_t last_of(const Axis *axis)
{
    int64_t last = 0;
    for (int64_t d = 0; d < axis->dims; d++)
        if (axis->strides[d] > 0)
            last += (axis->sizes[d] - 1) * axis->strides[d];
    return last;
}

static void find_offsets(const Axis *axis, int64_t count, int64_t *offsets)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, offset = 0;
        for (int64_t d = 0; d < axis->dims; d++) {
            offset += rest % axis->sizes[d] * axis->strides[d];
            rest /= axis->sizes[d];
        }
        offsets[i] = offset;
    }
}

/* Split ``count`` windows from ``first`` on into runs along the innermost dimension. */
static int64_t find_runs(const Axis *axis, int64_t first, int64_t count, Span *runs)
{
    int64_t index[DIMENSIONS], offset = 0, found = 0;
    for (int64_t d = 0; d < axis->dims; d++) {
        index[d] = first % axis->sizes[d];
        first /= axis->sizes[d];
        offset += index[d] * axis->strides[d];
    }
    while (count > 0) {
        int64_t length = smaller(count, axis->sizes[0] - index[0]);
        runs[found++] = (Span){offset, length};
        count -= length;
        index[0] += length;
        offset += length * axis->strides[0];
        for (int64_t d = 0; d < axis->dims - 1 && index[d] == axis->sizes[d]; d++) {
            offset += axis->strides[d + 1] - index[d] * axis->strides[d];
            index[d] = 0;
            index[d + 1]++;
        }
    }
    return found;
}

/* Copy rows of the matrix, each as a line of ``to``. A copy may go on for up to SOME beyond a line: what is there comes
 * later, and the room for the last line is larger. */
static void lay_out(const Columns *part, int64_t row, int64_t rows, const Span *runs, int64_t count, float *to, int64_t line)
{
    int64_t stride = part->product->windows.strides[0];
    for (int64_t k = row; k < row + rows; k++, to += line) {
        const float *data = part->x + part->offsets[k];
        float *out = to;
        for (int64_t r = 0; r < count; r++) {
            const float *from = data + runs[r].offset;
            int64_t length = runs[r].length;
            if (stride == 1 && part->limit - from >= length + SOME)
                for (int64_t i = 0; i < length; i += SOME)
                    memcpy(out + i, from + i, SOME * sizeof *out);
            else if (stride == 2)
                for (int64_t i = 0; i < length; i++)
                    out[i] = from[2 * i];
            else
                for (int64_t i = 0; i < length; i++)
                    out[i] = from[i * stride];
            out += length;
        }
    }
}

static void put_results(const Columns *part, const double *totals, int64_t stride, const Scales *left, const double *inverse,
                        int64_t column, int64_t columns)
{
    int64_t width = part->product->transposed ? part->height : part->count;
    for (int64_t r = 0; r < part->left.lanes; r++) {
        float *RESTRICT out = part->result + r * width + column;
        for (int64_t c = 0; c < columns; c++)
            out[c] = (float)(totals[r * stride + c] * left->inverse[r] * inverse[c]);
    }
}

/* The operand without what was before ``k``. */
static Operand from_k(Operand x, int64_t k)
{
    x.data += k * x.k;
    return x;
}

/* --- windows are columns --------------------------------------------------------------------------------------- */

/* Strip by strip; the left operand is small, so all of it becomes panels first. */
static int multiply_columns(const Columns *part, const Panels *panels)
{
    int bits = (int)part->product->bits;
    int64_t rows = part->left.lanes, summed = part->height, deep = smaller(summed, WHOLE);
    size_t whole = (size_t)panels->left_size(rows, deep, bits) * (size_t)(summed / deep + 1);
    size_t right_size = (size_t)panels->right_size(STRIP, deep, bits);
    char *room = scratch(scales_size(rows) + scales_size(STRIP) + whole + right_size + 4 * (size_t)(deep * STRIP) +
                         8 * (size_t)(rows * STRIP) + 16 * 64);
    if (room == NULL)
        return 0;
    Scales of_left = find_scales(&part->left, summed, bits, &room);
    char *left = carve(&room, whole), *right = carve(&room, right_size), *scales_room = carve(&room, scales_size(STRIP) + 256);
    float *strip = carve(&room, 4 * (size_t)(deep * STRIP + SOME));
    double *totals = carve(&room, 8 * (size_t)(rows * STRIP));
    for (int64_t k = 0, at = 0; k < summed; k += deep) {
        Operand some = from_k(part->left, k);
        int64_t count = smaller(deep, summed - k);
        panels->pack_left(&some, &of_left, count, bits, left + at);
        at += panels->left_size(rows, count, bits);
    }
    for (int64_t column = part->begin; column < part->end; column += STRIP) {
        Span runs[STRIP];
        int64_t width = smaller(STRIP, part->end - column);
        int64_t count = find_runs(&part->product->windows, column, width, runs);
        char *free_room = scales_room;
        Scales scales = start_scales(width, &free_room);
        Operand x = {strip, 1, STRIP, width};
        for (int64_t k = 0; k < summed; k += deep) {
            int64_t some = smaller(deep, summed - k);
            lay_out(part, k, some, runs, count, strip, STRIP);
            see_largest(&x, some, scales.largest);
        }
        set_scales(&scales, width, bits);
        memset(totals, 0, 8 * (size_t)(rows * STRIP));
        for (int64_t k = 0, at = 0; k < summed; k += deep) {
            int64_t some = smaller(deep, summed - k);
            if (deep < summed)
                lay_out(part, k, some, runs, count, strip, STRIP);
            panels->pack_right(&x, &scales, some, bits, right);
            panels->add(left + at, right, rows, width, some, bits, totals, STRIP);
            at += panels->left_size(rows, some, bits);
        }
        put_results(part, totals, STRIP, &of_left, scales.inverse, column, width);
    }
    return 1;
}

/* --- windows are summed ---------------------------------------------------------------------------------------- */

/* A block of windows after another; the result is small, so all of its totals wait. */
static int multiply_lines(const Columns *part, const Panels *panels)
{
    int bits = (int)part->product->bits;
    int64_t rows = part->left.lanes, summed = part->count, columns = part->end - part->begin;
    int64_t deep = smaller(summed, WHOLE);
    size_t left_size = (size_t)panels->left_size(rows, deep, bits), right_size = (size_t)panels->right_size(STRIP, deep, bits);
    char *room = scratch(scales_size(rows) + scales_size(columns) + left_size + right_size + 4 * (size_t)(LINE * STRIP) +
                         8 * (size_t)(rows * columns) + 16 * 64);
    if (room == NULL)
        return 0;
    Scales of_left = find_scales(&part->left, summed, bits, &room), scales = start_scales(columns, &room);
    char *left = carve(&room, left_size), *right = carve(&room, right_size);
    float *strip = carve(&room, 4 * (size_t)(LINE * STRIP + SOME));
    double *totals = carve(&room, 8 * (size_t)(rows * columns));
    memset(totals, 0, 8 * (size_t)(rows * columns));
    Span runs[WHOLE];
    for (int64_t k = 0; k < summed; k += deep) {
        int64_t some = smaller(deep, summed - k), count = find_runs(&part->product->windows, k, some, runs);
        for (int64_t column = 0; column < columns; column += STRIP) {
            int64_t width = smaller(STRIP, columns - column);
            Operand x = {strip, LINE, 1, width};
            lay_out(part, part->begin + column, width, runs, count, strip, LINE);
            see_largest(&x, some, scales.largest + column);
        }
    }
    set_scales(&scales, columns, bits);
    for (int64_t k = 0; k < summed; k += deep) {
        int64_t some = smaller(deep, summed - k), count = find_runs(&part->product->windows, k, some, runs);
        Operand lines = from_k(part->left, k);
        panels->pack_left(&lines, &of_left, some, bits, left);
        for (int64_t column = 0; column < columns; column += STRIP) {
            int64_t width = smaller(STRIP, columns - column);
            Operand x = {strip, LINE, 1, width};
            Scales here = {scales.first + column, scales.second + column, scales.inverse + column, NULL};
            if (deep < summed || columns > STRIP)
                lay_out(part, part->begin + column, width, runs, count, strip, LINE);
            panels->pack_right(&x, &here, some, bits, right);
            panels->add(left, right, rows, width, some, bits, totals + column, columns);
        }
    }
    put_results(part, totals, columns, &of_left, scales.inverse, part->begin, columns);
    return 1;
}

/* --- few rows: each channel apart ------------------------------------------------------------------------------ */

static void round_row(const float *x, int64_t stride, float first, float second, int64_t n, int32_t *RESTRICT out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (int32_t)integer_of(x[i * stride], first, second);
}

/* Add lines of integers, each times one of them, to sums that are exact in FP64. */
static void add_wide(const float (*x)[WIDE_STRIP], const int32_t *by, int64_t lines, const Scales *s, int64_t n,
                     double *RESTRICT totals)
{
    const float *RESTRICT first = s->first, *RESTRICT second = s->second;
    for (int64_t k = 0; k < lines; k++)
        for (int64_t i = 0; i < n; i++)
            totals[i] += (double)integer_of(x[k][i], first[i], second[i]) * (double)by[k];
}

/* The same of up to DEEP lines of 15 bits, whose sums fit INT32. */
#define ADD_DEEP(deep)                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                     \
        int32_t sum = 0;                                                                                  \
        for (int k = 0; k < (deep); k++)                                                                  \
            sum += (int32_t)integer_of(x[k][i], first[i], second[i]) * by[k];                             \
        totals[i] += (double)sum;                                                                         \
    }                                                                                                     \
    break

static void add_deep(const float (*x)[WIDE_STRIP], const int32_t *by, int64_t deep, const Scales *s, int64_t n,
                     double *RESTRICT totals)
{
    const float *RESTRICT first = s->first, *RESTRICT second = s->second;
    switch (deep) {
    case 1: ADD_DEEP(1);
    case 2: ADD_DEEP(2);
    case 3: ADD_DEEP(3);
    case 4: ADD_DEEP(4);
    case 5: ADD_DEEP(5);
    case 6: ADD_DEEP(6);
    case 7: ADD_DEEP(7);
    default: ADD_DEEP(8);
    }
}

static int few_columns(const Columns *part)
{
    int bits = (int)part->product->bits;
    int64_t rows = part->left.lanes, summed = part->height;
    char *room = scratch(scales_size(rows) + scales_size(WIDE_STRIP) + 4 * (size_t)(summed * WIDE_STRIP + SOME) +
                         4 * (size_t)(rows * summed) + 16 * 64);
    if (room == NULL)
        return 0;
    Scales of_left = find_scales(&part->left, summed, bits, &room), scales = start_scales(WIDE_STRIP, &room);
    float(*strip)[WIDE_STRIP] = carve(&room, 4 * (size_t)(summed * WIDE_STRIP + SOME));
    int32_t *left = carve(&room, 4 * (size_t)(rows * summed));
    for (int64_t r = 0; r < rows; r++)
        round_row(part->left.data + r * part->left.lane, part->left.k, of_left.first[r], of_left.second[r], summed,
                  left + r * summed);
    for (int64_t column = part->begin; column < part->end; column += WIDE_STRIP) {
        Span runs[WIDE_STRIP];
        double totals[FEW][WIDE_STRIP];
        int64_t width = smaller(WIDE_STRIP, part->end - column);
        int64_t count = find_runs(&part->product->windows, column, width, runs);
        Operand x = {strip[0], 1, WIDE_STRIP, width};
        lay_out(part, 0, summed, runs, count, strip[0], WIDE_STRIP);
        memset(scales.largest, 0, (size_t)width * sizeof *scales.largest);
        see_largest(&x, summed, scales.largest);
        set_scales(&scales, width, bits);
        for (int64_t r = 0; r < rows; r++) {
            const int32_t *by = left + r * summed;
            memset(totals[r], 0, (size_t)width * sizeof(double));
            if (bits == 22)
                add_wide((const float(*)[WIDE_STRIP])strip, by, summed, &scales, width, totals[r]);
            else
                for (int64_t k = 0; k < summed; k += DEEP)
                    add_deep((const float(*)[WIDE_STRIP])strip + k, by + k, smaller(DEEP, summed - k), &scales, width,
                             totals[r]);
        }
        put_results(part, totals[0], WIDE_STRIP, &of_left, scales.inverse, column, width);
    }
    return 1;
}

/* The exact sum of products of a block; what is beyond its end is zero. */
static double sum_of_block(const float *x, float first, float second, const int32_t *by, int64_t count, int bits)
{
    double sums[SIDE] = {0.0}, sum = 0.0;
    for (int64_t begin = 0; begin < count; begin += SIDE * DEEP)
        if (bits == 22)
            for (int64_t k = begin; k < begin + SIDE * DEEP; k += SIDE)
                for (int i = 0; i < SIDE; i++)
                    sums[i] += (double)integer_of(x[k + i], first, second) * (double)by[k + i];
        else
            for (int i = 0; i < SIDE; i++) {
                int32_t deep = 0;
                for (int64_t k = begin + i; k < begin + i + SIDE * DEEP; k += SIDE)
                    deep += (int32_t)integer_of(x[k], first, second) * by[k];
                sums[i] += (double)deep;
            }
    for (int i = 0; i < SIDE; i++)
        sum += sums[i];
    return sum;
}

static int few_lines(const Columns *part)
{
    int bits = (int)part->product->bits;
    int64_t rows = part->left.lanes, summed = part->count, columns = part->end - part->begin;
    char *room = scratch(scales_size(rows) + scales_size(columns) + 4 * (WHOLE + SOME) + 4 * (size_t)FEW * WHOLE +
                         8 * (size_t)(rows * columns) + 16 * 64);
    if (room == NULL)
        return 0;
    Scales of_left = find_scales(&part->left, summed, bits, &room), scales = start_scales(columns, &room);
    float *line = carve(&room, 4 * (WHOLE + SOME));
    int32_t *left = carve(&room, 4 * FEW * WHOLE);
    double *totals = carve(&room, 8 * (size_t)(rows * columns));
    memset(totals, 0, 8 * (size_t)(rows * columns));
    Span runs[WHOLE];
    for (int64_t k = 0; k < summed; k += WHOLE) {
        int64_t some = smaller(WHOLE, summed - k), count = find_runs(&part->product->windows, k, some, runs);
        Operand x = {line, WHOLE, 1, 1};
        for (int64_t column = 0; column < columns; column++) {
            lay_out(part, part->begin + column, 1, runs, count, line, WHOLE);
            see_largest(&x, some, scales.largest + column);
        }
    }
    set_scales(&scales, columns, bits);
    for (int64_t k = 0; k < summed; k += WHOLE) {
        int64_t some = smaller(WHOLE, summed - k), count = find_runs(&part->product->windows, k, some, runs);
        for (int64_t r = 0; r < rows; r++) {
            memset(left + r * WHOLE + some, 0, 4 * (size_t)(rounded(some, SIDE * DEEP) - some));
            round_row(part->left.data + r * part->left.lane + k * part->left.k, part->left.k, of_left.first[r],
                      of_left.second[r], some, left + r * WHOLE);
        }
        for (int64_t column = 0; column < columns; column++) {
            lay_out(part, part->begin + column, 1, runs, count, line, WHOLE);
            memset(line + some, 0, 4 * (size_t)(rounded(some, SIDE * DEEP) - some));
            for (int64_t r = 0; r < rows; r++)
                totals[r * columns + column] += sum_of_block(line, scales.first[column], scales.second[column],
                                                                left + r * WHOLE, some, bits);
        }
    }
    put_results(part, totals, columns, &of_left, scales.inverse, part->begin, columns);
    return 1;
}

/* --- the whole ------------------------------------------------------------------------------------------------- */

static void run_part(const void *context, int64_t number)
{
    Shared *shared = (Shared *)context;
    const Product *p = shared->product;
    int64_t group = number / shared->of_group, slice = number % shared->of_group;
    int64_t height = size_of(&p->places), count = size_of(&p->windows), width = p->transposed ? height : count;
    /* not in the scratch, which belongs to those who multiply */
    int64_t few[FEW_SUMMED], *offsets = height > FEW_SUMMED ? malloc((size_t)height * sizeof *offsets) : few;
    if (offsets == NULL) {
        __atomic_store_n(&shared->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    find_offsets(&p->places, height, offsets);
    const float *left = (const float *)(shared->run->bases[p->left_base] + p->left_offset) + group * p->left_group;
    const float *x = (const float *)(shared->run->bases[p->x_base] + p->x_offset) + group * p->x_group;
    float *result = (float *)(shared->run->bases[p->result_base] + p->result_offset) + group * p->rows * width;
    int64_t farthest = (p->groups - 1 - group) * p->x_group + last_of(&p->places) + last_of(&p->windows);
    Columns part = {p, {left, p->left_row, p->left_k, p->rows}, x, x + farthest + 1, offsets, height, count, result,
                 width * slice / shared->of_group, width * (slice + 1) / shared->of_group};
    const Panels *panels = p->bits == 22 ? &WIDE_PANELS : &NARROW_PANELS;
    int is_few = p->rows <= FEW && height <= FEW_SUMMED, done;
    if (p->transposed)
        done = is_few ? few_lines(&part) : multiply_lines(&part, panels);
    else
        done = is_few ? few_columns(&part) : multiply_columns(&part, panels);
    if (!done)
        __atomic_store_n(&shared->failed, 1, __ATOMIC_RELAXED);
    if (offsets != few)
        free(offsets);
}

int run_windows(const int64_t *body, const Run *run)
{
    const Product *p = (const Product *)body;
    int64_t height = size_of(&p->places), count = size_of(&p->windows);
    double operations = 2.0 * (double)p->groups * (double)p->rows * (double)height * (double)count;
    int64_t threads = parts_of(run, INT64_MAX, operations), columns = (p->transposed ? height : count) / STRIP;
    Shared shared = {p, run, 0, 1, 0};
    if (p->groups < threads && columns > 1)
        shared.of_group = smaller(threads, columns);
    shared.parts = p->groups * shared.of_group;
    crew_do(threads > 1 ? run->crew : NULL, shared.parts, run_part, &shared);
    return shared.failed ? NO_MEMORY : DONE;
}
