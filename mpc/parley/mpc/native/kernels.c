/* The inner loops of the noise protocol: AES in bulk, oblivious-transfer extension, and the gates built on it.
 *
 * Compiled by build.py: a baseline (x86-64 with AES-NI, PCLMUL, SSE4.1; ARM with AES and PMULL: blocks.h) and a wide one
 * (AVX-512, VAES, VPCLMUL, GFNI). All give the same bytes, so servers with different processors can work together; tests
 * compare them with each other and with a plain Python reference. No branch and no address depends on a secret. Callers (mpc/kernels.py) check every shape:
 * nothing here validates. All integers are little-endian; "lanes" are independent samples of one batch.
 */
#include "blocks.h"
#include <stddef.h>
#include <string.h>

/* ---------------------------------------------------------------- vectors of AES blocks */

#ifdef __VAES__
typedef __m512i vec;
#define WIDTH 4 /* AES blocks in a vec */
INLINE vec v_load(const void *p) { return _mm512_loadu_si512(p); }
INLINE void v_store(void *p, vec a) { _mm512_storeu_si512(p, a); }
INLINE vec v_xor(vec a, vec b) { return _mm512_xor_si512(a, b); }
INLINE vec v_zero(void) { return _mm512_setzero_si512(); }
INLINE vec v_same(const void *p) { return _mm512_broadcast_i32x4(_mm_loadu_si128(p)); }
INLINE vec v_round(vec a, vec k) { return _mm512_aesenc_epi128(a, k); }
INLINE vec v_last(vec a, vec k) { return _mm512_aesenclast_epi128(a, k); }
INLINE vec v_count(uint64_t low, uint64_t high) {
    return _mm512_set_epi64(high, low + 3, high, low + 2, high, low + 1, high, low);
}
#else
typedef block vec;
#define WIDTH 1
INLINE vec v_load(const void *p) { return b_load(p); }
INLINE void v_store(void *p, vec a) { b_store(p, a); }
INLINE vec v_xor(vec a, vec b) { return b_xor(a, b); }
INLINE vec v_zero(void) { return b_zero(); }
INLINE vec v_same(const void *p) { return b_load(p); }
INLINE vec v_round(vec a, vec k) { return b_round(a, k); }
INLINE vec v_last(vec a, vec k) { return b_last(a, k); }
INLINE vec v_count(uint64_t low, uint64_t high) { return b_words(low, high); }
#endif

#define ROUND_KEYS 176 /* bytes of an expanded AES-128 key */
#define STRIP 4        /* vecs in flight, to hide the latency of an AES round */

INLINE void encrypt_strip(const uint8_t *keys, vec s[STRIP]) {
    vec key = v_same(keys);
    for (int i = 0; i < STRIP; i++) s[i] = v_xor(s[i], key);
    for (int r = 1; r < 10; r++) {
        key = v_same(keys + 16 * r);
        for (int i = 0; i < STRIP; i++) s[i] = v_round(s[i], key);
    }
    key = v_same(keys + 160);
    for (int i = 0; i < STRIP; i++) s[i] = v_last(s[i], key);
}

/* FIPS 197 key expansion of `count` AES-128 keys. With one word in all four columns the last round moves no byte: it is
 * SubWord. */
EXPORT void aes_expand(const uint8_t *keys, size_t count, uint8_t *out) {
    static const uint8_t rcon[10] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36};
    for (size_t j = 0; j < count; j++, keys += 16, out += ROUND_KEYS) {
        uint32_t w[4], same[4];
        memcpy(w, keys, 16);
        memcpy(out, w, 16);
        for (int r = 0; r < 10; r++) {
            for (int i = 0; i < 4; i++) same[i] = w[3];
            b_store(same, b_last(b_load(same), b_zero()));
            w[0] ^= (same[0] >> 8 | same[0] << 24) ^ rcon[r];
            for (int i = 1; i < 4; i++) w[i] ^= w[i - 1];
            memcpy(out + 16 * (r + 1), w, 16);
        }
    }
}

