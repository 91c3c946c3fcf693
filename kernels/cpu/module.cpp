// The Python module of the CPU kernels: it checks shapes, lets go of the interpreter and calls.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "clusters.hpp"
#include "engine.hpp"
#include "pool.hpp"

namespace nb = nanobind;
using namespace colrank;

template <typename T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Row = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Any = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

static void need(bool right, char const* what) {
    if (!right) throw nb::value_error(what);
}

// Offsets come from a mapped file.
static bool offsets_are_valid(Row<std::int64_t const> offsets, std::int64_t tokens) {
    std::size_t const count = offsets.shape(0);
    std::int64_t const* const values = offsets.data();
    nb::gil_scoped_release unlocked;
    if (count == 0 || values[0] != 0) return false;
    for (std::size_t i = 1; i < count; ++i)
        if (values[i] < values[i - 1]) return false;
    return values[count - 1] == tokens;
}

// out[t] = scale[t] * levels of code[t] + centroids[id[t]], or false where an id is out of range.
// `table` holds for each byte the levels that it packs. Each sum and product is rounded by itself (no fused
// multiply-add, see CMakeLists.txt), so that NumPy gives the same bits.
template <typename Id>
static bool decode_linear(Matrix<std::uint8_t const> code, Row<Id const> ids, Row<float const> scale,
                          Matrix<float const> centroids, Matrix<float const> table, Matrix<float> out) {
    std::size_t const tokens = code.shape(0), width = code.shape(1);
    std::size_t const dim = out.shape(1), each = table.shape(1), rows = centroids.shape(0);
    need(ids.shape(0) == tokens && scale.shape(0) == tokens && out.shape(0) == tokens && table.shape(0) == 256 &&
             centroids.shape(1) == dim && width == (dim + each - 1) / each,
         "decode_linear: the shapes do not fit");
    std::uint8_t const* codes = code.data();
    Id const* id = ids.data();
    float const *scales = scale.data(), *centroid = centroids.data(), *levels = table.data();
    float* to = out.data();
    nb::gil_scoped_release unlocked;
    std::size_t const whole = dim / each;
    for (std::size_t t = 0; t < tokens; ++t, codes += width, to += dim) {
        if (static_cast<std::size_t>(id[t]) >= rows) return false;
        float const* const base = centroid + static_cast<std::size_t>(id[t]) * dim;
        float const s = scales[t];
        for (std::size_t w = 0; w < whole; ++w) {
            float const* const level = levels + codes[w] * each;
            for (std::size_t j = 0; j < each; ++j) to[w * each + j] = s * level[j] + base[w * each + j];
        }
        for (std::size_t d = whole * each; d < dim; ++d)
            to[d] = s * levels[codes[whole] * each + d - whole * each] + base[d];
    }
    return true;
}

namespace {

// Tokens, and the arrays that hold them in memory.
struct Stored {
    Tokens tokens;
    std::vector<nb::object> held;

