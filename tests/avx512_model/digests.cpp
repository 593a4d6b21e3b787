// Prints a digest of each intrinsic's results, the same whether this is compiled for AVX-512 or with avx512.h: for special
// values and random ones in all lanes, and all kinds of masks. Of _mm512_rsqrt14_ps it prints the least and the greatest
// error too, in units of 2^-14.
#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

namespace halfulp::HALFULP_ISA {  // where the model is; the compiler's own intrinsics are seen from here too

namespace {

// Splitmix64: the same operands everywhere.
struct Random {
    uint64_t state;

    uint64_t next() {
        uint64_t z = (state += 0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
};

// The encoding of a number: a special one, any bits, or near enough to 1 for sums that cancel and float16 that is not zero,
// and then maybe of few bits, which are ties of shorter types.
template <typename Bits, int fraction_bits>
Bits number(Random& random) {
    constexpr Bits sign = Bits{1} << (8 * sizeof(Bits) - 1), least_normal = Bits{1} << fraction_bits;
    constexpr Bits infinity = sign - least_normal, one = (infinity >> 1) & ~(least_normal - 1);
    constexpr Bits special[] = {0,
                                1,
                                least_normal - 1,
                                least_normal,
                                one,
                                one - 1,
                                infinity - 1,
                                one + least_normal,
                                infinity,
                                infinity + 5 /* a signalling NaN */,
                                infinity + least_normal / 2 + 5};
    const uint64_t kind = random.next() % 4, chosen = random.next();
    const Bits any = static_cast<Bits>(random.next()), fraction = any & (least_normal - 1);
    if (kind == 0) return special[chosen % std::size(special)] | (any & sign);
    if (kind == 1) return any;
    const Bits exponent = one + static_cast<Bits>(chosen % 48) * least_normal - 30 * least_normal;
    const int dropped = kind == 2 ? 0 : static_cast<int>(chosen / 48 % fraction_bits);
    return (any & sign) | exponent | (fraction >> dropped << dropped);
}

// Of any size, often one of three.
uint64_t integer(Random& random) {
    const uint64_t kind = random.next() % 4, any = random.next() >> random.next() % 64;
    if (kind == 0) return any % 3 - 1;
    return kind == 1 ? any | any << 32 : any;
}

template <typename Operand, typename Make>
void fill_lanes(Operand& operand, Make make, Random& random) {
    for (size_t i = 0; i < sizeof(operand); i += sizeof(make(random))) {
        const auto lane = make(random);
        std::memcpy(reinterpret_cast<char*>(&operand) + i, &lane, sizeof(lane));
    }
}

void fill(__m512d& operand, Random& random) { fill_lanes(operand, number<uint64_t, 52>, random); }
void fill(__m512& operand, Random& random) { fill_lanes(operand, number<uint32_t, 23>, random); }
void fill(__m256& operand, Random& random) { fill_lanes(operand, number<uint32_t, 23>, random); }
void fill(double& operand, Random& random) { fill_lanes(operand, number<uint64_t, 52>, random); }
void fill(float& operand, Random& random) { fill_lanes(operand, number<uint32_t, 23>, random); }
void fill(__m512i& operand, Random& random) { fill_lanes(operand, integer, random); }
void fill(__m256i& operand, Random& random) { fill_lanes(operand, integer, random); }
template <typename Integer>
void fill(Integer& operand, Random& random) {
    operand = static_cast<Integer>(integer(random));
}

template <typename Operand>
Operand operand_of(Random& random) {
    Operand operand;
    fill(operand, random);
    return operand;
}

// Prints the digest (64-bit FNV-1a) of f's results for many operands.
template <typename... Operands, typename F>
void digest(const char* name, F f) {
    constexpr int count = 1 << 14;
    Random randoms[] = {{1}, {2}, {3}, {4}};
    uint64_t sum = 0xcbf29ce484222325;
    const auto add = [&]<size_t... k>(std::index_sequence<k...>) {
        const auto result = f(operand_of<Operands>(randoms[k])...);
        unsigned char bytes[sizeof(result)];
        std::memcpy(bytes, &result, sizeof(result));
        for (unsigned char byte : bytes) sum = (sum ^ byte) * 0x100000001b3;
    };
    for (int i = 0; i < count; ++i) add(std::index_sequence_for<Operands...>());
    std::printf("%s %016llx\n", name, static_cast<unsigned long long>(sum));
}

// Each NaN as the same: compilers swap operands, and with them which NaN an operation returns.
template <typename Real, typename Vector>
Vector with_one_nan(Vector vector) {
    struct Lanes {
        Real values[sizeof(Vector) / sizeof(Real)];
    } lanes = __builtin_bit_cast(Lanes, vector);
    for (Real& value : lanes.values)
        if (value != value) value = __builtin_nan("");
    return __builtin_bit_cast(Vector, lanes);
}

// Of these the bytes from the ninth on are no aligned vector.
struct Unaligned {
    char bytes[72] = {};
};
struct alignas(64) Aligned {
    char bytes[64];
};

#define CHECK(intrinsic, ...) digest<__VA_ARGS__>(#intrinsic, [](auto... operands) { return intrinsic(operands...); })
// With an immediate operand.
#define CHECK_WITH(immediate, intrinsic, ...) \
    digest<__VA_ARGS__>(#intrinsic " " #immediate, [](auto... operands) { return intrinsic(operands..., immediate); })
#define CHECK_BUT_NAN(Real, intrinsic, ...) \
    digest<__VA_ARGS__>(#intrinsic, [](auto... operands) { return with_one_nan<Real>(intrinsic(operands...)); })
#define CHECK_LOAD(Memory, intrinsic, Vector)            \
    digest<Vector>(#intrinsic, [](Vector operand) {      \
        Memory memory;                                   \
        char* from = memory.bytes + sizeof(memory) % 64; \
        std::memcpy(from, &operand, sizeof(operand));    \
        return intrinsic(from);                          \
    })
#define CHECK_STORE(Memory, intrinsic, Vector)                                             \
    digest<Vector>(#intrinsic, [](Vector operand) {                                        \
        Memory memory;                                                                     \
        intrinsic(reinterpret_cast<Vector*>(memory.bytes + sizeof(memory) % 64), operand); \
        return memory;                                                                     \
    })

void check_memory() {
    CHECK_LOAD(Aligned, _mm512_load_pd, __m512d);
    CHECK_LOAD(Unaligned, _mm512_loadu_pd, __m512d);
    CHECK_LOAD(Unaligned, _mm512_loadu_ps, __m512);
    CHECK_LOAD(Unaligned, _mm512_loadu_si512, __m512i);
    CHECK_STORE(Aligned, _mm512_store_pd, __m512d);
    CHECK_STORE(Unaligned, _mm512_storeu_pd, __m512d);
    CHECK_STORE(Unaligned, _mm512_storeu_ps, __m512);
    CHECK_STORE(Unaligned, _mm512_storeu_si512, __m512i);
    CHECK_STORE(Aligned, _mm512_stream_si512, __m512i);
    digest<__mmask16, __m512>("_mm512_maskz_loadu_ps", [](__mmask16 mask, __m512 operand) {
        float from[16];
        std::memcpy(from, &operand, sizeof(from));
        return _mm512_maskz_loadu_ps(mask, from);
    });
    digest<__m512d, __mmask8, __m512d>("_mm512_mask_loadu_pd", [](__m512d others, __mmask8 mask, __m512d operand) {
        double from[8];
        std::memcpy(from, &operand, sizeof(from));
        return _mm512_mask_loadu_pd(others, mask, from);
    });
}

void check_constants() {
    CHECK(_mm512_set1_pd, double);
    CHECK(_mm512_set1_ps, float);
    CHECK(_mm512_set1_epi64, long long);
    CHECK(_mm512_set1_epi32, int);
    CHECK(_mm512_maskz_set1_epi32, __mmask16, int);
    digest<int, int>("_mm512_setr_epi32", [](int a, int b) {
        return _mm512_setr_epi32(a, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, b);
    });
    CHECK(_mm512_setzero_ps);
    CHECK(_mm512_setzero_si512);
    CHECK(_mm512_castpd_si512, __m512d);
    CHECK(_mm512_castps_si512, __m512);
    CHECK(_mm512_castsi512_pd, __m512i);
    CHECK(_mm512_castsi512_ps, __m512i);
}

void check_arithmetic() {
    CHECK_BUT_NAN(double, _mm512_add_pd, __m512d, __m512d);
    CHECK_BUT_NAN(double, _mm512_sub_pd, __m512d, __m512d);
    CHECK_BUT_NAN(float, _mm512_sub_ps, __m512, __m512);
    CHECK_BUT_NAN(double, _mm512_mul_pd, __m512d, __m512d);
    CHECK_BUT_NAN(double, _mm512_mask_sub_pd, __m512d, __mmask8, __m512d, __m512d);
    CHECK_BUT_NAN(double, _mm512_mask_mul_pd, __m512d, __mmask8, __m512d, __m512d);
    CHECK_BUT_NAN(double, _mm512_fmadd_pd, __m512d, __m512d, __m512d);
    CHECK_BUT_NAN(double, _mm512_fmsub_pd, __m512d, __m512d, __m512d);
    CHECK_BUT_NAN(double, _mm512_fnmadd_pd, __m512d, __m512d, __m512d);
    CHECK_BUT_NAN(float, _mm512_fmadd_ps, __m512, __m512, __m512);
    CHECK_BUT_NAN(float, _mm512_fnmadd_ps, __m512, __m512, __m512);
    CHECK(_mm512_sqrt_ps, __m512);
    CHECK(_mm512_abs_pd, __m512d);
    CHECK(_mm512_abs_ps, __m512);
    CHECK(_mm512_getexp_pd, __m512d);
    CHECK_BUT_NAN(float, _mm512_getexp_ps, __m512);
    digest<__m512>("_mm512_getmant_ps", [](__m512 operand) {
        return with_one_nan<float>(_mm512_getmant_ps(operand, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero));
    });
    CHECK_BUT_NAN(float, _mm512_scalef_ps, __m512, __m512);
    digest<__m512, __m512>("_mm512_range_ps",
                           [](__m512 a, __m512 b) { return with_one_nan<float>(_mm512_range_ps(a, b, 0x0b)); });
}

void check_conversions() {
    CHECK(_mm512_cvtps_pd, __m256);
    CHECK(_mm512_cvtpd_ps, __m512d);
    CHECK(_mm512_cvtepi64_pd, __m512i);
    CHECK(_mm512_cvtepi32_ps, __m512i);
    CHECK(_mm512_cvtph_ps, __m256i);
    CHECK_WITH(_MM_FROUND_TO_NEAREST_INT, _mm512_cvtps_ph, __m512);
    CHECK(_mm512_cvtepu16_epi32, __m256i);
    CHECK(_mm512_cvtepi32_epi16, __m512i);
    CHECK(_mm512_zextsi256_si512, __m256i);
    CHECK_WITH(1, _mm512_inserti64x4, __m512i, __m256i);
}

void check_integers() {
    CHECK(_mm512_xor_si512, __m512i, __m512i);
    CHECK(_mm512_add_epi32, __m512i, __m512i);
    CHECK(_mm512_add_epi64, __m512i, __m512i);
    CHECK(_mm512_sub_epi32, __m512i, __m512i);
    CHECK(_mm512_sub_epi64, __m512i, __m512i);
    CHECK(_mm512_max_epu32, __m512i, __m512i);
    CHECK(_mm512_max_epu64, __m512i, __m512i);
    CHECK_WITH(16, _mm512_slli_epi32, __m512i);
    CHECK_WITH(16, _mm512_srli_epi32, __m512i);
    CHECK_WITH(52, _mm512_slli_epi64, __m512i);
    CHECK_WITH(4, _mm512_srli_epi64, __m512i);
    CHECK_WITH(47, _mm512_srli_epi64, __m512i);
    CHECK_WITH(48, _mm512_srli_epi64, __m512i);
    CHECK(_mm512_and_si512, __m512i, __m512i);
    CHECK(_mm512_or_si512, __m512i, __m512i);
    CHECK(_mm512_and_epi64, __m512i, __m512i);
    CHECK_WITH(0xea, _mm512_ternarylogic_epi64, __m512i, __m512i, __m512i);
    CHECK_WITH(0xfe, _mm512_ternarylogic_epi64, __m512i, __m512i, __m512i);
    CHECK_WITH(0x35, _mm512_ternarylogic_epi64, __m512i, __m512i, __m512i);
    CHECK(_mm512_reduce_max_epu32, __m512i);
    CHECK(_mm512_reduce_or_epi32, __m512i);
}

void check_comparisons() {
    CHECK_WITH(_CMP_EQ_OQ, _mm512_cmp_pd_mask, __m512d, __m512d);
    CHECK_WITH(_CMP_LT_OQ, _mm512_cmp_pd_mask, __m512d, __m512d);
    CHECK_WITH(_CMP_UNORD_Q, _mm512_cmp_pd_mask, __m512d, __m512d);
    CHECK_WITH(_CMP_NEQ_UQ, _mm512_cmp_pd_mask, __m512d, __m512d);
    CHECK_WITH(_CMP_EQ_OQ, _mm512_cmp_ps_mask, __m512, __m512);
    CHECK_WITH(_CMP_LT_OQ, _mm512_cmp_ps_mask, __m512, __m512);
    CHECK_WITH(_CMP_UNORD_Q, _mm512_cmp_ps_mask, __m512, __m512);
    CHECK_WITH(_CMP_NEQ_UQ, _mm512_cmp_ps_mask, __m512, __m512);
    CHECK_WITH(_CMP_NLT_UQ, _mm512_cmp_ps_mask, __m512, __m512);
    CHECK_WITH(_CMP_NLE_UQ, _mm512_cmp_ps_mask, __m512, __m512);
    CHECK_WITH(_CMP_EQ_OQ, _mm512_mask_cmp_ps_mask, __mmask16, __m512, __m512);
    CHECK_WITH(_CMP_NLT_UQ, _mm512_mask_cmp_ps_mask, __mmask16, __m512, __m512);
    CHECK(_mm512_cmpeq_epi32_mask, __m512i, __m512i);
    CHECK(_mm256_cmpneq_epi16_mask, __m256i, __m256i);
    CHECK(_mm512_cmpge_epu32_mask, __m512i, __m512i);
    CHECK(_mm512_mask_cmpge_epu32_mask, __mmask16, __m512i, __m512i);
    CHECK(_mm512_cmpge_epu64_mask, __m512i, __m512i);
    CHECK(_mm512_test_epi64_mask, __m512i, __m512i);
    CHECK(_mm512_mask_test_epi64_mask, __mmask8, __m512i, __m512i);
    CHECK(_mm512_mask_test_epi32_mask, __mmask16, __m512i, __m512i);
    CHECK_WITH(0x02, _mm512_fpclass_ps_mask, __m512);
    CHECK_WITH(0x04, _mm512_fpclass_ps_mask, __m512);
    CHECK_WITH(0x08, _mm512_fpclass_ps_mask, __m512);
    CHECK_WITH(0x0e, _mm512_fpclass_ps_mask, __m512);
}

void check_choices() {
    CHECK(_mm512_mask_blend_pd, __mmask8, __m512d, __m512d);
    CHECK(_mm512_mask_mov_ps, __m512, __mmask16, __m512);
    CHECK(_mm512_maskz_compress_epi32, __mmask16, __m512i);
    CHECK(_mm256_maskz_compress_epi32, __mmask8, __m256i);
    CHECK(_mm512_permutex2var_pd, __m512d, __m512i, __m512d);
    CHECK(_mm512_permutex2var_ps, __m512, __m512i, __m512);
    CHECK(_mm512_permutexvar_ps, __m512i, __m512);
}

// The digest is of what is not a matter of error: special values, and 4^n.
void check_reciprocal_root() {
    static double least = 0, greatest = 0;
    digest<__m512>("_mm512_rsqrt14_ps", [](__m512 operand) {
        float x[16], results[16];
        std::memcpy(x, &operand, sizeof(x));
        for (int i = 0; i < 8; ++i) x[i] = std::fabs(x[i]);
        std::memcpy(&operand, x, sizeof(x));
        const __m512 roots = _mm512_rsqrt14_ps(operand);
        std::memcpy(results, &roots, sizeof(results));
        for (int i = 0; i < 16; ++i) {
            const double root = std::sqrt(static_cast<double>(x[i]));
            int exponent;
            if (!(x[i] > 0) || std::isinf(x[i]) || std::frexp(root, &exponent) == 0.5) continue;
            const double error = (results[i] * root - 1) * 0x1p14;
            least = error < least ? error : least;
            greatest = error > greatest ? error : greatest;
            results[i] = 1;
        }
        return __builtin_bit_cast(__m512, results);
    });
    std::printf("errors %.6f %.6f\n", least, greatest);
}

}  // namespace

void check_all() {
    check_memory();
    check_constants();
    check_arithmetic();
    check_conversions();
    check_integers();
    check_comparisons();
    check_choices();
    check_reciprocal_root();
}

}  // namespace halfulp::HALFULP_ISA

int main() { halfulp::HALFULP_ISA::check_all(); }