/* AES-ECB of `blocks` blocks in place: the yardstick that benchmarks print. */
EXPORT void aes_ecb(const uint8_t *keys, uint8_t *data, size_t blocks) {
    for (size_t o = 0; o + STRIP * WIDTH <= blocks; o += STRIP * WIDTH) {
        vec s[STRIP];
        for (int i = 0; i < STRIP; i++) s[i] = v_load(data + 16 * (o + i * WIDTH));
        encrypt_strip(keys, s);
        for (int i = 0; i < STRIP; i++) v_store(data + 16 * (o + i * WIDTH), s[i]);
    }
}

/* ---------------------------------------------------------------- 128 x m bit transpose */

#define CHUNK_BYTES 256 /* one strip of 2,048 transfers: 128 columns of 256 bytes, 32 KB, stays in cache */
#define ROW 16          /* bytes of a row of transfers, and of a table */

#ifdef __GFNI__
/* 16 x 16 bytes: out[j] gets byte j of each in[i], in order. */
INLINE void transpose_bytes(__m128i a[16]) {
    for (int step = 0; step < 4; step++) {
        __m128i b[16];
        for (int i = 0; i < 8; i++) {
            b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
            b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
        }
        memcpy(a, b, sizeof b);
    }
}

/* Each group of eight bytes is an 8 x 8 bit matrix, byte 7 - c its row c: byte r of the result holds bit r of them all. */
INLINE __m512i transpose_bits(__m512i groups) {
    return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64(0x8040201008040201ULL), groups, 0);
}

/* columns[128][stride], 64 bytes of each -> rows[512][16]. First byte planes: planes[g][r] = bits of columns 8g .. 8g + 7
 * in row r. Eight columns' bytes are interleaved, last column first, and each group of eight turned. */
INLINE void columns_to_512_rows(const uint8_t *columns, size_t stride, uint8_t *rows) {
    uint8_t planes[ROW][512];
    for (int g = 0; g < ROW; g++) {
        __m512i a[8], b[8];
        for (int c = 0; c < 8; c++) a[c] = _mm512_loadu_si512(columns + (8 * g + 7 - c) * stride);
        for (int step = 0; step < 3; step++) {
            for (int i = 0; i < 4; i++) {
                b[2 * i] = _mm512_unpacklo_epi8(a[i], a[i + 4]);
                b[2 * i + 1] = _mm512_unpackhi_epi8(a[i], a[i + 4]);
            }
            memcpy(a, b, sizeof b);
        }
        /* lane l of a[i] now has the groups of bytes 16 l + 2 i and 16 l + 2 i + 1 of the columns: eight rows each */
        for (int i = 0; i < 8; i++) {
            __m512i turned = transpose_bits(a[i]);
            _mm_storeu_si128((__m128i *)(planes[g] + 16 * i), _mm512_extracti32x4_epi32(turned, 0));
            _mm_storeu_si128((__m128i *)(planes[g] + 128 + 16 * i), _mm512_extracti32x4_epi32(turned, 1));
            _mm_storeu_si128((__m128i *)(planes[g] + 256 + 16 * i), _mm512_extracti32x4_epi32(turned, 2));
            _mm_storeu_si128((__m128i *)(planes[g] + 384 + 16 * i), _mm512_extracti32x4_epi32(turned, 3));
        }
    }
    for (int r = 0; r < 512; r += 16) {
        __m128i a[16];
        for (int g = 0; g < ROW; g++) a[g] = _mm_loadu_si128((const __m128i *)(planes[g] + r));
        transpose_bytes(a);
        for (int i = 0; i < 16; i++) _mm_storeu_si128((__m128i *)(rows + ROW * (r + i)), a[i]);
    }
}

