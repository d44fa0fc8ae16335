/* Chains of elementwise operations, computed block by block, so that intermediate values stay in the cache.
 *
 * A chain has registers: first its operands, then its results, then values that are needed only inside. Each register
 * holds a block of BLOCK elements. Contiguous operands and results are used in place. Operands with another layout, or
 * that broadcast, are copied block by block. If an operand repeats itself within a block, it is copied once for all blocks.
 * Every operation gives the bits of its reference in pol/ops/elementwise.py.
 */

#include "functions.h"
#include "program.h"

#define BLOCK 512
#define REGISTERS 384
#define BLOCK_BYTES (BLOCK * 8)
#define PANELS 4 /* largest number of sources that have a panel */
#define A_STEP 16.0 /* cost of a step per element, in operations of a product; A_FUNCTION is the cost of a function */
#define A_FUNCTION 200.0

enum { FLOAT, INTEGER, TRUTH }; /* FP32, INT64, a byte that is 0 or 1 */

enum {
    ADD, SUB, MUL, DIV, FLOOR_DIVIDE, MAXIMUM, MINIMUM, NEG, ABS, SQRT, EXP, LOG, TANH, ERF,
    EQ, NE, LT, LE, GT, GE, AND, OR, NOT, WHERE, CAST, OUTPUT, SHIFT,
};

typedef struct {
    int64_t op, type; /* ``type`` is that of the first operand, and for WHERE that of the second */
    int64_t a, b, c, result;
    int64_t to; /* the result type of a CAST, or the number of an OUTPUT */
} Step;

typedef struct {
    int64_t base, offset; /* in bytes */
    int64_t item;         /* size of an element in bytes */
    int64_t dims;         /* number of dimensions, listed from the last one on; one with stride 1 is contiguous */
    int64_t sizes[DIMENSIONS], strides[DIMENSIONS]; /* in elements */
} Source;

typedef struct {
    int64_t base, offset, item;
} Target;

/* The first words of a chain; its sources, targets and steps follow. */
typedef struct {
    int64_t elements, sources, targets, inside, steps;
} Head;

#define EACH for (int64_t i = 0; i < n; i++)
#define BINARY(type, out, expression)                                                                     \
    {                                                                                                     \
        const type *RESTRICT a = at_a, *RESTRICT b = at_b;                                                \
        out *RESTRICT r = at_r;                                                                           \
        EACH r[i] = (out)(expression);                                                                    \
    }                                                                                                     \
    return
#define UNARY(type, out, expression)                                                                      \
    {                                                                                                     \
        const type *RESTRICT a = at_a;                                                                    \
        out *RESTRICT r = at_r;                                                                           \
        EACH r[i] = (out)(expression);                                                                    \
    }                                                                                                     \
    return

static void on_floats(const Step *step, const void *at_a, const void *at_b, void *at_r, int64_t n)
{
    switch (step->op) {
    case ADD: BINARY(float, float, a[i] + b[i]);
    case SUB: BINARY(float, float, a[i] - b[i]);
    case MUL: BINARY(float, float, a[i] * b[i]);
    case DIV: BINARY(float, float, a[i] / b[i]);
    case MAXIMUM: BINARY(float, float, ((a[i] > b[i] || a[i] != a[i]) ? a[i] : b[i]) + 0.0f);
    case MINIMUM: BINARY(float, float, ((a[i] < b[i] || a[i] != a[i]) ? a[i] : b[i]) + 0.0f);
    case NEG: UNARY(float, float, -a[i]);
    case ABS: UNARY(float, float, fabsf(a[i]));
    case SQRT: UNARY(float, float, sqrtf(a[i]));
    case EXP: UNARY(float, float, exp_of((double)a[i]));
    case LOG: UNARY(float, float, log_of((double)a[i]));
    case TANH: UNARY(float, float, tanh_of((double)a[i]));
    case ERF: UNARY(float, float, erf_of((double)a[i]));
    case EQ: BINARY(float, uint8_t, a[i] == b[i]);
    case NE: BINARY(float, uint8_t, a[i] != b[i]);
    case LT: BINARY(float, uint8_t, a[i] < b[i]);
    case LE: BINARY(float, uint8_t, a[i] <= b[i]);
    case GT: BINARY(float, uint8_t, a[i] > b[i]);
    case GE: BINARY(float, uint8_t, a[i] >= b[i]);
    }
}

