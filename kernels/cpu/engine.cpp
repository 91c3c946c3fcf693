#include "engine.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>

#include "pool.hpp"

namespace colrank {
namespace {

constexpr double kMargin = 1.0001;  // over what rounding does to a bound
constexpr float kNothing = -std::numeric_limits<float>::infinity();

// Small enough that no thread waits long for the last, large enough that taking one costs nothing.
std::int64_t piece_of(std::int64_t items, std::int64_t most) {
    return std::max<std::int64_t>(1, std::min(most, items / (8 * threads())));
}

// Place of a dimension among those of an unpacked code.
int place_of(int dimension, int bits, int padded) {
    int const each = 8 / bits;
    return dimension % each * padded + dimension / each;
}

void lay_out_columns(Query& query, int dim) {
    query.columns.resize(static_cast<std::size_t>(dim) * query.stride());
    float* to = query.columns.data();
    for (int group = 0; group < query.groups; group += kGroups) {
        int const width = query.run(group) * query.lanes, first = group * query.lanes;
        for (int d = 0; d < dim; ++d)
            for (int lane = 0; lane < width; ++lane, ++to)
                *to = first + lane < query.count ? query.vectors[static_cast<std::size_t>(first + lane) * dim + d] : 0;
    }
}

// Whole numbers of 8 or 16 bits in place of the query's, each token by a step of its own.
void lay_out_integers(Query& query, Tokens const& tokens) {
    int const dim = tokens.dim, stride = query.stride();
    bool const wide = tokens.bits == 8;
    int const most_code = (1 << tokens.bits) - 1;
    int const padded = (tokens.width + 3) / 4 * 4;  // steps take four bytes of a code's part
    query.places = wide ? (dim + 1) / 2 * 2 : padded * (8 / tokens.bits);
    query.steps = query.places / (wide ? 2 : 4);
    // Sums must stay below 2^30, as they are doubled.
    double const most = wide ? std::min(32767.0, std::floor((1 << 30) / (255.0 * dim))) : 127.0;
    std::size_t const bytes = static_cast<std::size_t>(query.places) * stride * (wide ? 2 : 1);
    query.packed.resize(bytes);
    std::memset(query.packed.data(), 0, bytes);
    query.middle.resize(static_cast<std::size_t>(stride));
    query.half_step.resize(static_cast<std::size_t>(stride));
    std::fill_n(query.middle.data(), stride, 0);
    std::fill_n(query.half_step.data(), stride, 0.0f);
    query.lost.assign(static_cast<std::size_t>(query.count), 0.0);
    int const each = wide ? 2 : 4;
    for (int q = 0; q < query.count; ++q) {
        float const* const vector = query.vectors.data() + static_cast<std::size_t>(q) * dim;
        double largest = 0;
        for (int d = 0; d < dim; ++d) largest = std::max(largest, std::abs(static_cast<double>(vector[d])));
        // The step is one that half_step holds exactly, so that only rounding to it is lost.
        float const half = static_cast<float>(largest / most / 2);
        double const step = 2.0 * half;
        int const group = q / query.lanes, lane = q % query.lanes;
        int const first = group / kGroups * kGroups, run = query.run(first);
        std::size_t const base = static_cast<std::size_t>(first) * query.lanes * query.places;
        std::int64_t sum = 0;
        double lost = 0;
        for (int d = 0; d < dim; ++d) {
            double number = step > 0 ? std::nearbyint(vector[d] / step) : 0;
            number = std::min(most, std::max(-most, number));
            lost += (vector[d] - number * step) * (vector[d] - number * step);
            int const place = wide ? d : place_of(d, tokens.bits, padded);
            std::size_t const cell =
                base + ((static_cast<std::size_t>(place / each) * run + (group - first)) * query.lanes + lane) * each +
                static_cast<std::size_t>(place % each);
            if (wide)
                reinterpret_cast<std::int16_t*>(query.packed.data())[cell] = static_cast<std::int16_t>(number);
            else
                query.packed[cell] = static_cast<std::int8_t>(number);
            sum += static_cast<std::int64_t>(number);
        }
        query.middle[static_cast<std::size_t>(q)] = static_cast<std::int32_t>(sum * most_code);
        query.half_step[static_cast<std::size_t>(q)] = half;
        query.lost[static_cast<std::size_t>(q)] = std::sqrt(lost);
    }
}

// Sum over query tokens of |weight| times what rounding took from the token: times the length of a residual it
// bounds what a score errs by.
double lost_weight(Query const& query) {
    double sum = 0;
    for (std::size_t q = 0; q < query.lost.size(); ++q) sum += std::abs(query.weights[q]) * query.lost[q];
    return sum;
}

// Length of what a token's code adds to its centroid.
double residual_length(Tokens const& tokens, Block const& block, std::int64_t token) {
    if (tokens.kind != Kind::linear) return 0;
    std::uint8_t const* const code = block.code + token * tokens.width;
    int const each = 8 / tokens.bits, mask = (1 << tokens.bits) - 1;
    std::int64_t sum = 0, square = 0;
    int const whole = tokens.dim / each;
    for (int b = 0; b < whole; ++b) {
        sum += tokens.code_sum[code[b]];
        square += tokens.code_square[code[b]];
    }
    for (int d = whole * each; d < tokens.dim; ++d) {
        int const number = (code[whole] >> ((d - whole * each) * tokens.bits)) & mask;
        sum += number;
        square += static_cast<std::int64_t>(number) * number;
    }
    // Levels are half of 2 x code - mask.
    double const four = 4.0 * static_cast<double>(square) - 4.0 * mask * static_cast<double>(sum) +
                        static_cast<double>(mask) * mask * tokens.dim;
    return tokens.scales[block.scale[token]] * std::sqrt(std::max(0.0, four)) / 2;
}

// Most that the levels of a token can be long, before its scale.
double longest_level(Tokens const& tokens) {
    return std::sqrt(static_cast<double>(tokens.dim)) * ((1 << std::min(tokens.bits, 8)) - 1) / 2;
}

// In double precision, by eight sums that are added up in one order.
template <typename A, typename B>
double dot(A const* a, B const* b, std::size_t dim) {
    double sums[8] = {};
    std::size_t d = 0;
    for (; d + 8 <= dim; d += 8)
        for (std::size_t lane = 0; lane < 8; ++lane)
            sums[lane] += static_cast<double>(a[d + lane]) * static_cast<double>(b[d + lane]);
    for (; d < dim; ++d) sums[d % 8] += static_cast<double>(a[d]) * static_cast<double>(b[d]);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

constexpr std::int64_t kExactTokens = 256;

double weighted(Query const& query, float const* best) {
    double sum = 0;
    for (int q = 0; q < query.count; ++q) sum += static_cast<double>(query.weights[static_cast<std::size_t>(q)]) * best[q];
    return sum;
}

}  // namespace

void prepare(Query& query, Variant const& one, Tokens const& tokens, double const* vectors, float const* weights,
             int count) {
    query.tokens = &tokens;
    query.variant = &one;
    query.count = count;
    query.lanes = one.lanes;
    query.groups = (count + one.lanes - 1) / one.lanes;
    query.exact.assign(vectors, vectors + static_cast<std::size_t>(count) * tokens.dim);
    query.vectors.assign(query.exact.begin(), query.exact.end());
    query.weights.assign(weights, weights + count);
    query.lost.clear();
    lay_out_columns(query, tokens.dim);
    if (query.integers()) lay_out_integers(query, tokens);
    query.compared = query.in_bytes = false;
}

namespace {

// Bytes stand for similarities from -reach to reach, where reach is the most that two such vectors can have: so
// that they can be made while a row of the table is at hand.
void reach_of_bytes(Query& query) {
    std::size_t const count = static_cast<std::size_t>(query.count), dim = static_cast<std::size_t>(query.tokens->dim);
    std::size_t const stride = static_cast<std::size_t>(query.stride());
    query.byte_stride = query.stride();
    query.low.assign(count, 0.0);
    query.unit.assign(count, 0.0);
    query.shift.resize(stride);
    query.factor.resize(stride);
    std::fill_n(query.shift.data(), stride, 0.0f);
    std::fill_n(query.factor.data(), stride, 0.0f);
    for (std::size_t q = 0; q < count; ++q) {
        float const* const vector = query.vectors.data() + q * dim;
        double const reach = std::sqrt(dot(vector, vector, dim)) * query.tokens->longest_centroid;
        query.low[q] = -reach;
        query.unit[q] = 2 * reach / 255;
        query.factor[q] = reach > 0 ? static_cast<float>(255 / (2 * reach)) : 0.0f;
        query.shift[q] = reach > 0 ? 128.0f : 0.0f;  // half of 255, and a half to round by
    }
}

void leave_out(Query& query, std::int64_t begin, std::int64_t end, float prune) {
    for (std::int64_t id = begin; id < end; ++id) {
        float const* const row = query.table.data() + id * query.stride();
        if (*std::max_element(row, row + query.count) < prune)
            std::memset(query.bytes.data() + id * query.byte_stride, 0, static_cast<std::size_t>(query.byte_stride));
    }
}

}  // namespace

void compare_centroids(Query& query, bool bytes, float prune) {
    Tokens const& tokens = *query.tokens;
    bytes = bytes && !(query.in_bytes && query.prune == prune);
    if (query.compared && !bytes) return;
    bool const compared = query.compared;
    query.table.resize(static_cast<std::size_t>(tokens.centroids) * query.stride());
    if (bytes) {
        reach_of_bytes(query);
        query.bytes.resize(static_cast<std::size_t>(tokens.centroids) * query.byte_stride + kByteColumns);
    }
    parallel(tokens.centroids, piece_of(tokens.centroids, 512), [&](std::int64_t begin, std::int64_t end) {
        constexpr std::int64_t kRows = 64;  // few enough to be at hand for what follows
        for (; begin < end; begin += kRows) {
            std::int64_t const stop = std::min(end, begin + kRows);
            if (!compared)
                query.variant->products(query, tokens.centroid + begin * tokens.dim, stop - begin,
                                        query.table.data() + begin * query.stride());
            if (bytes) query.variant->to_bytes(query, begin, stop);
            if (bytes && prune > -1) leave_out(query, begin, stop, prune);
        }
    });
    query.compared = true;
    if (bytes) {
        query.in_bytes = true;
        query.prune = prune;
    }
}

bool maxsim(Query& query, Passages const& passages, float* scores, float* slack) {
    if (query.integers()) compare_centroids(query, false, 0);
    Tokens const& tokens = *query.tokens;
    double const lost = lost_weight(query);
    double const longest = longest_level(tokens);
    std::atomic<bool> sound{true};
    parallel(passages.count, piece_of(passages.count, 32), [&](std::int64_t begin, std::int64_t end) {
        thread_local Aligned<float> best;
        best.resize(static_cast<std::size_t>(query.stride()));
        for (std::int64_t at = begin; at < end; ++at) {
            std::int64_t const row = passages.row(at);
            if (!passages.sound(row, tokens)) {
                sound.store(false);
                return;
            }
            std::int64_t const first = passages.offsets[row], last = passages.offsets[row + 1];
            scores[at] = kNothing;
            slack[at] = 0;
            if (first == last) continue;
            float scale = 0;
            if (!query.variant->similarities(query, first, last, best.data(), nullptr, &scale)) {
                sound.store(false);
                return;
            }
            scores[at] = static_cast<float>(weighted(query, best.data()));
            slack[at] = static_cast<float>(kMargin * lost * scale * longest);
        }
    });
    return sound.load();
}

bool closer_slack(Query const& query, Passages const& passages, float* slack) {
    Tokens const& tokens = *query.tokens;
    double const lost = lost_weight(query);
    std::atomic<bool> sound{true};
    parallel(passages.count, piece_of(passages.count, 32), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t at = begin; at < end; ++at) {
            std::int64_t const row = passages.row(at);
            if (!passages.sound(row, tokens)) {
                sound.store(false);
                return;
            }
            double longest = 0;
            std::int64_t token = passages.offsets[row];
            std::int64_t const last = passages.offsets[row + 1];
            for (std::size_t block = token < last ? tokens.block_of(token) : 0; token < last; ++block) {
                std::int64_t const start = tokens.starts[block], stop = std::min(last, tokens.starts[block + 1]);
                for (; token < stop; ++token)
                    longest = std::max(longest, residual_length(tokens, tokens.blocks[block], token - start));
            }
            slack[at] = static_cast<float>(kMargin * lost * longest);
        }
    });
    return sound.load();
}

