/* Running a whole program in one call: its instructions one after another, at addresses that were computed before.
 *
 * The tape is a list of words, which pol/executor/tape.py writes. Each instruction begins with its kind and its length in
 * words. A place is a base and an offset in bytes. A base is the arena, the constants, an input, an output, or a base that
 * moves in each turn of a repeat. The instruction holds the sizes and strides of its arrays.
 */

#include "program.h"

#include "product.h"

enum { CHAIN, COPY, PRODUCT, SUM, COUNT, LARGEST, FIND_LARGEST, TAKE, UNIFORM, IOTA, ADD_ROWS, ARGSORT, WINDOWS,
       TURNS, AGAIN, PACK };

#define LANES 32
#define COLUMNS 256

/* Costs per element, in operations of a product that take the same time. */
#define A_PACKED 32.0
#define A_SUM 32.0
#define A_COMPARISON 64.0
#define A_RANDOM_NUMBER 400.0
#define A_BYTE 16.0 /* per copied byte */
#define A_ROW 16    /* per row of a TAKE, in bytes whose copy takes the same time */

#define TO_WAKE 10.0 /* cost of waking a thread, as a multiple of the grain */
#define PIECES 4     /* pieces per thread, if they are large enough; a thread that begins late takes fewer */

typedef struct {
    int64_t base, offset;
} Place;

typedef struct {
    Place left, right, result;
    int64_t bits, packed; /* the operand that a PACK has packed before */
    int64_t left_row, left_k, right_k, right_column, rows, summed, columns;
    int64_t dims; /* number of dimensions of the batch; they are listed from the last one on */
    int64_t sizes[DIMENSIONS], left_strides[DIMENSIONS], right_strides[DIMENSIONS];
} Product;

enum { NEITHER, LEFT, RIGHT };

/* An operand of products that is the same in each turn of a repeat. */
typedef struct {
    Place from, to;
    int64_t bits, is_left, lane, k, lanes, summed, bytes;
} Pack;

/* A reduction of a contiguous [outer, n, inner] over n. ``item`` is the size of an element in bytes: 4 for FP32, 8 for
 * INT64, 1 for bool.
 */
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

static int64_t threads_for(const Run *run, int64_t items, double operations)
{
    double worth = operations / (double)run->grain;
    int64_t threads = crew_size(run->crew);
    if (threads > items)
        threads = items;
    if (worth < (double)threads)
        threads = (int64_t)worth;
    return threads < 2 ? 1 : threads;
}

int64_t parts_of(const Run *run, int64_t items, double operations)
{
    int64_t parts = threads_for(run, items, operations);
    if (parts > 1)
        crew_expect(run->crew, operations, TO_WAKE * (double)run->grain);
    return parts;
}

int64_t pieces_of(const Run *run, int64_t items, double operations)
{
    int64_t parts = parts_of(run, items, operations), pieces = parts;
    while (parts > 1 && pieces < PIECES * parts && 2 * pieces <= items &&
           operations >= 2.0 * (double)pieces * (double)run->grain)
        pieces *= 2;
    return pieces;
}

static Operand left_of(const Product *p, const float *data)
{
    return (Operand){data, p->left_row, p->left_k, p->rows};
}

static Operand right_of(const Product *p, const float *data)
{
    return (Operand){data, p->right_column, p->right_k, p->columns};
}

/* Prepare product ``number`` of a batch. */
static int place(Whole *whole, const Product *p, const Run *run, int64_t number)
{
    const float *left = at(run, p->left), *right = at(run, p->right);
    char *packed[2] = {p->packed == LEFT ? at(run, p->left) : NULL, p->packed == RIGHT ? at(run, p->right) : NULL};
    *whole = (Whole){.summed = p->summed, .bits = (int)p->bits};
    whole->result = (float *)at(run, p->result) + number * p->rows * p->columns;
    for (int64_t d = 0; d < p->dims; d++) {
        left += number % p->sizes[d] * p->left_strides[d];
        right += number % p->sizes[d] * p->right_strides[d];
        number /= p->sizes[d];
    }
    Operand a = left_of(p, left), b = right_of(p, right);
    return place_product(whole, &a, &b, packed);
}

typedef struct {
    const Product *product;
    const Run *run;
    Whole *whole;
    int64_t count, parts;
    int failed;
} Products;

