// The operations of the phases of a power, function by function, and the errors that they claim.
#include "traced.h"

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
    begin("log2_fast");
    const traced::Double s = input("s", 0.1);
    output("log2", log2_fast({s, input_float("e", 3)}));
    begin("exp2_fast");
    exp2_fast(input("t", 3.3));
}

static void double_double_phase() {
    state("quotient_error.fixed", quotient_error.fixed);
    state("quotient_error.of_t", quotient_error.of_t);
    begin("quotient_dd");
    const DoubleDoubleQuotient quotient = quotient_dd<false>(input("x", 1.3));
    output_pair(quotient.s);
    output("e", quotient.e);
    begin("log2_dd");
    const DoubleDouble s = pair("s", "s_low");
    const traced::Double e = input("e", 3), y = input("y", 1.7);
    output_pair(log2_dd({s, e}, y, input("y_low", 0x1.7p-55)));
    begin("exp2_dd");
    const DoubleDouble t = pair("t", "t_low");
    output_pair(exp2_dd(t, exp2_dd_start(t.high)).value);

    state("table_error.fixed", table_error.fixed);
    state("table_error.of_t", table_error.of_t);
    begin("log2_dd_by_table");
    const traced::Double f = input("f", 0.01), whole = input("whole", 1.3), whole_low = input("whole_low", 0x1.1p-44);
    const TableLogarithm begun = {f, whole, whole_low, polynomial(constants::log2_dd_by_table, f)};
    const traced::Double the_y = input("y", 1.7);
    output_pair(log2_dd_by_table<true>(begun, the_y, input("y_low", 0x1.7p-55)));
}

int main() {
    fast_phase();
    //double_double_phase();
}
