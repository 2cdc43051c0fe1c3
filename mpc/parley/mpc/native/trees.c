/* The trees of seeds that an oblivious-transfer extension starts from (Roy 2022): grown whole by their owner, and with
 * one leaf missing by the other server (mpc/seed_trees.py says what they are).
 *
 * All trees at once: their hashes, SHA-256 and SHA-512 (FIPS 180-4) of short texts, are computed side by side, one in
 * each lane of a vector, in what widths the processor has. All builds give the same bytes, those of hashlib. No branch
 * and no address depends on a secret: which leaf is missing is one, and so are the choices on the way to it. Callers
 * check every shape.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#define VECTOR 64 /* bytes */
#elif defined(__AVX2__)
#define VECTOR 32
#else
#define VECTOR 16
#endif
#define SEED 16    /* bytes of a node and of a leaf's key */
#define WITNESS 32 /* bytes of a leaf's part in its tree's proof, and of the proof */
#define DEEPEST 4
#define LONGEST 64 /* bytes of a session's id */
#define MOST_LEAVES 512 /* of all 128 / k trees of 2^k leaves, k up to DEEPEST */

/* ---------------------------------------------------------------- hashes, a text in each lane */

typedef uint32_t word32 __attribute__((vector_size(VECTOR)));
typedef uint64_t word64 __attribute__((vector_size(VECTOR)));
#define LANES32 (VECTOR / 4)
#define LANES64 (VECTOR / 8)

