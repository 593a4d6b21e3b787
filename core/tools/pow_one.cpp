// pow_one: computes one power as the kernels do, and prints every phase: its value, its error bound, the interval
// that holds the exact power, and whether the interval decides the result. For debugging: core_check and the tests
// say that a result differs, this program says where.
//
//   pow_one X Y TYPE [Y_TYPE]
//
//   X, Y     decimal or hexadecimal numbers (1.5, 0x1.8p+0, inf, nan), or encodings as in data/worst_cases/
//            (bits:0x3fc00000)
//   TYPE     float32 or float64, for X and the result
//   Y_TYPE   the same for Y, if it has another type
//
// The phases are the functions of core/numerics/, without vectors. The program computes the fast, double-double,
// triple-double and exact phases even if an earlier phase has decided. It prints an interval as the parts of the sum
// that are the same at both ends, then the ends of the last part. With fused operations (-mfma) a phase's value may
// have other last bits.
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

#define HALFULP_ISA one_element
#include "fp_environment.h"
#include "numerics/pow.h"
#include "numerics/pow_fast_float64.h"

namespace halfulp::HALFULP_ISA {

namespace {

// Reads a number, or throws.
double parse(const std::string& text, Element type) {
    const std::string prefix = "bits:";
    const bool is_encoding = text.rfind(prefix, 0) == 0, is_float64 = type == Element::float64;
    const char* digits = text.c_str() + (is_encoding ? prefix.size() : 0);
    char* end;
    double value;
    if (is_encoding) {
        const uint64_t bits = std::strtoull(digits, &end, 16);
        value = is_float64 ? double_of(bits) : decode<Element::float32>(static_cast<uint32_t>(bits));
    } else {
        value = is_float64 ? std::strtod(digits, &end) : std::strtof(digits, &end);
    }
    if (*digits == '\0' || *end != '\0')
        throw std::invalid_argument(text + ": not a number; expected one such as 1.5, 0x1.8p+0 or bits:0x3fc00000");
    return value;
}

// Prints the phases of one power.
class Report {
public:
    Report(Element element, double x, double y)
        : type_(row(element)), x_(x), magnitude_(fabs(x)), y_(y), exponent_(Operand::of(y)) {}

    int print() {
#ifdef HALFULP_FUSED
        note("with fused multiply-adds");
#endif
        std::printf("x                  %a = %.17g\n", x_, x_);
        std::printf("y                  %a = %.17g\n", y_, y_);
        if (y_ == 0 || is_special(x_, classify(y_))) {
            decide("the rules of special values", encode_special(type_, x_, exponent_, false));
        } else {
            closed_form();
            if (type_.precision > 24) fast_float64();
            else fast();
            double_double();
            triple_double();
            exact();
        }
        std::printf("result             %0*llx, by %s\n", type_.bits / 4, static_cast<unsigned long long>(result_),
                    decided_by_ == nullptr ? "no phase" : decided_by_);
        const uint64_t expected = pow_float(type_, x_, exponent_, false).result;
        if (result_ == expected) return 0;
        std::printf("numerics/pow.h     %0*llx, which differs\n", type_.bits / 4,
                    static_cast<unsigned long long>(expected));
        return 1;
    }

private:
    void title(const char* phase) const { std::printf("\n%s\n", phase); }
    void note(const char* text) const { std::printf("  %s\n", text); }

    void decide(const char* phase, uint64_t encoding) {
        if (decided_by_ != nullptr) return;
        decided_by_ = phase;
        result_ = encoding;
    }

    // Prints the ends of the interval, rounded. The phase decides if they are the same.
    void ends(const char* phase, uint64_t least, uint64_t greatest) {
        least = with_sign<uint64_t>(type_, least, bits_of(x_), exponent_.parity());
        greatest = with_sign<uint64_t>(type_, greatest, bits_of(x_), exponent_.parity());
        std::printf("  its ends round to %0*llx and %0*llx: %s\n", type_.bits / 4,
                    static_cast<unsigned long long>(least), type_.bits / 4, static_cast<unsigned long long>(greatest),
                    least == greatest ? "decided" : "undecided");
        if (least == greatest) decide(phase, least);
    }

    void ends(const char* phase, const Rounding& rounding) {
        ends(phase, encode_magnitude(type_, rounding.least), encode_magnitude(type_, rounding.greatest));
    }

    // Prints a value that is a sum, times 2^k, and the interval that its error bound makes of the last part.
    void value(std::initializer_list<double> parts, double error, int64_t k) const {
        std::printf("  value             ");
        const char* plus = "";
        for (double part : parts) std::printf("%s%a", std::exchange(plus, " + "), part);
        std::printf(", times 2^%lld\n", static_cast<long long>(k));
        std::printf("  error at most     %a, times 2^%lld\n", error, static_cast<long long>(k));
        const double last = *(parts.end() - 1);
        std::printf("  interval          ");
        for (const double* part = parts.begin(); part != parts.end() - 1; ++part) std::printf("%a + ", *part);
        std::printf("[%a, %a], times 2^%lld\n", last - error, last + error, static_cast<long long>(k));
    }

    void logarithm(double t) const { std::printf("  y log2 |x|        %.17g\n", t); }

    void closed_form() {
        title("closed form (pow_closed_form.h)");
        const Attempt power = try_closed_form(type_, magnitude_, exponent_);
        if (!power.decided) return note("this power has none");
        note("exact, or one operation that the processor rounds correctly");
        ends("a closed form", power.result, power.result);
    }