/* Return the quotient rounded down; a division by 0 gives 0, and -2^63 / -1 wraps. */
static inline int64_t floor_quotient(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a);
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

/* Return a / 2^bits, rounded down, for 0 <= bits <= 63. A right shift of a negative number is not defined in C. So its bits
 * are inverted before and after the shift: ~a = -a - 1 is not negative.
 */
static inline uint64_t shifted(int64_t a, int64_t bits)
{
    uint64_t sign = a < 0 ? UINT64_MAX : 0;
    return (((uint64_t)a ^ sign) >> bits) ^ sign;
}

/* Sums and products wrap as in NumPy. They are unsigned here, since signed overflow is undefined in C. */
static void on_integers(const Step *step, const void *at_a, const void *at_b, void *at_r, int64_t n)
{
    switch (step->op) {
    case ADD: BINARY(uint64_t, uint64_t, a[i] + b[i]);
    case SUB: BINARY(uint64_t, uint64_t, a[i] - b[i]);
    case MUL: BINARY(uint64_t, uint64_t, a[i] * b[i]);
    case FLOOR_DIVIDE: BINARY(int64_t, int64_t, floor_quotient(a[i], b[i]));
    case SHIFT: BINARY(int64_t, int64_t, shifted(a[i], b[i]));
    case MAXIMUM: BINARY(int64_t, int64_t, a[i] > b[i] ? a[i] : b[i]);
    case MINIMUM: BINARY(int64_t, int64_t, a[i] < b[i] ? a[i] : b[i]);
    case NEG: UNARY(uint64_t, uint64_t, 0 - a[i]);
    case ABS: UNARY(uint64_t, uint64_t, a[i] >> 63 ? 0 - a[i] : a[i]);
    case EQ: BINARY(int64_t, uint8_t, a[i] == b[i]);
    case NE: BINARY(int64_t, uint8_t, a[i] != b[i]);
    case LT: BINARY(int64_t, uint8_t, a[i] < b[i]);
    case LE: BINARY(int64_t, uint8_t, a[i] <= b[i]);
    case GT: BINARY(int64_t, uint8_t, a[i] > b[i]);
    case GE: BINARY(int64_t, uint8_t, a[i] >= b[i]);
    }
}

static void on_truths(const Step *step, const void *at_a, const void *at_b, void *at_r, int64_t n)
{
    switch (step->op) {
    case EQ: BINARY(uint8_t, uint8_t, a[i] == b[i]);
    case NE: BINARY(uint8_t, uint8_t, a[i] != b[i]);
    case LT: BINARY(uint8_t, uint8_t, a[i] < b[i]);
    case LE: BINARY(uint8_t, uint8_t, a[i] <= b[i]);
    case GT: BINARY(uint8_t, uint8_t, a[i] > b[i]);
    case GE: BINARY(uint8_t, uint8_t, a[i] >= b[i]);
    case AND: BINARY(uint8_t, uint8_t, a[i] & b[i]);
    case OR: BINARY(uint8_t, uint8_t, a[i] | b[i]);
    case NOT: UNARY(uint8_t, uint8_t, a[i] ^ 1);
    }
}

static void cast(const Step *step, const void *at_a, void *at_r, int64_t n)
{
    switch (3 * step->type + step->to) {
    case 3 * FLOAT + FLOAT: UNARY(float, float, a[i]);
    /* Numbers outside the range of INT64 become 0, because processors differ for them. */
    case 3 * FLOAT + INTEGER: UNARY(float, int64_t, fabsf(a[i]) < 0x1p63f ? (int64_t)a[i] : 0);
    case 3 * FLOAT + TRUTH: UNARY(float, uint8_t, a[i] != 0.0f);
    case 3 * INTEGER + FLOAT: UNARY(int64_t, float, a[i]);
    case 3 * INTEGER + INTEGER: UNARY(int64_t, int64_t, a[i]);
    case 3 * INTEGER + TRUTH: UNARY(int64_t, uint8_t, a[i] != 0);
    case 3 * TRUTH + FLOAT: UNARY(uint8_t, float, a[i]);
    case 3 * TRUTH + INTEGER: UNARY(uint8_t, int64_t, a[i]);
    case 3 * TRUTH + TRUTH: UNARY(uint8_t, uint8_t, a[i]);
    }
}