    Stored(int dim, int bits, std::string const& kind, nb::object centroids, nb::object table, nb::object scales,
           std::int64_t first) {
        need(dim > 0, "dim must be at least 1");
        tokens.dim = dim;
        tokens.bits = bits;
        tokens.kind = kind == "linear"     ? Kind::linear
                      : kind == "quantile" ? Kind::quantile
                      : bits == 16         ? Kind::half
                                           : Kind::whole;
        if (!centroids.is_none()) {
            auto const rows = nb::cast<Matrix<float const>>(centroids);
            need(rows.shape(1) == static_cast<std::size_t>(dim), "centroids must have the tokens' dimensions");
            tokens.centroids = static_cast<std::int64_t>(rows.shape(0));
            tokens.centroid = rows.data();
            for (std::int64_t id = 0; id < tokens.centroids; ++id) {
                double square = 0;
                for (int d = 0; d < dim; ++d) square += double(rows(id, d)) * double(rows(id, d));
                tokens.longest_centroid = std::max(tokens.longest_centroid, std::sqrt(square));
            }
            keep(centroids);
        }
        if (tokens.coded()) {
            need(bits == 1 || bits == 2 || bits == 4 || bits == 8, "codes have 1, 2, 4 or 8 bits");
            need(tokens.centroids > 0, "codes need centroids");
            tokens.width = (dim * bits + 7) / 8;
            auto const levels = nb::cast<Matrix<float const>>(table);
            need(levels.shape(0) == 256 && levels.shape(1) == static_cast<std::size_t>(8 / bits),
                 "the table must have 256 rows of the codes of a byte");
            tokens.table.assign(levels.data(), levels.data() + levels.size());
            tokens.sum_codes();
        }
        if (tokens.kind == Kind::linear) {
            auto const values = nb::cast<Row<float const>>(scales);
            need(values.shape(0) == 256, "there must be 256 scales");
            std::memcpy(tokens.scales, values.data(), sizeof tokens.scales);
        }
        need(first >= 0, "the first token's number must not be negative");
        tokens.starts.push_back(first);
    }

    // Columns as they are stored: ids or None, codes or whole vectors, scales or inverse norms or None.
    void add(nb::object ids, Any vectors, nb::object extra) {
        Block block;
        need(vectors.ndim() == 2, "vectors must be a matrix");
        std::size_t const count = vectors.shape(0);
        std::size_t const columns = static_cast<std::size_t>(tokens.coded() ? tokens.width : tokens.dim);
        need(vectors.shape(1) == columns, "vectors have other columns");
        void const* const data = vectors.data();
        auto const is = [](Any const& array, nb::dlpack::dtype_code code, int bits) {
            return array.dtype().code == static_cast<std::uint8_t>(code) && array.dtype().bits == bits;
        };
        using Code = nb::dlpack::dtype_code;
        if (tokens.coded()) {
            need(is(vectors, Code::UInt, 8), "codes must be uint8");
            block.code = static_cast<std::uint8_t const*>(data);
        } else if (tokens.kind == Kind::half) {
            need(is(vectors, Code::Float, 16), "vectors must be float16");
            block.half = static_cast<std::uint16_t const*>(data);
        } else {
            need(is(vectors, Code::Float, 32), "vectors must be float32");
            block.whole = static_cast<float const*>(data);
        }
        held.push_back(nb::cast(vectors));
        if (tokens.centroids > 0) {
            Any const column = keep(ids);
            need(column.ndim() == 1 && column.shape(0) == count, "there must be one id a token");
            if (is(column, Code::UInt, 16))
                block.id16 = static_cast<std::uint16_t const*>(column.data());
            else if (is(column, Code::UInt, 32))
                block.id32 = static_cast<std::uint32_t const*>(column.data());
            else
                throw nb::value_error("ids must be uint16 or uint32");
        }
        if (tokens.coded()) {
            Any const column = keep(extra);
            need(column.ndim() == 1 && column.shape(0) == count, "there must be one scale or norm a token");
            if (tokens.kind == Kind::linear) {
                need(is(column, Code::UInt, 8), "scales must be uint8");
                block.scale = static_cast<std::uint8_t const*>(column.data());
            } else {
                need(is(column, Code::Float, 16), "inverse norms must be float16");
                block.inverse_norm = static_cast<std::uint16_t const*>(column.data());
            }
        }
        block.tokens = static_cast<std::int64_t>(count);
        if (count == 0) return;
        tokens.blocks.push_back(block);
        tokens.starts.push_back(tokens.starts.back() + block.tokens);
    }

private:
    Any keep(nb::object array) {
        held.push_back(array);
        return nb::cast<Any>(array);
    }
};

// Postings of segments, and the arrays that hold them in memory.
struct Lists {
    std::vector<List> lists;
    std::vector<nb::object> held;
    std::int64_t centroids, passages = 0;

    explicit Lists(std::int64_t centroids) : centroids(centroids) {}

