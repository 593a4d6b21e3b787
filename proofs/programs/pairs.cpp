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

// The constants and functions with some tables, their names behind `name`. The kernel's e is `unit` times the exponent.
template <typename Tables>
void print(const std::string& name, float unit) {
    const auto state = [&](const char* of, float value) { traced::state((name + of).c_str(), value); };
    for (int i = 0; i < 2; ++i) {
        state(i == 0 ? "ln2.0" : "ln2.1", Tables::ln2[i] * unit);
        state(i == 0 ? "step.0" : "step.1", Tables::step[i]);
    }
    state("steps", Tables::steps);
    state("half_log_error", Tables::half_log_error);
    state("half_log_error_of_log", Tables::half_log_error_of_log);
    state("error", Tables::error);
    state("error_of_y", Tables::error_of_y);
    state("error_of_t", Tables::error_of_t);
    state("error_of_great_y", Tables::error_of_great_y);
    state("greatest_pair_t", greatest_pair_t);
    state("least_great_y", Tables::least_great_y);

    traced::begin((name + "half_log").c_str());
    const HalfLogEntry<float> entry{traced::input_float("half", 0.375f), traced::input_float("high", 0.14375f),
                                    traced::input_float("low", 0)};
    const float m = traced::input_float("m", 1.3f), e = traced::input_float("e", 1);
    const auto log = half_log<Tables>(start_half_log<Tables>(m, e, entry));
    traced::output("high", log.high);
    traced::output("low", log.low);

    traced::begin((name + "times").c_str());
    const Pair<float> log2{traced::input_float("log", 1.5f), traced::input_float("log_low", 0)};
    const auto t = times(traced::input_float("y", 1.5f), log2);
    traced::output("high", t.high);
    traced::output("low", t.low);
    const auto renormalized_t = renormalized(t);
    traced::output("new_high", renormalized_t.high);
    traced::output("new_low", renormalized_t.low);

    traced::begin((name + "pair_power").c_str());
    const Pair<float> given{traced::input_float("t", 1), traced::input_float("t_low", 0)};
    const float table_power = traced::input_float("power", 1.5f), correction = traced::input_float("correction", 0);
    const auto r = pair_remainder<Tables>(given, pair_place<Tables>(given.high), correction);
    const auto power = pair_power<Tables>(r, table_power);
    traced::output("high", power.high);
    traced::output("low", power.low);
}

}  // namespace

int main() {
    state_table("tables.halves", constants::float_pair_halves);
    state_table("tables.highs", constants::float_pair_highs);
    state_table("tables.lows", constants::float_pair_lows);
    state_table("tables.powers", constants::float_pair_powers);
    state_table("tables.corrections", constants::float_pair_corrections);
    print<PairTables>("tables.", 1);
    for (size_t i = 0; i < std::size(constants::float_row_logs); ++i) {
        const auto& row = constants::float_row_logs[i];
        const std::string of = "." + std::to_string(i);
        traced::state(("rows.halves" + of).c_str(), row.half);
        traced::state(("rows.highs" + of).c_str(), row.high);
        traced::state(("rows.lows" + of).c_str(), row.low);
        traced::state(("rows.powers" + of).c_str(), constants::float_row_powers[i].power);
        traced::state(("rows.corrections" + of).c_str(), constants::float_row_powers[i].correction);
    }
    print<PairRows>("rows.", 0x1p24f);
}
