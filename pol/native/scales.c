/* Scales of a product's operands (pol/ops/product.py): a power of two per lane. */

#include "product.h"

#define NORMAL 0x00800000u /* the smallest normal number */
#define ONE 0x3f800000u

static inline uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

void see_largest(const Operand *x, int64_t summed, uint32_t *RESTRICT largest)
{
    if (x->k == 1 || x->lane != 1) {
        for (int64_t i = 0; i < x->lanes; i++) {
            const float *line = x->data + i * x->lane;
            uint32_t found = largest[i];
            if (x->k == 1)
                for (int64_t k = 0; k < summed; k++)
                    found = larger(found, magnitude(line[k]));
            else
                for (int64_t k = 0; k < summed; k++)
                    found = larger(found, magnitude(line[k * x->k]));
            largest[i] = found;
        }
        return;
    }
    for (int64_t first = 0; first < x->lanes; first += 256) {
        int64_t end = first + 256 < x->lanes ? first + 256 : x->lanes;
        for (int64_t k = 0; k < summed; k++) {
            const float *line = x->data + k * x->k;
            for (int64_t i = first; i < end; i++)
                largest[i] = larger(largest[i], magnitude(line[i]));
        }
    }
}

/* Compute s = bits - 2 - floor(log2 max), lowered by one if max would round above the largest integer. A lane with NaN or
 * infinity gets zero scales and an inverse of NaN. There are no branches, so that several lanes are computed at once.
 */
void set_scales(Scales *scales, int64_t lanes, int bits)
{
    const float top = (float)((int64_t)1 << (bits - 2)), most = (float)(127 << (bits - 8));
    const uint32_t *RESTRICT all = scales->largest;
    float *RESTRICT first = scales->first, *RESTRICT second = scales->second;
    double *RESTRICT inverse = scales->inverse;
    for (int64_t i = 0; i < lanes; i++) {
        uint32_t largest = all[i], raised;
        int is_finite = largest < INFINITE;
        /* Subnormal numbers become normal. */
        float higher = float_of(largest) * 16777216.0f;
        memcpy(&raised, &higher, sizeof raised);
        int32_t exponent = (int32_t)(largest < NORMAL ? raised >> 23 : (largest >> 23) + 24) - 127 - 24;
        uint32_t fraction = (largest < NORMAL ? raised : largest) & (NORMAL - 1);
        int32_t shift = bits - 2 - exponent - (rintf(float_of(fraction | ONE) * top) > most);
        shift = largest && is_finite ? shift : 0;
        int32_t half = shift / 2;
        first[i] = is_finite ? float_of((uint32_t)(half + 127) << 23) : 0.0f;
        second[i] = is_finite ? float_of((uint32_t)(shift - half + 127) << 23) : 0.0f;
        inverse[i] = is_finite ? double_of((uint64_t)(int64_t)(1023 - shift) << 52) : NAN;
    }
}

size_t scales_size(int64_t lanes)
{
    size_t wide = (size_t)rounded(lanes, 64);
    return wide * (3 * sizeof(float) + sizeof(double));
}

Scales place_scales(int64_t lanes, char **room)
{
    size_t wide = (size_t)rounded(lanes, 64);
    Scales scales;
    scales.first = carve(room, wide * sizeof(float));
    scales.second = carve(room, wide * sizeof(float));
    scales.inverse = carve(room, wide * sizeof(double));
    scales.largest = carve(room, wide * sizeof(uint32_t));
    return scales;
}

Scales start_scales(int64_t lanes, char **room)
{
    Scales scales = place_scales(lanes, room);
    memset(scales.largest, 0, (size_t)lanes * sizeof(uint32_t));
    return scales;
}

Scales find_scales(const Operand *x, int64_t summed, int bits, char **room)
{
    Scales scales = start_scales(x->lanes, room);
    see_largest(x, summed, scales.largest);
    set_scales(&scales, x->lanes, bits);
    return scales;
}