/* rows[512][16] -> columns[128][64]: the same steps backwards. Rows are taken last first within each eight. */
INLINE void rows_512_to_columns(const uint8_t *rows, uint8_t *columns) {
    uint8_t planes[ROW][512];
    for (int r = 0; r < 512; r += 16) {
        __m128i a[16];
        for (int i = 0; i < 16; i++) a[i] = _mm_loadu_si128((const __m128i *)(rows + ROW * (r + (i ^ 7))));
        transpose_bytes(a);
        for (int g = 0; g < ROW; g++) _mm_storeu_si128((__m128i *)(planes[g] + r), a[g]);
    }
    for (int g = 0; g < ROW; g++) {
        uint8_t turned[512];
        for (int r = 0; r < 512; r += 64)
            _mm512_storeu_si512(turned + r, transpose_bits(_mm512_loadu_si512(planes[g] + r)));
        /* turned[8 p + c] is byte p of column 8 g + c: the even and odd eights of 16 such bytes make two of each column */
        for (int p = 0; p < 64; p += 16) {
            __m128i a[8], b[8];
            for (int i = 0; i < 8; i++) a[i] = _mm_loadu_si128((const __m128i *)(turned + 8 * p + 16 * i));
            for (int step = 0; step < 4; step++) { /* a perfect shuffle of 128 bytes, four times: index p c -> c p */
                for (int i = 0; i < 4; i++) {
                    b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 4]);
                    b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 4]);
                }
                memcpy(a, b, sizeof b);
            }
            for (int c = 0; c < 8; c++) _mm_storeu_si128((__m128i *)(columns + 64 * (8 * g + c) + p), a[c]);
        }
    }
}
#else
INLINE void transpose_64(uint64_t a[64][8]) { /* eight 64 x 64 bit matrices side by side */
    uint64_t mask = 0x00000000ffffffffULL;
    for (int j = 32; j; j >>= 1, mask ^= mask << j)
        for (int k = 0; k < 64; k = (k + j + 1) & ~j)
            for (int b = 0; b < 8; b++) {
                uint64_t t = ((a[k][b] >> j) ^ a[k + j][b]) & mask;
                a[k][b] ^= t << j;
                a[k + j][b] ^= t;
            }
}

/* columns[128][stride], 64 bytes of each -> rows[512][16] */
INLINE void columns_to_512_rows(const uint8_t *columns, size_t stride, uint8_t *rows) {
    uint64_t half[2][64][8];
    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < 64; i++) memcpy(half[h][i], columns + (64 * h + i) * stride, 64);
        transpose_64(half[h]);
    }
    for (int b = 0; b < 8; b++)
        for (int k = 0; k < 64; k++)
            for (int h = 0; h < 2; h++) memcpy(rows + ROW * (64 * b + k) + 8 * h, &half[h][k][b], 8);
}

/* rows[512][16] -> columns[128][64] */
INLINE void rows_512_to_columns(const uint8_t *rows, uint8_t *columns) {
    uint64_t half[2][64][8];
    for (int b = 0; b < 8; b++)
        for (int k = 0; k < 64; k++)
            for (int h = 0; h < 2; h++) memcpy(&half[h][k][b], rows + ROW * (64 * b + k) + 8 * h, 8);
    for (int h = 0; h < 2; h++) {
        transpose_64(half[h]);
        memcpy(columns + 64 * 64 * h, half[h], 64 * 64);
    }
}
#endif

/* columns[128][CHUNK_BYTES] -> rows[2048][16] */
static void columns_to_rows(const uint8_t *columns, uint8_t *rows) {
    for (int o = 0; o < CHUNK_BYTES; o += 64) columns_to_512_rows(columns + o, CHUNK_BYTES, rows + ROW * 8 * o);
}

/* ---------------------------------------------------------------- SoftSpoken expansion (Roy 2022, section 3) */

/* One tree of 2^k leaves over 16 * STRIP * WIDTH bytes of stream: u = XOR of all leaves, v_b = XOR of those whose
 * index has bit b. `first` = 1 leaves out leaf 0, the one that its holder does not know and never needs. */
