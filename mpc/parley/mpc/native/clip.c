/* Sums of clipped per-record gradients in exact integers (mpc/clip_sums.py): one source, three builds.
 *
 * A row's term is (w1 clip(g, C1) + w2 clip(g - g', C2)) / step, rounded to integers. Floating point only says what the
 * term should be. What it may be is checked in integers: its sum of squares, in 128 bits, against the limit's square; a
 * term that is longer adds zeros. So a release's sensitivity rests on `encode` and on the mask in `add_rows` alone.
 *
 * Vectors are the compiler's own: with AVX-512, AVX2 or neither it makes of them what there is. Every build adds in the
 * same order, fuses nothing that a fused instruction would round otherwise, and gives the same integers. Time depends
 * on shapes only: no branch depends on a row, and denormals, which some processors are slow at, count as zero.
 */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#pragma STDC FP_CONTRACT OFF

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#define LANES 16

typedef float floats __attribute__((ext_vector_type(LANES)));
typedef double doubles __attribute__((ext_vector_type(LANES)));
typedef int32_t words __attribute__((ext_vector_type(LANES)));
typedef int64_t longs __attribute__((ext_vector_type(LANES / 2)));
typedef unsigned __int128 square;

#define BLOCK (1 << 15)      /* coordinates whose squares, of at most 2^44 each, one word adds up: 2^59 */
#define FOLD 256             /* rows of entries of at most 2^22 that 32 bits add up: 2^30 */
#define MARGIN (1 - 0x1p-21) /* for what float32 adds to a term's length: its weights, a difference, products, a sum */
#define LEAST_ROOM 16        /* times the most that rounding to the nearest adds: a coarser lattice rounds towards zero */

/* `count` coordinates, and zeros after them. */
INLINE floats load(const float *from, size_t count) {
    floats x = 0;
    memcpy(&x, from, count * sizeof *from);
    return x;
}

/* Squares of floats are exact in a double, so it does not matter whether they are fused with the sum. */
INLINE void add_squares(floats x, doubles *sum) {
#pragma STDC FP_CONTRACT ON
    doubles wide = __builtin_convertvector(x, doubles);
    *sum += wide * wide;
}

INLINE void add_lengths(const float *fresh, const float *before, size_t count, doubles *first, doubles *second) {
    floats g = load(fresh, count);
    add_squares(g, first);
    if (before) add_squares(g - load(before, count), second);
}

/* |g| and |g - g'|. Not finite where an entry is not; no square of a finite float overflows, or vanishes, in a double. */
INLINE void lengths(const float *fresh, const float *before, size_t d, double *gradient, double *difference) {
    doubles first = 0, second = 0;
    size_t j = 0;
    for (; j + LANES <= d; j += LANES) add_lengths(fresh + j, before ? before + j : 0, LANES, &first, &second);
    if (j < d) add_lengths(fresh + j, before ? before + j : 0, d - j, &first, &second);
    double a = 0, b = 0;
    for (int i = 0; i < LANES; i++) a += first[i], b += second[i];
    *gradient = sqrt(a);
    *difference = sqrt(b);
}

/* A term's row of integers: a g + b (g - g'), rounded. */
typedef struct {
    const float *fresh, *before;
    float a, b;
    int nearest; /* or towards zero */
    int64_t limit;
} Term;

/* Entries are cut at `limit` + 1. What is not a number becomes -(limit + 1): a row that has one is too long for certain. */
INLINE void encode_some(const Term *t, size_t at, size_t count, int nearest, int32_t *whole, longs *squares) {
    const floats top = (float)(t->limit + 1), bottom = -top, magic = 0x1.8p23f;
    floats g = load(t->fresh + at, count), x = t->a * g;
    if (t->before) x += t->b * (g - load(t->before + at, count));
    x = x > bottom ? x : bottom;
    x = x < top ? x : top;
    if (nearest) x = (x + magic) - magic; /* the floats of 2^23 to 2^24 are the integers */
    words v = __builtin_convertvector(x, words);
    memcpy(whole + at, &v, count * sizeof *whole);
    longs low = (longs)v << 32 >> 32, high = (longs)v >> 32;
    *squares += low * low + high * high;
}

/* The integers, and the sum of their squares. */
INLINE square encode(const Term *t, size_t d, int nearest, int32_t *whole) {
    square total = 0;
    for (size_t start = 0; start < d; start += BLOCK) {
        size_t end = d - start < BLOCK ? d : start + BLOCK, j = start;
        longs squares = 0;
        for (; j + LANES <= end; j += LANES) encode_some(t, j, LANES, nearest, whole, &squares);
        if (j < end) encode_some(t, j, end - j, nearest, whole, &squares);
        for (int i = 0; i < LANES / 2; i++) total += (uint64_t)squares[i];
    }
    return total;
}

