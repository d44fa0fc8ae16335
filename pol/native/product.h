/* What products of all precisions share: operands, and the scales of their lanes. */

#ifndef ASSAY_PRODUCT_H
#define ASSAY_PRODUCT_H

#include "exact.h"

typedef struct {
    const float *data;
    int64_t lane, k; /* strides, in elements: from row to row (from column to column), and along k */
    int64_t lanes;
} Operand;

/* Two factors of a lane, whose product is its scale: 2^169 alone is no FP32 number. */
typedef struct {
    float *first, *second;
    double *inverse;
    uint32_t *largest;
} Scales;

static inline int64_t rounded(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Take ``bytes`` from ``room``, which stays aligned to a cache line. */
static inline void *carve(char **room, size_t bytes)
{
    void *part = *room;
    *room += (bytes + 63) / 64 * 64;
    return part;
}

#define INFINITE 0x7f800000u

static inline uint32_t magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* An element as the integer of its lane, in FP32. Where a lane of infinities is scaled by zero, NaN may come; it becomes
 * zero.
 */
static inline float integer_of(float x, float first, float second)
{
    float scaled = x * first * second;
    return scaled == scaled ? rintf(scaled) : 0.0f;
}

/* Bytes that the scales of so many lanes take, with what finding them needs. */
size_t scales_size(int64_t lanes);

/* Find the scales of an operand for integers of ``bits``, in memory from ``room``. */
Scales find_scales(const Operand *x, int64_t summed, int bits, char **room);

/* Where the scales of so many lanes lie in ``room``. */
Scales place_scales(int64_t lanes, char **room);

/* The same in parts: memory for so many lanes, larger elements of each lane, and the scales when all were seen. */
Scales start_scales(int64_t lanes, char **room);
void see_largest(const Operand *x, int64_t summed, uint32_t *RESTRICT largest);
void set_scales(Scales *scales, int64_t lanes, int bits);

/* Panels of both operands with their scales, and [rows, columns] of a result whose rows lie ``stride`` apart. */
typedef struct {
    const char *left, *right;
    Scales of_left, of_right;
    int64_t rows, columns, summed, stride;
    int bits;
    float *result;
} Block;

/* How a product is made of parts: operands as panels, which begin at multiples of so many rows or columns and are packed
 * apart; blocks of a result; and, for those that lay out few columns at a time, panels multiplied and added to
 * [rows, columns] of totals whose rows lie ``stride`` apart. Of 22 bits at most WHOLE are summed at once there. */
typedef struct {
    int64_t rows, columns;
    int64_t (*left_size)(int64_t rows, int64_t summed, int bits);
    int64_t (*right_size)(int64_t columns, int64_t summed, int bits);
    void (*pack_left)(const Operand *x, const Scales *s, int64_t summed, int bits, char *panels);
    void (*pack_right)(const Operand *x, const Scales *s, int64_t summed, int bits, char *panels);
    void (*multiply)(const Block *block);
    void (*add)(const char *left, const char *right, int64_t rows, int64_t columns, int64_t summed, int bits, double *totals,
                int64_t stride);
} Panels;

extern const Panels NARROW_PANELS, WIDE_PANELS;

#define WHOLE 2048

static inline const Panels *panels_of(int bits)
{
    return bits == 22 ? &WIDE_PANELS : &NARROW_PANELS;
}

/* An operand and the place of its panels. */
typedef struct {
    Operand x;
    int is_left, is_packed;
    Scales scales;
    char *panels;
} Side;

/* A product of two matrices: all parts of both sides are packed, then all parts of the result are computed. */
typedef struct {
    Side left, right;
    int64_t summed;
    int bits;
    float *result;
} Whole;

/* Bytes that an operand takes with its scales. */
size_t packed_size(const Operand *x, int is_left, int64_t summed, int bits);

/* Give an operand its place in so many bytes from ``room``; who says that it ``is_packed`` has packed it there before. */
Side place_side(const Operand *x, int is_left, int is_packed, int64_t summed, int bits, char **room);

/* Find the scales of a part of an operand, and pack it. */
void pack_part(const Side *side, int64_t summed, int bits, int64_t part, int64_t parts);

/* Place the sides of a product in memory that the calling thread keeps until its next product, but for those that are
 * ``packed``: where these lie, or NULL. 0 where there is no memory.
 */
int place_product(Whole *whole, const Operand *left, const Operand *right, char *const packed[2]);

/* Compute a part of a product whose sides are packed. */
void multiply_part(const Whole *whole, int64_t part, int64_t parts);

#endif