static void pack_sides(const void *context, int64_t part)
{
    const Products *shared = context;
    const Whole *whole = shared->whole;
    pack_part(&whole->left, whole->summed, whole->bits, part, shared->parts);
    pack_part(&whole->right, whole->summed, whole->bits, part, shared->parts);
}

static void multiply_sides(const void *context, int64_t part)
{
    const Products *shared = context;
    multiply_part(shared->whole, part, shared->parts);
}

/* Compute some products of a batch, each as a whole. */
static void run_products(const void *context, int64_t part)
{
    Products *shared = (Products *)context;
    int64_t begin = shared->count * part / shared->parts, end = shared->count * (part + 1) / shared->parts;
    for (int64_t number = begin; number < end; number++) {
        Whole whole;
        if (!place(&whole, shared->product, shared->run, number)) {
            __atomic_store_n(&shared->failed, 1, __ATOMIC_RELAXED);
            return;
        }
        const Products alone = {.whole = &whole, .parts = 1};
        pack_sides(&alone, 0);
        multiply_sides(&alone, 0);
    }
}

/* The threads divide the products of a batch among them if that is possible evenly. Otherwise they share each product. */
static int run_product(const Product *p, const Run *run)
{
    double each = 2.0 * (double)p->rows * (double)p->summed * (double)p->columns;
    each += A_PACKED * (double)p->summed * (double)(p->rows + p->columns);
    int64_t count = 1, pieces = 1;
    for (int64_t d = 0; d < p->dims; d++)
        count *= p->sizes[d];
    int64_t threads = threads_for(run, INT64_MAX, each);
    Products shared = {p, run, NULL, count, 1, 0};
    if (threads < 2 || count % threads == 0 || count >= PIECES * threads) {
        shared.parts = pieces_of(run, count, (double)count * each);
        crew_do(run->crew, shared.parts, run_products, &shared);
        return shared.failed ? NO_MEMORY : DONE;
    }
    pieces = pieces_of(run, INT64_MAX, each);
    for (int64_t number = 0; number < count; number++) {
        Whole whole;
        if (!place(&whole, p, run, number))
            return NO_MEMORY;
        shared.whole = &whole;
        shared.parts = threads;
        crew_do(run->crew, threads, pack_sides, &shared);
        shared.parts = pieces;
        crew_do(run->crew, pieces, multiply_sides, &shared);
    }
    return DONE;
}

typedef struct {
    Side side;
    int64_t summed, parts;
    int bits;
} Packing;

static void pack_side(const void *context, int64_t part)
{
    const Packing *p = context;
    pack_part(&p->side, p->summed, p->bits, part, p->parts);
}

static int run_pack(const Pack *p, const Run *run)
{
    Operand x = {at(run, p->from), p->lane, p->k, p->lanes};
    char *room = at(run, p->to);
    int is_left = (int)p->is_left, bits = (int)p->bits;
    if (packed_size(&x, is_left, p->summed, bits) > (size_t)p->bytes)
        return NO_MEMORY;
    Packing packing = {place_side(&x, is_left, 0, p->summed, bits, &room), p->summed, 1, bits};
    packing.parts = parts_of(run, p->lanes, A_PACKED * (double)p->lanes * (double)p->summed);
    crew_do(run->crew, packing.parts, pack_side, &packing);
    return DONE;
}

typedef int (*Reduce)(const Reduction *r, const Run *run);

typedef struct {
    const Reduction *reduction;
    const Run *run;
    Reduce reduce;
    int64_t item, parts; /* bytes of an element of the result */
    int failed;
} Reducing;

static void reduce_part(const void *context, int64_t part)
{
    Reducing *shared = (Reducing *)context;
    Reduction some = *shared->reduction;
    int64_t begin = some.outer * part / shared->parts, end = some.outer * (part + 1) / shared->parts;
    some.outer = end - begin;
    some.from.offset += begin * some.n * some.inner * some.item;
    some.to.offset += begin * some.inner * shared->item;
    if (shared->reduce(&some, shared->run) != DONE)
        __atomic_store_n(&shared->failed, 1, __ATOMIC_RELAXED);
}

/* Divide a reduction among the threads; an element takes as long as ``operations`` operations of a product. */
static int run_reduction(const Reduction *r, const Run *run, Reduce reduce, int64_t item, double operations)
{
    double elements = (double)r->outer * (double)r->n * (double)r->inner;
    Reducing shared = {r, run, reduce, item, parts_of(run, r->outer, operations * elements), 0};
    crew_do(run->crew, shared.parts, reduce_part, &shared);
    return shared.failed ? NO_MEMORY : DONE;
}

