/* The product of matrices (pol/ops/product.py): operands scaled to integers, exact sums, one rounding. */

#include "product.h"

/* Multiply ``count`` pairs of matrices, [rows, summed] by [summed, columns]: those of a pair begin at ``left`` and
 * ``right`` plus their offsets, and the results lie one behind the other. Strides and offsets are in elements. Returns
 * 0 where there is no memory.
 */
EXPORT int assay_product(int bits, int64_t count, const int64_t *left_offsets, const int64_t *right_offsets, const float *left,
                         int64_t left_row, int64_t left_k, const float *right, int64_t right_k, int64_t right_column,
                         float *result, int64_t rows, int64_t summed, int64_t columns)
{
    for (int64_t i = 0; i < count; i++) {
        Operand a = {left + left_offsets[i], left_row, left_k, rows};
        Operand b = {right + right_offsets[i], right_column, right_k, columns};
        float *to = result + i * rows * columns;
        if (!(bits == 22 ? multiply_wide(&a, &b, summed, bits, to) : multiply_narrow(&a, &b, (Packed){0}, summed, bits, to)))
            return 0;
    }
    return 1;
}
