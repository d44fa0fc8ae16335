/* A whole program in one call: instructions one after another, on places that are known before it runs.
 *
 * The tape is a list of words. Each instruction begins with its kind and its length in words. A place is a base (the
 * arena, the constants, an input, an output, or one that moves with the turns of a repeat) and an offset in bytes; what an array is besides, sizes and strides, the
 * instruction says. pol/executor/tape.py writes it.
 */

#include "program.h"

#include "product.h"

enum { CHAIN, COPY, PRODUCT, SUM, COUNT, LARGEST, FIND_LARGEST, TAKE, UNIFORM, IOTA, ADD_ROWS, ARGSORT, WINDOWS,
       TURNS, AGAIN, PACK };

#define LANES 8
#define COLUMNS 256
#define ROWS_MIN 16 /* of a slice of a product */

typedef struct {
    int64_t base, offset;
} Place;

typedef struct {
    Place left, right, result;
    int64_t bits, packed; /* which operand a PACK has put where it is */
    int64_t left_row, left_k, right_k, right_column, rows, summed, columns;
    int64_t dims; /* of the batch, from the last one on */
    int64_t sizes[DIMENSIONS], left_strides[DIMENSIONS], right_strides[DIMENSIONS];
} Product;

enum { NEITHER, LEFT, RIGHT };

/* An operand of products that is the same in each turn of a repeat. */
typedef struct {
    Place from, to;
    int64_t bits, is_left, lane, k, lanes, summed, bytes;
} Pack;

/* Of [outer, n, inner] over n, in order; ``item`` is bytes of an element: 4 for FP32, 8 for INT64, 1 for truths. */
typedef struct {
    Place from, to;
    int64_t item, outer, n, inner;
} Reduction;

typedef struct {
    Place table, index, result;
    int64_t rows, width, count; /* bytes of a row; rows to take */
} Take;

typedef struct {
    Place step, result;
    int64_t seed, site, count;
} Uniform;

typedef struct {
    Place result;
    int64_t count;
} Iota;

static void *at(const Run *run, Place place)
{
    return run->bases[place.base] + place.offset;
}

int64_t parts_of(const Run *run, int64_t items, double operations)
{
    int64_t parts = crew_size(run->crew);
    if (parts > items)
        parts = items;
    return operations < 2.0 * (double)run->grain ? 1 : parts;
}

/* Items are slices of rows of the products of a batch. */
typedef struct {
    const Product *product;
    const Run *run;
    int64_t items, slices, parts;
    int failed;
} Products;

static int run_slice(const Product *p, const Run *run, int64_t number, int64_t slice, int64_t slices)
{
    static const int64_t nothing = 0;
    int64_t begin = p->rows * slice / slices, end = p->rows * (slice + 1) / slices;
    const float *left = (const float *)at(run, p->left) + begin * p->left_row, *right = at(run, p->right);
    float *result = (float *)at(run, p->result) + (number * p->rows + begin) * p->columns;
    if (p->packed) {
        Operand a = {left, p->left_row, p->left_k, end - begin}, b = {right, p->right_column, p->right_k, p->columns};
        Packed packed = {p->packed == LEFT ? at(run, p->left) : NULL, p->packed == RIGHT ? at(run, p->right) : NULL};
        return multiply_narrow(&a, &b, packed, p->summed, (int)p->bits, result);
    }
    for (int64_t d = 0; d < p->dims; d++) {
        left += number % p->sizes[d] * p->left_strides[d];
        right += number % p->sizes[d] * p->right_strides[d];
        number /= p->sizes[d];
    }
    return assay_product((int)p->bits, 1, &nothing, &nothing, left, p->left_row, p->left_k, right, p->right_k,
                         p->right_column, result, end - begin, p->summed, p->columns);
}

static void run_products(const void *context, int64_t part)
{
    Products *shared = (Products *)context;
    int64_t begin = shared->items * part / shared->parts, end = shared->items * (part + 1) / shared->parts;
    for (int64_t item = begin; item < end; item++)
        if (!run_slice(shared->product, shared->run, item / shared->slices, item % shared->slices, shared->slices))
            __atomic_store_n(&shared->failed, 1, __ATOMIC_RELAXED);
}

