// Kernels without any instruction set of their own: for machines that have none, and to hold the others against.
#include "body.hpp"

namespace colrank {
namespace {

struct Plain {
    static constexpr int lanes = 8, registers = 16;
    static constexpr bool direct = true;
    struct I {
        std::int32_t at[lanes];
    };
    struct F {
        float at[lanes];
    };
    struct B {
        std::uint8_t at[kByteColumns];
    };
    template <class Made, class Function>
    static Made each(Function function) {
        Made out;
        for (int lane = 0; lane < lanes; ++lane) out.at[lane] = function(lane);
        return out;
    }
    static I zero() { return each<I>([](int) { return 0; }); }
    static I load(void const* from) {
        I out;
        std::memcpy(out.at, from, sizeof out.at);
        return out;
    }
    static void store(void* to, I a) { std::memcpy(to, a.at, sizeof a.at); }
    static I spread(void const* from) {
        std::int32_t value;
        std::memcpy(&value, from, sizeof value);
        return each<I>([&](int) { return value; });
    }
    static I dot8(I sum, I code, I query) {
        auto const* const codes = reinterpret_cast<std::uint8_t const*>(code.at);
        auto const* const numbers = reinterpret_cast<std::int8_t const*>(query.at);
        for (int at = 0; at < lanes * 4; ++at) sum.at[at / 4] += codes[at] * numbers[at];
        return sum;
    }
    static I dot16(I sum, I code, I query) {
        for (int lane = 0; lane < lanes; ++lane) {
            std::uint16_t codes[2];
            std::int16_t numbers[2];
            std::memcpy(codes, &code.at[lane], sizeof codes);
            std::memcpy(numbers, &query.at[lane], sizeof numbers);
            sum.at[lane] += codes[0] * numbers[0] + codes[1] * numbers[1];
        }
        return sum;
    }
    static I widen(I sum, I part) { return add(sum, part); }
    static I add(I a, I b) {
        return each<I>([&](int lane) { return a.at[lane] + b.at[lane]; });
    }
    static I sub(I a, I b) {
        return each<I>([&](int lane) { return a.at[lane] - b.at[lane]; });
    }
    static I twice(I a) { return add(a, a); }
    static F to_float(I a) {
        return each<F>([&](int lane) { return static_cast<float>(a.at[lane]); });
    }
    static F loadf(float const* from) {
        F out;
        std::memcpy(out.at, from, sizeof out.at);
        return out;
    }
    static void storef(float* to, F a) { std::memcpy(to, a.at, sizeof a.at); }
    static F fill(float value) {
        return each<F>([&](int) { return value; });
    }
    static F mul(F a, F b) {
        return each<F>([&](int lane) { return a.at[lane] * b.at[lane]; });
    }
    static F addf(F a, F b) {
        return each<F>([&](int lane) { return a.at[lane] + b.at[lane]; });
    }
    static F subf(F a, F b) {
        return each<F>([&](int lane) { return a.at[lane] - b.at[lane]; });
    }
    static F fma(F a, F b, F c) { return addf(mul(a, b), c); }
    static F max(F a, F b) {
        return each<F>([&](int lane) { return a.at[lane] < b.at[lane] ? b.at[lane] : a.at[lane]; });
    }
    static void better(F& top, I& id, F value, std::int32_t number) {
        for (int lane = 0; lane < lanes; ++lane)
            if (value.at[lane] > top.at[lane]) {
                top.at[lane] = value.at[lane];
                id.at[lane] = number;
            }
    }
    static void store_as_bytes(std::uint8_t* to, F a) {
        for (int lane = 0; lane < lanes; ++lane) {
            std::int32_t const value = static_cast<std::int32_t>(a.at[lane]);
            to[lane] = static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
        }
    }
    static B load_bytes(std::uint8_t const* from) {
        B out;
        std::memcpy(out.at, from, sizeof out.at);
        return out;
    }
    static void store_bytes(std::uint8_t* to, B a) { std::memcpy(to, a.at, sizeof a.at); }
    static B max_bytes(B a, B b) {
        for (int at = 0; at < kByteColumns; ++at) a.at[at] = a.at[at] < b.at[at] ? b.at[at] : a.at[at];
        return a;
    }
    static void halves(std::uint16_t const* from, std::int64_t count, float* to) {
        for (std::int64_t at = 0; at < count; ++at) to[at] = half_to_float(from[at]);
    }
};

}  // namespace

extern Variant const plain_variant;
Variant const plain_variant = variant_of<Plain>("plain");

}  // namespace colrank
