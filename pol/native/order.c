/* Primitives that depend on an order (pol/ops/order.py): adding rows one after another, and sorting. */

#include "exact.h"
#include "program.h"

#define FEW 160 /* largest length of a line that is sorted by ranking; a multiple of GROUP, below 256 */
#define GROUP 16
#define DIGIT 8
#define DIGITS (1 << DIGIT)
#define COLUMNS_MIN 16 /* least number of columns of a part */
/* Costs of clearing an element, of adding one, and of sorting one, in operations of a product. */
#define A_CLEARING 16.0
#define A_SUM 64.0
#define A_PLACE 2500.0

typedef struct {
    int64_t index_base, index_offset, values_base, values_offset, result_base, result_offset;
    int64_t rows, width, count; /* rows of the result; elements of a row; rows to add */
} AddRows;

typedef struct {
    const AddRows *add;
    const int64_t *index;
    const float *values;
    float *result;
    int64_t parts;
} Adding;

static void clear_rows(const void *context, int64_t part)
{
    const Adding *a = context;
    int64_t all = a->add->rows * a->add->width;
    int64_t begin = all * part / a->parts, end = all * (part + 1) / a->parts;
    memset(a->result + begin, 0, (size_t)(end - begin) * sizeof *a->result);
}

/* Each part has its own columns, so that the summands of each element are added in order. */
static void add_columns(const void *context, int64_t part)
{
    const Adding *a = context;
    int64_t width = a->add->width, begin = width * part / a->parts, end = width * (part + 1) / a->parts;
    if (width == 1) {
        for (int64_t i = 0; i < a->add->count; i++)
            a->result[a->index[i]] += a->values[i];
        return;
    }
    for (int64_t i = 0; i < a->add->count; i++) {
        const float *from = a->values + i * width;
        float *RESTRICT to = a->result + a->index[i] * width;
        for (int64_t j = begin; j < end; j++)
            to[j] += from[j];
    }
}

int run_add_rows(const int64_t *body, const Run *run)
{
    const AddRows *add = (const AddRows *)body;
    Adding adding = {add, (const int64_t *)(run->bases[add->index_base] + add->index_offset),
                     (const float *)(run->bases[add->values_base] + add->values_offset),
                     (float *)(run->bases[add->result_base] + add->result_offset), 1};
    for (int64_t i = 0; i < add->count; i++)
        if (adding.index[i] < 0 || adding.index[i] >= add->rows) {
            *run->row = adding.index[i];
            return OUTSIDE;
        }
    if (!add->width)
        return DONE;
    double elements = A_CLEARING * (double)add->rows * (double)add->width, added = A_SUM * (double)add->count * (double)add->width;
    adding.parts = parts_of(run, add->rows, elements);
    crew_do(run->crew, adding.parts, clear_rows, &adding);
    int64_t most = add->width / COLUMNS_MIN;
    adding.parts = parts_of(run, most < 1 ? 1 : most, added);
    crew_do(run->crew, adding.parts, add_columns, &adding);
    return DONE;
}

typedef struct {
    int64_t from_base, from_offset, to_base, to_offset;
    int64_t item, outer, n, inner; /* sorts [outer, n, inner] along n; ``item`` is 4 bytes for FP32, 8 for INT64 */
} Argsort;

typedef struct {
    const Argsort *sort;
    const Run *run;
    int64_t parts;
    int failed;
} Sorting;

typedef struct {
    uint64_t key;
    int64_t position;
} Entry;