INLINE void expand_tree(const uint8_t *keys, int k, int first, uint64_t block, uint8_t *u, uint8_t *v) {
    vec sum[STRIP], part[4][STRIP];
    for (int i = 0; i < STRIP; i++) {
        sum[i] = v_zero();
        for (int b = 0; b < k; b++) part[b][i] = v_zero();
    }
    for (int leaf = first; leaf < 1 << k; leaf++) {
        vec s[STRIP];
        for (int i = 0; i < STRIP; i++) s[i] = v_count(block + i * WIDTH, 0);
        encrypt_strip(keys + ROUND_KEYS * leaf, s);
        for (int i = 0; i < STRIP; i++) {
            sum[i] = v_xor(sum[i], s[i]);
            for (int b = 0; b < k; b++)
                if (leaf >> b & 1) part[b][i] = v_xor(part[b][i], s[i]);
        }
    }
    for (int i = 0; i < STRIP; i++) {
        v_store(u + 16 * WIDTH * i, sum[i]);
        for (int b = 0; b < k; b++) v_store(v + CHUNK_BYTES * b + 16 * WIDTH * i, part[b][i]);
    }
}

INLINE void expand_chunk_k(const uint8_t *keys, int k, int first, uint64_t block, uint8_t *u, uint8_t *v) {
    for (int tree = 0; tree < 128 / k; tree++)
        for (int o = 0; o < CHUNK_BYTES; o += 16 * STRIP * WIDTH)
            expand_tree(keys + (size_t)(ROUND_KEYS << k) * tree, k, first, block + o / 16, u + CHUNK_BYTES * tree + o,
                        v + CHUNK_BYTES * k * tree + o);
}

static void expand_chunk(const uint8_t *keys, int k, int first, uint64_t block, uint8_t *u, uint8_t *v) {
    if (k == 4) expand_chunk_k(keys, 4, first, block, u, v);
    else if (k == 2) expand_chunk_k(keys, 2, first, block, u, v);
    else expand_chunk_k(keys, 1, first, block, u, v);
}

/* The holder of all leaves (the receiver of the transfers): its choice bits are u_0, and the corrections
 * C_t = u_t ^ u_0 make every tree speak of the same bits.
 * keys[128/k][2^k][176]; choices[chunks][256]; corrections[chunks][128/k - 1][256]; rows[chunks * 2048][16]. */
EXPORT void extend_receiver(const uint8_t *keys, int k, uint64_t first_block, size_t chunks, uint8_t *choices,
                            uint8_t *corrections, uint8_t *rows) {
    uint8_t u[128 * CHUNK_BYTES], v[128 * CHUNK_BYTES];
    int trees = 128 / k;
    for (size_t c = 0; c < chunks; c++) {
        expand_chunk(keys, k, 0, first_block + c * (CHUNK_BYTES / 16), u, v);
        memcpy(choices + c * CHUNK_BYTES, u, CHUNK_BYTES);
        uint8_t *out = corrections + c * (trees - 1) * CHUNK_BYTES;
        for (int tree = 1; tree < trees; tree++, out += CHUNK_BYTES)
            for (int i = 0; i < CHUNK_BYTES; i++) out[i] = u[tree * CHUNK_BYTES + i] ^ u[i];
        columns_to_rows(v, rows + c * 2048 * 16);
    }
}

/* The holder of all leaves but one per tree (the sender): row_j = (receiver's row_j) ^ choice_j * delta.
 * delta_masks[128]: 0xff where delta has the bit. */
