/* Panels that hold integers as INT16, which need no conversion. The file that includes this one defines COLUMNS, and UNIT
 * as the bytes of one integer or of a pair.
 */

#ifndef ASSAY_NARROW_INT16_H
#define ASSAY_NARROW_INT16_H

#include "narrow_plain.h"

static inline int64_t form_size(int bits)
{
    (void)bits;
    return 2 * BLOCK;
}

static inline int32_t form(Form *lane, int bits)
{
    (void)lane, (void)bits;
    return 0;
}

static inline ALWAYS void put_right(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, int bits,
                                    char *panel)
{
    Form lanes[LANES];
    (void)bits;
    block_of(x, s, lane, k, summed, lanes);
    for (int j = 0; j < BLOCK; j += UNIT / 2)
        for (int i = 0; i < LANES; i++)
            memcpy(panel + 2 * j * COLUMNS + UNIT * i, &lanes[i].integers[j], UNIT);
}

#endif
