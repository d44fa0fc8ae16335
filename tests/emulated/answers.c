/* Answers questions about kernels, from the standard input to the standard output: for a processor that is emulated, where
 * no Python runs. A question is eight words, its kind first, and FP32 numbers; an answer is FP32 numbers, or one word.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROCESSOR, ROUNDS_EXACTLY, PRODUCT, SUM, UNIFORM, FUNCTION };

int assay_processor(void);
int assay_rounds_exactly(void);
int assay_product(int bits, int64_t count, const int64_t *left_offsets, const int64_t *right_offsets, const float *left,
                  int64_t left_row, int64_t left_k, const float *right, int64_t right_k, int64_t right_column, float *result,
                  int64_t rows, int64_t summed, int64_t columns);
int assay_sum(const float *x, int64_t outer, int64_t n, int64_t inner, float *result);
void assay_uniform(uint64_t seed, uint32_t site, uint64_t step, float *result, int64_t count);
void assay_exp(const float *x, float *result, int64_t count);
void assay_log(const float *x, float *result, int64_t count);
void assay_tanh(const float *x, float *result, int64_t count);
void assay_erf(const float *x, float *result, int64_t count);

static void (*const FUNCTIONS[])(const float *, float *, int64_t) = {assay_exp, assay_log, assay_tanh, assay_erf};

static void take(void *place, size_t size, size_t count)
{
    if (fread(place, size, count, stdin) != count)
        exit(3);
}

/* Exactly so much memory, so that a check of accesses sees the first one beyond. */
static float *numbers(int64_t count)
{
    float *place = malloc((size_t)count * sizeof *place + 1);
    if (place == NULL)
        exit(4);
    return place;
}

static float *taken(int64_t count)
{
    float *place = numbers(count);
    take(place, sizeof *place, (size_t)count);
    return place;
}

static void answer(float *result, int64_t count)
{
    fwrite(result, sizeof *result, (size_t)count, stdout);
    free(result);
}

static void answer_word(int64_t word)
{
    fwrite(&word, sizeof word, 1, stdout);
}

static void multiply(const int64_t *q)
{
    static const int64_t nothing = 0;
    int64_t strides[4];
    take(strides, sizeof *strides, 4);
    float *left = taken(q[5]), *right = taken(q[6]), *result = numbers(q[2] * q[4]);
    if (!assay_product((int)q[1], 1, &nothing, &nothing, left, strides[0], strides[1], right, strides[2], strides[3], result,
                       q[2], q[3], q[4]))
        exit(4);
    free(left);
    free(right);
    answer(result, q[2] * q[4]);
}

static void sum_up(const int64_t *q)
{
    float *x = taken(q[1] * q[2] * q[3]), *result = numbers(q[1] * q[3]);
    if (!assay_sum(x, q[1], q[2], q[3], result))
        exit(4);
    free(x);
    answer(result, q[1] * q[3]);
}

static void draw(const int64_t *q)
{
    float *result = numbers(q[4]);
    assay_uniform((uint64_t)q[1], (uint32_t)q[2], (uint64_t)q[3], result, q[4]);
    answer(result, q[4]);
}

static void apply(const int64_t *q)
{
    float *x = taken(q[2]), *result = numbers(q[2]);
    FUNCTIONS[q[1]](x, result, q[2]);
    free(x);
    answer(result, q[2]);
}

int main(void)
{
    int64_t q[8];
    while (fread(q, sizeof *q, 8, stdin) == 8) {
        switch (q[0]) {
        case PROCESSOR: answer_word(assay_processor()); break;
        case ROUNDS_EXACTLY: answer_word(assay_rounds_exactly()); break;
        case PRODUCT: multiply(q); break;
        case SUM: sum_up(q); break;
        case UNIFORM: draw(q); break;
        case FUNCTION: apply(q); break;
        }
        fflush(stdout);
    }
    return 0;
}