/* The choice uses bit operations, since branches on data are hard to predict. */
#define CHOOSE(type)                                                                                      \
    {                                                                                                     \
        const type *RESTRICT a = at_a, *RESTRICT b = at_b;                                                \
        type *RESTRICT r = at_r;                                                                          \
        EACH r[i] = (type)(b[i] ^ ((a[i] ^ b[i]) & (type)-(type)chosen[i]));                              \
    }                                                                                                     \
    return

static void choose(const Step *step, const uint8_t *RESTRICT chosen, const void *at_a, const void *at_b, void *at_r,
                   int64_t n)
{
    switch (step->type) {
    case FLOAT: CHOOSE(uint32_t);
    case INTEGER: CHOOSE(uint64_t);
    case TRUTH: CHOOSE(uint8_t);
    }
}

/* Write an output. In canonical form, zeros become +0, and a flag is set if an element is not finite. */
static void put_out(const Step *step, const void *at_a, void *at_r, int64_t n, const Run *run)
{
    if (step->type == FLOAT && run->canonical) {
        const float *RESTRICT a = at_a;
        float *RESTRICT r = at_r;
        uint32_t largest = 0;
        EACH
        {
            uint32_t bits;
            r[i] = a[i] + 0.0f;
            memcpy(&bits, a + i, sizeof bits);
            bits &= 0x7fffffffu;
            largest = bits > largest ? bits : largest;
        }
        if (largest >= 0x7f800000u)
            __atomic_store_n(run->not_finite + step->to, 1, __ATOMIC_RELAXED);
        return;
    }
    memcpy(at_r, at_a, (size_t)n * (step->type == FLOAT ? 4 : step->type == INTEGER ? 8 : 1));
}

static void take_step(const Step *step, char **registers, int64_t n, const Run *run)
{
    char *a = registers[step->a], *b = registers[step->b], *r = registers[step->result];
    if (step->op == OUTPUT)
        put_out(step, a, r, n, run);
    else if (step->op == CAST)
        cast(step, a, r, n);
    else if (step->op == WHERE)
        choose(step, (const uint8_t *)a, b, registers[step->c], r, n);
    else if (step->type == FLOAT)
        on_floats(step, a, b, r, n);
    else if (step->type == INTEGER)
        on_integers(step, a, b, r, n);
    else
        on_truths(step, a, b, r, n);
}

#define COPY(type)                                                                                        \
    {                                                                                                     \
        const type *from = (const type *)data;                                                            \
        type *to = (type *)room;                                                                          \
        if (stride == 0)                                                                                  \
            for (int64_t i = 0; i < count; i++)                                                           \
                to[i] = from[0];                                                                          \
        else if (stride == 1)                                                                             \
            memcpy(to, from, (size_t)count * sizeof(type));                                               \
        else                                                                                              \
            for (int64_t i = 0; i < count; i++)                                                           \
                to[i] = from[i * stride];                                                                 \
    }                                                                                                     \
    break

/* Copy ``n`` elements of a source, beginning with element ``first``. */
static void copy_block(const Source *source, const char *start, int64_t first, int64_t n, char *room)
{
    int64_t index[DIMENSIONS], rest = first, offset = 0;
    for (int d = 0; d < source->dims; d++) {
        index[d] = rest % source->sizes[d];
        rest /= source->sizes[d];
        offset += index[d] * source->strides[d];
    }
    while (n > 0) {
        int64_t left = source->sizes[0] - index[0], count = left < n ? left : n, stride = source->strides[0];
        const char *data = start + offset * source->item;
        switch (source->item) {
        case 4: COPY(float);
        case 8: COPY(int64_t);
        default: COPY(uint8_t);
        }
        room += count * source->item;
        n -= count;
        index[0] += count;
        offset += count * stride;
        for (int d = 0; d < source->dims - 1 && index[d] == source->sizes[d]; d++) {
            offset += source->strides[d + 1] - index[d] * source->strides[d];
            index[d] = 0;
            index[d + 1]++;
        }
    }
}

/* A copy of some rows of a source whose rows cross many cache lines, such as those of a transpose. */
typedef struct {
    int64_t rows; /* 0 if the source has no panel */
    int64_t stride, first;
    char *room;
} Panel;

