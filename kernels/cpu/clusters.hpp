// Nearest centroids, by comparing with all or through groups of them, and means of clusters.
#pragma once

#include <memory>

#include "query.hpp"

namespace colrank {

// Centroids laid out for an instruction set: runs of kGroups groups of columns.
struct Columns {
    Variant const* variant = nullptr;
    int dim = 0;
    std::int64_t runs = 0;
    std::vector<std::int32_t> ids;  // number of each column's centroid
    Aligned<float> columns, half_square;

    void lay_out(Variant const& one, float const* centroids, int dim, std::vector<std::int32_t> numbers);
    // For each row the column that is nearest (largest dot product less half the square), with that number.
    void nearest(float const* const* rows, std::int64_t count, float* best, std::int32_t* found) const;
};

// Centroids in groups of their own: a row is compared with the members of the groups whose middles are nearest.
struct Grouped {
    int dim = 0;
    std::int64_t count = 0;
    Columns middles;
    std::vector<std::unique_ptr<Columns>> groups;

    // `group` [count] names each centroid's group, below `middle_count`.
    Grouped(float const* centroids, std::int64_t count, int dim, float const* middles, std::int64_t middle_count,
            std::int32_t const* group);
    // ids [rows]: the nearest centroid among the members of the `looked` nearest groups; of equal ones the first.
    void assign(float const* rows, std::int64_t rows_count, int looked, std::int32_t* ids, float* best) const;
};

// Sums of the rows of each cluster in double precision, in the order of the rows: sums [clusters, dim], counts.
// False where an id is out of range.
bool cluster_sums(float const* rows, std::int32_t const* ids, std::int64_t count, int dim, std::int64_t clusters,
                  double* sums, std::int64_t* counts);

}  // namespace colrank
