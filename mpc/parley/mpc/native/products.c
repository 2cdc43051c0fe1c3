/* Exact sums of outer products of 16-bit integers, for a party's clipped gradients (mpc/products.py).
 *
 * out[j, k] = sum over records i of x[i, j] * y[i, k], in 32-bit integers that wrap around: whatever happens on the
 * way, the result is right as long as the true sum fits, which the caller proves. Time depends on shapes only.
 */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

#define ROWS 6     /* of out in one tile */
#define VECTORS 4  /* of 16 columns each in one tile */
#define LANES 16

/* Two records side by side: pair p, column j becomes x[2p, j] | x[2p + 1, j] << 16. */
INLINE void pair_up(const int16_t *rows, size_t records, size_t width, size_t padded, uint32_t *pairs) {
    for (size_t p = 0; p < records / 2; p++) {
        const uint16_t *a = (const uint16_t *)rows + 2 * p * width, *b = a + width;
        uint32_t *out = pairs + p * padded;
        for (size_t j = 0; j < width; j++) out[j] = (uint32_t)a[j] | (uint32_t)b[j] << 16;
        for (size_t j = width; j < padded; j++) out[j] = 0;
    }
}

/* `rows` and `vectors` are constants where this is inlined, so the tile stays in registers. */
INLINE void tile(const uint32_t *x, const uint32_t *y, size_t pairs, size_t d, size_t k, int rows, int vectors,
                 size_t columns, size_t stride, int32_t *out) {
    __m512i sum[ROWS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_setzero_si512();
    for (size_t p = 0; p < pairs; p++) {
        __m512i right[VECTORS];
        for (int v = 0; v < vectors; v++) right[v] = _mm512_loadu_si512(y + p * k + LANES * v);
        for (int r = 0; r < rows; r++) {
            __m512i left = _mm512_set1_epi32((int)x[p * d + r]);
            for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_dpwssd_epi32(sum[r][v], left, right[v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            size_t at = LANES * (size_t)v;
            __mmask16 mask = columns >= at + LANES ? 0xffff : columns > at ? (__mmask16)((1u << (columns - at)) - 1) : 0;
            int32_t *to = out + r * stride + at;
            _mm512_mask_storeu_epi32(to, mask, _mm512_add_epi32(sum[r][v], _mm512_maskz_loadu_epi32(mask, to)));
        }
}

/* out[d, k] += the sum over an even number of records. `scratch`: records / 2 * (d + k rounded up to 64) words. */
EXPORT void outer_sums(const int16_t *x, const int16_t *y, size_t records, size_t d, size_t k, uint32_t *scratch,
                       int32_t *out) {
    size_t pairs = records / 2, wide = (k + LANES * VECTORS - 1) / (LANES * VECTORS) * (LANES * VECTORS);
    uint32_t *left = scratch, *right = scratch + pairs * d;
    pair_up(x, records, d, d, left);
    pair_up(y, records, k, wide, right);
    for (size_t column = 0; column < k; column += LANES * VECTORS) {
        size_t row = 0;
        for (; row + ROWS <= d; row += ROWS)
            tile(left + row, right + column, pairs, d, wide, ROWS, VECTORS, k - column, k, out + row * k + column);
        for (; row < d; row++)
            tile(left + row, right + column, pairs, d, wide, 1, VECTORS, k - column, k, out + row * k + column);
    }
}