bool exact_maxsim(Query& query, Passages const& passages, double rounding, float* scores) {
    if (query.integers()) compare_centroids(query, false, 0);
    Tokens const& tokens = *query.tokens;
    std::size_t const stride = static_cast<std::size_t>(query.stride()), dim = static_cast<std::size_t>(tokens.dim);
    double const longest = longest_level(tokens);
    std::atomic<bool> sound{true};
    parallel(passages.count, 1, [&](std::int64_t begin, std::int64_t end) {
        thread_local Aligned<float> best, all, decoded, bar;
        std::vector<double> top(static_cast<std::size_t>(query.count));
        std::vector<std::uint8_t> ready;
        best.resize(stride);
        bar.resize(stride);
        all.resize(stride * kExactTokens);
        decoded.resize(dim * kExactTokens);
        for (std::int64_t at = begin; at < end; ++at) {
            std::int64_t const row = passages.row(at);
            if (!passages.sound(row, tokens)) {
                sound.store(false);
                return;
            }
            std::int64_t const first = passages.offsets[row], last = passages.offsets[row + 1];
            scores[at] = kNothing;
            if (first == last) continue;
            std::fill(top.begin(), top.end(), -std::numeric_limits<double>::infinity());
            // Long passages piece by piece: what is best so far stays.
            for (std::int64_t from = first; from < last; from += kExactTokens) {
                std::size_t const count = static_cast<std::size_t>(std::min<std::int64_t>(last - from, kExactTokens));
                float scale = 0;
                if (!query.variant->similarities(query, from, from + static_cast<std::int64_t>(count), best.data(),
                                                 all.data(), &scale)) {
                    sound.store(false);
                    return;
                }
                ready.assign(count, 0);
                auto const vector_of = [&](std::size_t t) {  // few tokens are asked for
                    float* const to = decoded.data() + t * dim;
                    if (ready[t] == 0) {
                        std::int64_t const token = from + static_cast<std::int64_t>(t);
                        std::size_t const block = tokens.block_of(token);
                        decode_token(tokens, tokens.blocks[block], token - tokens.starts[block], to);
                        ready[t] = 1;
                    }
                    return to;
                };
                // What lies below a query token's bar cannot be its best.
                for (std::size_t q = 0; q < stride; ++q) bar[q] = -kNothing;
                for (std::size_t q = 0; q < top.size(); ++q) {
                    double const lost = query.integers() ? query.lost[q] * scale * longest : 0.0;
                    double const slack = kMargin * lost + rounding;
                    bar[q] = static_cast<float>(std::max(best[q] - slack, top[q]) - slack);
                    // One step down, as rounding may have gone up.
                    bar[q] = std::nextafter(bar[q], kNothing);
                }
                for (std::size_t t = 0; t < count; ++t) {
                    float const* const values = all.data() + t * stride;
                    int above = 0;
                    // Written so that what is no number is looked at, not passed over.
                    for (std::size_t q = 0; q < stride; ++q) above |= !(values[q] < bar[q]);
                    if (above == 0) continue;
                    for (std::size_t q = 0; q < top.size(); ++q)
                        if (!(values[q] < bar[q]))
                            top[q] = std::max(top[q], dot(query.exact.data() + q * dim, vector_of(t), dim));
                }
            }
            double sum = 0;
            for (std::size_t q = 0; q < top.size(); ++q) sum += static_cast<double>(query.weights[q]) * top[q];
            scores[at] = static_cast<float>(sum);
        }
    });
    return sound.load();
}