/* Return an unsigned key with the order of an FP32 number. Both zeros have the same key, and NaN comes after all numbers. */
static uint64_t key_of_float(float x)
{
    uint32_t bits;
    if (x != x)
        return UINT32_MAX;
    x = x + 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* Count the smaller elements of each element. All pairs are compared, several at once and without branches. Lines have
 * whole groups, so that no loop has a rest; the elements after the line are compared, but not counted.
 */
#define COUNT_SMALLER(type)                                                                               \
    {                                                                                                     \
        const type *RESTRICT x = keys;                                                                    \
        for (int64_t j = 0; j < n; j++) {                                                                 \
            type key = x[j];                                                                              \
            for (int64_t i = 0; i < wide; i++)                                                            \
                smaller[i] += key < x[i];                                                                 \
        }                                                                                                 \
    }

static void count_smaller(const void *keys, int64_t item, int64_t n, int32_t *RESTRICT smaller)
{
    int64_t wide = (n + GROUP - 1) / GROUP * GROUP;
    memset(smaller, 0, (size_t)wide * sizeof *smaller);
    if (item == 4)
        COUNT_SMALLER(int32_t)
    else
        COUNT_SMALLER(int64_t)
}

/* Sort a short line by ranking, with keys of the size of an element. Equal elements have the same number of smaller ones,
 * and follow each other in their order.
 */
static void sort_short(const Argsort *s, const char *from, int64_t *to)
{
    union {
        int32_t narrow[FEW];
        int64_t wide[FEW];
    } keys;
    int32_t smaller[FEW];
    uint8_t equal[FEW] = {0};
    for (int64_t i = 0; i < s->n; i++)
        if (s->item == 4)
            keys.narrow[i] = (int32_t)((uint32_t)key_of_float(((const float *)from)[i * s->inner]) ^ 0x80000000u);
        else
            keys.wide[i] = ((const int64_t *)from)[i * s->inner];
    for (int64_t i = s->n; i % GROUP; i++)
        if (s->item == 4)
            keys.narrow[i] = 0;
        else
            keys.wide[i] = 0;
    count_smaller(&keys, s->item, s->n, smaller);
    for (int64_t i = 0; i < s->n; i++)
        to[(smaller[i] + equal[smaller[i]]++) * s->inner] = i;
}

/* Sort by one digit after another, from the lowest on, which keeps the order of equal keys. Returns the sorted line. */
static Entry *sort_by_digits(Entry *line, Entry *other, int64_t n, int64_t item)
{
    for (int shift = 0; shift < 8 * (int)item; shift += DIGIT) {
        int64_t places[DIGITS] = {0}, sum = 0;
        for (int64_t i = 0; i < n; i++)
            places[line[i].key >> shift & (DIGITS - 1)]++;
        if (places[line[0].key >> shift & (DIGITS - 1)] == n)
            continue;
        for (int digit = 0; digit < DIGITS; digit++) {
            int64_t count = places[digit];
            places[digit] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++)
            other[places[line[i].key >> shift & (DIGITS - 1)]++] = line[i];
        Entry *sorted = other;
        other = line;
        line = sorted;
    }
    return line;
}

static void sort_lines(const void *context, int64_t part)
{
    Sorting *shared = (Sorting *)context;
    const Argsort *s = shared->sort;
    const char *from = shared->run->bases[s->from_base] + s->from_offset;
    int64_t *to = (int64_t *)(shared->run->bases[s->to_base] + s->to_offset);
    int64_t lines = s->outer * s->inner;
    int64_t begin = lines * part / shared->parts, end = lines * (part + 1) / shared->parts;
    Entry *room = scratch(2 * (size_t)s->n * sizeof *room);
    if (room == NULL) {
        __atomic_store_n(&shared->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t line = begin; line < end; line++) {
        int64_t first = line / s->inner * s->n * s->inner + line % s->inner;
        if (s->n <= FEW) {
            sort_short(s, from + first * s->item, to + first);
            continue;
        }
        for (int64_t i = 0; i < s->n; i++) {
            int64_t at = first + i * s->inner;
            room[i].key = s->item == 4 ? key_of_float(((const float *)from)[at])
                                       : (uint64_t)((const int64_t *)from)[at] ^ (uint64_t)1 << 63;
            room[i].position = i;
        }
        const Entry *sorted = sort_by_digits(room, room + s->n, s->n, s->item);
        for (int64_t i = 0; i < s->n; i++)
            to[first + i * s->inner] = sorted[i].position;
    }
}

int run_argsort(const int64_t *body, const Run *run)
{
    const Argsort *sort = (const Argsort *)body;
    int64_t lines = sort->outer * sort->inner;
    Sorting shared = {sort, run, parts_of(run, lines, A_PLACE * (double)lines * (double)sort->n), 0};
    crew_do(run->crew, shared.parts, sort_lines, &shared);
    return shared.failed ? NO_MEMORY : DONE;
}
