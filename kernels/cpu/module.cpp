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

NB_MODULE(_cpu, module) {
    module.def("offsets_are_valid", &offsets_are_valid, nb::arg("offsets").noconvert(), nb::arg("tokens"));
}