bool centroid_scores(Query& query, Passages const& passages, float prune, float* scores) {
    compare_centroids(query, true, prune);
    Tokens const& tokens = *query.tokens;
    std::vector<double> unit(static_cast<std::size_t>(query.count));
    double base = 0;
    for (std::size_t q = 0; q < unit.size(); ++q) {
        unit[q] = query.weights[q] * query.unit[q];
        base += query.weights[q] * query.low[q];
    }
    std::atomic<bool> sound{true};
    parallel(passages.count, piece_of(passages.count, 128), [&](std::int64_t begin, std::int64_t end) {
        thread_local Aligned<std::uint8_t> best;
        best.resize(static_cast<std::size_t>(query.best_bytes()));
        for (std::int64_t at = begin; at < end; ++at) {
            std::int64_t const row = passages.row(at);
            if (!passages.sound(row, tokens)) {
                sound.store(false);
                return;
            }
            std::int64_t const first = passages.offsets[row], last = passages.offsets[row + 1];
            scores[at] = kNothing;
            if (first == last) continue;
            if (!query.variant->best_bytes(query, first, last, best.data())) {
                sound.store(false);
                return;
            }
            double sum = base;
            for (std::size_t q = 0; q < unit.size(); ++q) sum += unit[q] * best[q];
            scores[at] = static_cast<float>(sum);
        }
    });
    return sound.load();
}

