/* Declarations that the instructions of a program share (program.c). */

#ifndef ASSAY_PROGRAM_H
#define ASSAY_PROGRAM_H

#include "crew.h"
#include "exact.h"

#define DIMENSIONS 8

enum { NO_MEMORY, DONE, OUTSIDE };

/* A run of a program: the address of each base, and results about the run. */
typedef struct {
    char *const *bases;
    int64_t canonical;   /* whether outputs are brought into canonical form */
    uint8_t *not_finite; /* per output, 1 if it holds NaN or infinity */
    int64_t *row;        /* the row number that does not exist, if the status is OUTSIDE */
    Crew *crew;
    int64_t grain;       /* least number of operations for which a thread is worthwhile */
} Run;

/* Return the number of parts in which ``items`` are computed. All items together take as long as ``operations`` operations
 * of a product.
 */
int64_t parts_of(const Run *run, int64_t items, double operations);

/* Return a larger number of smaller parts, if small parts cost no more. A thread that begins late then takes fewer. */
int64_t pieces_of(const Run *run, int64_t items, double operations);

/* Compute a chain (chain.c) for each of its elements. Returns NO_MEMORY also if the chain has too many registers. */
int run_chain(const int64_t *body, const Run *run);

/* Copy elements from one layout to another (copy.c). */
void run_copy(const int64_t *body, const Run *run);

/* Multiply a matrix and the windows of a value (windows.c). */
int run_windows(const int64_t *body, const Run *run);

/* Add rows one after another, and sort positions (order.c). */
int run_add_rows(const int64_t *body, const Run *run);
int run_argsort(const int64_t *body, const Run *run);

/* Kernels that can also be called on their own. */
EXPORT int assay_product(int bits, int64_t count, const int64_t *left_offsets, const int64_t *right_offsets, const float *left,
                         int64_t left_row, int64_t left_k, const float *right, int64_t right_k, int64_t right_column,
                         float *result, int64_t rows, int64_t summed, int64_t columns);
EXPORT int assay_sum(const float *x, int64_t outer, int64_t n, int64_t inner, float *result);
EXPORT void assay_uniform(uint64_t seed, uint32_t site, uint64_t step, float *result, int64_t n);

#endif
