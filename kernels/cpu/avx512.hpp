// What the two kernels for AVX-512 share. 16 lanes, 32 registers.
#pragma once

#include "body.hpp"

#include <immintrin.h>

namespace colrank {
namespace {

struct Avx512 {
    static constexpr int lanes = 16, registers = 32;
    static constexpr bool direct = false;
    using I = __m512i;
    using F = __m512;
    using B = __m256i;

    static I zero() { return _mm512_setzero_si512(); }
    static I load(void const* from) { return _mm512_loadu_si512(from); }
    static void store(void* to, I a) { _mm512_storeu_si512(to, a); }
    static I spread(void const* from) {
        std::int32_t value;
        std::memcpy(&value, from, sizeof value);
        return _mm512_set1_epi32(value);
    }
    static I dot8(I sum, I code, I query) { return _mm512_add_epi16(sum, _mm512_maddubs_epi16(code, query)); }
    static I dot16(I sum, I code, I query) { return _mm512_add_epi32(sum, _mm512_madd_epi16(code, query)); }
    static I widen(I sum, I part) {
        return _mm512_add_epi32(sum, _mm512_madd_epi16(part, _mm512_set1_epi16(1)));
    }
    static I add(I a, I b) { return _mm512_add_epi32(a, b); }
    static I sub(I a, I b) { return _mm512_sub_epi32(a, b); }
    static I twice(I a) { return _mm512_add_epi32(a, a); }
    static F to_float(I a) { return _mm512_cvtepi32_ps(a); }
    static F loadf(float const* from) { return _mm512_loadu_ps(from); }
    static void storef(float* to, F a) { _mm512_storeu_ps(to, a); }
    static F fill(float value) { return _mm512_set1_ps(value); }
    static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
    static F addf(F a, F b) { return _mm512_add_ps(a, b); }
    static F subf(F a, F b) { return _mm512_sub_ps(a, b); }
    static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
    static F max(F a, F b) { return _mm512_max_ps(b, a); }
    static void better(F& top, I& id, F value, std::int32_t number) {
        __mmask16 const above = _mm512_cmp_ps_mask(value, top, _CMP_GT_OQ);
        top = _mm512_mask_mov_ps(top, above, value);
        id = _mm512_mask_mov_epi32(id, above, _mm512_set1_epi32(number));
    }
    static void store_as_bytes(std::uint8_t* to, F a) {
        __m512i const whole = _mm512_max_epi32(_mm512_cvttps_epi32(a), _mm512_setzero_si512());
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtusepi32_epi8(whole));
    }
    static B load_bytes(std::uint8_t const* from) {
        return _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from));
    }
    static void store_bytes(std::uint8_t* to, B a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a); }
    static B max_bytes(B a, B b) { return _mm256_max_epu8(a, b); }
    static void halves(std::uint16_t const* from, std::int64_t count, float* to) {
        std::int64_t at = 0;
        for (; at + 16 <= count; at += 16)
            storef(to + at, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(from + at))));
        for (; at < count; ++at) to[at] = half_to_float(from[at]);
    }
};

}  // namespace
}  // namespace colrank