static int add_up(const Reduction *r, const Run *run)
{
    return assay_sum(at(run, r->from), r->outer, r->n, r->inner, at(run, r->to)) ? DONE : NO_MEMORY;
}

/* A sum of integers wraps; a sum of bool counts. */
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

/* Count the bools of adjacent lines, in bytes for as many rows as bytes can count. */
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

static int count(const Reduction *r, const Run *run)
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
    return DONE;
}

/* True if ``found`` is larger than ``best``. NaN counts as larger than all numbers; of equal ones the first remains. */
#define LARGER(found, best) (!((best != best) | (found <= best)))

/* Write the largest element of each contiguous line of ``width`` elements without branches. If the width is a constant,
 * several lines are compared at once. ``is_odd`` is set if a line holds NaN.
 */
#define LARGEST_OF_SHORT(type, width, end)                                                                \
    for (int64_t o = 0; o < r->outer; o++) {                                                              \
        type best = x[o * (width)];                                                                       \
        is_odd |= best != best;                                                                           \
        for (int64_t k = 1; k < (width); k++) {                                                           \
            type found = x[o * (width) + k];                                                              \
            best = found > best ? found : best;                                                           \
            is_odd |= found != found;                                                                     \
        }                                                                                                 \
        y[o] = best + end;                                                                                \
    }                                                                                                     \
    break

/* Do the same for lines with at least LANES elements, in LANES parts. */
#define LARGEST_OF_LONG(type, end)                                                                        \
    for (int64_t o = 0; o < r->outer; o++, x += r->n) {                                                   \
        type parts[LANES];                                                                                \
        int odd[LANES] = {0};                                                                             \
        int64_t k = 0;                                                                                    \
        for (int i = 0; i < LANES; i++)                                                                   \
            parts[i] = x[0];                                                                              \
        for (; k + LANES <= r->n; k += LANES)                                                             \
            for (int i = 0; i < LANES; i++) {                                                             \
                parts[i] = x[k + i] > parts[i] ? x[k + i] : parts[i];                                     \
                odd[i] |= x[k + i] != x[k + i];                                                           \
            }                                                                                             \
        for (int i = 0; i < LANES; i++)                                                                   \
            is_odd |= odd[i];                                                                             \
        for (; k < r->n; k++) {                                                                           \
            parts[0] = x[k] > parts[0] ? x[k] : parts[0];                                                 \
            is_odd |= x[k] != x[k];                                                                       \
        }                                                                                                 \
        for (int width = LANES / 2; width; width /= 2)                                                    \
            for (int i = 0; i < width; i++)                                                               \
                parts[i] = parts[width + i] > parts[i] ? parts[width + i] : parts[i];                     \
        y[o] = parts[0] + end;                                                                            \
    }                                                                                                     \
    break

/* Find the largest element of each line; a zero becomes +0. */
#define LARGEST_OF(type, end)                                                                             \
    const type *x = at(run, r->from);                                                                     \
    type *RESTRICT y = at(run, r->to);                                                                    \
    if (r->inner == 1) {                                                                                  \
        int is_odd = 0;                                                                                   \
        switch (r->n < LANES ? r->n : LANES) {                                                            \
        case 2: LARGEST_OF_SHORT(type, 2, end);                                                           \
        case 4: LARGEST_OF_SHORT(type, 4, end);                                                           \
        case 8: LARGEST_OF_SHORT(type, 8, end);                                                           \
        case 16: LARGEST_OF_SHORT(type, 16, end);                                                         \
        case LANES: LARGEST_OF_LONG(type, end);                                                           \
        default: LARGEST_OF_SHORT(type, r->n, end);                                                       \
        }                                                                                                 \
        x = at(run, r->from);                                                                             \
        for (int64_t o = 0; is_odd && o < r->outer; o++)                                                  \
            for (int64_t k = 0; k < r->n; k++)                                                            \
                if (x[o * r->n + k] != x[o * r->n + k]) {                                                 \
                    y[o] = x[o * r->n + k];                                                               \
                    break;                                                                                \
                }                                                                                         \
        return DONE;                                                                                      \
    }                                                                                                     \
    for (int64_t o = 0; o < r->outer; o++, x += r->n * r->inner, y += r->inner) {                         \
        memcpy(y, x, (size_t)r->inner * sizeof *y);                                                       \
        for (int64_t k = 1; k < r->n; k++)                                                                \
            for (int64_t i = 0; i < r->inner; i++) {                                                      \
                type found = x[k * r->inner + i];                                                         \
                y[i] = LARGER(found, y[i]) ? found : y[i];                                                \
            }                                                                                             \
        for (int64_t i = 0; i < r->inner; i++)                                                            \
            y[i] = y[i] + end;                                                                            \
    }

