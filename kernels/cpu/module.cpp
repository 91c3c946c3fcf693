// The Python module of the CPU kernels: it only binds. Scoring kernels will live in files of their own
// beside this one, one file an instruction set.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>

namespace nb = nanobind;

using Offsets = nb::ndarray<std::int64_t const, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Offsets come from a mapped file. A kernel may index by them only after this has passed.
static bool offsets_are_valid(Offsets offsets, std::int64_t tokens) {
    std::size_t const count = offsets.shape(0);
    std::int64_t const* const values = offsets.data();
    nb::gil_scoped_release unlocked;
    if (count == 0 || values[0] != 0) return false;
    for (std::size_t i = 1; i < count; ++i)
        if (values[i] < values[i - 1]) return false;
    return values[count - 1] == tokens;
}

template <typename T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Row = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// out[t] = scale[t] * levels of code[t] + centroids[id[t]], or false where an id is out of range.
// `table` holds for each byte the levels that it packs. Each sum and product is rounded by itself (no fused
// multiply-add, see CMakeLists.txt), so that NumPy gives the same bits.
template <typename Id>
static bool decode_linear(Matrix<std::uint8_t const> code, Row<Id const> ids, Row<float const> scale,
                          Matrix<float const> centroids, Matrix<float const> table, Matrix<float> out) {
    std::size_t const tokens = code.shape(0), width = code.shape(1);
    std::size_t const dim = out.shape(1), each = table.shape(1), rows = centroids.shape(0);
    if (ids.shape(0) != tokens || scale.shape(0) != tokens || out.shape(0) != tokens || table.shape(0) != 256 ||
        centroids.shape(1) != dim || width != (dim + each - 1) / each)
        throw nb::value_error("decode_linear: the shapes do not fit");
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

NB_MODULE(_cpu, module) {
    module.def("decode_linear", &decode_linear<std::uint16_t>, nb::arg("code").noconvert(),
               nb::arg("ids").noconvert(), nb::arg("scale").noconvert(), nb::arg("centroids").noconvert(),
               nb::arg("table").noconvert(), nb::arg("out").noconvert());
    module.def("decode_linear", &decode_linear<std::uint32_t>, nb::arg("code").noconvert(),
               nb::arg("ids").noconvert(), nb::arg("scale").noconvert(), nb::arg("centroids").noconvert(),
               nb::arg("table").noconvert(), nb::arg("out").noconvert());
    module.def("offsets_are_valid", &offsets_are_valid, nb::arg("offsets").noconvert(), nb::arg("tokens"));
}
