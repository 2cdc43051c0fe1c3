/* A block of 16 bytes, AES's round on it and a carry-less product of its halves, in the instructions that this
 * processor has for them: x86-64 with AES-NI, PCLMUL and SSE4.1, or ARM with the extension `aes` (which has PMULL).
 * Both give the same bytes. Neither is time-dependent on data.
 */
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

#ifdef __aarch64__
#include <arm_neon.h>

typedef uint8x16_t block;
INLINE block b_load(const void *p) { return vld1q_u8(p); }
INLINE void b_store(void *p, block a) { vst1q_u8(p, a); }
INLINE block b_zero(void) { return vdupq_n_u8(0); }
INLINE block b_same(uint8_t byte) { return vdupq_n_u8(byte); }
INLINE block b_xor(block a, block b) { return veorq_u8(a, b); }
INLINE block b_and(block a, block b) { return vandq_u8(a, b); }
INLINE block b_words(uint64_t low, uint64_t high) {
    return vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
}
/* ARM's instruction adds its key first, Intel's last: a key of zeros, and the true one afterwards. */
INLINE block b_round(block a, block key) { return veorq_u8(vaesmcq_u8(vaeseq_u8(a, b_zero())), key); }
INLINE block b_last(block a, block key) { return veorq_u8(vaeseq_u8(a, b_zero()), key); }
INLINE block b_multiply(block a, block b, int i, int j) {
    poly64x2_t x = vreinterpretq_p64_u8(a), y = vreinterpretq_p64_u8(b);
    poly64_t left = i ? vgetq_lane_p64(x, 1) : vgetq_lane_p64(x, 0);
    poly64_t right = j ? vgetq_lane_p64(y, 1) : vgetq_lane_p64(y, 0);
    return vreinterpretq_u8_p128(vmull_p64(left, right));
}
#else
#include <immintrin.h>

typedef __m128i block;
INLINE block b_load(const void *p) { return _mm_loadu_si128(p); }
INLINE void b_store(void *p, block a) { _mm_storeu_si128(p, a); }
INLINE block b_zero(void) { return _mm_setzero_si128(); }
INLINE block b_same(uint8_t byte) { return _mm_set1_epi8((char)byte); }
INLINE block b_xor(block a, block b) { return _mm_xor_si128(a, b); }
INLINE block b_and(block a, block b) { return _mm_and_si128(a, b); }
INLINE block b_words(uint64_t low, uint64_t high) { return _mm_set_epi64x((long long)high, (long long)low); }
INLINE block b_round(block a, block key) { return _mm_aesenc_si128(a, key); }
INLINE block b_last(block a, block key) { return _mm_aesenclast_si128(a, key); }
INLINE block b_multiply(block a, block b, int i, int j) { /* halves i of a and j of b; constants where this is inlined */
    if (i) return j ? _mm_clmulepi64_si128(a, b, 0x11) : _mm_clmulepi64_si128(a, b, 0x01);
    return j ? _mm_clmulepi64_si128(a, b, 0x10) : _mm_clmulepi64_si128(a, b, 0x00);
}
#endif