INLINE square encode_term(const Term *t, size_t d, int32_t *whole) {
    return t->nearest ? encode(t, d, 1, whole) : encode(t, d, 0, whole);
}

/* What all rows of a call have in common. */
typedef struct {
    const float *fresh, *before;
    const uint8_t *present;
    size_t rows, d;
    double gradient_weight, gradient_norm, difference_weight, difference_norm; /* weights over the step */
    int64_t limit;
    int32_t *whole, *sums;
    int64_t *total;
} Call;

/* Neither infinite nor denormal: processors disagree on what is rounded up to the least that is not. */
INLINE float as_float(double x) { return (float)(x > FLT_MAX ? FLT_MAX : x < FLT_MIN ? 0 : x); }

/* How a row is to be weighted: clipped, and short enough for what rounding may add. */
INLINE void weigh(const Call *c, Term *t) {
    double gradient, difference;
    lengths(t->fresh, t->before, c->d, &gradient, &difference);
    double first = c->gradient_norm / gradient, second = c->difference_norm / difference;
    double a = c->gradient_weight * (first < 1 ? first : 1), b = c->difference_weight * (second < 1 ? second : 1);
    double length = a * gradient + (t->before ? b * difference : 0), rounding = sqrt((double)c->d) / 2;
    t->nearest = rounding * LEAST_ROOM <= (double)c->limit;
    double room = (double)c->limit * MARGIN - (t->nearest ? rounding : 0), factor = length > room ? room / length : 1;
    t->a = as_float(a * factor);
    t->b = as_float(b * factor);
}

static void fold(const Call *c) {
    for (size_t j = 0; j < c->d; j++) c->total[j] += c->sums[j];
    memset(c->sums, 0, c->d * sizeof *c->sums);
}

static __attribute__((noinline)) void add_rows(const Call *c) {
    for (size_t i = 0; i < c->rows; i++) {
        Term t = {c->fresh + i * c->d, c->before ? c->before + i * c->d : 0, 0, 0, 0, c->limit};
        weigh(c, &t);
        square squares = encode_term(&t, c->d, c->whole);
        int32_t mask = -(int32_t)(c->present[i] & (squares <= (square)c->limit * (square)c->limit));
        for (size_t j = 0; j < c->d; j++) c->sums[j] += c->whole[j] & mask;
        if (i % FOLD == FOLD - 1) fold(c);
    }
    fold(c);
}

/* The caller's rounding, and what it does with denormals, are kept from what is counted, and given back. */
#ifdef __x86_64__
#define ENVIRONMENT unsigned
INLINE unsigned own_environment(void) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(0x9fc0); /* to the nearest, no traps, denormals are zero on both sides */
    return before;
}
INLINE void give_back(unsigned before) { _mm_setcsr(before); }
#else
#define ENVIRONMENT uint64_t
INLINE void give_back(uint64_t before) { __asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory"); }
INLINE uint64_t own_environment(void) {
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before) : : "memory");
    give_back(1 << 24);
    return before;
}
#endif

/* total[d] += the terms of the present rows. `whole` and `sums`: scratch of d words, `sums` zero before and after. */
EXPORT void clip_sums(const float *fresh, const float *before, const uint8_t *present, size_t rows, size_t d,
                      double gradient_weight, double gradient_norm, double difference_weight, double difference_norm,
                      int64_t limit, int32_t *whole, int32_t *sums, int64_t *total) {
    Call call = {fresh, before, present, rows, d, gradient_weight, gradient_norm, difference_weight, difference_norm,
                 limit, whole, sums, total};
    ENVIRONMENT kept = own_environment();
    add_rows(&call);
    give_back(kept);
}

static __attribute__((noinline)) square encode_once(const Term *t, size_t d, int32_t *whole) {
    return encode_term(t, d, whole);
}

/* One row under any weights, for tests of the check itself: `clip_sums` gives it none that are far too long. */
EXPORT void encode_row(const float *fresh, const float *before, size_t d, float a, float b, int nearest, int64_t limit,
                       int32_t *whole, uint64_t *squares) {
    Term t = {fresh, before, a, b, nearest, limit};
    ENVIRONMENT kept = own_environment();
    square found = encode_once(&t, d, whole);
    give_back(kept);
    squares[0] = (uint64_t)found;
    squares[1] = (uint64_t)(found >> 64);
}
