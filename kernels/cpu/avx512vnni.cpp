// Kernels for AVX-512 with VNNI: four 8-bit products and their sum in 32 bits are one instruction.
#include "avx512.hpp"

namespace colrank {
namespace {

struct Avx512Vnni : Avx512 {
    static constexpr bool direct = true;
    static I dot8(I sum, I code, I query) { return _mm512_dpbusd_epi32(sum, code, query); }
    static I dot16(I sum, I code, I query) { return _mm512_dpwssd_epi32(sum, code, query); }
    static I widen(I sum, I part) { return add(sum, part); }
};

}  // namespace

extern Variant const avx512vnni_variant;
Variant const avx512vnni_variant = variant_of<Avx512Vnni>("avx512vnni");

}  // namespace colrank
