// Kernels for AArch64, where NEON is always there.
#include "body.hpp"

#include <arm_neon.h>

namespace colrank {
namespace {

struct Neon {
    static constexpr int lanes = 4, registers = 32;
    static constexpr bool direct = true;
    using I = int32x4_t;
    using F = float32x4_t;
    struct B {
        uint8x16_t low, high;
    };

    static I zero() { return vdupq_n_s32(0); }
    static I load(void const* from) { return vreinterpretq_s32_u8(vld1q_u8(static_cast<std::uint8_t const*>(from))); }
    static void store(void* to, I a) { vst1q_u8(static_cast<std::uint8_t*>(to), vreinterpretq_u8_s32(a)); }
    static I spread(void const* from) {
        std::int32_t value;
        std::memcpy(&value, from, sizeof value);
        return vdupq_n_s32(value);
    }
    static I dot8(I sum, I code, I query) {
        // Codes are at most 15, so that they are the same numbers with a sign.
        int8x16_t const a = vreinterpretq_s8_s32(code), b = vreinterpretq_s8_s32(query);
        int16x8_t const low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
        return vpadalq_s16(sum, vpaddq_s16(low, high));
    }
    static I dot16(I sum, I code, I query) {
        int16x8_t const a = vreinterpretq_s16_s32(code), b = vreinterpretq_s16_s32(query);
        int32x4_t const low = vmull_s16(vget_low_s16(a), vget_low_s16(b)), high = vmull_high_s16(a, b);
        return vaddq_s32(sum, vpaddq_s32(low, high));
    }
    static I widen(I sum, I part) { return add(sum, part); }
    static I add(I a, I b) { return vaddq_s32(a, b); }
    static I sub(I a, I b) { return vsubq_s32(a, b); }
    static I twice(I a) { return vaddq_s32(a, a); }
    static F to_float(I a) { return vcvtq_f32_s32(a); }
    static F loadf(float const* from) { return vld1q_f32(from); }
    static void storef(float* to, F a) { vst1q_f32(to, a); }
    static F fill(float value) { return vdupq_n_f32(value); }
    static F mul(F a, F b) { return vmulq_f32(a, b); }
    static F addf(F a, F b) { return vaddq_f32(a, b); }
    static F subf(F a, F b) { return vsubq_f32(a, b); }
    static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
    static F max(F a, F b) { return vmaxnmq_f32(a, b); }
    static void better(F& top, I& id, F value, std::int32_t number) {
        uint32x4_t const above = vcgtq_f32(value, top);
        top = vbslq_f32(above, value, top);
        id = vbslq_s32(above, vdupq_n_s32(number), id);
    }
    static void store_as_bytes(std::uint8_t* to, F a) {
        uint16x4_t const words = vqmovun_s32(vcvtq_s32_f32(a));
        uint8x8_t const bytes = vqmovn_u16(vcombine_u16(words, words));
        std::uint32_t const four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
        std::memcpy(to, &four, sizeof four);
    }
    static B load_bytes(std::uint8_t const* from) { return {vld1q_u8(from), vld1q_u8(from + 16)}; }
    static void store_bytes(std::uint8_t* to, B a) {
        vst1q_u8(to, a.low);
        vst1q_u8(to + 16, a.high);
    }
    static B max_bytes(B a, B b) { return {vmaxq_u8(a.low, b.low), vmaxq_u8(a.high, b.high)}; }
    static void halves(std::uint16_t const* from, std::int64_t count, float* to) {
        std::int64_t at = 0;
        for (; at + 4 <= count; at += 4)
            storef(to + at, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + at))));
        for (; at < count; ++at) to[at] = half_to_float(from[at]);
    }
};

}  // namespace

extern Variant const neon_variant;
Variant const neon_variant = variant_of<Neon>("neon");

}  // namespace colrank