EXPORT void extend_sender(const uint8_t *keys, int k, uint64_t first_block, size_t chunks, const uint8_t *delta_masks,
                          const uint8_t *corrections, uint8_t *rows) {
    uint8_t u[128 * CHUNK_BYTES], v[128 * CHUNK_BYTES];
    int trees = 128 / k;
    for (size_t c = 0; c < chunks; c++) {
        expand_chunk(keys, k, 1, first_block + c * (CHUNK_BYTES / 16), u, v);
        const uint8_t *in = corrections + c * (trees - 1) * CHUNK_BYTES;
        for (int tree = 1; tree < trees; tree++, in += CHUNK_BYTES)
            for (int b = 0; b < k; b++) {
                uint8_t mask = delta_masks[k * tree + b], *column = v + CHUNK_BYTES * (k * tree + b);
                for (int i = 0; i < CHUNK_BYTES; i++) column[i] ^= in[i] & mask;
            }
        columns_to_rows(v, rows + c * 2048 * 16);
    }
}

/* ---------------------------------------------------------------- consistency check: a universal hash of the columns */

/* sum[32] ^= sum of x_i * y_i as polynomials over F_2, not reduced; blocks of 16 bytes. */
EXPORT void inner_product(const uint8_t *x, const uint8_t *y, size_t blocks, uint8_t *sum) {
    block low = b_zero(), middle = low, high = low;
    for (size_t i = 0; i < blocks; i++) {
        block a = b_load(x + 16 * i), b = b_load(y + 16 * i);
        low = b_xor(low, b_multiply(a, b, 0, 0));
        high = b_xor(high, b_multiply(a, b, 1, 1));
        middle = b_xor(middle, b_xor(b_multiply(a, b, 0, 1), b_multiply(a, b, 1, 0)));
    }
    uint64_t parts[3][2], total[4];
    b_store(parts[0], low);
    b_store(parts[1], middle);
    b_store(parts[2], high);
    memcpy(total, sum, 32);
    for (int part = 0; part < 3; part++) /* each half a place higher than the one before */
        for (int half = 0; half < 2; half++) total[part + half] ^= parts[part][half];
    memcpy(sum, total, 32);
}

#ifdef __VPCLMULQDQ__
/* Four products at once, for hash_columns: sums of the low, middle and high parts, four lanes each, kept apart. */
typedef struct { __m512i low, middle, high; } partial;

INLINE void add_four(const uint8_t *x, const uint8_t *y, partial *sum) {
    __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(y);
    sum->low = _mm512_xor_si512(sum->low, _mm512_clmulepi64_epi128(a, b, 0x00));
    sum->high = _mm512_xor_si512(sum->high, _mm512_clmulepi64_epi128(a, b, 0x11));
    sum->middle = _mm512_xor_si512(sum->middle, _mm512_xor_si512(_mm512_clmulepi64_epi128(a, b, 0x01),
                                                                 _mm512_clmulepi64_epi128(a, b, 0x10)));
}

INLINE void add_partial(const partial *part, uint8_t *sum) {
    uint64_t low[8], middle[8], high[8], total[4];
    _mm512_storeu_si512(low, part->low);
    _mm512_storeu_si512(middle, part->middle);
    _mm512_storeu_si512(high, part->high);
    memcpy(total, sum, 32);
    for (int i = 0; i < 8; i += 2) {
        total[0] ^= low[i];
        total[1] ^= low[i + 1] ^ middle[i];
        total[2] ^= high[i] ^ middle[i + 1];
        total[3] ^= high[i + 1];
    }
    memcpy(sum, total, 32);
}
#endif

/* The same for each of the 128 columns of rows[2048 * chunks][16], cut into blocks of 128 rows: sums[128][32]. */
EXPORT void hash_columns(const uint8_t *rows, const uint8_t *challenges, size_t chunks, uint8_t *sums) {
    uint8_t columns[128 * 64];
#ifdef __VPCLMULQDQ__
    partial parts[128];
    memset(parts, 0, sizeof parts);
#endif
    for (size_t blocks = 0; blocks < 16 * chunks; blocks += 4) { /* 512 rows: four blocks of every column */
        rows_512_to_columns(rows + ROW * 128 * blocks, columns);
        for (int column = 0; column < 128; column++) {
#ifdef __VPCLMULQDQ__
            add_four(columns + 64 * column, challenges + 16 * blocks, &parts[column]);
#else
            inner_product(columns + 64 * column, challenges + 16 * blocks, 4, sums + 32 * column);
#endif
        }
    }
#ifdef __VPCLMULQDQ__
    for (int column = 0; column < 128; column++) add_partial(&parts[column], sums + 32 * column);
#endif
}