    void add(Row<std::int64_t const> offsets, Any numbers, std::int64_t count) {
        need(static_cast<std::int64_t>(offsets.shape(0)) == centroids + 1, "there must be one offset a centroid and one more");
        need(numbers.ndim() == 1 && numbers.dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt),
             "postings must be unsigned numbers");
        need(offsets_are_valid(offsets, static_cast<std::int64_t>(numbers.shape(0))), "posting offsets do not fit");
        List list;
        list.offsets = offsets.data();
        list.passages = numbers.data();
        list.bytes = numbers.dtype().bits / 8;
        list.first = passages;
        list.count = count;
        passages += count;
        lists.push_back(list);
        held.push_back(nb::cast(offsets));
        held.push_back(nb::cast(numbers));
    }
};

Passages passages_of(Row<std::int64_t const> const& offsets, nb::object const& rows, std::size_t outputs) {
    Passages found;
    need(offsets.shape(0) > 0, "there must be at least one offset");
    found.offsets = offsets.data();
    found.passages = static_cast<std::int64_t>(offsets.shape(0)) - 1;
    found.count = found.passages;
    if (!rows.is_none()) {
        auto const chosen = nb::cast<Row<std::int64_t const>>(rows);
        found.rows = chosen.data();
        found.count = static_cast<std::int64_t>(chosen.shape(0));
    }
    need(static_cast<std::int64_t>(outputs) == found.count, "there must be one score a passage");
    return found;
}

// A query and its buffers, used by one thread at a time.
struct Prepared {
    Query query;

    void set(Stored const& stored, Matrix<double const> vectors, Row<float const> weights) {
        need(vectors.shape(0) > 0, "a query needs at least one token");
        need(vectors.shape(1) == static_cast<std::size_t>(stored.tokens.dim), "the query has other dimensions");
        need(weights.shape(0) == vectors.shape(0), "there must be one weight a token");
        nb::gil_scoped_release unlocked;
        prepare(query, variant(), stored.tokens, vectors.data(), weights.data(), static_cast<int>(vectors.shape(0)));
    }
};

using Numbers = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;

Numbers as_array(std::vector<std::int64_t> values) {
    auto* const held = new std::vector<std::int64_t>(std::move(values));
    nb::capsule const owner(held, [](void* what) noexcept { delete static_cast<std::vector<std::int64_t>*>(what); });
    return Numbers(held->data(), {held->size()}, owner);
}

std::vector<std::string> variant_names() {
    std::vector<std::string> names;
    for (Variant const* one : variants()) names.emplace_back(one->name);
    return names;
}

}  // namespace