void probe(Query& query, int nprobe, std::int64_t* out) {
    compare_centroids(query, false, 0);
    std::int64_t const centroids = query.tokens->centroids;
    std::size_t const stride = static_cast<std::size_t>(query.stride()), wanted = static_cast<std::size_t>(nprobe);
    // A few query tokens at a time share the pass over the table.
    constexpr std::int64_t kTogether = 8;
    parallel(query.count, kTogether, [&](std::int64_t first, std::int64_t last) {
        std::size_t const some = static_cast<std::size_t>(last - first);
        std::vector<float> values(some * wanted, kNothing);
        std::vector<std::size_t> held(some, 0);
        float least[kTogether];
        std::fill_n(least, kTogether, kNothing);
        for (std::int64_t id = 0; id < centroids; ++id) {
            float const* const row = query.table.data() + static_cast<std::size_t>(id) * stride + first;
            for (std::size_t q = 0; q < some; ++q) {
                if (!(row[q] > least[q]) && held[q] == wanted) continue;
                float* const list = values.data() + q * wanted;
                std::int64_t* const ids = out + (static_cast<std::size_t>(first) + q) * wanted;
                std::size_t place = held[q] < wanted ? held[q]++ : wanted - 1;
                for (; place > 0 && list[place - 1] < row[q]; --place) {
                    list[place] = list[place - 1];
                    ids[place] = ids[place - 1];
                }
                list[place] = row[q];
                ids[place] = id;
                if (held[q] == wanted) least[q] = list[wanted - 1];
            }
        }
    });
}

