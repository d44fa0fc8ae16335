/* Packing without intrinsics. The lengths are constants, so that compilers can use vector instructions for rounding. */

#ifndef ASSAY_NARROW_PLAIN_H
#define ASSAY_NARROW_PLAIN_H

#include "narrow.h"

static void block_of(const Operand *x, const Scales *s, int64_t lane, int64_t k, int64_t summed, Form out[LANES])
{
    const float *data = x->data + lane * x->lane + k * x->k, *first = s->first + lane, *second = s->second + lane;
    if (!is_whole(x, lane, k, summed) || (x->k != 1 && x->lane != 1)) {
        block_of_edge(x, s, lane, k, summed, out);
    } else if (x->k == 1) {
        for (int i = 0; i < LANES; i++)
            for (int j = 0; j < BLOCK; j++)
                out[i].integers[j] = (int16_t)integer_of(data[i * x->lane + j], first[i], second[i]);
    } else {
        int16_t turned[BLOCK][LANES];
        for (int j = 0; j < BLOCK; j++)
            for (int i = 0; i < LANES; i++)
                turned[j][i] = (int16_t)integer_of(data[j * x->k + i], first[i], second[i]);
        for (int i = 0; i < LANES; i++)
            for (int j = 0; j < BLOCK; j++)
                out[i].integers[j] = turned[j][i];
    }
}

#endif
