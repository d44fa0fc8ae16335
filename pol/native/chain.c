/* A chain of elementwise operations, taken together block by block, so that what is between them stays in the cache.
 *
 * A chain has registers: first its operands, then its results, then what is only needed inside. Each holds a block of
 * BLOCK elements. Operands that lie in order, and results, are used where they are; operands that broadcast, or lie
 * otherwise, are copied block by block. Every operation has the bits of its reference in pol/ops/elementwise.py.
 */

#include "functions.h"

#define BLOCK 512
#define REGISTERS 256
#define DIMENSIONS 8
#define BLOCK_BYTES (BLOCK * 8)

enum { FLOAT, INTEGER, TRUTH }; /* FP32, INT64, a byte that is 0 or 1 */

enum {
    ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM, NEG, ABS, SQRT, EXP, LOG, TANH, ERF,
    EQ, NE, LT, LE, GT, GE, AND, OR, NOT, WHERE, CAST,
};

typedef struct {
    int32_t op, type; /* of the first operand; for WHERE of the second one */
    int32_t a, b, c, result;
    int32_t to; /* the type that CAST gives */
    int32_t unused;
} Step;

typedef struct {
    const char *data;
    int64_t item;                                /* bytes of an element */
    int64_t dims;                                /* from the last one on; one with stride 1 is in order */
    int64_t sizes[DIMENSIONS], strides[DIMENSIONS]; /* in elements */
} Source;

typedef struct {
    char *data;
    int64_t item;
} Target;

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

/* Sums and products wrap, as those of NumPy do; signed overflow is not C, so they are unsigned here. */
static void on_integers(const Step *step, const void *at_a, const void *at_b, void *at_r, int64_t n)
{
    switch (step->op) {
    case ADD: BINARY(uint64_t, uint64_t, a[i] + b[i]);
    case SUB: BINARY(uint64_t, uint64_t, a[i] - b[i]);
    case MUL: BINARY(uint64_t, uint64_t, a[i] * b[i]);
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
    /* what an INT64 does not hold is 0, because processors differ there */
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

#define CHOOSE(type)                                                                                      \
    {                                                                                                     \
        const type *RESTRICT a = at_a, *RESTRICT b = at_b;                                                \
        type *RESTRICT r = at_r;                                                                          \
        EACH r[i] = chosen[i] ? a[i] : b[i];                                                              \
    }                                                                                                     \
    return

static void choose(const Step *step, const uint8_t *RESTRICT chosen, const void *at_a, const void *at_b, void *at_r,
                   int64_t n)
{
    switch (step->type) {
    case FLOAT: CHOOSE(float);
    case INTEGER: CHOOSE(int64_t);
    case TRUTH: CHOOSE(uint8_t);
    }
}

static void take_step(const Step *step, char **registers, int64_t n)
{
    char *a = registers[step->a], *b = registers[step->b], *r = registers[step->result];
    if (step->op == CAST)
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

/* Copy ``n`` elements of a source, from the one numbered ``first`` on. */
static void copy_block(const Source *source, int64_t first, int64_t n, char *room)
{
    int64_t index[DIMENSIONS], rest = first, offset = 0;
    for (int d = 0; d < source->dims; d++) {
        index[d] = rest % source->sizes[d];
        rest /= source->sizes[d];
        offset += index[d] * source->strides[d];
    }
    while (n > 0) {
        int64_t left = source->sizes[0] - index[0], count = left < n ? left : n, stride = source->strides[0];
        const char *data = source->data + offset * source->item;
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

static int is_in_order(const Source *source)
{
    return source->dims == 1 && source->strides[0] == 1;
}

static int is_one_element(const Source *source)
{
    return source->dims == 1 && source->strides[0] == 0;
}

/* Take all steps for each of ``n`` elements. Returns 0 where there is no memory, or a chain has too many registers. */
EXPORT int assay_chain(int64_t n, int64_t sources, const Source *source, int64_t targets, const Target *target,
                       int64_t inside, int64_t steps, const Step *step)
{
    int64_t count = sources + targets + inside;
    char *registers[REGISTERS];
    char *room = count > REGISTERS ? NULL : scratch((size_t)(sources + inside) * BLOCK_BYTES);
    if (room == NULL)
        return 0;
    for (int64_t r = 0; r < count; r++)
        if (r < sources || r >= sources + targets) {
            registers[r] = room;
            room += BLOCK_BYTES;
        }
    for (int64_t s = 0; s < sources; s++)
        if (is_one_element(source + s))
            copy_block(source + s, 0, n < BLOCK ? n : BLOCK, registers[s]);
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t width = n - first < BLOCK ? n - first : BLOCK;
        for (int64_t s = 0; s < sources; s++)
            if (is_in_order(source + s))
                registers[s] = (char *)source[s].data + first * source[s].item;
            else if (!is_one_element(source + s))
                copy_block(source + s, first, width, registers[s]);
        for (int64_t t = 0; t < targets; t++)
            registers[sources + t] = target[t].data + first * target[t].item;
        for (int64_t s = 0; s < steps; s++)
            take_step(step + s, registers, width);
    }
    return 1;
}
