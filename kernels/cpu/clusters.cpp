#include "clusters.hpp"

#include <algorithm>
#include <limits>

#include "pool.hpp"

namespace colrank {
namespace {

constexpr std::int64_t kTogether = 256;  // rows that pass by a run of columns while it is at hand
constexpr std::int64_t kNear = 64;       // rows whose groups are looked for at a time
constexpr std::int64_t kBlock = 2048;    // rows that are shared out among groups at a time

}  // namespace

void Columns::lay_out(Variant const& one, float const* centroids, int dimensions, std::vector<std::int32_t> numbers) {
    variant = &one;
    dim = dimensions;
    ids = std::move(numbers);
    std::int64_t const width = kGroups * one.lanes, count = static_cast<std::int64_t>(ids.size());
    runs = (count + width - 1) / width;
    columns.resize(static_cast<std::size_t>(runs * width * dim));
    half_square.resize(static_cast<std::size_t>(runs * width));
    for (std::int64_t at = 0; at < runs * width; ++at) {
        float* const to = columns.data() + at / width * width * dim + at % width;
        double square = 0;
        for (int d = 0; d < dim; ++d) {
            float const value =
                at < count ? centroids[static_cast<std::int64_t>(ids[static_cast<std::size_t>(at)]) * dim + d] : 0.0f;
            to[d * width] = value;
            square += static_cast<double>(value) * value;
        }
        half_square[static_cast<std::size_t>(at)] =
            at < count ? static_cast<float>(square / 2) : std::numeric_limits<float>::infinity();
    }
}

void Columns::nearest(float const* const* rows, std::int64_t count, float* best, std::int32_t* found) const {
    for (std::int64_t begin = 0; begin < count; begin += kTogether) {
        std::int64_t const some = std::min(kTogether, count - begin);
        variant->nearest(columns.data(), half_square.data(), runs, dim, rows + begin, some, best + begin,
                         found + begin);
    }
}

Grouped::Grouped(float const* centroids, std::int64_t centroid_count, int dimensions, float const* middle_rows,
                 std::int64_t middle_count, std::int32_t const* group)
    : dim(dimensions), count(centroid_count) {
    std::vector<std::vector<std::int32_t>> members(static_cast<std::size_t>(middle_count));
    for (std::int64_t id = 0; id < count; ++id)
        members[static_cast<std::size_t>(group[id])].push_back(static_cast<std::int32_t>(id));
    // A group without members is none.
    std::vector<std::int32_t> filled;
    for (std::size_t at = 0; at < members.size(); ++at)
        if (!members[at].empty()) filled.push_back(static_cast<std::int32_t>(at));
    groups.resize(filled.size());
    Variant const& one = variant();
    parallel(static_cast<std::int64_t>(filled.size()), 8, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t at = begin; at < end; ++at) {
            auto made = std::make_unique<Columns>();
            made->lay_out(one, centroids, dim, members[static_cast<std::size_t>(filled[static_cast<std::size_t>(at)])]);
            groups[static_cast<std::size_t>(at)] = std::move(made);
        }
    });
    middles.lay_out(one, middle_rows, dim, filled);
}

void Grouped::assign(float const* rows, std::int64_t rows_count, int looked, std::int32_t* ids, float* best) const {
    std::int64_t const group_count = static_cast<std::int64_t>(groups.size());
    std::int64_t const wanted = std::min<std::int64_t>(looked, group_count);
    std::int64_t const width = kGroups * middles.variant->lanes;
    parallel(rows_count, kBlock, [&](std::int64_t first, std::int64_t last) {
        std::int64_t const block = last - first;
        thread_local Aligned<float> values, near;
        std::vector<float const*> met(static_cast<std::size_t>(block));
        for (std::int64_t row = 0; row < block; ++row) met[static_cast<std::size_t>(row)] = rows + (first + row) * dim;
        std::vector<float const*> gathered;
        thread_local Aligned<std::int32_t> found;
        std::vector<std::pair<float, std::int32_t>> order(static_cast<std::size_t>(group_count));
        std::vector<std::vector<std::int32_t>> visits(static_cast<std::size_t>(group_count));
        near.resize(static_cast<std::size_t>(kNear * middles.runs * width));
        for (std::int64_t row = 0; row < block; ++row) {
            if (row % kNear == 0)
                middles.variant->closeness(middles.columns.data(), middles.half_square.data(), middles.runs, dim,
                                           met.data() + row, std::min(kNear, block - row), near.data());
            float const* const close = near.data() + row % kNear * middles.runs * width;
            for (std::int64_t at = 0; at < group_count; ++at)
                order[static_cast<std::size_t>(at)] = {-close[at], static_cast<std::int32_t>(at)};
            if (wanted < group_count) std::nth_element(order.begin(), order.begin() + wanted, order.end());
            for (std::int64_t at = 0; at < wanted; ++at)
                visits[static_cast<std::size_t>(order[static_cast<std::size_t>(at)].second)].push_back(
                    static_cast<std::int32_t>(row));
            best[first + row] = -std::numeric_limits<float>::infinity();
            ids[first + row] = 0;
        }
        for (std::size_t group = 0; group < visits.size(); ++group) {
            std::vector<std::int32_t> const& visitors = visits[group];
            std::size_t const some = visitors.size();
            if (some == 0) continue;
            gathered.resize(some);
            values.resize(some);
            found.resize(some);
            for (std::size_t at = 0; at < some; ++at) gathered[at] = met[static_cast<std::size_t>(visitors[at])];
            Columns const& members = *groups[group];
            members.nearest(gathered.data(), static_cast<std::int64_t>(some), values.data(), found.data());
            for (std::size_t at = 0; at < some; ++at) {
                std::int64_t const row = first + visitors[at];
                std::int32_t const id = members.ids[static_cast<std::size_t>(found[at])];
                if (values[at] > best[row] || (values[at] == best[row] && id < ids[row])) {
                    best[row] = values[at];
                    ids[row] = id;
                }
            }
        }
    });
}

bool cluster_sums(float const* rows, std::int32_t const* ids, std::int64_t count, int dim, std::int64_t clusters,
                  double* sums, std::int64_t* counts) {
    std::vector<std::int64_t> starts(static_cast<std::size_t>(clusters) + 1, 0);
    for (std::int64_t row = 0; row < count; ++row) {
        if (ids[row] < 0 || ids[row] >= clusters) return false;
        ++starts[static_cast<std::size_t>(ids[row]) + 1];
    }
    for (std::size_t at = 1; at < starts.size(); ++at) starts[at] += starts[at - 1];
    std::vector<std::int64_t> order(static_cast<std::size_t>(count)), next(starts.begin(), starts.end() - 1);
    for (std::int64_t row = 0; row < count; ++row)
        order[static_cast<std::size_t>(next[static_cast<std::size_t>(ids[row])]++)] = row;
    parallel(clusters, 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t cluster = begin; cluster < end; ++cluster) {
            double* const sum = sums + cluster * dim;
            std::fill_n(sum, dim, 0.0);
            std::int64_t const from = starts[static_cast<std::size_t>(cluster)], to = starts[static_cast<std::size_t>(cluster) + 1];
            for (std::int64_t at = from; at < to; ++at) {
                float const* const row = rows + order[static_cast<std::size_t>(at)] * dim;
                for (int d = 0; d < dim; ++d) sum[d] += row[d];
            }
            counts[cluster] = to - from;
        }
    });
    return true;
}

}  // namespace colrank
