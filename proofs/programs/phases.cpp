// Prints the operations of the phases of a power, function by function, and their error bounds.
#include "traced.h"

#include "numerics/pow_fast_float32.h"
#include "numerics/pow_fast_float64.h"
#include "numerics/pow_fast_sixteenths.h"
#include "numerics/pow_td.h"

using namespace halfulp::HALFULP_ISA;
using traced::begin, traced::input, traced::input_float, traced::output, traced::state;

static void output_pair(const DoubleDouble& pair) {
    output("high", pair.high);
    output("low", pair.low);
}

static void output_triple(const TripleDouble& triple) {
    output("a", triple.a);
    output("b", triple.b);
    output("c", triple.c);
}

static DoubleDouble pair(const char* high, const char* low) { return {input(high, 0.7), input(low, 0x1.3p-55)}; }

static void fast_phase() {
    state("fast_error", fast_error);
    state("fast_error_of_exp2", fast_error_of_exp2);
    state("fast_error_of_t", fast_error_of_t);
    begin("quotient_fast");
    const Quotient quotient = quotient_fast(input("x", 1.3));
    output("s", quotient.s);
    output("e", quotient.e);
    begin("quotient_fast_of_float");
    const Quotient of_float = quotient_fast(input_float("x", 1.3f));
    output("s", of_float.s);
    output("e", of_float.e);
    begin("log2_fast");
    const traced::Double s = input("s", 0.1);
    output("log2", log2_fast({s, input_float("e", 3)}));
    begin("exp2_fast");
    exp2_fast(input("t", 3.3));
}

static void fast_phase_of_float64() {
    state("float64_error", float64_error);
    state("float64_error_of_low", float64_error_of_low);
    state("greatest_float64_t", greatest_float64_t);
    state("greatest_float64_low", greatest_float64_low);
    state("greatest_float64_t_on_grid", greatest_float64_t_on_grid);
    state("greatest_float64_error_on_grid", greatest_float64_error_on_grid);
    state("float64_step.high", constants::float64_step.high);
    state("float64_step.low", constants::float64_step.low);
    for (int i = 0; i < 128; ++i) {
        const constants::LogEntry& entry = constants::float64_log_entries[i];
        begin("begin_float64_log." + std::to_string(i));
        const traced::Double m = input("m", 1 + i * 0x1p-7), e = input("e", 3);
        const auto begun = begin_float64_log(m, e, entry.r, entry.high, entry.low);
        output("v", begun.v);
        output("whole", begun.whole);
        output("whole_low", begun.whole_low);
    }
    begin("float64_log");
    const traced::Double v = input("v", 0x1.3p-10), whole = input("whole", 1.3);
    output_pair(float64_log(Float64Logarithm<traced::Double>{v, whole, input("whole_low", 0x1.1p-46)}));
    begin("float64_t");
    const DoubleDouble log = {input("log", 1.3), input("log_low", 0x1p-25)};
    output_pair(float64_t<true>(log, input("y", 1.7), input("y_low", 0x1.7p-55)));
    begin("float64_remainder");
    const DoubleDouble t = {input("t", 3.01), input("t_low", 0x1p-30)};
    output_pair(float64_remainder(t, float64_exp_place(t.high), input("correction", 0x1.1p-54)));
    for (int i = 0; i < 256; ++i) {
        const constants::ExpEntry& entry = constants::float64_exp_entries[i];
        using Number = decltype(traced::Double::value);
        const auto encoding = entry.power + (static_cast<uint64_t>(i) << 44);
        const traced::Double power = std::bit_cast<Number>(encoding);
        state(("float64_power." + std::to_string(i)).c_str(), power);
        state(("float64_correction." + std::to_string(i)).c_str(), entry.correction);
    }
    begin("float64_power");
    const DoubleDouble rest = {input("rest", 0x1.3p-10), input("rest_low", 0x1p-30)};
    output_pair(float64_power(rest, input("power", 1.3)));
    begin("float64_ends");
    const traced::Double value = input("value", 1.3), value_low = input("value_low", 0x1p-20);
    const traced::Double power = input("power", 1.2), error = input("error", 0x1p-68);
    const auto ends = float64_ends(DoubleDouble{value, value_low}, power, error);
    output("least", ends.least);
    output("greatest", ends.greatest);
    begin("float64_error_at");
    output("error", float64_error_at(input("most_low", 0x1p-30)));
}

