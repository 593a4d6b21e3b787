// x^y for one base x and all 65,536 exponents y of a 16-bit type, computed in another way than the core.
//
// Shares nothing with core/: no header, no polynomial, no table. The caller (pow16.py) supplies
//   log2 |x| = upper + lower, upper of at most 40 bits, lower a double: relative error under 2^-92;
//   powers[j] = 2^(j/64), rounded to double: relative error at most 2^-53.
// Both come from MPFR.
//
// The error of the approximation v of |x^y|, for |t| <= 192 where t = y log2 |x| (beyond lies over- or
// underflow):
//   y has at most 11 bits, so y * upper is exact, and subtracting its nearest multiple k of 1/64 is exact
//   too; the rest s = (y * upper - k) + y * lower has |s| <= 2^-7 + tiny, and an absolute error below 2^-60
//   from the rounding of the sum, below 2^-85 from lower; q = 2^s - 1 is a Taylor polynomial of 8 terms:
//   truncated by less than (2^-7 ln 2)^9 / 9! < 2^-80, each of its operations rounds a number below 2^-7, so
//   that q errs by less than 2^-57; v = power + power * q has two more roundings and that of the power.
//   Together v has a relative error below 2^-50.
// With v scaled so that the target's last place is 1, v < 2^11, so its error is below 2^-39. Only the
// midpoint between two neighbours is a boundary (an exact result lies far from one). Where the fraction is
// farther than MARGIN = 2^-32 from 1/2, v decides the rounding. Where it is nearer, integer arithmetic
// decides whether x^y is that midpoint; if it is not, the pair is handed back, to be decided by MPFR.
//
// Ties: with m, n odd and x = m 2^e, y = n 2^g, x^y has finitely many binary digits only if
//   m = 1 and e y is an integer, or y > 0 and, for g < 0, both m and 2^e are perfect 2^-g-th powers.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace {

constexpr double MARGIN = 0x1p-32;

struct Format {
    int fraction_bits;
    int bias;

    int quantum() const { return 1 - bias - fraction_bits; }  // exponent of the least subnormal
    int infinity() const { return 0x7fff >> fraction_bits << fraction_bits; }
    int nan() const { return infinity() | 1 << (fraction_bits - 1); }
};

constexpr Format FLOAT16{10, 15};
constexpr Format BFLOAT16{7, 127};

// A finite magnitude: odd * 2^exponent, or odd = 0.
struct Number {
    int64_t odd;
    int exponent;
};

Number decode(Format format, int magnitude) {
    const int field = magnitude >> format.fraction_bits;
    const int fraction = magnitude & ((1 << format.fraction_bits) - 1);
    const Number number{field ? fraction | 1 << format.fraction_bits : fraction,
                        format.quantum() + (field ? field - 1 : 0)};
    if (number.odd == 0) return number;
    const int zeros = std::countr_zero(static_cast<uint64_t>(number.odd));
    return {number.odd >> zeros, number.exponent + zeros};
}

// The odd square root, or 0.
int64_t square_root(int64_t value) {
    const auto root = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(value))));
    return root * root == value ? root : 0;
}

// x^y as odd * 2^exponent where it has at most 12 binary digits, else odd = 0.
Number exact_power(Number x, Number y, bool y_negative) {
    const Number none{0, 0};
    if (x.odd != 1 && y_negative) return none;
    while (y.exponent < 0) {  // take square roots until y is an integer
        x.odd = square_root(x.odd);
        if (x.odd == 0 || x.exponent % 2 != 0) return none;
        x.exponent /= 2;
        y.exponent += 1;
        if (x.odd == 1 && x.exponent == 0) return {1, 0};
    }
    if (y.exponent > 20) return none;  // the caller has seen to it that the result is within range
    const int64_t n = y.odd << y.exponent;
    int64_t power = 1;
    if (x.odd != 1) {
        for (int64_t i = 0; i < n; ++i) {
            power *= x.odd;
            if (power >> 12) return none;
        }
    }
    return {power, static_cast<int>(x.exponent * (y_negative ? -n : n))};
}

enum class Parity { fractional, even, odd };

Parity parity(Number y) {
    if (y.exponent < 0) return Parity::fractional;
    return y.exponent == 0 ? Parity::odd : Parity::even;
}

// What one rounding came to.
struct Rounded {
    int magnitude;
    double distance;  // of the scaled approximation's fraction from 1/2
};

Rounded round_to(Format format, double v) {
    int exponent;
    std::frexp(v, &exponent);  // v in [2^(exponent-1), 2^exponent)
    int last = exponent - 1 - format.fraction_bits;
    if (last < format.quantum()) last = format.quantum();
    const double scaled = std::ldexp(v, -last);
    const double whole = std::floor(scaled);
    const double fraction = scaled - whole;
    // The codes of magnitudes count up in steps of one, across the powers of two as well.
    const int64_t code = static_cast<int64_t>(whole) + (fraction > 0.5) +
                         (static_cast<int64_t>(last - format.quantum()) << format.fraction_bits);
    return {code < format.infinity() ? static_cast<int>(code) : format.infinity(), std::fabs(fraction - 0.5)};
}

