/* Declarations that the inner loops of narrow products share. narrow_x86.h, narrow_neon.h and narrow_portable.h each define:
 *
 *   ROWS, COLUMNS   size of a tile, which is the part of a result that one call of the inner loop computes
 *   HEAD            bytes before a panel of the left operand, for the sums of the results of ``form`` per row
 *   form_size       bytes that eight integers of a lane take in a panel
 *   block_of        reads the integers of eight lanes from an operand
 *   form            converts the integers of one lane to their form in a panel
 *   put_right       writes eight lanes to a panel of the right operand
 *   multiply_tile   multiplies two panels
 *   sum_of          returns an element of a tile
 *
 * A panel of the left operand has ROWS rows; for each block of eight k, it holds the forms of the rows. A panel of the
 * right operand has COLUMNS columns; for each block, it holds the first unit of each form, then the second unit of each,
 * and so on. A unit is the data that a lane of a vector processes at once. Elements outside of an operand are zero.
 */

#ifndef ASSAY_NARROW_H
#define ASSAY_NARROW_H

#include "product.h"

#define BLOCK 8
#define LANES 8

/* Eight integers of a lane, in both forms. */
typedef union {
    int16_t integers[BLOCK];
    int8_t bytes[2 * BLOCK];
} Form;

static inline int is_whole(const Operand *x, int64_t lane, int64_t k, int64_t summed)
{
    return lane + LANES <= x->lanes && k + BLOCK <= summed;
}

/* Read eight lanes from ``lane`` on and eight k from ``k`` on; elements outside of the operand are zero. */
static void block_of_edge(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, Form out[LANES])
{
    memset(out, 0, LANES * sizeof(Form));
    for (int64_t i = 0; i < LANES && lane + i < x->lanes; i++)
        for (int64_t j = 0; j < BLOCK && k + j < summed; j++)
            out[i].integers[j] = (int16_t)integer_of(x->data[(lane + i) * x->lane + (k + j) * x->k], s->first[lane + i],
                                                     s->second[lane + i]);
}

#endif
