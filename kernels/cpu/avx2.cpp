// Kernels for AVX2 with FMA and F16C: sums of 8-bit products in 16 bits, taken over into 32 before they overflow.
#include "body.hpp"

#include <immintrin.h>

namespace colrank {
namespace {

struct Avx2 {
    static constexpr int lanes = 8, registers = 16;
    static constexpr bool direct = false;
    using I = __m256i;
    using F = __m256;
    using B = __m256i;

    static I zero() { return _mm256_setzero_si256(); }
    static I load(void const* from) { return _mm256_loadu_si256(static_cast<__m256i const*>(from)); }
    static void store(void* to, I a) { _mm256_storeu_si256(static_cast<__m256i*>(to), a); }
    static I spread(void const* from) {
        std::int32_t value;
        std::memcpy(&value, from, sizeof value);
        return _mm256_set1_epi32(value);
    }
    static I dot8(I sum, I code, I query) { return _mm256_add_epi16(sum, _mm256_maddubs_epi16(code, query)); }
    static I dot16(I sum, I code, I query) { return _mm256_add_epi32(sum, _mm256_madd_epi16(code, query)); }
    static I widen(I sum, I part) {
        return _mm256_add_epi32(sum, _mm256_madd_epi16(part, _mm256_set1_epi16(1)));
    }
    static I add(I a, I b) { return _mm256_add_epi32(a, b); }
    static I sub(I a, I b) { return _mm256_sub_epi32(a, b); }
    static I twice(I a) { return _mm256_add_epi32(a, a); }
    static F to_float(I a) { return _mm256_cvtepi32_ps(a); }
    static F loadf(float const* from) { return _mm256_loadu_ps(from); }
    static void storef(float* to, F a) { _mm256_storeu_ps(to, a); }
    static F fill(float value) { return _mm256_set1_ps(value); }
    static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
    static F addf(F a, F b) { return _mm256_add_ps(a, b); }
    static F subf(F a, F b) { return _mm256_sub_ps(a, b); }
    static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
    static F max(F a, F b) { return _mm256_max_ps(b, a); }
    static void better(F& top, I& id, F value, std::int32_t number) {
        F const above = _mm256_cmp_ps(value, top, _CMP_GT_OQ);
        top = _mm256_blendv_ps(top, value, above);
        id = _mm256_blendv_epi8(id, _mm256_set1_epi32(number), _mm256_castps_si256(above));
    }
    static void store_as_bytes(std::uint8_t* to, F a) {
        __m256i const whole = _mm256_cvttps_epi32(a);
        __m128i const words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
    }
    static B load_bytes(std::uint8_t const* from) { return load(from); }
    static void store_bytes(std::uint8_t* to, B a) { store(to, a); }
    static B max_bytes(B a, B b) { return _mm256_max_epu8(a, b); }
    static void halves(std::uint16_t const* from, std::int64_t count, float* to) {
        std::int64_t at = 0;
        for (; at + 8 <= count; at += 8)
            storef(to + at, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(from + at))));
        for (; at < count; ++at) to[at] = half_to_float(from[at]);
    }
};

}  // namespace

extern Variant const avx2_variant;
Variant const avx2_variant = variant_of<Avx2>("avx2");

}  // namespace colrank
