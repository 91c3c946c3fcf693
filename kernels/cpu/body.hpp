// The kernels, once for all instruction sets: each includes this in a file of its own, with a struct V of its
// vectors. A group is V::lanes query tokens side by side, one a lane, so that nothing is summed across lanes.
// Every similarity is computed by the same operations in the same order wherever its token stands.
#pragma once

#include <limits>

#include "query.hpp"

namespace colrank {
namespace {

// Codes [tokens, width] unpacked to one byte each, [tokens, places]: all first codes of the bytes, then all second.
template <int Bits>
void unpack_row(std::uint8_t const* code, int width, int padded, std::uint8_t* out) {
    for (int part = 0; part < 8 / Bits; ++part) {
        std::uint8_t* const to = out + part * padded;
        for (int b = 0; b < width; ++b) to[b] = static_cast<std::uint8_t>((code[b] >> (part * Bits)) & ((1 << Bits) - 1));
    }
}

template <int Bits, int Width>
void unpack_fixed(std::uint8_t const* code, std::int64_t tokens, std::uint8_t* out) {
    for (std::int64_t t = 0; t < tokens; ++t, code += Width, out += Width * (8 / Bits))
        unpack_row<Bits>(code, Width, Width, out);
}

template <int Bits>
void unpack_bits(std::uint8_t const* code, std::int64_t tokens, int width, int places, std::uint8_t* out) {
    int const padded = places / (8 / Bits);
    if (width == 16) return unpack_fixed<Bits, 16>(code, tokens, out);
    if (width == 32) return unpack_fixed<Bits, 32>(code, tokens, out);
    if (width == 64) return unpack_fixed<Bits, 64>(code, tokens, out);
    for (std::int64_t t = 0; t < tokens; ++t, code += width, out += places)
        unpack_row<Bits>(code, width, padded, out);
}

// What fills up a row meets a zero of the query, so that it may hold anything.
inline void unpack(Tokens const& tokens, std::uint8_t const* code, std::int64_t count, int places, void* out) {
    auto* const bytes = static_cast<std::uint8_t*>(out);
    if (tokens.bits == 1) return unpack_bits<1>(code, count, tokens.width, places, bytes);
    if (tokens.bits == 2) return unpack_bits<2>(code, count, tokens.width, places, bytes);
    if (tokens.bits == 4) return unpack_bits<4>(code, count, tokens.width, places, bytes);
    auto* words = static_cast<std::uint16_t*>(out);
    for (std::int64_t t = 0; t < count; ++t, code += tokens.width, words += places)
        for (int d = 0; d < tokens.width; ++d) words[d] = code[d];
}

// Tokens whose products are kept in registers together, for so many groups.
template <class V, int G>
constexpr int tile_tokens() {
    constexpr int accumulators = V::registers >= 32 ? 20 : 9;
    return accumulators / G < 1 ? 1 : accumulators / G > 8 ? 8 : accumulators / G;
}

template <class V>
struct Slice {  // of one run of groups
    void const* query;
    int steps, span;
    std::int32_t const* middle;
    float const* half_step;
    int stride;
    float* best;
    float* all;
};

template <class V, int G, int T, bool Wide>
inline void code_tile(Slice<V> const& slice, std::uint8_t const* codes, std::size_t code_bytes, float const* const* near,
                      float const* scale, float* all) {
    typename V::I sum[T][G];
    for (int t = 0; t < T; ++t)
        for (int g = 0; g < G; ++g) sum[t][g] = V::zero();
    auto const* query = static_cast<std::uint8_t const*>(slice.query);
    for (int step = 0; step < slice.steps;) {
        int const stop = slice.steps - step < slice.span ? slice.steps : step + slice.span;
        typename V::I part[T][G];
        for (int t = 0; t < T; ++t)
            for (int g = 0; g < G; ++g) part[t][g] = V::zero();
        for (; step < stop; ++step, query += G * V::lanes * 4) {
            typename V::I q[G];
            for (int g = 0; g < G; ++g) q[g] = V::load(query + g * V::lanes * 4);
            for (int t = 0; t < T; ++t) {
                typename V::I const code = V::spread(codes + t * code_bytes + 4 * step);
                for (int g = 0; g < G; ++g)
                    part[t][g] = Wide ? V::dot16(part[t][g], code, q[g]) : V::dot8(part[t][g], code, q[g]);
            }
        }
        for (int t = 0; t < T; ++t)
            for (int g = 0; g < G; ++g) sum[t][g] = Wide ? V::add(sum[t][g], part[t][g]) : V::widen(sum[t][g], part[t][g]);
    }
    for (int g = 0; g < G; ++g) {
        typename V::I const middle = V::load(slice.middle + g * V::lanes);
        typename V::F const half = V::loadf(slice.half_step + g * V::lanes);
        typename V::F best = V::loadf(slice.best + g * V::lanes);
        for (int t = 0; t < T; ++t) {
            typename V::F value = V::mul(V::to_float(V::sub(V::twice(sum[t][g]), middle)), half);
            value = V::addf(V::mul(value, V::fill(scale[t])), V::loadf(near[t] + g * V::lanes));
            best = V::max(best, value);
            if (all != nullptr) V::storef(all + t * slice.stride + g * V::lanes, value);
        }
        V::storef(slice.best + g * V::lanes, best);
    }
}

template <class V, int G, bool Wide>
void code_tiles(Slice<V> const& slice, std::uint8_t const* codes, std::size_t code_bytes, float const* const* near,
                float const* scale, std::int64_t tokens) {
    constexpr int T = tile_tokens<V, G>();
    std::int64_t t = 0;
    float* all = slice.all;
    auto const next = [&](int count) {
        t += count;
        codes += count * code_bytes;
        near += count;
        scale += count;
        if (all != nullptr) all += count * static_cast<std::int64_t>(slice.stride);
    };
    for (; t + T <= tokens; next(T)) code_tile<V, G, T, Wide>(slice, codes, code_bytes, near, scale, all);
    for (; t < tokens; next(1)) code_tile<V, G, 1, Wide>(slice, codes, code_bytes, near, scale, all);
}

template <class V, bool Wide>
void code_run(int groups, Slice<V> const& slice, std::uint8_t const* codes, std::size_t code_bytes,
              float const* const* near, float const* scale, std::int64_t tokens) {
    if (groups == 1) return code_tiles<V, 1, Wide>(slice, codes, code_bytes, near, scale, tokens);
    if (groups == 2) return code_tiles<V, 2, Wide>(slice, codes, code_bytes, near, scale, tokens);
    if (groups == 3) return code_tiles<V, 3, Wide>(slice, codes, code_bytes, near, scale, tokens);
    return code_tiles<V, 4, Wide>(slice, codes, code_bytes, near, scale, tokens);
}

// Steps after which sums of 16 bits must be taken over into 32: each adds two products of a code and 127.
inline int steps_of_16_bits(int bits) { return 32767 / (2 * 127 * ((1 << bits) - 1)); }

template <class V>
bool code_similarities(Query const& query, Block const& block, std::int64_t begin, std::int64_t end, float* best,
                       float* all, float* largest_scale) {
    Tokens const& tokens = *query.tokens;
    int const stride = query.stride();
    bool const wide = tokens.bits == 8;
    std::size_t const code_bytes = static_cast<std::size_t>(query.places) * (wide ? 2 : 1);
    thread_local Aligned<std::uint8_t> unpacked;
    unpacked.resize(code_bytes * kDecoded);
    float const* near[kDecoded];
    float const* shifted[kDecoded];
    float scale[kDecoded];
    for (; begin < end; begin += kDecoded) {
        std::int64_t const count = end - begin < kDecoded ? end - begin : kDecoded;
        float most = *largest_scale;
        for (std::int64_t t = 0; t < count; ++t) {
            std::int64_t const id = block.id(begin + t);
            if (id >= tokens.centroids) return false;
            near[t] = query.table.data() + id * stride;
            scale[t] = tokens.scales[block.scale[begin + t]];
            most = most < scale[t] ? scale[t] : most;
        }
        *largest_scale = most;
        unpack(tokens, block.code + begin * tokens.width, count, query.places, unpacked.data());
        std::int8_t const* packed = query.packed.data();
        for (int group = 0; group < query.groups; group += kGroups) {
            int const run = query.run(group), first = group * V::lanes;
            Slice<V> slice;
            slice.query = packed;
            slice.steps = query.steps;
            slice.span = wide || V::direct ? query.steps : steps_of_16_bits(tokens.bits);
            slice.middle = query.middle.data() + first;
            slice.half_step = query.half_step.data() + first;
            slice.stride = stride;
            slice.best = best + first;
            slice.all = all == nullptr ? nullptr : all + first;
            for (std::int64_t t = 0; t < count; ++t) shifted[t] = near[t] + first;
            if (wide)
                code_run<V, true>(run, slice, unpacked.data(), code_bytes, shifted, scale, count);
            else
                code_run<V, false>(run, slice, unpacked.data(), code_bytes, shifted, scale, count);
            packed += static_cast<std::int64_t>(query.steps) * run * V::lanes * 4;
        }
        if (all != nullptr) all += count * stride;
    }
    return true;
}

// Dot products of T rows with G groups of columns [dim][G][lanes].
template <class V, int G, int T>
inline void dots(float const* columns, int dim, float const* const* rows, typename V::F (&sum)[T][G]) {
    for (int t = 0; t < T; ++t)
        for (int g = 0; g < G; ++g) sum[t][g] = V::fill(0.0f);
    for (int d = 0; d < dim; ++d, columns += G * V::lanes) {
        typename V::F q[G];
        for (int g = 0; g < G; ++g) q[g] = V::loadf(columns + g * V::lanes);
        for (int t = 0; t < T; ++t) {
            typename V::F const x = V::fill(rows[t][d]);
            for (int g = 0; g < G; ++g) sum[t][g] = V::fma(x, q[g], sum[t][g]);
        }
    }
}

template <class V, int G, int T>
inline void float_tile(float const* columns, int dim, float const* rows, int stride, float* best, float* all) {
    typename V::F sum[T][G];
    float const* each[T];
    for (int t = 0; t < T; ++t) each[t] = rows + static_cast<std::int64_t>(t) * dim;
    dots<V, G, T>(columns, dim, each, sum);
    for (int t = 0; t < T; ++t)
        for (int g = 0; g < G; ++g) {
            if (all != nullptr) V::storef(all + static_cast<std::int64_t>(t) * stride + g * V::lanes, sum[t][g]);
            if (best != nullptr) V::storef(best + g * V::lanes, V::max(V::loadf(best + g * V::lanes), sum[t][g]));
        }
}

template <class V, int G>
void float_tiles(float const* columns, int dim, float const* rows, std::int64_t count, int stride, float* best,
                 float* all) {
    constexpr int T = tile_tokens<V, G>();
    std::int64_t t = 0;
    auto const at = [&] { return all == nullptr ? nullptr : all + t * stride; };
    for (; t + T <= count; t += T) float_tile<V, G, T>(columns, dim, rows + t * dim, stride, best, at());
    for (; t < count; ++t) float_tile<V, G, 1>(columns, dim, rows + t * dim, stride, best, at());
}

template <class V>
void float_rows(Query const& query, float const* rows, std::int64_t count, float* best, float* all) {
    int const dim = query.tokens->dim, stride = query.stride();
    float const* columns = query.columns.data();
    for (int group = 0; group < query.groups; group += kGroups) {
        int const run = query.run(group), first = group * V::lanes;
        float* const to_best = best == nullptr ? nullptr : best + first;
        float* const to_all = all == nullptr ? nullptr : all + first;
        if (run == 1)
            float_tiles<V, 1>(columns, dim, rows, count, stride, to_best, to_all);
        else if (run == 2)
            float_tiles<V, 2>(columns, dim, rows, count, stride, to_best, to_all);
        else if (run == 3)
            float_tiles<V, 3>(columns, dim, rows, count, stride, to_best, to_all);
        else
            float_tiles<V, 4>(columns, dim, rows, count, stride, to_best, to_all);
        columns += static_cast<std::int64_t>(dim) * run * V::lanes;
    }
}

template <class V>
void products(Query const& query, float const* rows, std::int64_t count, float* out) {
    // Rows by the block, so that each is read once from memory, whatever the number of groups.
    constexpr std::int64_t kRows = 128;
    for (std::int64_t begin = 0; begin < count; begin += kRows) {
        std::int64_t const some = count - begin < kRows ? count - begin : kRows;
        float_rows<V>(query, rows + begin * query.tokens->dim, some, nullptr, out + begin * query.stride());
    }
}

template <class V>
bool float_similarities(Query const& query, Block const& block, std::int64_t begin, std::int64_t end, float* best,
                        float* all) {
    Tokens const& tokens = *query.tokens;
    int const dim = tokens.dim;
    thread_local Aligned<float> decoded;
    decoded.resize(static_cast<std::size_t>(dim) * kDecoded);
    for (; begin < end; begin += kDecoded) {
        std::int64_t const count = end - begin < kDecoded ? end - begin : kDecoded;
        float const* rows = decoded.data();
        if (tokens.kind == Kind::whole) {
            rows = block.whole + begin * dim;
        } else if (tokens.kind == Kind::half) {
            V::halves(block.half + begin * dim, count * dim, decoded.data());
        } else {
            for (std::int64_t t = 0; t < count; ++t) {
                if (block.id(begin + t) >= tokens.centroids) return false;
                decode_token(tokens, block, begin + t, decoded.data() + t * dim);
            }
        }
        float_rows<V>(query, rows, count, best, all);
        if (all != nullptr) all += count * query.stride();
    }
    return true;
}

template <class V>
bool similarities(Query const& query, std::int64_t begin, std::int64_t end, float* best, float* all,
                  float* largest_scale) {
    Tokens const& tokens = *query.tokens;
    for (int at = 0; at < query.stride(); ++at) best[at] = -std::numeric_limits<float>::infinity();
    for (std::size_t at = tokens.block_of(begin); begin < end; ++at) {
        Block const& block = tokens.blocks[at];
        std::int64_t const start = tokens.starts[at];
        std::int64_t const stop = end < tokens.starts[at + 1] ? end : tokens.starts[at + 1];
        bool const sound =
            query.integers()
                ? code_similarities<V>(query, block, begin - start, stop - start, best, all, largest_scale)
                : float_similarities<V>(query, block, begin - start, stop - start, best, all);
        if (!sound) return false;
        if (all != nullptr) all += (stop - begin) * query.stride();
        begin = stop;
    }
    return true;
}

template <class V>
void to_bytes(Query& query, std::int64_t begin, std::int64_t end) {
    int const stride = query.stride();
    for (std::int64_t id = begin; id < end; ++id) {
        float const* const row = query.table.data() + id * stride;
        std::uint8_t* const to = query.bytes.data() + id * query.byte_stride;
        for (int at = 0; at < stride; at += V::lanes) {
            typename V::F const value = V::addf(V::mul(V::loadf(row + at), V::loadf(query.factor.data() + at)),
                                                V::loadf(query.shift.data() + at));
            V::store_as_bytes(to + at, value);
        }
    }
}

template <class V, typename Id>
bool best_of(Query const& query, Id const* ids, std::int64_t count, std::uint8_t* best) {
    std::uint8_t const* const table = query.bytes.data();
    std::uint64_t const centroids = static_cast<std::uint64_t>(query.tokens->centroids);
    std::size_t const stride = static_cast<std::size_t>(query.byte_stride);
    for (std::size_t column = 0; column < stride; column += kByteColumns) {
        typename V::B most = V::load_bytes(best + column);
        for (std::int64_t t = 0; t < count; ++t) {
            std::uint64_t const id = ids[t];
            if (id >= centroids) return false;
            most = V::max_bytes(most, V::load_bytes(table + id * stride + column));
        }
        V::store_bytes(best + column, most);
    }
    return true;
}

template <class V>
bool best_bytes(Query const& query, std::int64_t begin, std::int64_t end, std::uint8_t* best) {
    Tokens const& tokens = *query.tokens;
    for (int at = 0; at < query.best_bytes(); ++at) best[at] = 0;
    for (std::size_t at = tokens.block_of(begin); begin < end; ++at) {
        Block const& block = tokens.blocks[at];
        std::int64_t const from = begin - tokens.starts[at];
        std::int64_t const stop = end < tokens.starts[at + 1] ? end : tokens.starts[at + 1];
        bool const sound = block.id16 != nullptr ? best_of<V>(query, block.id16 + from, stop - begin, best)
                                                 : best_of<V>(query, block.id32 + from, stop - begin, best);
        if (!sound) return false;
        begin = stop;
    }
    return true;
}

template <class V, int T>
inline void apart(float const* columns, float const* half_square, int dim, float const* const* rows, std::int64_t stride,
                  float* out) {
    constexpr int G = kGroups;
    typename V::F sum[T][G];
    dots<V, G, T>(columns, dim, rows, sum);
    for (int t = 0; t < T; ++t)
        for (int g = 0; g < G; ++g)
            V::storef(out + t * stride + g * V::lanes, V::subf(sum[t][g], V::loadf(half_square + g * V::lanes)));
}

template <class V>
void closeness(float const* columns, float const* half_square, std::int64_t runs, int dim, float const* const* rows,
               std::int64_t count, float* out) {
    constexpr int T = tile_tokens<V, kGroups>(), width = kGroups * V::lanes;
    std::int64_t const stride = runs * width;
    for (std::int64_t run = 0; run < runs; ++run, columns += static_cast<std::int64_t>(dim) * width, half_square += width) {
        std::int64_t t = 0;
        for (; t + T <= count; t += T)
            apart<V, T>(columns, half_square, dim, rows + t, stride, out + t * stride + run * width);
        for (; t < count; ++t)
            apart<V, 1>(columns, half_square, dim, rows + t, stride, out + t * stride + run * width);
    }
}

template <class V, int T>
inline void nearer(float const* columns, float const* half_square, std::int32_t first, int dim, float const* const* rows,
                   float* best, std::int32_t* ids) {
    constexpr int G = kGroups;
    typename V::F sum[T][G];
    dots<V, G, T>(columns, dim, rows, sum);
    for (int t = 0; t < T; ++t, best += V::lanes, ids += V::lanes) {
        typename V::F top = V::loadf(best);
        typename V::I id = V::load(ids);
        for (int g = 0; g < G; ++g)
            V::better(top, id, V::subf(sum[t][g], V::loadf(half_square + g * V::lanes)), first + g * V::lanes);
        V::storef(best, top);
        V::store(ids, id);
    }
}

// What is best so far is kept for each lane, and the lanes are compared when all centroids have passed; a run of
// columns stays in the nearest cache while the rows pass.
template <class V>
void nearest(float const* columns, float const* half_square, std::int64_t runs, int dim, float const* const* rows,
             std::int64_t count, float* best, std::int32_t* ids) {
    constexpr int T = tile_tokens<V, kGroups>();
    thread_local Aligned<float> values;
    thread_local Aligned<std::int32_t> places;
    values.resize(static_cast<std::size_t>(count) * V::lanes);
    places.resize(static_cast<std::size_t>(count) * V::lanes);
    for (std::int64_t at = 0; at < count * V::lanes; ++at) {
        values[static_cast<std::size_t>(at)] = -std::numeric_limits<float>::infinity();
        places[static_cast<std::size_t>(at)] = 0;
    }
    constexpr int width = kGroups * V::lanes;
    for (std::int64_t run = 0; run < runs; ++run, columns += static_cast<std::int64_t>(dim) * width, half_square += width) {
        std::int32_t const first = static_cast<std::int32_t>(run * width);
        std::int64_t t = 0;
        for (; t + T <= count; t += T)
            nearer<V, T>(columns, half_square, first, dim, rows + t, values.data() + t * V::lanes,
                         places.data() + t * V::lanes);
        for (; t < count; ++t)
            nearer<V, 1>(columns, half_square, first, dim, rows + t, values.data() + t * V::lanes,
                         places.data() + t * V::lanes);
    }
    for (std::int64_t t = 0; t < count; ++t) {
        float const* const value = values.data() + t * V::lanes;
        std::int32_t const* const place = places.data() + t * V::lanes;
        best[t] = value[0];
        ids[t] = place[0];  // each lane gives the number of its group's first centroid
        for (int lane = 1; lane < V::lanes; ++lane)
            if (value[lane] > best[t] || (value[lane] == best[t] && place[lane] + lane < ids[t])) {
                best[t] = value[lane];
                ids[t] = place[lane] + lane;
            }
    }
}

template <class V>
constexpr Variant variant_of(char const* name) {
    return {name, V::lanes, similarities<V>, products<V>, to_bytes<V>, best_bytes<V>, closeness<V>, nearest<V>};
}

}  // namespace
}  // namespace colrank
