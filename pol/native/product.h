/* Declarations that products of all precisions share. A lane is a row of the left operand, or a column of the right one. */

#ifndef ASSAY_PRODUCT_H
#define ASSAY_PRODUCT_H

#include "exact.h"

typedef struct {
    const float *data;
    int64_t lane, k; /* strides in elements: from lane to lane, and along the summed dimension k */
    int64_t lanes;
} Operand;

/* The scales of lanes. Each scale is the product of two factors, since a scale up to 2^169 is outside the range of FP32. */
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

/* Return an element as an integer, in FP32. An infinity that is scaled by zero gives NaN, which becomes zero. */
static inline float integer_of(float x, float first, float second)
{
    float scaled = x * first * second;
    return scaled == scaled ? rintf(scaled) : 0.0f;
}

/* Return the bytes for the scales of ``lanes`` lanes, with the memory that is needed to find them. */
size_t scales_size(int64_t lanes);

/* Find the scales of an operand for integers of ``bits``, in memory from ``room``. */
Scales find_scales(const Operand *x, int64_t summed, int bits, char **room);

/* Allocate the scales of ``lanes`` lanes in ``room``. */
Scales place_scales(int64_t lanes, char **room);

/* Find scales in parts: allocate memory, update the largest element of each lane for each part, and compute the scales. */
Scales start_scales(int64_t lanes, char **room);
void see_largest(const Operand *x, int64_t summed, uint32_t *RESTRICT largest);
void set_scales(Scales *scales, int64_t lanes, int bits);

/* Panels of both operands with their scales, and [rows, columns] of a result whose rows are ``stride`` elements apart. */
typedef struct {
    const char *left, *right;
    Scales of_left, of_right;
    int64_t rows, columns, summed, stride;
    int bits;
    float *result;
} Block;

/* The functions of a precision. Operands are packed in panels, which begin at multiples of ``rows`` rows or ``columns``
 * columns and can be packed separately. ``multiply`` computes a block of a result. ``add``, for callers that lay out few
 * columns at a time, adds products of panels to [rows, columns] of totals whose rows are ``stride`` elements apart. With 22
 * bits, ``add`` sums at most WHOLE products at once. */
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

/* An operand with its scales and the address of its panels. ``largest`` has the largest magnitude of each lane, if they are
 * given, or else is NULL.
 */
typedef struct {
    Operand x;
    int is_left, is_packed;
    Scales scales;
    char *panels;
    const float *largest;
} Side;

/* A product of two matrices: all parts of both sides are packed, then all parts of the result are computed. If ``sums`` is
 * not NULL, the exact sums of integers are written there, and there is no result.
 */
typedef struct {
    Side left, right;
    int64_t summed;
    int bits;
    float *result;
    int64_t *sums;
} Whole;

/* Return the bytes of a packed operand with its scales. */
size_t packed_size(const Operand *x, int is_left, int64_t summed, int bits);

/* Allocate the scales and panels of an operand in ``room``. ``is_packed`` means that the operand was packed there before. */
Side place_side(const Operand *x, int is_left, int is_packed, int64_t summed, int bits, char **room);

/* Find the scales of a part of an operand, and pack it. */
void pack_part(const Side *side, int64_t summed, int bits, int64_t part, int64_t parts);

/* Allocate the sides of a product in memory that the calling thread keeps until its next product. ``packed`` holds the
 * address of each side that was packed before, or NULL. Returns 0 if there is not enough memory.
 */
int place_product(Whole *whole, const Operand *left, const Operand *right, char *const packed[2]);

/* Compute a part of a product whose sides are packed. */
void multiply_part(const Whole *whole, int64_t part, int64_t parts);

#endif