#define PANEL_BYTES (512 * 1024)
#define PANEL_ROWS 16
#define NARROW 16 /* largest number of columns of a source whose rows are too short for a call each */
#define FAR (32 * 1024) /* bytes that a row spans from which the first-level cache cannot keep its lines for the next row */

static Panel panel_of(const Source *source)
{
    Panel panel = {0, source->sizes[0] + 16, -1, NULL};
    int64_t span = source->sizes[0] * source->strides[0] * source->item;
    if (source->dims < 2 || source->strides[1] != 1 || source->sizes[0] <= NARROW || source->sizes[1] < 2 || (span < FAR && span > -FAR))
        return panel;
    panel.rows = PANEL_BYTES / (panel.stride * source->item);
    if (panel.rows > PANEL_ROWS)
        panel.rows = PANEL_ROWS;
    if (panel.rows < 2)
        panel.rows = 0;
    return panel;
}

#define TURN(type)                                                                                        \
    for (int64_t i = 0; i < source->sizes[0]; i++) {                                                      \
        const type *from = (const type *)start + offset + i * source->strides[0];                         \
        type *to = (type *)room + i;                                                                      \
        for (int64_t j = 0; j < rows; j++)                                                                \
            to[j * stride] = from[j];                                                                     \
    }                                                                                                     \
    break

/* Copy up to ``most`` rows, beginning with the one of element ``first``, to rows that are ``stride`` elements apart. Each
 * cache line is read once. Returns the number of copied rows.
 */
static int64_t turn_rows(const Source *source, const char *start, int64_t first, int64_t most, int64_t stride, char *room)
{
    int64_t offset = 0, rest = first, rows = source->sizes[1] - first % source->sizes[1];
    for (int d = 1; d < source->dims; d++) {
        offset += rest % source->sizes[d] * source->strides[d];
        rest /= source->sizes[d];
    }
    if (rows > most)
        rows = most;
    switch (source->item) {
    case 4: TURN(float);
    case 8: TURN(int64_t);
    default: TURN(uint8_t);
    }
    return rows;
}

/* Copy elements as copy_block does, through a panel. */
static void copy_rows(const Source *source, const char *start, int64_t first, int64_t n, Panel *panel, char *room)
{
    while (n > 0) {
        int64_t row = first / source->sizes[0], column = first % source->sizes[0];
        int64_t left = source->sizes[0] - column, count = left < n ? left : n;
        int64_t line = row % source->sizes[1] % panel->rows;
        if (panel->first != row - line)
            turn_rows(source, start, panel->first = row - line, panel->rows, panel->stride, panel->room);
        memcpy(room, panel->room + (line * panel->stride + column) * source->item, (size_t)(count * source->item));
        room += count * source->item;
        first += count;
        n -= count;
    }
}

static int is_narrow(const Source *source)
{
    return source->dims > 1 && source->sizes[0] <= NARROW && source->strides[0] != 1 && source->strides[1] == 1;
}

/* Copy elements of a narrow source as copy_block does, with many whole rows at once. */
static void copy_narrow(const Source *source, const char *start, int64_t first, int64_t n, char *room)
{
    int64_t columns = source->sizes[0], column = first % columns, left = column ? columns - column : 0;
    if (left > n)
        left = n;
    copy_block(source, start, first, left, room);
    for (first += left, n -= left, room += left * source->item; n >= columns;) {
        int64_t taken = columns * turn_rows(source, start, first / columns, n / columns, columns, room);
        first += taken;
        n -= taken;
        room += taken * source->item;
    }
    copy_block(source, start, first, n, room);
}

static int is_in_order(const Source *source)
{
    return source->dims == 1 && source->strides[0] == 1;
}

static int is_one_element(const Source *source)
{
    return source->dims == 1 && source->strides[0] == 0;
}

/* Return the number of elements after which a source repeats itself, if a block holds them; otherwise 0. */
static int64_t period_of(const Source *source)
{
    int64_t period = 1;
    if (source->dims < 2 || source->strides[source->dims - 1] != 0)
        return 0;
    for (int64_t d = 0; d < source->dims - 1 && period <= BLOCK; d++)
        period *= source->sizes[d];
    return period <= BLOCK ? period : 0;
}

typedef struct {
    const int64_t *body;
    const Run *run;
    int64_t parts;
    int failed;
} Shared;

