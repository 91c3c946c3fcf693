// Which instruction set is used: the best that the processor has and that proves itself, or the one asked for.
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>

#include "clusters.hpp"
#include "engine.hpp"

namespace colrank {

extern Variant const plain_variant;
#if defined(COLRANK_X86)
extern Variant const avx2_variant, avx512_variant, avx512vnni_variant;
#elif defined(COLRANK_ARM64)
extern Variant const neon_variant;
#endif

namespace {

// Whether the parts that keep no codes agree: half precision, and the nearest of some centroids.
bool floats_agree(Variant const& tried) {
    constexpr int dim = 40, count = 70, rows = 90;
    std::mt19937 random(2);
    std::uniform_real_distribution<float> number(-1.0f, 1.0f);
    std::vector<float> centroid(dim * count), vectors(dim * rows);
    for (float& value : centroid) value = number(random);
    for (float& value : vectors) value = number(random);
    std::vector<float const*> each;
    for (int row = 0; row < rows; ++row) each.push_back(vectors.data() + row * dim);
    std::vector<std::int32_t> numbers(count), found[2];
    for (int id = 0; id < count; ++id) numbers[static_cast<std::size_t>(id)] = id;
    Variant const* const both[2] = {&plain_variant, &tried};
    for (int at = 0; at < 2; ++at) {
        Columns columns;
        columns.lay_out(*both[at], centroid.data(), dim, numbers);
        std::vector<float> near(rows);
        found[at].resize(rows);
        columns.nearest(each.data(), rows, near.data(), found[at].data());
        std::vector<float> close(static_cast<std::size_t>(rows * columns.runs * kGroups * both[at]->lanes));
        both[at]->closeness(columns.columns.data(), columns.half_square.data(), columns.runs, dim, each.data(), rows,
                            close.data());
        for (int row = 0; row < rows; ++row) {
            auto const at_row = static_cast<std::size_t>(row);
            auto const place = static_cast<std::size_t>(row * columns.runs * kGroups * both[at]->lanes + found[at][at_row]);
            if (std::abs(close[place] - near[at_row]) > 1e-5f) return false;
        }
    }
    Tokens halves;
    halves.kind = Kind::half;
    halves.bits = 16;
    halves.dim = dim;
    std::vector<std::uint16_t> stored(static_cast<std::size_t>(dim) * rows);
    for (auto& value : stored) value = static_cast<std::uint16_t>(random() % 0x3c00u);
    Block block;
    block.half = stored.data();
    block.tokens = rows;
    halves.blocks = {block};
    halves.starts = {0, rows};
    std::vector<double> asked(dim, 0.125);
    float const weight = 1.0f;
    float best[2], scale = 0;
    for (int at = 0; at < 2; ++at) {
        Query query;
        prepare(query, *both[at], halves, asked.data(), &weight, 1);
        std::vector<float> top(static_cast<std::size_t>(query.stride()));
        both[at]->similarities(query, 0, rows, top.data(), nullptr, &scale);
        best[at] = top[0];
    }
    return found[0] == found[1] && std::abs(best[0] - best[1]) < 1e-4f;
}

// Whether a kernel agrees with the plain one on a small example. Not every one could be run where it was
// written; one that errs on a processor is not used there.
bool proves_itself(Variant const& tried) {
    constexpr int dim = 40, count = 70, centroids = 5, queries = 35;
    std::mt19937 random(1);
    std::uniform_real_distribution<float> number(-1.0f, 1.0f);
    std::vector<float> centroid(dim * centroids), weights(queries, 1.0f);
    std::vector<double> vectors(dim * queries);
    for (float& value : centroid) value = number(random);
    for (double& value : vectors) value = number(random);
    for (int bits : {1, 2, 4, 8}) {
        Tokens tokens;
        tokens.kind = Kind::linear;
        tokens.bits = bits;
        tokens.dim = dim;
        tokens.width = dim * bits / 8;
        tokens.centroids = centroids;
        tokens.centroid = centroid.data();
        tokens.longest_centroid = std::sqrt(static_cast<double>(dim));
        for (float& value : tokens.scales) value = number(random) + 1.0f;
        std::vector<std::uint8_t> code(static_cast<std::size_t>(tokens.width) * count), scale(count);
        std::vector<std::uint16_t> ids(count);
        for (auto& value : code) value = static_cast<std::uint8_t>(random());
        for (auto& value : scale) value = static_cast<std::uint8_t>(random());
        for (auto& value : ids) value = static_cast<std::uint16_t>(random() % centroids);
        Block block;
        block.code = code.data();
        block.id16 = ids.data();
        block.scale = scale.data();
        block.tokens = count;
        tokens.blocks = {block};
        tokens.starts = {0, count};
        std::vector<float> found[2];
        std::vector<std::uint8_t> bytes[2];
        Variant const* const both[2] = {&plain_variant, &tried};
        for (int at = 0; at < 2; ++at) {
            Query query;
            prepare(query, *both[at], tokens, vectors.data(), weights.data(), queries);
            found[at].assign(static_cast<std::size_t>(query.stride()), 0.0f);
            compare_centroids(query, true, -1.0f);
            // The same table for both: what remains is the same numbers in the same order.
            for (int id = 0; id < centroids; ++id)
                for (int q = 0; q < queries; ++q) {
                    double sum = 0;
                    for (int d = 0; d < dim; ++d) sum += vectors[q * dim + d] * centroid[id * dim + d];
                    if (std::abs(query.table[id * query.stride() + q] - sum) > 1e-4) return false;
                    query.table[id * query.stride() + q] = static_cast<float>(sum);
                }
            float largest = 0;
            both[at]->similarities(query, 0, count, found[at].data(), nullptr, &largest);
            found[at].resize(queries);
            query.in_bytes = false;
            compare_centroids(query, true, -1.0f);
            bytes[at].resize(static_cast<std::size_t>(query.best_bytes()));
            both[at]->best_bytes(query, 0, count, bytes[at].data());
            bytes[at].resize(queries);
        }
        if (found[0] != found[1] || bytes[0] != bytes[1]) return false;
    }
    return floats_agree(tried);
}

std::vector<Variant const*> supported() {
    std::vector<Variant const*> found;
#if defined(COLRANK_X86)
    __builtin_cpu_init();
    bool const wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (wide && __builtin_cpu_supports("avx512vnni")) found.push_back(&avx512vnni_variant);
    if (wide) found.push_back(&avx512_variant);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
        found.push_back(&avx2_variant);
#elif defined(COLRANK_ARM64)
    found.push_back(&neon_variant);
#endif
    found.erase(std::remove_if(found.begin(), found.end(), [](Variant const* one) { return !proves_itself(*one); }),
                found.end());
    found.push_back(&plain_variant);
    return found;
}

std::atomic<Variant const*> chosen{nullptr};

}  // namespace

std::vector<Variant const*> const& variants() {
    static std::vector<Variant const*> const found = supported();
    return found;
}

Variant const& variant() {
    Variant const* const one = chosen.load();
    return one != nullptr ? *one : *variants().front();
}

bool use_variant(char const* name) {
    for (Variant const* one : variants())
        if (std::strcmp(one->name, name) == 0) {
            chosen.store(one);
            return true;
        }
    return false;
}

}  // namespace colrank