static void fast_phase_of_float32() {
    state("float32_error", float32_error);
    begin("float32_whole_power");
    for (int i = 0; i < 256; ++i)
        state(("float32_power." + std::to_string(i)).c_str(), float32_whole_power(round_magic + i));
    for (int i = 0; i < 128; ++i) {
        const auto& entry = constants::float32_log_entries[i];
        const std::string number = "." + std::to_string(i);
        state(("float32_r" + number).c_str(), entry.r);
        state(("float32_log2" + number).c_str(), entry.log2);
        begin("begin_float32_log" + number);
        output("f", begin_float32_log(__builtin_bit_cast(std::uint32_t, 1 + static_cast<float>(i) / 128), entry).f);
    }
    begin("float32_log2");
    const traced::Double f = input("f", 0x1.3p-10);
    output("log2", float32_log2(Float32Logarithm<traced::Double>{f, input("whole", 3)}));
    begin("float32_power");
    const traced::Double t = input("t", 3.3);
    output("power", float32_power(t, float32_place(t), input("whole", 1.3)));
}

static void fast_phase_by_sixteenths() {
    state("sixteenths_error", sixteenths_error);
    state("sixteenths_error_of_cube", sixteenths_error_of_cube);
    state("sixteenths_error_of_ends", sixteenths_error_of_ends);
    state("greatest_half_t", greatest_half_t);
    state("half_exp_step.high", constants::half_exp_step.high);
    state("half_exp_step.low", constants::half_exp_step.low);
    for (int i = 0; i < 16; ++i) {
        const auto& log_entry = constants::half_log_entries[i];
        const auto& exp_entry = constants::dd_exp_entries[i];
        const std::string number = "." + std::to_string(i);
        begin("begin_half_log" + number);
        const traced::Double m = input("m", 1 + i * 0x1p-4), scale = input("scale", 0x1p52);
        const auto begun = begin_half_log(m, scale, log_entry.r, log_entry.high, log_entry.low);
        output("v", begun.v);
        output("whole", begun.whole);
        output("whole_low", begun.whole_low);
        state(("half_exp_power" + number).c_str(), exp_entry.power);
        state(("half_exp_correction" + number).c_str(), exp_entry.correction);
        begin("half_exp" + number);
        const DoubleDouble rest = {input("rest", 0.01), input("rest_low", 0x1p-55)};
        output_pair(half_exp(rest, exp_entry.power));
    }
    begin("half_log");
    const traced::Double v = input("v", 0.01), whole = input("whole", 1.3);
    output_pair(half_log(HalfLogarithm<traced::Double>{v, whole, input("whole_low", 0x1.1p-46)}));
    begin("half_exp_remainder");
    const DoubleDouble t = {input("t", 3.01), input("t_low", 0x1p-50)};
    output_pair(half_exp_remainder(t, half_exp_place(t.high), input("correction", 0x1p-55)));
}

// A number in the middle of each part of a binade.
static void double_double_phase() {
    state("greatest_t_low", greatest_t_low);
    state("double_double_error.fixed", double_double_error.fixed);
    state("double_double_error.of_t", double_double_error.of_t);
    for (int i = 0; i < 32; ++i) {
        begin("begin_dd_logarithm." + std::to_string(i));
        const TableLogarithm begun = begin_dd_logarithm<true>(input("x", 8 * (1 + i * 0x1p-5)));
        output("f", begun.f);
        output("whole", begun.whole);
        output("whole_low", begun.whole_low);
    }
    begin("log2_sum");
    const traced::Double f = input("f", 0.01), whole = input("whole", 1.3);
    const traced::Double tail = polynomial(constants::log2_dd, f);
    output_pair(log2_sum({f, whole, input("whole_low", 0x1.1p-44), tail}));
    begin("times");
    const DoubleDouble log2 = pair("log2", "log2_low");
    const traced::Double y = input("y", 1.7);
    output_pair(times<true>(log2, y, input("y_low", 0x1.7p-55)));
    for (int i = 0; i < 16; ++i) {
        begin("exp2_dd." + std::to_string(i));
        const DoubleDouble t = {input("t", 3 + i * 0x1p-4 + 0.01), input("t_low", 0x1p-50)};
        const TablePower begun = begin_dd_power(t.high);
        output("power", begun.power);
        output("correction", begun.correction);
        output_pair(exp2_dd(t, begun).value);
    }
}