/* ---------------------------------------------------------------- tweakable hash: H(x, i, j) = pi(pi(x) ^ (i, j)) ^ pi(x) */

INLINE void hash_strip(const uint8_t *keys, const uint8_t *rows, vec offset, uint64_t index, uint64_t first, int blocks,
                       uint8_t *out, size_t stride) {
    vec inner[STRIP];
    for (int i = 0; i < STRIP; i++) inner[i] = v_xor(v_load(rows + 16 * WIDTH * i), offset);
    encrypt_strip(keys, inner);
    for (int j = 0; j < blocks; j++) {
        vec s[STRIP];
        for (int i = 0; i < STRIP; i++) s[i] = v_xor(inner[i], v_count(index + i * WIDTH, first + j));
        encrypt_strip(keys, s);
        uint8_t piece[16 * STRIP * WIDTH];
        for (int i = 0; i < STRIP; i++) v_store(piece + 16 * WIDTH * i, v_xor(s[i], inner[i]));
        if (stride == 8)
            for (int i = 0; i < STRIP * WIDTH; i++) memcpy(out + 8 * i, piece + 16 * i, 8);
        else
            for (int i = 0; i < STRIP * WIDTH; i++) memcpy(out + stride * i + 16 * j, piece + 16 * i, 16);
    }
}

/* Hash of rows ^ offset. stride = 8 keeps the low 8 bytes of block `first`; otherwise out[count][stride] takes stride / 16
 * blocks, numbered from `first`. Indices run on from `index`. */
EXPORT void hash_rows(const uint8_t *keys, const uint8_t *rows, const uint8_t *offset, uint64_t index, uint64_t first,
                      size_t count, size_t stride, uint8_t *out) {
    vec shift = v_same(offset);
    int blocks = stride == 8 ? 1 : (int)(stride / 16);
    size_t step = STRIP * WIDTH, o = 0;
    for (; o + step <= count; o += step)
        hash_strip(keys, rows + 16 * o, shift, index + o, first, blocks, out + stride * o, stride);
    if (o < count) {
        uint8_t tail[16 * STRIP * WIDTH] = {0}, piece[STRIP * WIDTH * 16], *whole = piece;
        memcpy(tail, rows + 16 * o, 16 * (count - o));
        for (int j = 0; j < blocks; j++) {
            size_t narrow = stride == 8 ? 8 : 16;
            hash_strip(keys, tail, shift, index + o, first + j, 1, whole, narrow);
            for (size_t i = o; i < count; i++) memcpy(out + stride * i + 16 * j, piece + narrow * (i - o), narrow);
        }
    }
}

/* ---------------------------------------------------------------- products with an XOR-shared bit, over F_2^L */

/* As sender of [b] * w: message = k0 ^ k1 ^ w. Pads lie `stride` bytes apart, vectors `width`; `last` masks a vector's last
 * byte to its true number of bits. */
EXPORT void xor_message(const uint8_t *k0, const uint8_t *k1, size_t stride, const uint8_t *vectors, size_t width,
                        uint8_t last, size_t count, uint8_t *message) {
    for (size_t i = 0; i < count; i++, k0 += stride, k1 += stride, vectors += width, message += width) {
        for (size_t j = 0; j < width; j++) message[j] = k0[j] ^ k1[j] ^ vectors[j];
        message[width - 1] &= last;
    }
}

