/* What the inner loops of narrow products share. Each of narrow_x86.h, narrow_neon.h and narrow_portable.h has:
 *
 *   ROWS, COLUMNS   of a tile, the part of a result that one call of the inner loop computes
 *   HEAD            bytes in front of a panel of the left operand: what ``form`` returned, summed for each row
 *   form_size       bytes that eight integers of a lane take in a panel
 *   block_of        takes the integers of eight lanes from an operand
 *   form            brings those of one lane into the form that they have in a panel
 *   put_right       puts eight lanes into a panel of the right operand
 *   multiply_tile   multiplies two panels
 *   sum_of          returns an element of a tile
 *
 * The panels: of the left operand ROWS rows, for each block of eight k the forms of the rows; of the right one COLUMNS
 * columns, for each block the first unit of each form, then the second of each, and so on. A unit is what a lane of a
 * vector takes at once. What lies outside of an operand is zero.
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

/* Eight lanes from ``lane``, eight k from ``k``; zeros beyond the operand. */
static void block_of_edge(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, Form out[LANES])
{
    memset(out, 0, LANES * sizeof(Form));
    for (int64_t i = 0; i < LANES && lane + i < x->lanes; i++)
        for (int64_t j = 0; j < BLOCK && k + j < summed; j++)
            out[i].integers[j] = (int16_t)integer_of(x->data[(lane + i) * x->lane + (k + j) * x->k], s->first[lane + i],
                                                     s->second[lane + i]);
}

#endif