static int run_blocks(const int64_t *body, const Run *run, int64_t begin, int64_t end)
{
    const Head *head = (const Head *)body;
    const Source *source = (const Source *)(head + 1);
    const Target *target = (const Target *)(source + head->sources);
    const Step *step = (const Step *)(target + head->targets);
    int64_t sources = head->sources, targets = head->targets;
    int64_t count = sources + targets + head->inside;
    char *registers[REGISTERS];
    char *repeated[REGISTERS];
    Panel panels[PANELS];
    int64_t periods[REGISTERS];
    int64_t all = (sources + head->inside) * BLOCK_BYTES;
    for (int64_t s = 0; s < sources && s < REGISTERS; s++) {
        periods[s] = end - begin > BLOCK ? period_of(source + s) : 0;
        all += periods[s] ? BLOCK_BYTES : 0;
    }
    for (int64_t s = 0; s < sources && s < PANELS; s++) {
        panels[s] = panel_of(source + s);
        all += panels[s].rows ? PANEL_BYTES : 0;
    }
    char *room = count > REGISTERS ? NULL : scratch((size_t)all);
    if (room == NULL)
        return NO_MEMORY;
    for (int64_t s = 0; s < sources && s < PANELS; s++)
        if (panels[s].rows) {
            panels[s].room = room;
            room += PANEL_BYTES;
        }
    for (int64_t r = 0; r < count; r++)
        if (r < sources || r >= sources + targets) {
            registers[r] = room;
            room += r < sources && periods[r] ? 2 * BLOCK_BYTES : BLOCK_BYTES;
        }
    for (int64_t s = 0; s < sources; s++)
        if (periods[s])
            copy_block(source + s, run->bases[source[s].base] + source[s].offset, 0, periods[s] + BLOCK, repeated[s] = registers[s]);
        else if (is_one_element(source + s))
            copy_block(source + s, run->bases[source[s].base] + source[s].offset, 0, end - begin < BLOCK ? end - begin : BLOCK, registers[s]);
    for (int64_t first = begin; first < end; first += BLOCK) {
        int64_t width = end - first < BLOCK ? end - first : BLOCK;
        for (int64_t s = 0; s < sources; s++) {
            char *start = run->bases[source[s].base] + source[s].offset;
            if (is_in_order(source + s))
                registers[s] = start + first * source[s].item;
            else if (periods[s])
                registers[s] = repeated[s] + first % periods[s] * source[s].item;
            else if (is_narrow(source + s))
                copy_narrow(source + s, start, first, width, registers[s]);
            else if (s < PANELS && panels[s].rows)
                copy_rows(source + s, start, first, width, panels + s, registers[s]);
            else if (!is_one_element(source + s))
                copy_block(source + s, start, first, width, registers[s]);
        }
        for (int64_t t = 0; t < targets; t++)
            registers[sources + t] = run->bases[target[t].base] + target[t].offset + first * target[t].item;
        for (int64_t s = 0; s < head->steps; s++)
            take_step(step + s, registers, width, run);
    }
    return DONE;
}

static void run_part(const void *context, int64_t part)
{
    Shared *shared = (Shared *)context;
    int64_t n = ((const Head *)shared->body)->elements, blocks = (n + BLOCK - 1) / BLOCK;
    int64_t begin = blocks * part / shared->parts * BLOCK, end = blocks * (part + 1) / shared->parts * BLOCK;
    if (run_blocks(shared->body, shared->run, begin, end < n ? end : n) != DONE)
        __atomic_store_n(&shared->failed, 1, __ATOMIC_RELAXED);
}

/* Return the cost of an element, in operations of a product that take the same time. */
static double operations_of(const Head *head)
{
    const Step *step = (const Step *)((const Target *)((const Source *)(head + 1) + head->sources) + head->targets);
    double operations = 0.0;
    for (int64_t s = 0; s < head->steps; s++)
        operations += step[s].op >= EXP && step[s].op <= ERF ? A_FUNCTION : A_STEP;
    return operations;
}

int run_chain(const int64_t *body, const Run *run)
{
    const Head *head = (const Head *)body;
    int64_t blocks = (head->elements + BLOCK - 1) / BLOCK;
    Shared shared = {body, run, pieces_of(run, blocks, (double)head->elements * operations_of(head)), 0};
    crew_do(run->crew, shared.parts, run_part, &shared);
    return shared.failed ? NO_MEMORY : DONE;
}
