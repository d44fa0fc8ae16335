/* Copies of elements from one layout to another: transposes, parts of a larger array, repetitions. */

#include "program.h"

#define TILE 16
#define SHORT 16 /* least length of a line for which a call of memcpy is worthwhile */
#define AN_ELEMENT 64.0 /* cost of copying an element, in operations of a product */

typedef struct {
    int64_t from_base, from_offset, to_base, to_offset; /* offsets in bytes */
    int64_t item, dims;                                 /* size of an element in bytes; dimensions from the last one on */
    int64_t sizes[DIMENSIONS], from[DIMENSIONS], to[DIMENSIONS]; /* strides in elements */
} Copy;

typedef struct {
    int64_t size, from, to;
} Line;

/* Copy tile by tile, so that the lines that a transpose reads and writes stay in the cache. */
#define PLANE(type)                                                                                       \
    for (int64_t first = 0; first < a.size; first += TILE)                                                \
        for (int64_t second = 0; second < b.size; second += TILE) {                                       \
            int64_t across = a.size - first < TILE ? a.size - first : TILE;                               \
            int64_t down = b.size - second < TILE ? b.size - second : TILE;                               \
            const type *x = (const type *)from + first * a.from + second * b.from;                        \
            type *y = (type *)to + first * a.to + second * b.to;                                          \
            if (is_transpose && across == TILE && down == TILE)                                           \
                turn_tile(type, x, a.from, y, b.to)                                                       \
            else                                                                                          \
                for (int64_t j = 0; j < down; j++)                                                        \
                    for (int64_t i = 0; i < across; i++)                                                  \
                        y[j * b.to + i * a.to] = x[j * b.from + i * a.from];                              \
        }                                                                                                 \
    break

/* Read and write each line only once, since lines at strides of a power of two evict each other from the cache. */
#define turn_tile(type, x, from_line, y, to_line)                                                         \
    {                                                                                                     \
        type tile[TILE][TILE];                                                                            \
        for (int64_t i = 0; i < TILE; i++)                                                                \
            for (int64_t j = 0; j < TILE; j++)                                                            \
                tile[j][i] = x[i * from_line + j];                                                        \
        for (int64_t j = 0; j < TILE; j++)                                                                \
            memcpy(y + j * to_line, tile[j], sizeof tile[j]);                                             \
    }

#define FILL(type)                                                                                        \
    for (int64_t j = 0; j < b.size; j++) {                                                                \
        type x = ((const type *)from)[j * b.from], *y = (type *)to + j * b.to;                            \
        for (int64_t i = 0; i < a.size; i++)                                                              \
            y[i] = x;                                                                                     \
    }                                                                                                     \
    break

static void fill_lines(const char *from, char *to, Line a, Line b, int64_t item)
{
    switch (item) {
    case 4: FILL(float);
    case 8: FILL(int64_t);
    default: FILL(uint8_t);
    }
}

static void copy_plane(const char *from, char *to, Line a, Line b, int64_t item)
{
    if (a.from == 0 && a.to == 1) {
        fill_lines(from, to, a, b, item);
        return;
    }
    if (a.from == 1 && a.to == 1 && a.size >= SHORT) {
        for (int64_t j = 0; j < b.size; j++)
            memcpy(to + j * b.to * item, from + j * b.from * item, (size_t)(a.size * item));
        return;
    }
    int is_transpose = b.from == 1 && a.to == 1;
    switch (item) {
    case 4: PLANE(float);
    case 8: PLANE(int64_t);
    default: PLANE(uint8_t);
    }
}

static void copy_all(const Copy *copy, const Run *run)
{
    const char *from = run->bases[copy->from_base] + copy->from_offset;
    char *to = run->bases[copy->to_base] + copy->to_offset;
    int64_t index[DIMENSIONS] = {0}, dims = copy->dims;
    /* The planes consist of the innermost dimension and the dimension along which elements are read contiguously. */
    int64_t second = dims > 1 ? 1 : 0;
    if (copy->from[0] != 1)
        for (int64_t d = 1; d < dims; d++)
            if (copy->from[d] == 1)
                second = d;
    Line a = {copy->sizes[0], copy->from[0], copy->to[0]}, b = {1, 0, 0};
    if (second)
        b = (Line){copy->sizes[second], copy->from[second], copy->to[second]};
    for (;;) {
        copy_plane(from, to, a, b, copy->item);
        int64_t d = 1;
        for (; d < dims; d++) {
            if (d == second)
                continue;
            from += copy->from[d] * copy->item;
            to += copy->to[d] * copy->item;
            if (++index[d] < copy->sizes[d])
                break;
            from -= copy->sizes[d] * copy->from[d] * copy->item;
            to -= copy->sizes[d] * copy->to[d] * copy->item;
            index[d] = 0;
        }
        if (d >= dims)
            return;
    }
}

typedef struct {
    const Copy *copy;
    const Run *run;
    int64_t dim, tiles, parts; /* the divided dimension, elements of it per tile, number of parts */
} Copying;

static void copy_part(const void *context, int64_t part)
{
    const Copying *shared = context;
    Copy some = *shared->copy;
    int64_t dim = shared->dim, size = some.sizes[dim], tiles = (size + shared->tiles - 1) / shared->tiles;
    int64_t begin = tiles * part / shared->parts * shared->tiles, end = tiles * (part + 1) / shared->parts * shared->tiles;
    some.sizes[dim] = (end < size ? end : size) - begin;
    some.from_offset += begin * some.from[dim] * some.item;
    some.to_offset += begin * some.to[dim] * some.item;
    copy_all(&some, shared->run);
}

/* The longest dimension is divided among the threads; of equally long ones, the outermost. */
void run_copy(const int64_t *body, const Run *run)
{
    const Copy *copy = (const Copy *)body;
    double elements = 1.0;
    int64_t dim = 0;
    for (int64_t d = 0; d < copy->dims; d++) {
        elements *= (double)copy->sizes[d];
        if (copy->sizes[d] >= copy->sizes[dim])
            dim = d;
    }
    Copying shared = {copy, run, dim, TILE, 1};
    int64_t size = copy->dims ? copy->sizes[dim] : 1;
    shared.parts = parts_of(run, size, AN_ELEMENT * elements);
    if (size < shared.parts * TILE)
        shared.tiles = 1;
    crew_do(run->crew, shared.parts, copy_part, &shared);
}
