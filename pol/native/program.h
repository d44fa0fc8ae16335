/* What a program's instructions share (program.c). */

#ifndef ASSAY_PROGRAM_H
#define ASSAY_PROGRAM_H

#include "crew.h"
#include "exact.h"

#define DIMENSIONS 8

enum { NO_MEMORY, DONE, OUTSIDE };

/* One run: where each base lies, and what it finds out. */
typedef struct {
    char *const *bases;
    int64_t canonical;   /* whether outputs are brought into canonical form */
    uint8_t *not_finite; /* for each output, 1 where it was not */
    int64_t *row;        /* the row that was asked for, where the status is OUTSIDE */
    Crew *crew;
    int64_t grain;       /* operations of a part that is worth a thread */
} Run;

/* In how many parts ``items`` are done that take as long as so many operations of a product altogether. */
int64_t parts_of(const Run *run, int64_t items, double operations);

/* The same in smaller parts, where they are as well done in many: a thread that comes late takes fewer of them. */
int64_t pieces_of(const Run *run, int64_t items, double operations);

/* Take the steps of a chain (chain.c) for each of its elements. Returns NO_MEMORY, too, where it has too many registers. */
int run_chain(const int64_t *body, const Run *run);

/* Copy elements from some places to others (copy.c). */
void run_copy(const int64_t *body, const Run *run);

/* Multiply a matrix and the windows of a value (windows.c). */
int run_windows(const int64_t *body, const Run *run);

/* Add rows up one after another, and find positions in ascending order (order.c). */
int run_add_rows(const int64_t *body, const Run *run);
int run_argsort(const int64_t *body, const Run *run);

/* Kernels that are called alone, too. */
EXPORT int assay_product(int bits, int64_t count, const int64_t *left_offsets, const int64_t *right_offsets, const float *left,
                         int64_t left_row, int64_t left_k, const float *right, int64_t right_k, int64_t right_column,
                         float *result, int64_t rows, int64_t summed, int64_t columns);
EXPORT int assay_sum(const float *x, int64_t outer, int64_t n, int64_t inner, float *result);
EXPORT void assay_uniform(uint64_t seed, uint32_t site, uint64_t step, float *result, int64_t n);

#endif