NB_MODULE(_cpu, module) {
    using namespace nb::literals;
    module.def("decode_linear", &decode_linear<std::uint16_t>, "code"_a.noconvert(), "ids"_a.noconvert(),
               "scale"_a.noconvert(), "centroids"_a.noconvert(), "table"_a.noconvert(), "out"_a.noconvert());
    module.def("decode_linear", &decode_linear<std::uint32_t>, "code"_a.noconvert(), "ids"_a.noconvert(),
               "scale"_a.noconvert(), "centroids"_a.noconvert(), "table"_a.noconvert(), "out"_a.noconvert());
    module.def("offsets_are_valid", &offsets_are_valid, "offsets"_a.noconvert(), "tokens"_a);
    module.def("variants", &variant_names);
    module.def("variant", [] { return std::string(variant().name); });
    module.def("use_variant", [](std::string const& name) { return use_variant(name.c_str()); }, "name"_a);
    module.def("threads", &threads);
    module.def("set_threads", &set_threads, "count"_a);

    nb::class_<Stored>(module, "Tokens")
        .def(nb::init<int, int, std::string const&, nb::object, nb::object, nb::object, std::int64_t>(), "dim"_a, "bits"_a, "kind"_a,
             "centroids"_a.none(), "table"_a.none(), "scales"_a.none(), "first"_a = 0)
        .def("add", &Stored::add, "ids"_a.none(), "vectors"_a.noconvert(), "extra"_a.none())
        .def("__len__", [](Stored const& stored) { return stored.tokens.starts.back(); });

    nb::class_<Lists>(module, "Lists")
        .def(nb::init<std::int64_t>(), "centroids"_a)
        .def("add", &Lists::add, "offsets"_a.noconvert(), "numbers"_a.noconvert(), "passages"_a);

    nb::class_<Prepared>(module, "Query")
        .def(nb::init<>())
        .def("set", &Prepared::set, "tokens"_a, "vectors"_a.noconvert(), "weights"_a.noconvert(), nb::keep_alive<1, 2>())
        .def("compare",
             [](Prepared& self, float prune) {
                 need(self.query.tokens->centroids > 0, "there are no centroids");
                 nb::gil_scoped_release unlocked;
                 compare_centroids(self.query, true, prune);
             },
             "prune"_a)
        .def("maxsim",
             [](Prepared& self, Row<std::int64_t const> offsets, nb::object rows, Row<float> scores, Row<float> slack) {
                 Passages const passages = passages_of(offsets, rows, scores.shape(0));
                 need(slack.shape(0) == scores.shape(0), "there must be one slack a score");
                 nb::gil_scoped_release unlocked;
                 return maxsim(self.query, passages, scores.data(), slack.data());
             },
             "offsets"_a.noconvert(), "rows"_a.none(), "scores"_a.noconvert(), "slack"_a.noconvert())
        .def("closer_slack",
             [](Prepared& self, Row<std::int64_t const> offsets, nb::object rows, Row<float> slack) {
                 Passages const passages = passages_of(offsets, rows, slack.shape(0));
                 nb::gil_scoped_release unlocked;
                 return closer_slack(self.query, passages, slack.data());
             },
             "offsets"_a.noconvert(), "rows"_a.none(), "slack"_a.noconvert())
        .def("exact",
             [](Prepared& self, Row<std::int64_t const> offsets, nb::object rows, double rounding, Row<float> scores) {
                 Passages const passages = passages_of(offsets, rows, scores.shape(0));
                 nb::gil_scoped_release unlocked;
                 return exact_maxsim(self.query, passages, rounding, scores.data());
             },
             "offsets"_a.noconvert(), "rows"_a.none(), "rounding"_a, "scores"_a.noconvert())
        .def("centroid_scores",
             [](Prepared& self, Row<std::int64_t const> offsets, nb::object rows, float prune, Row<float> scores) {
                 Passages const passages = passages_of(offsets, rows, scores.shape(0));
                 need(self.query.tokens->centroids > 0, "there are no centroids");
                 nb::gil_scoped_release unlocked;
                 return centroid_scores(self.query, passages, prune, scores.data());
             },
             "offsets"_a.noconvert(), "rows"_a.none(), "prune"_a, "scores"_a.noconvert())
        .def("probe",
             [](Prepared& self, Matrix<std::int64_t> out) {
                 need(static_cast<int>(out.shape(0)) == self.query.count, "there must be one row a token");
                 need(out.shape(1) > 0 && static_cast<std::int64_t>(out.shape(1)) <= self.query.tokens->centroids,
                      "nprobe must be from 1 to the number of centroids");
                 nb::gil_scoped_release unlocked;
                 probe(self.query, static_cast<int>(out.shape(1)), out.data());
             },
             "out"_a.noconvert())
        .def("listed",
             [](Prepared& self, Lists const& lists, Matrix<std::int64_t const> probed, nb::object allowed,
                std::int64_t count) -> nb::object {
                 need(static_cast<int>(probed.shape(0)) == self.query.count, "there must be one row a token");
                 need(lists.centroids == self.query.tokens->centroids, "the postings are of other centroids");
                 std::uint8_t const* mask = nullptr;
                 if (!allowed.is_none()) {
                     auto const marks = nb::cast<Row<std::uint8_t const>>(allowed);
                     need(static_cast<std::int64_t>(marks.shape(0)) == lists.passages, "there must be one mark a passage");
                     mask = marks.data();
                 }
                 for (std::size_t at = 0; at < probed.size(); ++at)
                     need(probed.data()[at] >= 0 && probed.data()[at] < lists.centroids, "no such centroid");
                 std::vector<std::int64_t> best;
                 bool sound;
                 {
                     nb::gil_scoped_release unlocked;
                     std::vector<std::int64_t> rows;
                     std::vector<float> scores;
                     sound = list_scores(self.query, lists.lists, probed.data(), static_cast<int>(probed.shape(1)),
                                         lists.passages, mask, rows, scores);
                     if (sound) best = largest_rows(rows, scores, count);
                 }
                 if (!sound) return nb::none();
                 return nb::cast(as_array(std::move(best)));
             },
             "lists"_a, "probed"_a.noconvert(), "allowed"_a.none(), "count"_a);

    nb::class_<Grouped>(module, "Grouped")
        .def("__init__",
             [](Grouped* self, Matrix<float const> centroids, Matrix<float const> middles, Row<std::int32_t const> group) {
                 need(centroids.shape(1) == middles.shape(1), "the middles have other dimensions");
                 need(group.shape(0) == centroids.shape(0) && centroids.shape(0) > 0, "there must be one group a centroid");
                 for (std::size_t at = 0; at < group.shape(0); ++at)
                     need(group(at) >= 0 && static_cast<std::size_t>(group(at)) < middles.shape(0), "no such group");
                 nb::gil_scoped_release unlocked;
                 new (self) Grouped(centroids.data(), static_cast<std::int64_t>(centroids.shape(0)),
                                    static_cast<int>(centroids.shape(1)), middles.data(),
                                    static_cast<std::int64_t>(middles.shape(0)), group.data());
             },
             "centroids"_a.noconvert(), "middles"_a.noconvert(), "group"_a.noconvert())
        .def("assign",
             [](Grouped const& self, Matrix<float const> rows, int looked, Row<std::int32_t> ids, Row<float> best) {
                 need(rows.shape(1) == static_cast<std::size_t>(self.dim), "the rows have other dimensions");
                 need(ids.shape(0) == rows.shape(0) && best.shape(0) == rows.shape(0), "there must be one id a row");
                 need(looked > 0, "at least one group must be looked into");
                 nb::gil_scoped_release unlocked;
                 self.assign(rows.data(), static_cast<std::int64_t>(rows.shape(0)), looked, ids.data(), best.data());
             },
             "rows"_a.noconvert(), "looked"_a, "ids"_a.noconvert(), "best"_a.noconvert());

    module.def("cluster_sums",
               [](Matrix<float const> rows, Row<std::int32_t const> ids, Matrix<double> sums, Row<std::int64_t> counts) {
                   need(ids.shape(0) == rows.shape(0), "there must be one id a row");
                   need(sums.shape(0) == counts.shape(0) && sums.shape(1) == rows.shape(1), "the sums do not fit");
                   nb::gil_scoped_release unlocked;
                   return cluster_sums(rows.data(), ids.data(), static_cast<std::int64_t>(rows.shape(0)),
                                       static_cast<int>(rows.shape(1)), static_cast<std::int64_t>(counts.shape(0)),
                                       sums.data(), counts.data());
               },
               "rows"_a.noconvert(), "ids"_a.noconvert(), "sums"_a.noconvert(), "counts"_a.noconvert());

    module.def("largest",
               [](Row<float const> scores, std::int64_t count) {
                   std::vector<std::int64_t> places;
                   {
                       nb::gil_scoped_release unlocked;
                       places = largest(scores.data(), static_cast<std::int64_t>(scores.shape(0)), count);
                   }
                   return as_array(std::move(places));
               },
               "scores"_a.noconvert(), "count"_a);
}