static int run_product(const Product *p, const Run *run)
{
    int64_t count = 1;
    for (int64_t d = 0; d < p->dims; d++)
        count *= p->sizes[d];
    double operations = 2.0 * (double)count * (double)p->rows * (double)p->summed * (double)p->columns;
    Products shared = {p, run, count, 1, parts_of(run, INT64_MAX, operations), 0};
    /* every slice packs the right operand again, so there are no more than threads; rows that are packed stay together */
    if (count < shared.parts && p->packed != LEFT)
        shared.slices = p->rows / ROWS_MIN < shared.parts ? p->rows / ROWS_MIN : shared.parts;
    if (shared.slices < 1)
        shared.slices = 1;
    shared.items = count * shared.slices;
    if (shared.parts > shared.items)
        shared.parts = shared.items;
    crew_do(run->crew, shared.parts, run_products, &shared);
    return shared.failed ? NO_MEMORY : DONE;
}

static int run_pack(const Pack *p, const Run *run)
{
    Operand x = {at(run, p->from), p->lane, p->k, p->lanes};
    return pack_narrow(&x, (int)p->is_left, p->summed, (int)p->bits, at(run, p->to), p->bytes) ? DONE : NO_MEMORY;
}

typedef struct {
    const Reduction *reduction;
    const Run *run;
    int64_t parts;
    int failed;
} Sums;

static void run_sums(const void *context, int64_t part)
{
    Sums *shared = (Sums *)context;
    const Reduction *r = shared->reduction;
    int64_t begin = r->outer * part / shared->parts, end = r->outer * (part + 1) / shared->parts;
    const float *from = (const float *)at(shared->run, r->from) + begin * r->n * r->inner;
    if (!assay_sum(from, end - begin, r->n, r->inner, (float *)at(shared->run, r->to) + begin * r->inner))
        __atomic_store_n(&shared->failed, 1, __ATOMIC_RELAXED);
}

static int run_sum(const Reduction *r, const Run *run)
{
    double elements = (double)r->outer * (double)r->n * (double)r->inner;
    Sums shared = {r, run, parts_of(run, r->outer, elements), 0};
    crew_do(run->crew, shared.parts, run_sums, &shared);
    return shared.failed ? NO_MEMORY : DONE;
}

/* The sum of integers wraps; that of truths counts. */
#define ADD_UP(type)                                                                                      \
    for (int64_t o = 0; o < r->outer; o++) {                                                              \
        const type *x = (const type *)from + o * r->n * r->inner;                                         \
        uint64_t *RESTRICT y = to + o * r->inner;                                                         \
        if (r->inner == 1) {                                                                              \
            uint64_t sum = 0;                                                                             \
            for (int64_t k = 0; k < r->n; k++)                                                            \
                sum += (uint64_t)x[k];                                                                    \
            y[0] = sum;                                                                                   \
            continue;                                                                                     \
        }                                                                                                 \
        memset(y, 0, (size_t)r->inner * sizeof *y);                                                       \
        for (int64_t k = 0; k < r->n; k++)                                                                \
            for (int64_t i = 0; i < r->inner; i++)                                                        \
                y[i] += (uint64_t)x[k * r->inner + i];                                                    \
    }

/* Truths of lines side by side are counted in bytes, as far as these reach. */
static void count_columns(const uint8_t *x, int64_t n, int64_t inner, uint64_t *RESTRICT to)
{
    memset(to, 0, (size_t)inner * sizeof *to);
    for (int64_t first = 0; first < inner; first += COLUMNS) {
        int64_t width = inner - first < COLUMNS ? inner - first : COLUMNS;
        for (int64_t begin = 0; begin < n; begin += UINT8_MAX) {
            int64_t end = n - begin < UINT8_MAX ? n : begin + UINT8_MAX;
            uint8_t part[COLUMNS] = {0};
            for (int64_t k = begin; k < end; k++)
                for (int64_t i = 0; i < width; i++)
                    part[i] += x[k * inner + first + i];
            for (int64_t i = 0; i < width; i++)
                to[first + i] += part[i];
        }
    }
}

static void run_count(const Reduction *r, const Run *run)
{
    const char *from = at(run, r->from);
    uint64_t *to = at(run, r->to);
    if (r->item == 1 && r->inner > 1) {
        for (int64_t o = 0; o < r->outer; o++)
            count_columns((const uint8_t *)from + o * r->n * r->inner, r->n, r->inner, to + o * r->inner);
    } else if (r->item == 1) {
        ADD_UP(uint8_t)
    } else {
        ADD_UP(int64_t)
    }
}

/* Whether a number is the larger one; NaN is larger than all others, and the first one stays. */
#define LARGER(found, best) (!((best != best) | (found <= best)))