double approximate(double t_upper, double t_lower, const double* powers) {
    const double k = std::nearbyint(t_upper * 64);
    const double s = (t_upper - k / 64) + t_lower;
    const double z = s * 0x1.62e42fefa39efp-1;  // ln 2
    const double q =
        z * (1 + z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5 * (1 + z / 6 * (1 + z / 7 * (1 + z / 8)))))));
    const auto index = static_cast<int>(k);
    const double power = powers[index & 63];
    return std::ldexp(power + power * q, (index - (index & 63)) / 64);
}

}  // namespace

extern "C" {

struct Counts {
    int64_t computed;   // pairs that the approximation was needed for
    int64_t ties;       // decided by integer arithmetic
    int64_t undecided;  // handed back
    double nearest;     // least distance of a fraction from 1/2, ties apart
};

// Fills results[y]; pairs within `near` of a midpoint, ties apart, are listed in near_pairs (at most `room`;
// the count is returned). Undecided ones have the distance -1.
int pow16(int is_bfloat16, int x, double log_upper, double log_lower, const double* powers, uint16_t* results,
          double near, int room, uint16_t* near_pairs, double* near_distances, Counts* counts) {
    const Format format = is_bfloat16 ? BFLOAT16 : FLOAT16;
    const int infinity = format.infinity(), nan = format.nan();
    const int one = format.bias << format.fraction_bits;
    const int x_magnitude = x & 0x7fff;
    const bool x_negative = x & 0x8000;
    const bool x_is_nan = x_magnitude > infinity;
    const Number base = decode(format, x_magnitude < infinity ? x_magnitude : 0);
    int listed = 0;

    for (int y = 0; y < 0x10000; ++y) {
        const int y_magnitude = y & 0x7fff;
        const bool y_negative = y & 0x8000;
        uint16_t& result = results[y];
        // C23 F.10.4.4, in another order.
        if (y_magnitude == 0 || x == one) {
            result = static_cast<uint16_t>(one);
            continue;
        }
        if (x_is_nan || y_magnitude > infinity) {
            result = static_cast<uint16_t>(nan);
            continue;
        }
        if (y_magnitude == infinity) {
            if (x_magnitude == one) {
                result = static_cast<uint16_t>(one);
            } else {
                result = static_cast<uint16_t>((x_magnitude > one) != y_negative ? infinity : 0);
            }
            continue;
        }
        const Number exponent = decode(format, y_magnitude);
        const Parity kind = parity(exponent);
        const int sign = x_negative && kind == Parity::odd ? 0x8000 : 0;
        if (x_magnitude == 0 || x_magnitude == infinity) {
            const bool large = (x_magnitude == infinity) != y_negative;
            result = static_cast<uint16_t>((large ? infinity : 0) | sign);
            continue;
        }
        if (x_negative && kind == Parity::fractional) {
            result = static_cast<uint16_t>(nan);
            continue;
        }

        double y_value = std::ldexp(static_cast<double>(exponent.odd), exponent.exponent);
        if (y_negative) y_value = -y_value;
        const double t = y_value * log_upper;
        if (std::fabs(t) > 192) {
            result = static_cast<uint16_t>((t > 0 ? infinity : 0) | sign);
            continue;
        }
        counts->computed += 1;
        Rounded rounded = round_to(format, approximate(t, y_value * log_lower, powers));
        bool tie = false, undecided = false;
        if (rounded.distance < MARGIN) {
            const Number power = exact_power(base, exponent, y_negative);
            // A midpoint is exact in double, and so is its scaling and the comparison with 1/2.
            tie = power.odd != 0 &&
                  round_to(format, std::ldexp(static_cast<double>(power.odd), power.exponent)).distance == 0;
            undecided = !tie;
            if (tie) {
                // Both neighbours of a midpoint: round_to went down, and the even one has an even code.
                rounded = round_to(format, std::ldexp(static_cast<double>(power.odd), power.exponent));
                rounded.magnitude += rounded.magnitude & 1;
            }
        }
        counts->ties += tie;
        counts->undecided += undecided;
        if (!tie && rounded.distance < counts->nearest) counts->nearest = rounded.distance;
        if (undecided || (!tie && rounded.distance < near)) {
            if (listed == room) return -1;
            near_pairs[listed] = static_cast<uint16_t>(y);
            near_distances[listed] = undecided ? -1 : rounded.distance;
            ++listed;
        }
        result = static_cast<uint16_t>(rounded.magnitude | sign);
    }
    return listed;
}
}