static TripleDouble triple(const std::string& name, traced::Double about) {
    return {input(name.c_str(), about.value), input((name + "_low").c_str(), 0x1.3p-55),
            input((name + "_last").c_str(), 0x1.7p-109)};
}

static void triple_double_phase() {
    state("triple_double_error.fixed", triple_double_error.fixed);
    state("triple_double_error.of_t", triple_double_error.of_t);
    state("greatest_td_t", greatest_td_t);
    for (int i = 0; i < 32; ++i) {
        begin("begin_logarithm." + std::to_string(i));
        const TripleDoubleLogarithm begun = begin_logarithm(input("x", 8 * (1 + i * 0x1p-5)));
        output("f", begun.f);
        output_triple(begun.whole);
    }
    begin("log2_td_series");
    const traced::Double of_f = input("f", 0.01);
    output_pair(horner<0, 9>(constants::log2_td_pairs, DoubleDouble{polynomial(constants::log2_td, of_f), 0}, of_f));
    begin("log2_td_slope");
    const traced::Double f = input("f", 0.01);
    const DoubleDouble inner = pair("inner", "inner_low");
    output_triple(multiply_add(f, {inner.high, inner.low, 0}, constants::log2_td_triples[0]));
    begin("log2_td_sum");
    const traced::Double factor = input("f", 0.01);
    const TripleDouble slope = triple("slope", 1.4), whole = triple("whole", 3);
    output_triple(multiply_add(factor, slope, whole));
    begin("times_td");
    const TripleDouble log2 = triple("log2", 1.3);
    const DoubleDouble y = {input("y", 1.7), input("y_low", 0x1.7p-55)};
    output_triple(product(log2, y));
    begin("times_td_by_double");
    const TripleDouble same_log2 = triple("log2", 1.3);
    output_triple(product(same_log2, input("y", 1.7)));
    for (int i = 0; i < 16; ++i) {
        begin("begin_power." + std::to_string(i));
        const TripleDoubleStart begun = begin_power(triple("t", 3 + i * 0x1p-4 + 0.01));
        output("s", begun.s);
        output("s_low", begun.s_low);
        output("power", begun.power);
        output_pair(begun.correction);
        begin("end_power." + std::to_string(i));
        const DoubleDouble q = pair("q", "q_low");
        output_triple(end_power({input("s", 0.01), input("s_low", 0x1p-60), begun.power, begun.correction}, q));
    }
    begin("exp2_td_series");
    const traced::Double s = input("s", 0.01);
    output_pair(horner<0, 7>(constants::exp2_td_pairs, DoubleDouble{polynomial(constants::exp2_td, s), 0}, s));
}

static DoubleDoublePower power(uint64_t k) { return {pair("value", "value_low"), input("error", 0x1p-69), k}; }

// The rounding tests of a power of about 0.7: normal, as float32 or float64, and subnormal.
static void rounding_tests() {
    begin("round_normal");
    round_normal(power(0));
    const Target single = Target::of(halfulp::row(halfulp::Element::float32)),
                 wide = Target::of(halfulp::row(halfulp::Element::float64));
    begin("round_to.normal");
    Rounding rounding = round_to(single, power(0));
    output("least", rounding.least);
    output("greatest", rounding.greatest);
    begin("round_to.double");
    rounding = round_to(wide, power(0));
    output("least", rounding.least);
    output("greatest", rounding.greatest);
    begin("round_triple_double");
    const TripleDouble value = triple("value", 0.7);
    output("rounded", round_triple_double(value, input("big", 0x1p51), input("error", 0x1p-107)));
    begin("round_to_odd");
    const TripleDouble of_odd = triple("value", 0.7);
    round_to_odd({of_odd, input("error", 0x1p-107), 0});
}

int main() {
    fast_phase();
    fast_phase_of_float64();
    fast_phase_of_float32();
    fast_phase_by_sixteenths();
    double_double_phase();
    triple_double_phase();
    rounding_tests();
}
