// Scans x^y for one float32 base x and consecutive float32 exponents y for results near a midpoint.
//
// For the exponents y + i h of one binade the powers are a geometric sequence with ratio e^rate, rate = h ln x. Since
// |y ln x| <= 150 ln 2 and h <= 2^-23 |y|, |rate| < 2^-16.2. Let P < 2^24 be the middle one of LENGTH consecutive
// powers, in units of its last place. The power t steps away, P e^(t rate), differs from the cubic P (1 + t rate + (t
// rate)^2 / 2 + (t rate)^3 / 6) by little more than 2^24 z^4 / 24, z = LENGTH / 2 |rate| < 2^-9.2: by at most 2^-17.4.
//
// By differences each next value of a cubic takes three additions. With 64-bit fractions these are modulo 1, and a
// midpoint is 1/2. The first value and the differences are products of doubles. The value, below 2^24 and rounded five
// times, has an error below 2^-26; the first difference, below 2^8, one below 2^-42, which is 2^-34 after LENGTH steps.
// The errors of the other differences and of the 64 bits are smaller.
//
// Each lane of a vector computes LENGTH powers and keeps the least value above 1/2 - tolerance, modulo 1. If that is
// within twice the tolerance, the lane is computed again, and the powers near a midpoint are computed with 128-bit
// significands: 2^12 products with a power of the ratio, which has an error below 2^-112 of itself, leave an error
// below 2^-75 units.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace {

using Fraction = unsigned __int128;

#ifdef __AVX512F__
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
constexpr int LENGTH = 256;
constexpr int BLOCK = LANES * LENGTH;
constexpr int LOG2_BLOCK = std::countr_zero(unsigned{BLOCK});

typedef double Doubles [[gnu::vector_size(8 * LANES)]];
typedef int64_t Integers [[gnu::vector_size(8 * LANES)]];
typedef uint64_t Fractions [[gnu::vector_size(8 * LANES)]];

// significand * 2^(exponent - 128), the significand's upper bit set.
struct Number {
    Fraction significand;
    int exponent;

    // The exponent of the last place of a float32 of this size.
    int last_place() const { return std::max(exponent - 24, -149); }
};

// Its error is below 2^-124 of itself.
Number operator*(const Number& a, const Number& b) {
    const auto a1 = static_cast<uint64_t>(a.significand >> 64), a0 = static_cast<uint64_t>(a.significand);
    const auto b1 = static_cast<uint64_t>(b.significand >> 64), b0 = static_cast<uint64_t>(b.significand);
    const auto upper = [](uint64_t u, uint64_t v) { return static_cast<Fraction>(u) * v >> 64; };
    const Fraction product = static_cast<Fraction>(a1) * b1 + upper(a1, b0) + upper(a0, b1);
    const int shift = product >> 127 ? 0 : 1;
    return {product << shift, a.exponent + b.exponent - shift};
}

double distance_from_midpoint(const Number& power) {
    constexpr Fraction HALF = static_cast<Fraction>(1) << 127;
    const Fraction value = power.significand << (power.exponent - power.last_place());
    const Fraction distance = value > HALF ? value - HALF : HALF - value;
    return std::ldexp(static_cast<double>(distance), -128);
}

class Scan {
public:
    Scan(const Number& ratio, double rate, double near) : near_(near) {
        powers_[0] = ratio;
        for (int k = 0; k < LOG2_BLOCK; ++k) powers_[k + 1] = powers_[k] * powers_[k];
        // The value and the differences at the first of LENGTH steps, for P = 1.
        const double t = -LENGTH / 2, c1 = rate, c2 = c1 * rate / 2, c3 = c2 * rate / 3;
        const double values[4] = {1 + t * (c1 + t * (c2 + t * c3)), c1 + c2 * (2 * t + 1) + c3 * (3 * t * (t + 1) + 1),
                                  2 * c2 + 6 * c3 * (t + 1), 6 * c3};
        for (int lane = 0; lane < LANES; ++lane) {
            const double middle = std::exp((lane * LENGTH + LENGTH / 2) * rate);
            for (int k = 0; k < 4; ++k) differences_[k][lane] = values[k] * middle;
        }
        // 16 instead of 24, for the later terms and for powers beyond 2^24 in blocks that begin or end below.
        const double z = LENGTH / 2 * rate, tolerance = near + 0x1p-26 + 0x1p24 * z * z * z * z / 16;
        tolerance_ = static_cast<uint64_t>(tolerance * 0x1p64);
    }

    // Calls found(i) for each power i of a block that is near a midpoint. Returns the next block's start.
    template <class Found>
    Number block(const Number& start, Found found) const {
        const Number end = start * powers_[LOG2_BLOCK];
        lanes(start, start.last_place(), found);
        if (end.last_place() != start.last_place()) lanes(start, end.last_place(), found);
        return end;
    }

private:
    // Scans the powers of a block that have this last place.
    template <class Found>
    void lanes(const Number& start, int last_place, Found found) const {
        const double power = std::ldexp(static_cast<double>(start.significand), start.exponent - 128 - last_place);
        Fractions d[4];
        for (int k = 0; k < 4; ++k) {
            const Doubles exact = power * differences_[k];
            const Doubles whole = __builtin_convertvector(__builtin_convertvector(exact, Integers), Doubles);
            const Integers halves = __builtin_convertvector((exact - whole) * 0x1p63, Integers);
            d[k] = 2 * reinterpret_cast<Fractions>(halves);
        }
        d[0] += tolerance_ - (uint64_t{1} << 63);
        Fractions value = d[0], d1 = d[1], d2 = d[2], least = value;
        for (int i = 0; i < LENGTH; ++i, value += d1, d1 += d2, d2 += d[3]) least = value < least ? value : least;
        for (int lane = 0; lane < LANES; ++lane) {
            if (least[lane] > 2 * tolerance_) continue;
            uint64_t v = d[0][lane], v1 = d[1][lane], v2 = d[2][lane];
            for (int i = lane * LENGTH; i < (lane + 1) * LENGTH; ++i, v += v1, v1 += v2, v2 += d[3][lane])
                if (v <= 2 * tolerance_ && is_near(start, i)) found(i);
        }
    }

    bool is_near(Number power, int i) const {
        for (int k = 0; i >> k; ++k)
            if (i >> k & 1) power = power * powers_[k];
        return distance_from_midpoint(power) < near_;
    }

    double near_;
    uint64_t tolerance_;
    Number powers_[LOG2_BLOCK + 1];  // the ratio to the power of 2^k
    Doubles differences_[4];         // of the cubics for a block that begins with 1: their values, then the differences
};

}  // namespace

// The powers are start * ratio^i for i in [0, count), at least 2^-149. start and ratio are given as the upper and lower
// 64 bits of their significands and their exponents. Writes the i of powers within `near` units of a midpoint to
// `found`, at most `room`, and returns their number.
extern "C" int64_t scan(const uint64_t* significands, const int* exponents, double rate, int64_t count, double near,
                        int64_t* found, int64_t room) {
    const auto number = [&](int k) {
        return Number{static_cast<Fraction>(significands[2 * k]) << 64 | significands[2 * k + 1], exponents[k]};
    };
    const Scan scan(number(1), rate, near);
    Number power = number(0);
    int64_t length = 0;
    for (int64_t first = 0; first < count; first += BLOCK)
        power = scan.block(power, [&](int i) {
            if (first + i >= count) return;
            if (length < room) found[length] = first + i;
            ++length;
        });
    return length;
}