/* The share of [b] * w: as sender k0 ^ flip * (k0 ^ k1), the flip being the receiver's; as receiver, holding bit b,
 * kc ^ b * (message ^ w). */
EXPORT void xor_share(const uint8_t *k0, const uint8_t *k1, const uint8_t *kc, size_t stride, const uint8_t *flips,
                      const uint8_t *bits, const uint8_t *message, const uint8_t *vectors, size_t width, uint8_t last,
                      size_t count, uint8_t *share) {
    for (size_t i = 0; i < count; i++) {
        uint8_t flip = -flips[i], bit = -bits[i];
        for (size_t j = 0; j < width; j++)
            share[j] = k0[j] ^ ((k0[j] ^ k1[j]) & flip) ^ kc[j] ^ ((message[j] ^ vectors[j]) & bit);
        share[width - 1] &= last;
        k0 += stride, k1 += stride, kc += stride, message += width, vectors += width, share += width;
    }
}

/* ---------------------------------------------------------------- products with an XOR-shared bit, over Z_2^bits */

/* As sender: z = (1 - 2b) * value, message = k0 - k1 + z mod 2^bits in `width` bytes; the receiver then holds
 * k_c + c * message = k0 + c * z for its random choice c. `step` 0 uses one value for all. */
EXPORT void ring_message(const uint64_t *k0, const uint64_t *k1, const uint8_t *bits, const uint64_t *values, size_t step,
                         uint64_t mask, size_t width, size_t count, uint8_t *message) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bit = -(uint64_t)bits[i], z = (values[i * step] ^ bit) - bit, d = (k0[i] - k1[i] + z) & mask;
        memcpy(message + width * i, &d, width);
    }
}

/* The sender's part: its own bit's product, b * value, and its share of (receiver's bit) * z: -k0 if the receiver's bit is
 * its choice, z + k0 if it is the opposite (flip). */
EXPORT void ring_sender_share(const uint64_t *k0, const uint8_t *flips, const uint8_t *bits, const uint64_t *values,
                              size_t step, size_t count, uint64_t *share) {
    for (size_t i = 0; i < count; i++) {
        uint64_t value = values[i * step], bit = -(uint64_t)bits[i], flip = -(uint64_t)flips[i];
        share[i] += (value & bit) + (((value ^ bit) - bit) & flip) + ((-k0[i] ^ flip) - flip);
    }
}

/* The receiver's part: k_c + c * message, negated where its bit is the opposite of its choice. */
EXPORT void ring_receiver_share(const uint64_t *kc, const uint8_t *flips, const uint8_t *choices, const uint8_t *message,
                                size_t width, size_t count, uint64_t *share) {
    for (size_t i = 0; i < count; i++) {
        uint64_t d = 0, flip = -(uint64_t)flips[i];
        memcpy(&d, message + width * i, width);
        uint64_t got = kc[i] + (d & -(uint64_t)choices[i]);
        share[i] += (got ^ flip) - flip;
    }
}

/* ---------------------------------------------------------------- one-of-sixteen tables for digits */

/* Sender of a table over the receiver's 4-bit digit: two bits for each of 16 values, hidden by pads made of four transfers'
 * keys (arranged so that k[t] is pad for bit t = 0 / 1 after the flips), and by `mask`, the sender's share of the answer. */
EXPORT void digit_send(const uint64_t *k0, const uint64_t *k1, const uint8_t *flips, const uint8_t *digits,
                       const uint32_t *tables, const uint8_t *masks, size_t count, uint32_t *message) {
    static const uint32_t where[4] = {0xccccccccu, 0xf0f0f0f0u, 0xff00ff00u, 0xffff0000u};
    for (size_t i = 0; i < count; i++) {
        uint32_t pad = 0;
        for (int t = 0; t < 4; t++) {
            uint32_t a = (uint32_t)k0[t * count + i], b = (uint32_t)k1[t * count + i];
            pad ^= a ^ ((a ^ b) & (where[t] ^ -(uint32_t)flips[t * count + i]));
        }
        uint32_t table = 0;
        for (uint32_t d = 0; d < 16; d++) table ^= tables[d] & -(uint32_t)(digits[i] == d);
        message[i] = pad ^ table ^ (masks[i] * 0x55555555u);
    }
}