static const uint32_t START32[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static const uint64_t START64[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                                    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
/* SHA-512's; SHA-256's are the upper halves of the first 64 */
static const uint64_t ROUND[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};


INLINE word32 turn32(word32 x, int by) { return x >> by | x << (32 - by); }
INLINE word64 turn64(word64 x, int by) { return x >> by | x << (64 - by); }

/* Both take in one block of every lane's text; the texts lie `stride` bytes apart. s[(k - i) % 8] is the k-th of a .. h
 * in round i, and the sixteen words of the schedule are made over as they are used. */
static void compress32(word32 state[8], const uint8_t *texts, size_t stride) {
    word32 w[16], s[8];
    for (int t = 0; t < 16; t++)
        for (int l = 0; l < LANES32; l++) {
            uint32_t word;
            memcpy(&word, texts + stride * (size_t)l + 4 * t, 4);
            w[t][l] = __builtin_bswap32(word);
        }
    memcpy(s, state, sizeof s);
    for (int from = 0; from < 64; from += 16)
#pragma clang loop unroll(full)
        for (int i = 0; i < 16; i++) {
            if (from) {
                word32 x = w[(i + 1) % 16], y = w[(i + 14) % 16];
                w[i] += (turn32(x, 7) ^ turn32(x, 18) ^ x >> 3) + w[(i + 9) % 16] + (turn32(y, 17) ^ turn32(y, 19) ^ y >> 10);
            }
            word32 a = s[(16 - i) % 8], b = s[(17 - i) % 8], c = s[(18 - i) % 8];
            word32 e = s[(20 - i) % 8], f = s[(21 - i) % 8], g = s[(22 - i) % 8];
            word32 sum = s[(23 - i) % 8] + (turn32(e, 6) ^ turn32(e, 11) ^ turn32(e, 25)) + (g ^ (e & (f ^ g))) +
                         (uint32_t)(ROUND[from + i] >> 32) + w[i];
            s[(19 - i) % 8] += sum;
            s[(23 - i) % 8] = sum + (turn32(a, 2) ^ turn32(a, 13) ^ turn32(a, 22)) + ((a & b) ^ (c & (a ^ b)));
        }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

static void compress64(word64 state[8], const uint8_t *texts, size_t stride) {
    word64 w[16], s[8];
    for (int t = 0; t < 16; t++)
        for (int l = 0; l < LANES64; l++) {
            uint64_t word;
            memcpy(&word, texts + stride * (size_t)l + 8 * t, 8);
            w[t][l] = __builtin_bswap64(word);
        }
    memcpy(s, state, sizeof s);
    for (int from = 0; from < 80; from += 16)
#pragma clang loop unroll(full)
        for (int i = 0; i < 16; i++) {
            if (from) {
                word64 x = w[(i + 1) % 16], y = w[(i + 14) % 16];
                w[i] += (turn64(x, 1) ^ turn64(x, 8) ^ x >> 7) + w[(i + 9) % 16] + (turn64(y, 19) ^ turn64(y, 61) ^ y >> 6);
            }
            word64 a = s[(16 - i) % 8], b = s[(17 - i) % 8], c = s[(18 - i) % 8];
            word64 e = s[(20 - i) % 8], f = s[(21 - i) % 8], g = s[(22 - i) % 8];
            word64 sum = s[(23 - i) % 8] + (turn64(e, 14) ^ turn64(e, 18) ^ turn64(e, 41)) + (g ^ (e & (f ^ g))) +
                         ROUND[from + i] + w[i];
            s[(19 - i) % 8] += sum;
            s[(23 - i) % 8] = sum + (turn64(a, 28) ^ turn64(a, 34) ^ turn64(a, 39)) + ((a & b) ^ (c & (a ^ b)));
        }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

/* What ends a text of `length` bytes in `room` bytes: a one, zeros, its length in bits. */
static void end_text(uint8_t *text, size_t length, size_t room) {
    memset(text + length, 0, room - length);
    text[length] = 0x80;
    text[room - 2] = (uint8_t)(length >> 5);
    text[room - 1] = (uint8_t)(length << 3);
}

#define LENGTH(label) (sizeof label - 1) /* without its zero */

INLINE void store32(word32 state[8], int lane, uint8_t *out) { /* all 32 bytes of one lane's hash */
    for (int i = 0; i < 8; i++) {
        uint32_t word = __builtin_bswap32(state[i][lane]);
        memcpy(out + 4 * i, &word, 4);
    }
}

/* ---------------------------------------------------------------- a tree's three hashes */

/* children[2 count][16] of nodes[count][16] */
static void grow_level(const uint8_t *nodes, size_t count, uint8_t *children) {
    static const char label[] = "parley tree v1";
    uint8_t texts[LANES32][64];
    for (int l = 0; l < LANES32; l++) {
        memcpy(texts[l], label, LENGTH(label));
        end_text(texts[l], LENGTH(label) + SEED, 64);
    }
    for (size_t o = 0; o < count; o += LANES32) {
        word32 state[8];
        for (int i = 0; i < 8; i++) state[i] = (word32){0} + START32[i];
        for (int l = 0; l < LANES32; l++) memcpy(texts[l] + LENGTH(label), nodes + SEED * (o + l), SEED);
        compress32(state, texts[0], 64);
        for (int l = 0; l < LANES32; l++) store32(state, l, children + 2 * SEED * (o + l));
    }
}

/* keys[count][16] and witnesses[count][32] of leaves[count][16] */
static void leaf_hashes(const uint8_t *session, size_t session_bytes, const uint8_t *leaves, size_t count, uint8_t *keys,
                        uint8_t *witnesses) {
    static const char label[] = "parley leaf v1";
    uint8_t texts[LANES64][128];
    size_t start = LENGTH(label) + session_bytes;
    for (int l = 0; l < LANES64; l++) {
        memcpy(texts[l], label, LENGTH(label));
        memcpy(texts[l] + LENGTH(label), session, session_bytes);
        end_text(texts[l], start + SEED, 128);
    }
    for (size_t o = 0; o < count; o += LANES64) {
        word64 state[8];
        for (int i = 0; i < 8; i++) state[i] = (word64){0} + START64[i];
        for (int l = 0; l < LANES64; l++) memcpy(texts[l] + start, leaves + SEED * (o + l), SEED);
        compress64(state, texts[0], 128);
        for (int l = 0; l < LANES64; l++)
            for (int i = 0; i < 6; i++) {
                uint64_t word = __builtin_bswap64(state[i][l]);
                uint8_t *out = i < 2 ? keys + SEED * (o + l) + 8 * i : witnesses + WITNESS * (o + l) + 8 * (i - 2);
                memcpy(out, &word, 8);
            }
    }
}

/* proofs[trees][32] over witnesses[trees][leaves][32] */
static void prove(const uint8_t *session, size_t session_bytes, size_t trees, size_t leaves, const uint8_t *witnesses,
                  uint8_t *proofs) {
    static const char label[] = "parley tree proof v1";
    uint8_t texts[LANES32][64 * ((LENGTH(label) + LONGEST + 1 + (WITNESS << DEEPEST) + 9 + 63) / 64)];
    size_t start = LENGTH(label) + session_bytes + 1; /* after the tree's number */
    size_t length = start + WITNESS * leaves, room = (length + 9 + 63) / 64 * 64;
    for (int l = 0; l < LANES32; l++) {
        memcpy(texts[l], label, LENGTH(label));
        memcpy(texts[l] + LENGTH(label), session, session_bytes);
        end_text(texts[l], length, room);
    }
    for (size_t o = 0; o < trees; o += LANES32) {
        word32 state[8];
        for (int i = 0; i < 8; i++) state[i] = (word32){0} + START32[i];
        for (int l = 0; l < LANES32; l++) {
            texts[l][start - 1] = (uint8_t)(o + l);
            memcpy(texts[l] + start, witnesses + WITNESS * leaves * (o + l), WITNESS * leaves);
        }
        for (size_t b = 0; b < room; b += 64) compress32(state, texts[0] + b, sizeof texts[0]);
        for (int l = 0; l < LANES32; l++) store32(state, l, proofs + WITNESS * (o + l));
    }
}

/* ---------------------------------------------------------------- trees */

/* to[size] ^= from[size] where mask is all ones; nothing where it is zero. Sizes are multiples of eight. */
INLINE void add(uint8_t *to, const uint8_t *from, size_t size, uint64_t mask) {
    for (size_t i = 0; i < size; i += 8) {
        uint64_t x, y;
        memcpy(&x, to + i, 8);
        memcpy(&y, from + i, 8);
        x ^= y & mask;
        memcpy(to + i, &x, 8);
    }
}

INLINE uint64_t equal(uint64_t x, uint64_t y) { /* all ones or zero; both below 2^63 */
    return -(((x ^ y) - 1) >> 63);
}

#define ALL (~0ull)

static size_t message_bytes(int k) { return 2 * SEED * (size_t)k + 2 * WITNESS; }

/* roots[128 / k][16] and pads[128][2][16] -> keys[128 / k][2^k][16], and messages[128 / k][message_bytes]: of each level
 * the sums of all left and of all right children, padded, then the sum of all witnesses and their proof. */
EXPORT void grow_trees(const uint8_t *session, size_t session_bytes, int k, const uint8_t *roots, const uint8_t *pads,
                       uint8_t *keys, uint8_t *messages) {
    uint8_t nodes[SEED * MOST_LEAVES], children[SEED * MOST_LEAVES], witnesses[WITNESS * MOST_LEAVES];
    uint8_t proofs[WITNESS * 128];
    size_t trees = 128 / (size_t)k, leaves = (size_t)1 << k, size = message_bytes(k);
    memcpy(nodes, roots, SEED * trees);
    for (int level = 0; level < k; level++) {
        size_t wide = (size_t)2 << level;
        grow_level(nodes, trees * wide / 2, children);
        for (size_t tree = 0; tree < trees; tree++) {
            uint8_t *sums = messages + size * tree + 2 * SEED * (size_t)level;
            memcpy(sums, pads + 2 * SEED * (tree * (size_t)k + (size_t)level), 2 * SEED);
            for (size_t i = 0; i < wide; i += 2) add(sums, children + SEED * (wide * tree + i), 2 * SEED, ALL);
        }
        memcpy(nodes, children, SEED * trees * wide);
    }
    leaf_hashes(session, session_bytes, nodes, trees * leaves, keys, witnesses);
    prove(session, session_bytes, trees, leaves, witnesses, proofs);
    for (size_t tree = 0; tree < trees; tree++) {
        uint8_t *tail = messages + size * (tree + 1) - 2 * WITNESS;
        memset(tail, 0, WITNESS);
        for (size_t i = 0; i < leaves; i++) add(tail, witnesses + WITNESS * (leaves * tree + i), WITNESS, ALL);
        memcpy(tail + WITNESS, proofs + WITNESS * tree, WITNESS);
    }
}

/* The other end: choices[128] and the pads[128][16] that they chose. missing[128 / k] says which leaf of each tree stays
 * unknown: the path to it turns away from every choice. keys[128 / k][2^k][16] are in order of leaf ^ missing, zeros
 * first. Says whether every tree's proof holds.
 *
 * What stands at an unknown node is computed with, as any other, and masked out of every sum. */
EXPORT int puncture_trees(const uint8_t *session, size_t session_bytes, int k, const uint8_t *messages,
                          const uint8_t *choices, const uint8_t *pads, uint8_t *missing, uint8_t *keys) {
    uint8_t nodes[SEED * MOST_LEAVES], children[SEED * MOST_LEAVES], witnesses[WITNESS * MOST_LEAVES];
    uint8_t proofs[WITNESS * 128], differences = 0;
    size_t trees = 128 / (size_t)k, leaves = (size_t)1 << k, size = message_bytes(k);
    memset(nodes, 0, SEED * trees);
    memset(missing, 0, trees);
    for (int level = 0; level < k; level++) {
        size_t wide = (size_t)2 << level;
        grow_level(nodes, trees * wide / 2, children);
        for (size_t tree = 0; tree < trees; tree++) {
            size_t at = tree * (size_t)k + (size_t)level;
            const uint8_t *sums = messages + size * tree + 2 * SEED * (size_t)level;
            uint8_t *these = children + SEED * wide * tree, total[SEED];
            uint64_t side = choices[at], right = equal(side, 1);
            memcpy(total, pads + SEED * at, SEED);
            add(total, sums, SEED, ~right);
            add(total, sums + SEED, SEED, right);
            uint64_t found = 2 * (uint64_t)missing[tree] + side; /* the missing node's child that is not missing */
            for (size_t i = 0; i < wide; i++) add(total, these + SEED * i, SEED, equal(i & 1, side) & ~equal(i, found));
            for (size_t i = 0; i < wide; i++) {
                uint8_t change[SEED];
                memcpy(change, total, SEED);
                add(change, these + SEED * i, SEED, ALL);
                add(these + SEED * i, change, SEED, equal(i, found));
            }
            missing[tree] = (uint8_t)(found ^ 1);
        }
        memcpy(nodes, children, SEED * trees * wide);
    }
    leaf_hashes(session, session_bytes, nodes, trees * leaves, keys, witnesses);
    for (size_t tree = 0; tree < trees; tree++) {
        const uint8_t *tail = messages + size * (tree + 1) - 2 * WITNESS;
        uint8_t *these = witnesses + WITNESS * leaves * tree, *own = keys + SEED * leaves * tree, total[WITNESS];
        memcpy(total, tail, WITNESS);
        for (size_t i = 0; i < leaves; i++) add(total, these + WITNESS * i, WITNESS, ~equal(i, missing[tree]));
        for (size_t i = 0; i < leaves; i++) {
            uint64_t here = equal(i, missing[tree]);
            add(these + WITNESS * i, these + WITNESS * i, WITNESS, here);
            add(these + WITNESS * i, total, WITNESS, here);
        }
        for (size_t bit = 1; bit < leaves; bit <<= 1) /* leaf i to place i ^ missing: exchanges, or not, of neighbours */
            for (size_t i = 0; i < leaves; i++) {
                if (i & bit) continue;
                uint8_t change[SEED];
                memcpy(change, own + SEED * i, SEED);
                add(change, own + SEED * (i | bit), SEED, ALL);
                uint64_t turn = ~equal(missing[tree] & bit, 0);
                add(own + SEED * i, change, SEED, turn);
                add(own + SEED * (i | bit), change, SEED, turn);
            }
        memset(own, 0, SEED);
    }
    prove(session, session_bytes, trees, leaves, witnesses, proofs);
    for (size_t tree = 0; tree < trees; tree++) {
        const uint8_t *due = messages + size * (tree + 1) - WITNESS;
        for (int i = 0; i < WITNESS; i++) differences |= due[i] ^ proofs[WITNESS * tree + (size_t)i];
    }
    return differences == 0;
}
