/* The scattering transform of party/parley/learning/wavelets.py, which says what it is and makes all of its tables.
 *
 * Sixteen images at once, one in each place of a vector: every step is the same for all, and no number of one image
 * meets another's. Sums are not contracted, so that all builds give the same bits; numbers below float32's normal range
 * are zero, for a processor takes a hundred times as long for them. Shapes are checked by the caller.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#pragma STDC FP_CONTRACT OFF

#define EXPORT __attribute__((visibility("default")))
#define LANES 16

typedef float lane __attribute__((vector_size(4 * LANES), aligned(4 * LANES)));

#if defined(__x86_64__)
#include <xmmintrin.h>
#define FLUSHED 0x8040 /* results and operands */
static unsigned flush(void) {
    unsigned kept = _mm_getcsr();
    _mm_setcsr(kept | FLUSHED);
    return kept;
}
static void restore(unsigned kept) { _mm_setcsr(kept); }
#else
static uint64_t flush(void) {
    uint64_t kept;
    __asm__ volatile("mrs %0, fpcr" : "=r"(kept));
    __asm__ volatile("msr fpcr, %0" : : "r"(kept | 1 << 24));
    return kept;
}
static void restore(uint64_t kept) { __asm__ volatile("msr fpcr, %0" : : "r"(kept)); }
#endif

/* One length: its roots exp(-2 pi i k / n), all real parts and then all imaginary ones. */
struct line {
    size_t n;
    const float *roots;
    lane *re, *im, *to_re, *to_im; /* n each */
};

/* One pass of Stockham's transform: `stride` interleaved transforms of length n, of which p are taken together. */
static void pass(const struct line *l, size_t n, size_t stride, size_t p) {
    const size_t m = n / p, step = l->n / p;
    const float *cosine = l->roots, *sine = l->roots + l->n;
    for (size_t q = 0; q < m; q++)
        for (size_t r = 0; r < p; r++) {
            const size_t turn = q * r * stride % l->n;
            const float c = cosine[turn], s = sine[turn];
            for (size_t j = 0; j < stride; j++) {
                const lane *re = l->re + j + stride * q, *im = l->im + j + stride * q;
                lane x = re[0], y = im[0];
                for (size_t k = 1; k < p; k++) {
                    const size_t at = k * r % p * step;
                    x += re[stride * m * k] * cosine[at] - im[stride * m * k] * sine[at];
                    y += re[stride * m * k] * sine[at] + im[stride * m * k] * cosine[at];
                }
                l->to_re[j + stride * (p * q + r)] = x * c - y * s;
                l->to_im[j + stride * (p * q + r)] = x * s + y * c;
            }
        }
}

#define AT(k) (j + stride * (q + m * (k)))
#define TO(r) (j + stride * (p * q + (r)))
#define TURNED(r, x, y)                                     \
    do {                                                    \
        const size_t turn = q * (r) * stride % l->n;        \
        const float c = cosine[turn], s = sine[turn];       \
        const lane a = (x), b = (y);                        \
        l->to_re[TO(r)] = a * c - b * s;                    \
        l->to_im[TO(r)] = a * s + b * c;                    \
    } while (0)

static void pass2(const struct line *l, size_t n, size_t stride) {
    const size_t p = 2, m = n / p;
    const float *cosine = l->roots, *sine = l->roots + l->n;
    for (size_t q = 0; q < m; q++)
        for (size_t j = 0; j < stride; j++) {
            const lane x0 = l->re[AT(0)], y0 = l->im[AT(0)], x1 = l->re[AT(1)], y1 = l->im[AT(1)];
            l->to_re[TO(0)] = x0 + x1;
            l->to_im[TO(0)] = y0 + y1;
            TURNED(1, x0 - x1, y0 - y1);
        }
}

static void pass3(const struct line *l, size_t n, size_t stride) {
    const size_t p = 3, m = n / p;
    const float *cosine = l->roots, *sine = l->roots + l->n;
    const float half = 0.86602540378443865f; /* sin 60 */
    for (size_t q = 0; q < m; q++)
        for (size_t j = 0; j < stride; j++) {
            const lane x0 = l->re[AT(0)], x1 = l->re[AT(1)], x2 = l->re[AT(2)];
            const lane y0 = l->im[AT(0)], y1 = l->im[AT(1)], y2 = l->im[AT(2)];
            const lane xs = x1 + x2, ys = y1 + y2, xd = (x1 - x2) * half, yd = (y1 - y2) * half;
            const lane xm = x0 - xs * 0.5f, ym = y0 - ys * 0.5f;
            l->to_re[TO(0)] = x0 + xs;
            l->to_im[TO(0)] = y0 + ys;
            TURNED(1, xm + yd, ym - xd);
            TURNED(2, xm - yd, ym + xd);
        }
}

