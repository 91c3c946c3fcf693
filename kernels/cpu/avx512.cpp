// Kernels for AVX-512 (F, BW, VL, DQ) without 8-bit dot products.
#include "avx512.hpp"

namespace colrank {

extern Variant const avx512_variant;
Variant const avx512_variant = variant_of<Avx512>("avx512");

}  // namespace colrank
