// A query as the kernels read it, and the table of what one instruction set offers.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

#include "tokens.hpp"

namespace colrank {

// Numbers at addresses that a whole cache line divides. Keeps its memory when it is asked for less.
template <typename T>
class Aligned {
public:
    Aligned() = default;
    Aligned(Aligned const&) = delete;
    Aligned& operator=(Aligned const&) = delete;
    ~Aligned() { release(); }

    void resize(std::size_t count) {
        if (count <= held_) return;
        release();
        data_ = static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{64}));
        held_ = count;
    }
    T* data() { return data_; }
    T const* data() const { return data_; }
    T& operator[](std::size_t at) { return data_[at]; }
    T const& operator[](std::size_t at) const { return data_[at]; }

private:
    void release() {
        if (data_ != nullptr) ::operator delete(data_, std::align_val_t{64});
        data_ = nullptr;
        held_ = 0;
    }
    T* data_ = nullptr;
    std::size_t held_ = 0;
};

struct Variant;

constexpr int kGroups = 4;       // groups of lanes that a kernel keeps in registers at once
constexpr int kDecoded = 64;     // tokens that are unpacked at a time
constexpr int kByteColumns = 32; // bytes of a row of the byte table that are read at once, past its end too

struct Query {
    Tokens const* tokens = nullptr;
    Variant const* variant = nullptr;  // the instruction set that it is laid out for
    int count = 0;   // query tokens
    int lanes = 0;   // of the instruction set
    int groups = 0;  // of `lanes` query tokens, the last one filled up with zeros
    std::vector<double> exact;   // [count, dim], as given
    std::vector<float> vectors;  // the same, rounded
    std::vector<float> weights;  // [count]

    // Whole vectors: for each run of up to kGroups groups [dim][groups of the run][lanes].
    Aligned<float> columns;
    // Products of codes (kind linear): 8-bit numbers [steps of 4 dimensions][groups of the run][lanes][4], or, for
    // codes of 8 bits, 16-bit numbers [steps of 2 dimensions][groups of the run][lanes][2]; dimensions in the
    // order in which codes are unpacked.
    Aligned<std::int8_t> packed;
    int steps = 0, places = 0;            // places: dimensions as they are unpacked, with those that fill up
    Aligned<std::int32_t> middle;         // [stride], sum of a token's small integers, times 2^bits - 1
    Aligned<float> half_step;             // [stride], half of what a token's small integers are multiples of
    std::vector<double> lost;             // [count], length of what rounding to small integers took away

    // Similarity to every centroid, [centroids, stride], and in bytes [centroids, byte_stride].
    Aligned<float> table;
    bool compared = false, in_bytes = false;  // whether the table is made, and that of bytes
    float prune = 0;                          // by which the bytes were made
    Aligned<std::uint8_t> bytes;
    int byte_stride = 0;
    std::vector<double> low, unit;  // [count]: a byte stands for low + unit * byte
    Aligned<float> factor, shift;   // [stride]: the byte of a similarity is the whole part of factor * it + shift

    int best_bytes() const { return (byte_stride + kByteColumns - 1) / kByteColumns * kByteColumns; }
    int stride() const { return groups * lanes; }
    bool integers() const { return tokens->kind == Kind::linear; }
    int run(int first) const { return groups - first < kGroups ? groups - first : kGroups; }
};

struct Variant {
    char const* name;
    int lanes;
    // best[stride]: largest similarity to any of some tokens, or, where `all` is not null, all of them
    // [tokens, stride]. `largest_scale` is raised to that of these tokens. False where an id is out of range.
    bool (*similarities)(Query const&, std::int64_t begin, std::int64_t end, float* best, float* all,
                         float* largest_scale);
    // Similarities of rows float32 [rows, dim] to the query's tokens: out [rows, stride].
    void (*products)(Query const&, float const* rows, std::int64_t count, float* out);
    // Rows of the byte table from those of the table.
    void (*to_bytes)(Query&, std::int64_t begin, std::int64_t end);
    // best[best_bytes]: largest byte of the table over the centroids of some tokens; past the query's tokens anything.
    bool (*best_bytes)(Query const&, std::int64_t begin, std::int64_t end, std::uint8_t* best);
    // How near some rows are to centroids laid out as runs of kGroups groups of columns: dot product less
    // `half_square`, out [count, runs * kGroups * lanes].
    void (*closeness)(float const* columns, float const* half_square, std::int64_t runs, int dim,
                      float const* const* rows, std::int64_t count, float* out);
    // The nearest of such centroids to each of some rows, as the number of its column; of equal ones the first.
    void (*nearest)(float const* columns, float const* half_square, std::int64_t runs, int dim, float const* const* rows,
                    std::int64_t count, float* best, std::int32_t* ids);
};

// Those that this processor can run, best first; `plain` is always there.
std::vector<Variant const*> const& variants();
Variant const& variant();
bool use_variant(char const* name);

}  // namespace colrank
