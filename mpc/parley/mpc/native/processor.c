/* What this processor can do, asked of itself: a container may hide /proc, a Mac has none, and under emulation it is
 * another machine's. Compiled for the least processor that a wheel is for.
 *
 * Bits, in the order of FEATURES in mpc/processor.py.
 */
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum { AES, PRODUCT, SSE41, AVX512F, AVX512BW, AVX512DQ, AVX512VL, AVX512_VNNI, GFNI, VAES, VPCLMULQDQ, AVX2, FMA };

#if defined(__x86_64__)
#include <cpuid.h>

#define BIT(of, place, feature) ((uint64_t)((of) >> (place) & 1) << (feature))

EXPORT uint64_t features(void) {
    unsigned a, b, c, d, saved = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    uint64_t found = BIT(c, 25, AES) | BIT(c, 1, PRODUCT) | BIT(c, 19, SSE41);
    if (c >> 27 & 1) __asm__("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
    if ((saved & 0x6) != 0x6) return found; /* the system does not keep registers of 256 bits */
    found |= BIT(c, 12, FMA);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
    found |= BIT(b, 5, AVX2);
    if ((saved & 0xe6) != 0xe6) return found; /* nor of 512 */
    found |= BIT(b, 16, AVX512F) | BIT(b, 30, AVX512BW) | BIT(b, 17, AVX512DQ) | BIT(b, 31, AVX512VL);
    return found | BIT(c, 11, AVX512_VNNI) | BIT(c, 8, GFNI) | BIT(c, 9, VAES) | BIT(c, 10, VPCLMULQDQ);
}
#elif defined(__APPLE__)
#include <sys/sysctl.h>

static uint64_t has(const char *name) { /* macOS 11 does not know the question, and runs on no ARM without either */
    int found = 0;
    size_t size = sizeof found;
    return sysctlbyname(name, &found, &size, 0, 0) || found;
}
EXPORT uint64_t features(void) {
    return has("hw.optional.arm.FEAT_AES") << AES | has("hw.optional.arm.FEAT_PMULL") << PRODUCT;
}
#else
#include <sys/auxv.h>

EXPORT uint64_t features(void) {
    unsigned long found = getauxval(AT_HWCAP); /* bits of <asm/hwcap.h> */
    return (found >> 3 & 1) << AES | (found >> 4 & 1) << PRODUCT;
}
#endif
