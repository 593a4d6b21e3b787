// Prints the operations of the phase in pairs of floats, and its tables.
#include "traced.h"

// After it: the phase is traced.
#include "numerics/pow_pairs.h"

using namespace halfulp::HALFULP_ISA;

namespace {

template <typename Real, size_t count>
void state_table(const std::string& name, const Real (&values)[count]) {
    for (size_t i = 0; i < count; ++i) traced::state((name + "." + std::to_string(i)).c_str(), values[i]);
}

}  // namespace

int main() {
    state_table("halves", constants::float_pair_halves);
    state_table("highs", constants::float_pair_highs);
    state_table("lows", constants::float_pair_lows);
    state_table("powers", constants::float_pair_powers);
    state_table("corrections", constants::float_pair_corrections);
    state_table("ln2", constants::float_pair_ln2);
    state_table("step", constants::float_pair_step);
    traced::state("steps", float(constants::float_pair_steps));
    traced::state("half_log_error", half_log_error);
    traced::state("half_log_error_of_log", half_log_error_of_log);
    traced::state("pair_error", pair_error);
    traced::state("pair_error_of_y", pair_error_of_y);
    traced::state("pair_error_of_t", pair_error_of_t);
    traced::state("greatest_pair_t", greatest_pair_t);
    traced::state("least_great_y", least_great_y);

    traced::begin("half_log");
    const HalfLogEntry<float> entry{traced::input_float("half", 0.375f), traced::input_float("high", 0.14375f),
                                    traced::input_float("low", 0)};
    const auto log = half_log(traced::input_float("m", 1.3f), traced::input_float("e", 1), entry);
    traced::output("high", log.high);
    traced::output("low", log.low);

    traced::begin("times");
    const Pair<float> log2{traced::input_float("log", 1.5f), traced::input_float("log_low", 0)};
    const auto t = times(traced::input_float("y", 1.5f), log2);
    traced::output("high", t.high);
    traced::output("low", t.low);
    const auto renormalized_t = renormalized(t);
    traced::output("new_high", renormalized_t.high);
    traced::output("new_low", renormalized_t.low);

    traced::begin("pair_power");
    const Pair<float> given{traced::input_float("t", 1), traced::input_float("t_low", 0)};
    const PairPowerEntry<float> of{traced::input_float("power", 1.5f), traced::input_float("correction", 0)};
    const auto power = pair_power(given, pair_place(given.high), of);
    traced::output("high", power.high);
    traced::output("low", power.low);
}