// A token without weight adds nothing to any score; where no token has any, all are looked up.
static bool counts(Query const& query, int q) {
    if (query.weights[static_cast<std::size_t>(q)] > 0) return true;
    return std::none_of(query.weights.begin(), query.weights.end(), [](float weight) { return weight > 0; });
}

bool list_scores(Query& query, std::vector<List> const& lists, std::int64_t const* probed, int nprobe,
                 std::int64_t passages, std::uint8_t const* allowed, std::vector<std::int64_t>& rows,
                 std::vector<float>& scores) {
    compare_centroids(query, false, 0);
    // One number and one mark a passage, kept by each thread from query to query. The mark says for which query
    // token a passage was last counted, so that nothing needs to be cleared between tokens.
    thread_local std::vector<float> total;
    thread_local std::vector<std::uint16_t> mark;
    if (static_cast<std::int64_t>(total.size()) != passages) {
        total.assign(static_cast<std::size_t>(passages), 0.0f);
        mark.assign(static_cast<std::size_t>(passages), 0);
    }
    rows.clear();
    std::size_t const stride = static_cast<std::size_t>(query.stride());
    double base = 0;
    bool sound = true;
    int token = 0;
    for (int q = 0; q < query.count && sound; ++q) {
        std::int64_t const* const near = probed + static_cast<std::int64_t>(q) * nprobe;
        auto const value = [&](int at) {
            return query.table[static_cast<std::size_t>(near[at]) * stride + static_cast<std::size_t>(q)];
        };
        float const farthest = value(nprobe - 1), weight = query.weights[static_cast<std::size_t>(q)];
        if (!counts(query, q)) continue;
        base += static_cast<double>(weight) * farthest;
        if (++token == 65535) {  // marks would come round
            for (std::int64_t row : rows) mark[static_cast<std::size_t>(row)] = 1;
            token = 2;
        }
        for (int at = 0; at < nprobe && sound; ++at) {  // the best list first: a passage counts by that
            float const gain = weight * (value(at) - farthest);
            for (List const& list : lists) {
                std::int64_t const begin = list.offsets[near[at]], end = list.offsets[near[at] + 1];
                auto const walk = [&](auto const* numbers) {
                    for (std::int64_t place = begin; place < end; ++place) {
                        std::uint64_t const local = numbers[place];
                        if (local >= static_cast<std::uint64_t>(list.count)) return false;
                        std::size_t const row = static_cast<std::size_t>(local) + static_cast<std::size_t>(list.first);
                        if (mark[row] == token) continue;
                        if (mark[row] == 0) {
                            if (allowed != nullptr && allowed[row] == 0) continue;
                            rows.push_back(static_cast<std::int64_t>(row));
                            total[row] = 0;
                        }
                        mark[row] = static_cast<std::uint16_t>(token);
                        total[row] += gain;
                    }
                    return true;
                };
                sound = list.bytes == 1   ? walk(static_cast<std::uint8_t const*>(list.passages))
                        : list.bytes == 2 ? walk(static_cast<std::uint16_t const*>(list.passages))
                        : list.bytes == 4 ? walk(static_cast<std::uint32_t const*>(list.passages))
                                          : walk(static_cast<std::uint64_t const*>(list.passages));
                if (!sound) break;
            }
        }
    }
    scores.resize(rows.size());
    for (std::size_t at = 0; at < rows.size(); ++at) {
        std::size_t const row = static_cast<std::size_t>(rows[at]);
        scores[at] = static_cast<float>(total[row] + base);
        mark[row] = 0;
    }
    return sound;
}