static void pass4(const struct line *l, size_t n, size_t stride) {
    const size_t p = 4, m = n / p;
    const float *cosine = l->roots, *sine = l->roots + l->n;
    for (size_t q = 0; q < m; q++)
        for (size_t j = 0; j < stride; j++) {
            const lane x0 = l->re[AT(0)], x1 = l->re[AT(1)], x2 = l->re[AT(2)], x3 = l->re[AT(3)];
            const lane y0 = l->im[AT(0)], y1 = l->im[AT(1)], y2 = l->im[AT(2)], y3 = l->im[AT(3)];
            const lane xa = x0 + x2, xb = x0 - x2, xc = x1 + x3, xd = x1 - x3;
            const lane ya = y0 + y2, yb = y0 - y2, yc = y1 + y3, yd = y1 - y3;
            l->to_re[TO(0)] = xa + xc;
            l->to_im[TO(0)] = ya + yc;
            TURNED(1, xb + yd, yb - xd);
            TURNED(2, xa - xc, ya - yc);
            TURNED(3, xb - yd, yb + xd);
        }
}

/* Of the line as it is in re and im, and back into them. */
static void transform(struct line *l) {
    size_t n = l->n, stride = 1;
    while (n > 1) {
        size_t p = n % 4 == 0 ? 4 : n % 3 == 0 ? 3 : n % 2 == 0 ? 2 : 5;
        while (n % p) p += 2;
        if (p == 2) pass2(l, n, stride);
        else if (p == 3) pass3(l, n, stride);
        else if (p == 4) pass4(l, n, stride);
        else pass(l, n, stride, p);
        lane *re = l->re, *im = l->im;
        l->re = l->to_re, l->im = l->to_im, l->to_re = re, l->to_im = im;
        n /= p, stride *= p;
    }
}

/* Rows, then columns, in place. The inverse is this with re and im exchanged, but for its factor. */
static void transform2(lane *re, lane *im, struct line *rows, struct line *columns) {
    const size_t height = rows->n, width = columns->n;
    for (size_t y = 0; y < height; y++) {
        memcpy(columns->re, re + y * width, width * sizeof(lane));
        memcpy(columns->im, im + y * width, width * sizeof(lane));
        transform(columns);
        memcpy(re + y * width, columns->re, width * sizeof(lane));
        memcpy(im + y * width, columns->im, width * sizeof(lane));
    }
    for (size_t x = 0; x < width; x++) {
        for (size_t y = 0; y < height; y++) rows->re[y] = re[y * width + x], rows->im[y] = im[y * width + x];
        transform(rows);
        for (size_t y = 0; y < height; y++) re[y * width + x] = rows->re[y], im[y * width + x] = rows->im[y];
    }
}

/* A spectrum times a wavelet, folded to every step-th pixel. */
static void folded(const lane *re, const lane *im, const float *wavelet, size_t height, size_t width, size_t step,
                   lane *to_re, lane *to_im) {
    const size_t high = height / step, wide = width / step;
    for (size_t y = 0; y < high; y++)
        for (size_t x = 0; x < wide; x++) {
            lane a = {0}, b = {0};
            for (size_t v = y; v < height; v += high)
                for (size_t u = x; u < width; u += wide) {
                    const float w = wavelet[v * width + u];
                    a += re[v * width + u] * w;
                    b += im[v * width + u] * w;
                }
            to_re[y * wide + x] = a;
            to_im[y * wide + x] = b;
        }
}

static void modulus(lane *re, const lane *im, size_t count, float factor) {
    for (size_t i = 0; i < count; i++)
        re[i] = __builtin_elementwise_sqrt(re[i] * re[i] + im[i] * im[i]) * factor;
}

struct plan {
    size_t height, width, padded_height, padded_width, scales, angles;
};

/* rows times image times columns transposed: [high, wide] */
static void smooth(const lane *image, size_t height, size_t width, const float *rows, const float *columns, size_t high,
                   size_t wide, lane *between, lane *into) {
    for (size_t i = 0; i < high; i++)
        for (size_t x = 0; x < width; x++) {
            lane sum = {0};
            for (size_t y = 0; y < height; y++) sum += image[y * width + x] * rows[i * height + y];
            between[x] = sum;
            if (x + 1 < width) continue;
            for (size_t j = 0; j < wide; j++) {
                lane found = {0};
                for (size_t u = 0; u < width; u++) found += between[u] * columns[j * width + u];
                into[i * wide + j] = found;
            }
        }
}

/* Everything that one batch of images needs. */
struct room {
    lane *whole_re, *whole_im, *first_re, *first_im, *second_re, *second_im, *line, *between, *out;
};

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* How many floats of scratch `scatter` needs, 64-byte aligned. */
EXPORT size_t scatter_room(const struct plan *p, size_t channels) {
    const size_t whole = p->padded_height * p->padded_width, longest = larger(p->padded_height, p->padded_width);
    return LANES * (6 * whole + 9 * longest + channels * (p->height >> p->scales) * (p->width >> p->scales));
}