EXPORT void digit_receive(const uint64_t *kc, const uint8_t *digits, const uint32_t *message, size_t count, uint8_t *out) {
    for (size_t i = 0; i < count; i++) {
        uint32_t pad = message[i];
        for (int t = 0; t < 4; t++) pad ^= (uint32_t)kc[t * count + i];
        out[i] = pad >> (2 * digits[i]) & 3;
    }
}

/* ---------------------------------------------------------------- public tables at a secret index */

#define LANES 64

/* out[t][lane][16] = XOR over j of e_j * rows[t][j], for one-hot shares e[lane][width bytes] and `tables` public tables of
 * 8 * width rows. matrices[t][width][16] are the same rows as 8 x 8 bit matrices, one for each byte of e and of a row. */
EXPORT void lookup(const uint8_t *onehot, size_t width, const uint8_t *rows, const uint64_t *matrices, size_t tables,
                   size_t count, uint8_t *out) {
#ifdef __GFNI__
    (void)rows;
    static _Thread_local uint8_t planes[256][LANES];
    for (size_t o = 0; o < count; o += LANES) {
        size_t lanes = count - o < LANES ? count - o : LANES;
        for (size_t i = 0; i < lanes; i++)
            for (size_t j = 0; j < width; j++) planes[j][i] = onehot[(o + i) * width + j];
        for (size_t t = 0; t < tables; t++) {
            const uint64_t *matrix = matrices + t * width * ROW;
            __m512i sum[ROW];
            for (int r = 0; r < ROW; r++) sum[r] = _mm512_setzero_si512();
            for (size_t j = 0; j < width; j++, matrix += ROW) {
                __m512i bits = _mm512_loadu_si512(planes[j]);
                for (int r = 0; r < ROW; r++)
                    sum[r] = _mm512_xor_si512(sum[r], _mm512_gf2p8affine_epi64_epi8(bits, _mm512_set1_epi64(matrix[r]), 0));
            }
            uint8_t piece[ROW][LANES], whole[LANES * ROW];
            for (int r = 0; r < ROW; r++) _mm512_storeu_si512(piece[r], sum[r]);
            for (int l = 0; l < LANES; l += 16) {
                __m128i a[16];
                for (int r = 0; r < ROW; r++) a[r] = _mm_loadu_si128((const __m128i *)(piece[r] + l));
                transpose_bytes(a);
                for (int i = 0; i < 16; i++) _mm_storeu_si128((__m128i *)(whole + ROW * (l + i)), a[i]);
            }
            memcpy(out + (t * count + o) * ROW, whole, lanes * ROW);
        }
    }
#else
    (void)matrices;
    for (size_t t = 0; t < tables; t++)
        for (size_t i = 0; i < count; i++) {
            const uint8_t *row = rows + t * 8 * width * ROW;
            block sum = b_zero();
            for (size_t j = 0; j < width; j++)
                for (int b = 0; b < 8; b++, row += ROW)
                    sum = b_xor(sum, b_and(b_load(row), b_same(-(onehot[i * width + j] >> b & 1))));
            b_store(out + (t * count + i) * ROW, sum);
        }
#endif
}

/* bits[k][lane] = bit (first + k) of rows[lane][16] */
EXPORT void row_bits(const uint8_t *rows, int first, int bits, size_t count, uint8_t *out) {
    for (int k = 0; k < bits; k++) {
        const uint8_t *byte = rows + (first + k) / 8;
        int shift = (first + k) % 8;
        for (size_t i = 0; i < count; i++) out[k * count + i] = byte[16 * i] >> shift & 1;
    }
}