/* The largest of a line that lies in order and holds no NaN: its parts are compared without a branch. */
#define LARGEST_OF_LINE(type, x, n, is_odd, best)                                                         \
    type parts[LANES];                                                                                    \
    int odd[LANES] = {0}, is_odd = 0;                                                                     \
    int64_t k = 0;                                                                                        \
    for (int i = 0; i < LANES; i++)                                                                       \
        parts[i] = x[0];                                                                                  \
    for (; k + LANES <= n; k += LANES)                                                                    \
        for (int i = 0; i < LANES; i++) {                                                                 \
            parts[i] = x[k + i] > parts[i] ? x[k + i] : parts[i];                                         \
            odd[i] |= x[k + i] != x[k + i];                                                               \
        }                                                                                                 \
    for (int i = 0; i < LANES; i++)                                                                       \
        is_odd |= odd[i];                                                                                 \
    for (; k < n; k++) {                                                                                  \
        parts[0] = x[k] > parts[0] ? x[k] : parts[0];                                                     \
        is_odd |= x[k] != x[k];                                                                           \
    }                                                                                                     \
    for (int i = 0; i < 4; i++)                                                                           \
        parts[i] = parts[4 + i] > parts[i] ? parts[4 + i] : parts[i];                                     \
    for (int i = 0; i < 2; i++)                                                                           \
        parts[i] = parts[2 + i] > parts[i] ? parts[2 + i] : parts[i];                                     \
    type best = parts[1] > parts[0] ? parts[1] : parts[0];

/* The largest of a line, in LANES parts where it lies in order; +0 rather than -0. */
#define LARGEST_OF(type, end)                                                                             \
    for (int64_t o = 0; o < r->outer; o++) {                                                              \
        const type *x = (const type *)at(run, r->from) + o * r->n * r->inner;                             \
        type *RESTRICT y = (type *)at(run, r->to) + o * r->inner;                                         \
        if (r->inner == 1) {                                                                              \
            LARGEST_OF_LINE(type, x, r->n, is_odd, best)                                                  \
            for (k = 0; is_odd && k < r->n; k++)                                                          \
                if (x[k] != x[k]) {                                                                       \
                    best = x[k];                                                                          \
                    break;                                                                                \
                }                                                                                         \
            y[0] = best + end;                                                                            \
            continue;                                                                                     \
        }                                                                                                 \
        memcpy(y, x, (size_t)r->inner * sizeof *y);                                                       \
        for (int64_t k = 1; k < r->n; k++)                                                                \
            for (int64_t i = 0; i < r->inner; i++) {                                                      \
                type found = x[k * r->inner + i];                                                         \
                y[i] = LARGER(found, y[i]) ? found : y[i];                                                \
            }                                                                                             \
        for (int64_t i = 0; i < r->inner; i++)                                                            \
            y[i] = y[i] + end;                                                                            \
    }

static void run_largest(const Reduction *r, const Run *run)
{
    if (r->item == 4) {
        LARGEST_OF(float, 0.0f)
    } else {
        LARGEST_OF(int64_t, 0)
    }
}

/* Where the first of the largest is, COLUMNS lines side by side; 0 where there is NaN. */
#define FIND(type)                                                                                        \
    for (int64_t o = 0; o < r->outer; o++)                                                                \
        for (int64_t first = 0; first < r->inner; first += COLUMNS) {                                     \
            int64_t width = r->inner - first < COLUMNS ? r->inner - first : COLUMNS;                      \
            const type *x = (const type *)at(run, r->from) + o * r->n * r->inner + first;                 \
            int64_t *RESTRICT y = to + o * r->inner + first;                                              \
            type best[COLUMNS];                                                                           \
            memcpy(best, x, (size_t)width * sizeof *best);                                                \
            memset(y, 0, (size_t)width * sizeof *y);                                                      \
            for (int64_t k = 1; k < r->n; k++)                                                            \
                for (int64_t i = 0; i < width; i++) {                                                     \
                    type found = x[k * r->inner + i];                                                     \
                    if (LARGER(found, best[i])) {                                                         \
                        best[i] = found;                                                                  \
                        y[i] = found == found ? k : 0;                                                    \
                    }                                                                                     \
                }                                                                                         \
        }

static void run_find_largest(const Reduction *r, const Run *run)
{
    int64_t *to = at(run, r->to);
    if (r->item == 4) {
        FIND(float)
    } else {
        FIND(int64_t)
    }
}

/* Rows of a size that is known when this is compiled are copied without a call. */
#define TAKE_ROWS(width)                                                                                  \
    for (int64_t i = 0; i < t->count; i++)                                                                \
        memcpy(result + i * (width), table + index[i] * (width), (size_t)(width));                        \
    break