    void fast() {
        title("fast (pow_fast.h)");
        const double t = clamp(y_ * log2_fast(quotient_fast(magnitude_)), 1000), least = exp2_fast(t);
        const double greatest = least * (1 + 2 * fast_error);
        logarithm(t);
        std::printf("  value             %a, the least end\n", least);
        std::printf("  error at most     %a of the value\n", 2 * fast_error);
        std::printf("  interval          [%a, %a]\n", least, greatest);
        ends("the fast phase", Rounding{least, greatest});
    }

    void fast_float64() {
        title("fast (pow_fast_float64.h)");
        if (magnitude_ < 0x1p-1022) return note("not for subnormal bases");
        const constants::LogEntry& entry = constants::float64_log_entries[float64_log_index(magnitude_)];
        const DoubleDouble sum = float64_t<false>(float64_log(begin_float64_log(magnitude_, entry)), y_, 0.0);
        std::printf("  y log |x|         %.17g\n", sum.high);
        if (!(fabs(sum.high) <= greatest_float64_t)) return note("not for |y log x| above greatest_float64_t");
        const DoubleDouble t = fast_two_sum(sum.high, sum.low);
        const double place = float64_exp_place(t.high), error = float64_error_at(fabs(sum.low));
        const Float64Power power = float64_exp(t, place, constants::float64_exp_entries[float64_exp_index(place)]);
        value({power.value.high, power.value.low}, power.power * error, 0);
        const Float64Ends<double> of_power = float64_ends(power.value, power.power, error);
        ends("the fast phase", Rounding{of_power.least, of_power.greatest});
    }

    void double_double() {
        title("double-double (pow_dd.h)");
        const Target target = Target::of(type_);
        DoubleDouble t = log2_dd<true>(begin_dd_logarithm<true>(magnitude_), exponent_.high, exponent_.low);
        t = {clamp(t.high, target.most_t), clamp(t.low, greatest_t_low)};
        const DoubleDoublePower power = exp2_dd(t, begin_dd_power(t.high));
        logarithm(t.high);
        value({power.value.high, power.value.low}, power.error, static_cast<int64_t>(power.k));
        ends("the double-double phase", round_to(target, power));
    }

    void triple_double() {
        title("triple-double (pow_td.h)");
        const auto [t, power] = triple_double_power(magnitude_, exponent_.high, exponent_.low);
        logarithm(t);
        if (!(fabs(t) <= greatest_td_t)) return note("not for |y log2 x| above greatest_td_t");
        value({power.value.a, power.value.b, power.value.c}, power.error, static_cast<int64_t>(power.k));
        ends("the triple-double phase", type_.precision > 24 ? round_to_double(power) : round_to_odd(power));
    }

    void exact() {
        const Dyadic x = dyadic_of(magnitude_), y = exponent_.magnitude();
        const bool negative = y_ < 0;
        const auto round = [&](const Magnitude& end) {
            return encode_exact(type_, false, end.significand, end.exponent, end.inexact);
        };
        title("exact (pow_exact.h)");
        Magnitude power;
        if (exact_power(x, negative, y, power)) {
            end("value", power);
            return ends("the exact phase, as a power of at most 66 bits", round(power), round(power));
        }
        const auto decides = [&](const char* phase, const Interval& interval) {
            note(phase);
            end("  least end", interval.low);
            end("  greatest end", interval.high);
            const uint64_t least = round(interval.low), greatest = round(interval.high);
            ends(phase, least, greatest);
            return least == greatest;
        };
        decides("the exact phase with 192 bits", power_interval<4>(x, negative, y)) ||
            decides("the exact phase with 320 bits", power_interval<6>(x, negative, y)) ||
            decides("the exact phase with 512 bits", power_interval<9>(x, negative, y)) ||
            decides("the exact phase with 1024 bits", power_interval<17>(x, negative, y));
    }

    void end(const char* name, const Magnitude& m) const {
        std::printf("  %-17s %016llx%s, times 2^%d\n", name, static_cast<unsigned long long>(m.significand),
                    m.inexact ? " and less than 1 more" : "", m.exponent - 63);
    }

    const ElementRow& type_;
    double x_, magnitude_, y_;
    Operand exponent_;
    const char* decided_by_ = nullptr;
    uint64_t result_ = 0;
};

Element type_named(const std::string& name) {
    if (name == "float32") return Element::float32;
    if (name == "float64") return Element::float64;
    throw std::invalid_argument(name + ": not a type of this program; expected float32 or float64");
}

int run(const char* x, const char* y, const char* type_name, const char* y_type_name) {
    FpEnvironment default_environment;
    const Element type = type_named(type_name), y_type = type_named(y_type_name);
    return Report(type, parse(x, type), parse(y, y_type)).print();
}

}  // namespace

}  // namespace halfulp::HALFULP_ISA

int main(int argc, char** argv) {
    if (argc != 4 && argc != 5) {
        std::fprintf(stderr, "usage: pow_one X Y TYPE [Y_TYPE], such as pow_one 0x1.8p+0 2.7 float32\n");
        return 2;
    }
    try {
        return halfulp::HALFULP_ISA::run(argv[1], argv[2], argv[3], argv[argc - 1]);
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "pow_one: %s\n", error.what());
        return 2;
    }
}
