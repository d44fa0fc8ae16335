/* The product of a matrix and the windows of a value (pol/ops/windows.py). The windows are laid out one strip at a time.
 *
 * The elements that the windows read form a matrix, with a row per channel and position in a window, and a column per
 * window. The address of an element is the sum of an offset of its row and an offset of its column. A strip of the matrix is
 * therefore copied run by run, and then multiplied like any other operand.
 */

#include <stdlib.h>

#include "dots.h"
#include "product.h"
#include "program.h"

#define STRIP 64        /* columns of the right operand at once */
#define LINE (WHOLE + 16) /* floats of a line of a transposed strip; lines a power of two apart compete for the cache */
#define FEW 2           /* largest number of rows for which panels are not worthwhile */
#define FEW_SUMMED 128
#define WIDE_STRIP 256  /* columns of a strip if there are few rows */
#define IMAGE 12288     /* integers of a part of the value */
#define LONG (WHOLE + 32)
#define SOME 16          /* floats that are copied at once */
#define TINY 0x08000000u /* least FP32 number whose scale is itself an FP32 number, for 8 and for 15 bits */
#define SIDE 16
#define DEEP 8          /* number of products of 15-bit integers whose sum fits into INT32 */

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

/* A range of columns of the result of one group. ``offsets`` has one offset per row of the matrix of windows. */
typedef struct {
    const Product *product;
    Operand left;
    const float *x, *limit; /* ``limit`` is after the last element that windows of any group read */
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
    const int64_t *offsets; /* the same in each group */
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

/* Return the largest offset; strides may be negative. */
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

/* Copy rows of the matrix, each to a line of ``to``. A copy may write up to SOME elements after a run. They are overwritten
 * later, and the memory for the last line is larger. */
static void lay_out(const Columns *part, int64_t row, int64_t rows, const Span *runs, int64_t count, float *to, int64_t line)
{
    int64_t stride = part->product->windows.strides[0], end = 0;
    for (int64_t r = 0; r < count; r++) {
        int64_t last = runs[r].offset + runs[r].length + SOME;
        end = last > end ? last : end;
    }
    for (int64_t k = row; k < row + rows; k++, to += line) {
        const float *data = part->x + part->offsets[k];
        float *out = to;
        if (stride == 1 && part->limit - data >= end)
            for (const Span *run = runs; run < runs + count; out += run++->length)
                for (int64_t i = 0; i < run->length; i += SOME)
                    memcpy(out + i, data + run->offset + i, SOME * sizeof *out);
        else if (stride == 2)
            for (const Span *run = runs; run < runs + count; out += run++->length)
                for (int64_t i = 0; i < run->length; i++)
                    out[i] = data[run->offset + 2 * i];
        else
            for (const Span *run = runs; run < runs + count; out += run++->length)
                for (int64_t i = 0; i < run->length; i++)
                    out[i] = data[run->offset + i * stride];
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

/* Return the operand from ``k`` on. */
static Operand from_k(Operand x, int64_t k)
{
    x.data += k * x.k;
    return x;
}

/* --- windows are columns --------------------------------------------------------------------------------------- */

/* Multiply strip by strip. The left operand is small, so all of it is packed first. */
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

/* Multiply one block of windows after another. The result is small, so all of its totals are kept. */
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

/* --- few rows --------------------------------------------------------------------------------------------------- */

static void round_row(const float *x, int64_t stride, float first, float second, int64_t n, int32_t *RESTRICT out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (int32_t)integer_of(x[i * stride], first, second);
}

/* Add lines of integers, each multiplied by one integer, to sums that are exact in FP64. */
static void add_wide(const float (*x)[WIDE_STRIP], const int32_t *by, int64_t lines, const Scales *s, int64_t n,
                     double *RESTRICT totals)
{
    const float *RESTRICT first = s->first, *RESTRICT second = s->second;
    for (int64_t k = 0; k < lines; k++)
        for (int64_t i = 0; i < n; i++)
            totals[i] += (double)integer_of(x[k][i], first[i], second[i]) * (double)by[k];
}

/* Do the same for up to DEEP lines of integers of 15 bits, whose sums fit into INT32. */
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

#define ROUNDER 12582912.0f /* 1.5 x 2^23; a number that is added to it becomes an integer in the last bits of the sum */
#define ROUNDED 0x4b400000u

/* Compute one row of results for ordinary windows. The elements of an ordinary window are all zero, or the largest is
 * finite and at least TINY, so that its scale is an FP32 number. Returns whether all windows are ordinary; if not, ``out``
 * is not valid.
 */
static inline ALWAYS int multiply_ordinary(const float (*x)[WIDE_STRIP], int summed, int bits, const int32_t *by, double inverse,
                                           int64_t n, float *RESTRICT out)
{
    const float top = (float)((int64_t)1 << (bits - 2)), most = (float)(127 << (bits - 8));
    uint32_t astray = 0, offsets[2] = {0, 0};
    for (int k = 0; k < summed; k++)
        offsets[k / DEEP] += ROUNDED * (uint32_t)by[k];
    for (int64_t i = 0; i < n; i++) {
        uint32_t largest = 0, sums[2] = {0, 0};
        for (int k = 0; k < summed; k++) {
            uint32_t here = magnitude(x[k][i]);
            largest = here > largest ? here : largest;
        }
        astray |= largest - 1 < TINY - 1 || largest >= INFINITE;
        int32_t shift = bits - 2 + 127 - (int32_t)(largest >> 23);
        shift -= rintf(float_of((largest & 0x7fffffu) | 0x3f800000u) * top) > most;
        shift = largest ? shift : 0;
        float scale = float_of((uint32_t)(shift + 127) << 23);
        for (int k = 0; k < summed; k++) {
            float moved = x[k][i] * scale + ROUNDER;
            uint32_t integer;
            memcpy(&integer, &moved, sizeof integer);
            sums[k / DEEP] += integer * (uint32_t)by[k];
        }
        double sum = (double)(int32_t)(sums[0] - offsets[0]);
        if (summed > DEEP)
            sum += (double)(int32_t)(sums[1] - offsets[1]);
        out[i] = (float)(sum * inverse * double_of((uint64_t)(int64_t)(1023 - shift) << 52));
    }
    return !astray;
}

#define ORDINARY(summed)                                                                                  \
    case summed: return multiply_ordinary(x, summed, bits, by, inverse, n, out)

static int few_ordinary(const float (*x)[WIDE_STRIP], int64_t summed, int bits, const int32_t *by, double inverse, int64_t n,
                        float *RESTRICT out)
{
    switch (summed) {
        ORDINARY(1);
        ORDINARY(2);
        ORDINARY(3);
        ORDINARY(4);
        ORDINARY(5);
        ORDINARY(6);
        ORDINARY(7);
        ORDINARY(8);
        ORDINARY(9);
    }
    return 0;
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
        int is_ordinary = bits != 22;
        for (int64_t r = 0; is_ordinary && r < rows; r++)
            is_ordinary = few_ordinary((const float(*)[WIDE_STRIP])strip, summed, bits, left + r * summed, of_left.inverse[r], width,
                                       part->result + r * part->count + column);
        if (is_ordinary)
            continue;
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

/* Return the exact sum of products of a block; both operands are padded with zeros. */
static double sum_of_block(const float *x, float first, float second, const int32_t *by, int64_t count, int bits)
{
    double sums[SIDE] = {0.0}, sum = 0.0;
    if (count <= SIDE) {
        for (int i = 0; i < SIDE; i++)
            sum += (double)integer_of(x[i], first, second) * (double)by[i];
        return sum;
    }
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

/* --- windows are summed, line by line ------------------------------------------------------------------------- */

#if DOTS

/* Round a line to integers, and pad it with zeros to a multiple of DOT. */
static void round_line(const float *x, int64_t stride, float first, float second, int64_t n, int16_t *RESTRICT out)
{
    if (stride == 1)
        for (int64_t i = 0; i < n; i++)
            out[i] = (int16_t)integer_of(x[i], first, second);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = (int16_t)integer_of(x[i * stride], first, second);
    memset(out + n, 0, (size_t)(rounded(n, DOT) - n) * sizeof *out);
}

/* Return one row of the matrix as a line: in place if it is a single run, otherwise copied to ``room``. */
static Operand line_of(const Columns *part, int64_t row, const Span *runs, int64_t count, float *room)
{
    if (count == 1)
        return (Operand){part->x + part->offsets[row] + runs[0].offset, 0, part->product->windows.strides[0], 1};
    lay_out(part, row, 1, runs, count, room, WHOLE);
    return (Operand){room, 0, 1, 1};
}

/* Rows of the matrix that read the same part of the value, such as the positions of a window in one channel. ``together`` is
 * the number of such rows, or 0 if the part is too large in relation to the elements that are read. ``first`` and ``last``
 * are the smallest and the largest offset of the first such rows. The part that a block of windows reads is rounded once
 * per scale, not once per position.
 */
typedef struct {
    int64_t together, first, last;
} Image;

/* Return the offset of the first element of the windows of a block, and the length up to the last one. */
static Span extent_of(const Columns *part, const Span *runs, int64_t count)
{
    int64_t stride = part->product->windows.strides[0], begin = runs[0].offset, end = begin;
    for (int64_t r = 0; r < count; r++) {
        begin = smaller(begin, runs[r].offset);
        int64_t last = runs[r].offset + (runs[r].length - 1) * stride + 1;
        end = last > end ? last : end;
    }
    return (Span){begin, end - begin};
}

static Image image_of(const Columns *part)
{
    const Axis *places = &part->product->places;
    Image found = {0, 0, 0};
    Span runs[WHOLE];
    int64_t longest = 0;
    for (int64_t k = 0; k < part->count; k += WHOLE) {
        int64_t some = smaller(WHOLE, part->count - k), count = find_runs(&part->product->windows, k, some, runs);
        Span extent = extent_of(part, runs, count);
        longest = extent.length > longest ? extent.length : longest;
    }
    for (int64_t d = 0, together = 1; d < places->dims; d++) {
        int64_t first = 0, last = 0;
        together *= places->sizes[d];
        for (int64_t k = 0; k < together; k++) {
            int64_t offset = part->offsets[k];
            first = smaller(first, offset);
            last = offset > last ? offset : last;
        }
        if (together > 1 && longest + last - first <= smaller(IMAGE, together * smaller(WHOLE, part->count)))
            found = (Image){together, first, last};
    }
    return found;
}

/* Return whether a window begins at an offset. */
static int has_window(const Axis *windows, int64_t offset)
{
    for (int64_t d = windows->dims - 1; d >= 0; d--) {
        int64_t stride = windows->strides[d], index = stride > 0 ? offset / stride : 0;
        if (offset < 0 || index >= windows->sizes[d])
            return 0;
        offset -= index * stride;
    }
    return offset == 0;
}

/* Find the largest element of each line. If a line contains the largest element of its image, no search is needed. */
static void see_lines(const Columns *part, const Image *image, float *line, uint8_t *RESTRICT is_known, uint32_t *RESTRICT largest)
{
    int64_t summed = part->count, columns = part->end - part->begin, together = image->together;
    const Axis *windows = &part->product->windows;
    Span runs[WHOLE];
    memset(is_known, 0, (size_t)columns);
    for (int64_t first = 0; together && first < columns; first += together) {
        const float *data = part->x + part->offsets[part->begin + first] + image->first;
        Span best = {0, 0};
        uint32_t most = 0;
        for (int64_t k = 0; k < summed; k += WHOLE) {
            Span extent = extent_of(part, runs, find_runs(windows, k, smaller(WHOLE, summed - k), runs));
            extent.length += image->last - image->first;
            Operand x = {data + extent.offset, 0, 1, 1};
            uint32_t found = 0;
            see_largest(&x, extent.length, &found);
            if (found > most) {
                most = found;
                best = extent;
            }
        }
        int64_t at = best.offset;
        while (most && magnitude(data[at]) != most)
            at++;
        for (int64_t c = first; c < first + together; c++)
            if (!most || has_window(windows, image->first + at - part->offsets[c - first])) {
                largest[c] = most;
                is_known[c] = 1;
            }
    }
    for (int64_t k = 0; k < summed; k += WHOLE) {
        int64_t some = smaller(WHOLE, summed - k), count = find_runs(windows, k, some, runs);
        for (int64_t column = 0; column < columns; column++)
            if (!is_known[column]) {
                Operand x = line_of(part, part->begin + column, runs, count, line);
                see_largest(&x, some, largest + column);
            }
    }
}

/* Copy runs of integers from an image. */
static void take_runs(const int16_t *image, int64_t stride, const Span *runs, int64_t count, int16_t *out)
{
    if (stride == 1)
        for (const Span *run = runs; run < runs + count; out += run++->length)
            for (int64_t i = 0; i < run->length; i += SOME)
                memcpy(out + i, image + run->offset + i, SOME * sizeof *out);
    else if (stride == 2)
        for (const Span *run = runs; run < runs + count; out += run++->length)
            for (int64_t i = 0; i < run->length; i += 8)
                for (int j = 0; j < 8; j++)
                    out[i + j] = image[run->offset + 2 * (i + j)];
    else
        for (const Span *run = runs; run < runs + count; out += run++->length)
            for (int64_t i = 0; i < run->length; i++)
                out[i] = image[run->offset + i * stride];
}

/* Do the same as multiply_lines, but without packing lines into panels. */
static int multiply_dots(const Columns *part)
{
    int bits = (int)part->product->bits;
    int64_t rows = part->left.lanes, summed = part->count, columns = part->end - part->begin;
    int64_t stride = part->product->windows.strides[0];
    char *room = scratch(scales_size(rows) + scales_size(columns) + 4 * (WHOLE + SOME) + 2 * (size_t)(rows * WHOLE) +
                         2 * (size_t)(STRIP * LONG) + 8 * (size_t)(rows * columns) + 2 * (IMAGE + 2 * SOME) + (size_t)columns + 16 * 64);
    if (room == NULL)
        return 0;
    Scales of_left = find_scales(&part->left, summed, bits, &room), scales = start_scales(columns, &room);
    float *line = carve(&room, 4 * (WHOLE + SOME));
    int16_t *left = carve(&room, 2 * (size_t)(rows * WHOLE)), *right = carve(&room, 2 * STRIP * LONG);
    int16_t *integers = carve(&room, 2 * (IMAGE + 2 * SOME));
    double *totals = carve(&room, 8 * (size_t)(rows * columns));
    uint8_t *is_known = carve(&room, (size_t)columns);
    Image image = image_of(part);
    if (image.together && (part->begin % image.together || columns % image.together))
        image.together = 0;
    see_lines(part, &image, line, is_known, scales.largest);
    set_scales(&scales, columns, bits);
    memset(totals, 0, 8 * (size_t)(rows * columns));
    memset(right, 0, 2 * (size_t)(smaller(rounded(columns, SINGLE), STRIP) * LONG));
    Span runs[WHOLE];
    for (int64_t k = 0; k < summed; k += WHOLE) {
        int64_t some = smaller(WHOLE, summed - k), count = find_runs(&part->product->windows, k, some, runs);
        Span extent = extent_of(part, runs, count);
        for (int64_t r = 0; r < rows; r++)
            round_line(part->left.data + r * part->left.lane + k * part->left.k, part->left.k, of_left.first[r],
                       of_left.second[r], some, left + r * WHOLE);
        for (int64_t first = 0; first < columns; first += STRIP) {
            int64_t width = smaller(STRIP, columns - first);
            float last_first = 0.0f, last_second = 0.0f;
            for (int64_t c = 0; c < width; c++) {
                int64_t column = first + c;
                int16_t *to = right + c * LONG;
                if (!image.together) {
                    Operand x = line_of(part, part->begin + column, runs, count, line);
                    round_line(x.data, x.k, scales.first[column], scales.second[column], some, to);
                    continue;
                }
                int64_t place = column % image.together, begin = image.first + extent.offset;
                if (c == 0 || place == 0 || last_first != scales.first[column] || last_second != scales.second[column])
                    round_line(part->x + part->offsets[part->begin + column - place] + begin, 1, last_first = scales.first[column], last_second = scales.second[column],
                               extent.length + image.last - image.first, integers);
                take_runs(integers + part->offsets[place] - begin, stride, runs, count, to);
                memset(to + some, 0, (size_t)(rounded(some, DOT) - some) * sizeof *to);
            }
            add_dots(left, WHOLE, right, LONG, rows, width, some, bits, totals + first, columns);
        }
    }
    put_results(part, totals, columns, &of_left, scales.inverse, part->begin, columns);
    return 1;
}

#else

static int multiply_dots(const Columns *part)
{
    (void)part;
    return 0;
}

#endif

/* --- the whole ------------------------------------------------------------------------------------------------- */

static void run_part(const void *context, int64_t number)
{
    Shared *shared = (Shared *)context;
    const Product *p = shared->product;
    int64_t group = number / shared->of_group, slice = number % shared->of_group;
    int64_t height = size_of(&p->places), count = size_of(&p->windows), width = p->transposed ? height : count;
    const float *left = (const float *)(shared->run->bases[p->left_base] + p->left_offset) + group * p->left_group;
    const float *x = (const float *)(shared->run->bases[p->x_base] + p->x_offset) + group * p->x_group;
    float *result = (float *)(shared->run->bases[p->result_base] + p->result_offset) + group * p->rows * width;
    int64_t farthest = (p->groups - 1 - group) * p->x_group + last_of(&p->places) + last_of(&p->windows);
    Columns part = {p, {left, p->left_row, p->left_k, p->rows}, x, x + farthest + 1, shared->offsets, height, count, result,
                 width * slice / shared->of_group, width * (slice + 1) / shared->of_group};
    const Panels *panels = p->bits == 22 ? &WIDE_PANELS : &NARROW_PANELS;
    int is_few = p->rows <= FEW && height <= FEW_SUMMED, done;
    /* Lines are padded to a multiple of DOT, which short lines do not justify. */
    int is_long = DOTS && p->bits != 22 && count >= DOT;
    if (p->transposed)
        done = is_long ? multiply_dots(&part) : is_few ? few_lines(&part) : multiply_lines(&part, panels);
    else
        done = is_few ? few_columns(&part) : multiply_columns(&part, panels);
    if (!done)
        __atomic_store_n(&shared->failed, 1, __ATOMIC_RELAXED);
}

int run_windows(const int64_t *body, const Run *run)
{
    const Product *p = (const Product *)body;
    int64_t height = size_of(&p->places), count = size_of(&p->windows);
    double operations = 2.0 * (double)p->groups * (double)p->rows * (double)height * (double)count;
    int64_t threads = parts_of(run, INT64_MAX, operations), columns = (p->transposed ? height : count) / STRIP;
    /* Not in scratch memory, which the multiplying functions use. */
    int64_t few[FEW_SUMMED], *offsets = height > FEW_SUMMED ? malloc((size_t)height * sizeof *offsets) : few;
    if (offsets == NULL)
        return NO_MEMORY;
    find_offsets(&p->places, height, offsets);
    Shared shared = {p, run, 0, 1, offsets, 0};
    if (p->groups < threads && columns > 1)
        shared.of_group = smaller(threads, columns);
    shared.parts = p->groups * shared.of_group;
    crew_do(threads > 1 ? run->crew : NULL, shared.parts, run_part, &shared);
    if (offsets != few)
        free(offsets);
    return shared.failed ? NO_MEMORY : DONE;
}
