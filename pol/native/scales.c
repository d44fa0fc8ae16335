/* Scales of a product's operands (pol/ops/product.py), a power of two for each lane. */

#include "product.h"

#define INFINITE 0x7f800000u

static inline uint32_t magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

static inline uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void find_largest(const Operand *x, int64_t summed, uint32_t *RESTRICT largest)
{
    if (x->k == 1 || x->lane != 1) {
        for (int64_t i = 0; i < x->lanes; i++) {
            const float *line = x->data + i * x->lane;
            uint32_t found = 0;
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
    memset(largest, 0, (size_t)x->lanes * sizeof *largest);
    for (int64_t first = 0; first < x->lanes; first += 256) {
        int64_t end = first + 256 < x->lanes ? first + 256 : x->lanes;
        for (int64_t k = 0; k < summed; k++) {
            const float *line = x->data + k * x->k;
            for (int64_t i = first; i < end; i++)
                largest[i] = larger(largest[i], magnitude(line[i]));
        }
    }
}

/* s = bits - 2 - floor(log2 max), one less where max would round above the largest integer; no number at all where one is
 * not finite.
 */
static void set_scale(uint32_t largest, int bits, Scales *scales, int64_t lane)
{
    int64_t shift = 0;
    if (largest >= INFINITE) {
        scales->first[lane] = scales->second[lane] = 0.0f;
        scales->inverse[lane] = NAN;
        return;
    }
    if (largest) {
        float narrow;
        memcpy(&narrow, &largest, sizeof narrow);
        double wide = narrow;
        shift = bits - 2 - ((int64_t)(bits_of(wide) >> 52) - 1023);
        if (rint(wide * power_of_two(shift)) > (double)(127 << (bits - 8)))
            shift -= 1;
    }
    int64_t half = shift / 2;
    scales->first[lane] = (float)power_of_two(half);
    scales->second[lane] = (float)power_of_two(shift - half);
    scales->inverse[lane] = power_of_two(-shift);
}

size_t scales_size(int64_t lanes)
{
    size_t wide = (size_t)rounded(lanes, 64);
    return wide * (3 * sizeof(float) + sizeof(double));
}

Scales find_scales(const Operand *x, int64_t summed, int bits, char **room)
{
    size_t wide = (size_t)rounded(x->lanes, 64);
    Scales scales;
    scales.first = carve(room, wide * sizeof(float));
    scales.second = carve(room, wide * sizeof(float));
    scales.inverse = carve(room, wide * sizeof(double));
    uint32_t *largest = carve(room, wide * sizeof(uint32_t));
    find_largest(x, summed, largest);
    for (int64_t i = 0; i < x->lanes; i++)
        set_scale(largest[i], bits, &scales, i);
    return scales;
}