static int find_largest(const Reduction *r, const Run *run)
{
    if (r->item == 4) {
        LARGEST_OF(float, 0.0f)
    } else {
        LARGEST_OF(int64_t, 0)
    }
    return DONE;
}

/* Find the position of the first largest element, for COLUMNS adjacent lines at once; 0 if a line holds NaN. */
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

static int find_position(const Reduction *r, const Run *run)
{
    int64_t *to = at(run, r->to);
    if (r->item == 4) {
        FIND(float)
    } else {
        FIND(int64_t)
    }
    return DONE;
}

typedef struct {
    const Take *take;
    const Run *run;
    int64_t parts;
} Taking;

/* Rows of a constant size are copied without a function call. */
#define TAKE_ROWS(width)                                                                                  \
    for (int64_t i = begin; i < end; i++)                                                                 \
        memcpy(result + i * (width), table + index[i] * (width), (size_t)(width));                        \
    break

static void take_rows(const void *context, int64_t part)
{
    const Taking *shared = context;
    const Take *t = shared->take;
    const char *table = at(shared->run, t->table);
    const int64_t *index = at(shared->run, t->index);
    char *result = at(shared->run, t->result);
    int64_t begin = t->count * part / shared->parts, end = t->count * (part + 1) / shared->parts;
    switch (t->width) {
    case 1: TAKE_ROWS(1);
    case 4: TAKE_ROWS(4);
    case 8: TAKE_ROWS(8);
    default: TAKE_ROWS(t->width);
    }
}

static int run_take(const Take *t, const Run *run)
{
    const int64_t *index = at(run, t->index);
    for (int64_t i = 0; i < t->count; i++)
        if (index[i] < 0 || index[i] >= t->rows) {
            *run->row = index[i];
            return OUTSIDE;
        }
    Taking shared = {t, run, parts_of(run, t->count, A_BYTE * (double)t->count * (double)(t->width + A_ROW))};
    crew_do(run->crew, shared.parts, take_rows, &shared);
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
    case SUM: return run_reduction((const Reduction *)body, run, add_up, 4, A_SUM);
    case COUNT: return run_reduction((const Reduction *)body, run, count, 8, A_SUM);
    case LARGEST: return run_reduction((const Reduction *)body, run, find_largest, ((const Reduction *)body)->item, A_COMPARISON);
    case FIND_LARGEST: return run_reduction((const Reduction *)body, run, find_position, 8, A_COMPARISON);
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

/* Largest depth of nested repeats; a program has at most four (pol/limits.py). */
#define NESTED 8

/* Begin a repeat. Its words are ``level``, the number of moving bases, and each base with the place where it begins. */
static void begin_turns(const int64_t *body, char **bases, int64_t *turns)
{
    turns[body[0]] = 0;
    for (const int64_t *move = body + 2, *end = move + 3 * body[1]; move < end; move += 3)
        bases[move[0]] = bases[move[1]] + move[2];
}

/* End a turn, and return whether there is another one. The words are the index of the body's first word, ``level``, and
 * the number of turns. Then follow bases with the bytes by which they move, and pairs of bases that are swapped.
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

/* Run the words ``begin`` to ``words`` of a tape. Instructions with at least two times ``grain`` operations run in the threads of the crew, if it is not NULL.
 * Returns DONE, NO_MEMORY, or OUTSIDE if an instruction uses a row number that does not exist. Then ``end`` holds the index
 * of the instruction's first word, and the row number.
 */
EXPORT int assay_run(const int64_t *tape, int64_t begin, int64_t words, char **bases, int64_t canonical, uint8_t *not_finite,
                     Crew *crew, int64_t grain, int64_t end[2])
{
    Run run = {bases, canonical, not_finite, end + 1, crew_take(crew), grain};
    int64_t turns[NESTED];
    int status = DONE;
    for (end[0] = begin; end[0] < words;) {
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
