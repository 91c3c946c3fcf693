// Stored tokens as the kernels read them: pointers into mapped shards, nothing owned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace colrank {

enum class Kind { linear, quantile, half, whole };

// One record batch of a shard. Of `code`, `half` and `whole` the one that the kind has is there.
struct Block {
    std::uint8_t const* code = nullptr;    // [tokens, width]
    std::uint16_t const* half = nullptr;   // [tokens, dim], float16
    float const* whole = nullptr;          // [tokens, dim]
    std::uint16_t const* id16 = nullptr;   // [tokens], one of the two where there are centroids
    std::uint32_t const* id32 = nullptr;
    std::uint8_t const* scale = nullptr;          // kind linear
    std::uint16_t const* inverse_norm = nullptr;  // kind quantile, float16
    std::int64_t tokens = 0;

    std::uint32_t id(std::int64_t token) const { return id16 != nullptr ? id16[token] : id32[token]; }
};

struct Tokens {
    Kind kind = Kind::whole;
    int bits = 32, dim = 0;
    int width = 0;                // bytes of a token's code
    std::int64_t centroids = 0;   // 0: none
    float const* centroid = nullptr;  // [centroids, dim]
    double longest_centroid = 0;
    float scales[256] = {};           // what a scale byte stands for
    std::vector<float> table;         // [256, 8 / bits], levels of the codes that a byte packs
    std::uint32_t code_sum[256] = {}, code_square[256] = {};  // of the codes that a byte packs
    std::vector<Block> blocks;
    std::vector<std::int64_t> starts;  // number of each block's first token, and of all

    std::size_t block_of(std::int64_t token) const {
        return static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), token) - starts.begin()) - 1;
    }

    void sum_codes() {
        for (int byte = 0; byte < 256; ++byte)
            for (int shift = 0; shift < 8; shift += bits) {
                std::uint32_t const code = (static_cast<std::uint32_t>(byte) >> shift) & ((1u << bits) - 1);
                code_sum[byte] += code;
                code_square[byte] += code * code;
            }
    }

    bool coded() const { return kind == Kind::linear || kind == Kind::quantile; }
};

inline float half_to_float(std::uint16_t half) {
    std::uint32_t const sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
    std::uint32_t exponent = (half >> 10) & 0x1fu, fraction = half & 0x3ffu;
    std::uint32_t bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000u | (fraction << 13);
    } else if (exponent != 0) {
        bits = sign | ((exponent + 112) << 23) | (fraction << 13);
    } else if (fraction == 0) {
        bits = sign;
    } else {
        exponent = 113;
        while ((fraction & 0x400u) == 0) {
            fraction <<= 1;
            --exponent;
        }
        bits = sign | (exponent << 23) | ((fraction & 0x3ffu) << 13);
    }
    float out;
    std::memcpy(&out, &bits, sizeof out);
    return out;
}

// Decodes one token to float32, each sum and product rounded by itself as NumPy does it. The id must be in range.
inline void decode_token(Tokens const& tokens, Block const& block, std::int64_t token, float* out) {
    int const dim = tokens.dim;
    if (tokens.kind == Kind::whole) {
        std::memcpy(out, block.whole + token * dim, sizeof(float) * static_cast<std::size_t>(dim));
        return;
    }
    if (tokens.kind == Kind::half) {
        for (int d = 0; d < dim; ++d) out[d] = half_to_float(block.half[token * dim + d]);
        return;
    }
    int const each = 8 / tokens.bits;
    std::uint8_t const* const code = block.code + token * tokens.width;
    float const* const base = tokens.centroid + static_cast<std::int64_t>(block.id(token)) * dim;
    float const* const levels = tokens.table.data();
    if (tokens.kind == Kind::linear) {
        float const scale = tokens.scales[block.scale[token]];
        int const whole = dim / each;
        for (int b = 0; b < whole; ++b)
            for (int j = 0; j < each; ++j) out[b * each + j] = scale * levels[code[b] * each + j] + base[b * each + j];
        for (int d = whole * each; d < dim; ++d) out[d] = scale * levels[code[whole] * each + d % each] + base[d];
    } else {
        float const inverse = half_to_float(block.inverse_norm[token]);
        for (int d = 0; d < dim; ++d) out[d] = (levels[code[d / each] * each + d % each] + base[d]) * inverse;
    }
}

}  // namespace colrank
