// What is the same for every instruction set: a query laid out, passages shared among threads, scores summed.
#pragma once

#include "query.hpp"

namespace colrank {

// Passages that are to be scored: all, or those of some rows. Nothing here is trusted: `sound` says whether a
// passage's tokens are there.
struct Passages {
    std::int64_t const* offsets = nullptr;  // [passages + 1]
    std::int64_t passages = 0;
    std::int64_t const* rows = nullptr;  // null: all
    std::int64_t count = 0;              // of rows, or of passages

    std::int64_t row(std::int64_t at) const { return rows == nullptr ? at : rows[at]; }
    bool sound(std::int64_t row, Tokens const& tokens) const {
        return row >= 0 && row < passages && offsets[row] >= tokens.starts.front() &&
               offsets[row] <= offsets[row + 1] && offsets[row + 1] <= tokens.starts.back();
    }
};

// Lays out a query for an instruction set. The tokens must outlive it.
void prepare(Query& query, Variant const& variant, Tokens const& tokens, double const* vectors, float const* weights,
             int count);
// The query's table, where it is not there yet, and in bytes if asked for. A centroid that is less similar than
// `prune` to every query token counts as the farthest.
void compare_centroids(Query& query, bool bytes, float prune);

// MaxSim of passages in float32; -inf for a passage without tokens. `slack` [count] is what each may differ by
// from the sum over the stored numbers beside what rounding float32 does.
bool maxsim(Query& query, Passages const& passages, float* scores, float* slack);
// The same bound computed from the codes themselves, closer.
bool closer_slack(Query const& query, Passages const& passages, float* slack);
// MaxSim in float64, rounded to float32. `rounding` is what a float32 dot product may err by, besides.
bool exact_maxsim(Query& query, Passages const& passages, double rounding, float* scores);
// MaxSim in which each token stands for its centroid, by the byte table.
bool centroid_scores(Query& query, Passages const& passages, float prune, float* scores);

// The centroids most similar to each query token, best first, equal ones by id: [count, nprobe].
void probe(Query& query, int nprobe, std::int64_t* out);

// The postings of one segment; passage numbers are counted from `first`.
struct List {
    std::int64_t const* offsets = nullptr;  // [centroids + 1]
    void const* passages = nullptr;
    int bytes = 4;  // of a passage number: 1, 2, 4, 8
    std::int64_t first = 0, count = 0;
};

// Passages in the probed lists and a first score of each from these alone; see colrank/prefilter.py.
// False where a posting names a passage that is not there.
bool list_scores(Query& query, std::vector<List> const& lists, std::int64_t const* probed, int nprobe,
                 std::int64_t passages, std::uint8_t const* allowed, std::vector<std::int64_t>& rows,
                 std::vector<float>& scores);

// Places of the `count` largest scores above -inf, ascending; equal scores go by place.
std::vector<std::int64_t> largest(float const* scores, std::int64_t length, std::int64_t count);

// The `count` rows of largest score, ascending; equal scores go by row.
std::vector<std::int64_t> largest_rows(std::vector<std::int64_t> const& rows, std::vector<float> const& scores,
                                       std::int64_t count);

}  // namespace colrank