static struct line line_of(size_t n, const float *roots, lane *room) {
    return (struct line){n, roots, room, room + n, room + 2 * n, room + 3 * n};
}

/* Tables, by number: for each halving 4: roots of rows, of columns, averages of rows, of columns; then wavelets, those
 * of scale j on what is halved b times at 4 * scales + j (j + 1) / 2 + b. */
static void cascade(const struct plan *p, const float *const *tables, struct room *r) {
    const size_t high = p->height >> p->scales, wide = p->width >> p->scales, size = high * wide;
    const size_t H = p->padded_height, W = p->padded_width, L = p->angles;
    lane *second_out = r->out + size * (1 + p->scales * L), *first_out = r->out + size;
    const size_t longest = larger(H, W);
    struct line rows = line_of(H, tables[0], r->line), columns = line_of(W, tables[1], r->line + 4 * longest);
    smooth(r->whole_re, H, W, tables[2], tables[3], high, wide, r->between, r->out);
    memset(r->whole_im, 0, H * W * sizeof(lane));
    transform2(r->whole_re, r->whole_im, &rows, &columns);
    for (size_t j = 0; j < p->scales; j++) {
        const size_t h = H >> j, w = W >> j;
        const float *const *own = tables + 4 * j;
        const float *wavelets = tables[4 * p->scales + j * (j + 1) / 2];
        for (size_t a = 0; a < L; a++) {
            lane *re = r->first_re, *im = r->first_im;
            folded(r->whole_re, r->whole_im, wavelets + a * H * W, H, W, (size_t)1 << j, re, im);
            struct line y = line_of(h, own[0], r->line), x = line_of(w, own[1], r->line + 4 * longest);
            transform2(im, re, &y, &x);
            modulus(re, im, h * w, 1.0f / (float)(h * w));
            smooth(re, h, w, own[2], own[3], high, wide, r->between, first_out);
            first_out += size;
            if (j + 1 == p->scales) continue;
            memset(im, 0, h * w * sizeof(lane));
            transform2(re, im, &y, &x);
            for (size_t k = j + 1; k < p->scales; k++) {
                const size_t hk = H >> k, wk = W >> k;
                const float *const *later = tables + 4 * k;
                const float *coarse = tables[4 * p->scales + k * (k + 1) / 2 + j];
                for (size_t b = 0; b < L; b++) {
                    struct line v = line_of(hk, later[0], r->line), u = line_of(wk, later[1], r->line + 4 * longest);
                    folded(re, im, coarse + b * h * w, h, w, (size_t)1 << (k - j), r->second_re, r->second_im);
                    transform2(r->second_im, r->second_re, &v, &u);
                    modulus(r->second_re, r->second_im, hk * wk, 1.0f / (float)(hk * wk));
                    smooth(r->second_re, hk, wk, later[2], later[3], high, wide, r->between, second_out);
                    second_out += size;
                }
            }
        }
    }
}

/* planes[count, height, width] to out[count, channels, height >> scales, width >> scales]. `above` and `left` say which
 * row and column of an image stands at each of the padded one. */
EXPORT void scatter(const struct plan *p, const int64_t *above, const int64_t *left, const float *const *tables,
                    size_t channels, const float *planes, size_t count, float *scratch, float *out) {
    const size_t whole = p->padded_height * p->padded_width, longest = larger(p->padded_height, p->padded_width);
    const size_t pixels = p->height * p->width;
    const size_t size = channels * (p->height >> p->scales) * (p->width >> p->scales);
    lane *room = (lane *)scratch;
    lane *const line = room + 6 * whole;
    struct room r = {room,             room + whole,     room + 2 * whole, room + 3 * whole,   room + 4 * whole,
                     room + 5 * whole, line,             line + 8 * longest, line + 9 * longest};
    const __typeof__(flush()) kept = flush();
    for (size_t start = 0; start < count; start += LANES) {
        const size_t some = count - start < LANES ? count - start : LANES;
        for (size_t y = 0; y < p->padded_height; y++)
            for (size_t x = 0; x < p->padded_width; x++) {
                lane *to = r.whole_re + y * p->padded_width + x;
                const float *from = planes + start * pixels + (size_t)above[y] * p->width + (size_t)left[x];
                for (size_t i = 0; i < LANES; i++) ((float *)to)[i] = i < some ? from[i * pixels] : 0.0f;
            }
        cascade(p, tables, &r);
        for (size_t i = 0; i < some; i++)
            for (size_t k = 0; k < size; k++) out[(start + i) * size + k] = ((const float *)(r.out + k))[i];
    }
    restore(kept);
}