std::vector<std::int64_t> largest(float const* scores, std::int64_t length, std::int64_t count) {
    std::vector<std::int64_t> places;
    places.reserve(static_cast<std::size_t>(length));
    for (std::int64_t at = 0; at < length; ++at)
        if (scores[at] > kNothing) places.push_back(at);
    auto const before = [&](std::int64_t a, std::int64_t b) {
        return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
    };
    if (static_cast<std::int64_t>(places.size()) > count) {
        std::nth_element(places.begin(), places.begin() + count, places.end(), before);
        places.resize(static_cast<std::size_t>(count));
    }
    std::sort(places.begin(), places.end());
    return places;
}

std::vector<std::int64_t> largest_rows(std::vector<std::int64_t> const& rows, std::vector<float> const& scores,
                                       std::int64_t count) {
    std::vector<std::pair<float, std::int64_t>> pairs(rows.size());
    for (std::size_t at = 0; at < rows.size(); ++at) pairs[at] = {-scores[at], rows[at]};
    std::size_t const kept = std::min(pairs.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, count)));
    if (kept < pairs.size()) std::nth_element(pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(kept), pairs.end());
    std::vector<std::int64_t> out(kept);
    for (std::size_t at = 0; at < kept; ++at) out[at] = pairs[at].second;
    std::sort(out.begin(), out.end());
    return out;
}

}  // namespace colrank