static int run_take(const Take *t, const Run *run)
{
    const char *table = at(run, t->table);
    const int64_t *index = at(run, t->index);
    char *result = at(run, t->result);
    for (int64_t i = 0; i < t->count; i++)
        if (index[i] < 0 || index[i] >= t->rows) {
            *run->row = index[i];
            return OUTSIDE;
        }
    switch (t->width) {
    case 1: TAKE_ROWS(1);
    case 4: TAKE_ROWS(4);
    case 8: TAKE_ROWS(8);
    default: TAKE_ROWS(t->width);
    }
    return DONE;
}

static int run_one(const int64_t *instruction, const Run *run)
{
    const int64_t *body = instruction + 2;
    switch (instruction[0]) {
    case CHAIN: return run_chain(body, run);
    case COPY: run_copy(body, run); return DONE;
    case PRODUCT: return run_product((const Product *)body, run);
    case PACK: return run_pack((const Pack *)body, run);
    case SUM: return run_sum((const Reduction *)body, run);
    case COUNT: run_count((const Reduction *)body, run); return DONE;
    case LARGEST: run_largest((const Reduction *)body, run); return DONE;
    case FIND_LARGEST: run_find_largest((const Reduction *)body, run); return DONE;
    case TAKE: return run_take((const Take *)body, run);
    case UNIFORM: {
        const Uniform *u = (const Uniform *)body;
        int64_t step = *(const int64_t *)at(run, u->step);
        assay_uniform((uint64_t)u->seed, (uint32_t)u->site, (uint64_t)step, at(run, u->result), u->count);
        return DONE;
    }
    case IOTA: {
        const Iota *iota = (const Iota *)body;
        int64_t *result = at(run, iota->result);
        for (int64_t i = 0; i < iota->count; i++)
            result[i] = i;
        return DONE;
    }
    case ADD_ROWS: return run_add_rows(body, run);
    case ARGSORT: return run_argsort(body, run);
    case WINDOWS: return run_windows(body, run);
    }
    return NO_MEMORY;
}

/* How many repeats may be within one another; a program has four at most (pol/limits.py). */
#define NESTED 8

/* Begin a repeat: ``level``, the number of bases that move, and each with the place where it begins. */
static void begin_turns(const int64_t *body, char **bases, int64_t *turns)
{
    turns[body[0]] = 0;
    for (const int64_t *move = body + 2, *end = move + 3 * body[1]; move < end; move += 3)
        bases[move[0]] = bases[move[1]] + move[2];
}

/* End a turn: the word where the body begins, ``level``, turns; then bases that go on by so many bytes, and pairs of
 * bases that change places. Whether there is another turn.
 */
static int end_turn(const int64_t *body, char **bases, int64_t *turns)
{
    const int64_t *move = body + 4, *steps = move + 2 * body[3];
    int is_over = ++turns[body[1]] == body[2];
    for (; !is_over && move < steps; move += 2)
        bases[move[0]] += move[1];
    for (const int64_t *pair = steps + 1, *end = pair + 2 * steps[0]; pair < end; pair += 2) {
        char *first = bases[pair[0]];
        bases[pair[0]] = bases[pair[1]];
        bases[pair[1]] = first;
    }
    return !is_over;
}

/* Run a tape of so many words, with a crew (or NULL) where an instruction has two times ``grain`` operations. Returns
 * DONE, NO_MEMORY, or OUTSIDE where a row was asked for that a table has not: ``end`` has the number of the
 * instruction's first word, and the row.
 */
EXPORT int assay_run(const int64_t *tape, int64_t words, char **bases, int64_t canonical, uint8_t *not_finite,
                     Crew *crew, int64_t grain, int64_t end[2])
{
    Run run = {bases, canonical, not_finite, end + 1, crew_take(crew), grain};
    int64_t turns[NESTED];
    int status = DONE;
    for (end[0] = 0; end[0] < words;) {
        const int64_t *instruction = tape + end[0];
        if (instruction[0] == AGAIN && end_turn(instruction + 2, bases, turns)) {
            end[0] = instruction[2];
            continue;
        }
        if (instruction[0] == TURNS)
            begin_turns(instruction + 2, bases, turns);
        else if (instruction[0] != AGAIN)
            status = run_one(instruction, &run);
        if (status != DONE)
            break;
        end[0] += instruction[1];
    }
    crew_give_back(run.crew);
    return status;
}
