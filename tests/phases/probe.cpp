// The values of one phase of a power, before they are rounded, for comparison with MPFR: see errors.py.
//
//   probe PHASE
//
// Reads Operands from standard input. For each it writes doubles: the parts of a value, k and a claim. The phase says that
// x^y is within the claim of the parts' sum times 2^k.
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "fp_environment.h"
#include "kernels/closed_form/pairs.h"
#include "kernels/float/pow.h"
#include "kernels/float64/logarithms.h"
#include "numerics/pow_pairs.h"

namespace halfulp::HALFULP_ISA {

namespace {

// The exponent is y + y_low, where the phase takes such.
struct Operands {
    double x, y, y_low;
};

// A tile's operands in arrays, and the numbers that its phase writes.
struct Tile {
    alignas(64) double x[tile_size], y[tile_size], y_low[tile_size];
    alignas(64) float x_float[tile_size];
    int n;
    std::vector<double> written;

    void write(std::initializer_list<double> parts, uint64_t k, double claim) {
        written.insert(written.end(), parts);
        written.insert(written.end(), {static_cast<double>(static_cast<int64_t>(k)), claim});
    }
};

void fast(Tile& tile) {
    alignas(64) uint32_t rounded[tile_size];
    FloatLanes<FloatKind::float32> lanes({}, rounded);
    OperandFlags operand_flags{};
    const Prefetch nothing_ahead(tile.x, tile.y, rounded, 0, 0);
    lanes.fill_by_fast_phase(tile.x_float, tile.y, false, operand_flags, tile.n, nothing_ahead);
    for (int i = 0; i < tile.n; ++i) {
        const double power = lanes.powers[i], t = std::log2(tile.x[i]) * tile.y[i];
        tile.write({power, power * fast_error}, 0, power * (std::fabs(t) * fast_error_of_t + fast_error_of_exp2));
    }
}

// The lanes of a vector, one at a time.
template <typename Tables>
void pairs_by(Tile& tile, int i, float m, float e, const HalfLogEntry<float>& entry, const auto& power_of) {
    const auto y = static_cast<float>(tile.y[i]);
    Pair<float> t = times(y, half_log<Tables>(start_half_log<Tables>(m, e, entry)));
    if (fabs(y) > Tables::least_great_y) t = renormalized(t);
    const float place = pair_place<Tables>(t.high);
    const constants::FloatPowerRow of = power_of(word_of(place) % Tables::powers);
    const Pair<float> power = pair_power<Tables>(pair_remainder<Tables>(t, place, of.correction), of.power);
    const auto k = static_cast<int64_t>(std::floor(pair_octaves<Tables>(place)));
    const bool great_y = fabs(y) > Tables::least_great_y;
    const float error = great_y ? pair_phase_error<Tables, true>(fabs(y), fabs(t.high))
                                : pair_phase_error<Tables>(fabs(y), fabs(t.high));
    tile.write({power.high, power.low}, static_cast<uint64_t>(k), of.power * error);
}

void pairs_of_floats(Tile& tile) {
    for (int i = 0; i < tile.n; ++i) {
        const auto x = tile.x_float[i];
        const int part = static_cast<int>(word_of(x) >> 18 & 31);
        const HalfLogEntry<float> entry{constants::float_pair_halves[part], constants::float_pair_highs[part],
                                        constants::float_pair_lows[part]};
        const float e = std::ilogb(x), m = std::ldexp(x, -std::ilogb(x));
        pairs_by<PairTables>(tile, i, m, e, entry, [](uint32_t index) {
            return constants::FloatPowerRow{constants::float_pair_powers[index],
                                            constants::float_pair_corrections[index]};
        });
    }
}

void pairs_by_rows(Tile& tile) {
    for (int i = 0; i < tile.n; ++i) {
        const uint32_t bits = word_of(tile.x_float[i]), scale = (bits - 0x3f000000) & 0xff000000;
        const constants::FloatLogRow& row = constants::float_row_logs[bits >> 16 & 255];
        const float m = std::bit_cast<float>(bits - scale), e = static_cast<int32_t>(scale);
        pairs_by<PairRows>(tile, i, m, e, {row.half, row.high, row.low},
                           [](uint32_t index) { return constants::float_row_powers[index]; });
    }
}

template <bool has_lows>
void fast_float64(Tile& tile) {
    for (int i = 0; i < tile.n; ++i) {
        const constants::LogEntry& entry = constants::float64_log_entries[float64_log_index(tile.x[i])];
        DoubleDouble t =
            float64_t<has_lows>(float64_log(begin_float64_log(tile.x[i], entry)), tile.y[i], tile.y_low[i]);
        const double error = float64_error_at(fabs(t.low));
        if (fabs(t.low) > greatest_float64_low) t = fast_two_sum(t.high, t.low);
        const double place = float64_exp_place(t.high);
        const auto power = float64_exp(t, place, constants::float64_exp_entries[float64_exp_index(place)]);
        tile.write({power.value.high, power.value.low}, 0, power.power * error);
    }
}

#ifdef __AVX512F__
template <typename Y>
void sixteenths_by(Tile& tile, Y y) {
    const HalfLogarithms t(tile.x, y, tile.n);
    t.raise(tile.n, [&](int i, const Pair<TwoDoubles>& power, const __m512i(&places)[2]) {
        alignas(64) double high[16], low[16], place[16];
        power.high.store(high);
        power.low.store(low);
        TwoDoubles(_mm512_castsi512_pd(places[0]), _mm512_castsi512_pd(places[1])).store(place);
        for (int j = 0; j < 16 && i + j < tile.n; ++j) {
            const auto sixteenths = static_cast<int64_t>(bits_of(place[j]) - bits_of(round_magic));
            tile.write({high[j], low[j]}, static_cast<uint64_t>(sixteenths >> 4), t.error[i + j]);
        }
    });
}

void sixteenths(Tile& tile) { sixteenths_by(tile, Exponents<double>{tile.y}); }
void sixteenths_integers(Tile& tile) { sixteenths_by(tile, PairExponents{tile.y, tile.y_low}); }
#endif

template <typename Y>
void double_double_by(Tile& tile, Y y) {
    DoubleDoubleLogarithms t;
    t.fill<true>(tile.x, y, tile.n);
    const auto finish = [&](int, const DoubleDoublePower& power) {
        tile.write({power.value.high, power.value.low}, power.k, power.error);
    };
    t.raise(tile.n, finish);
}

void double_double(Tile& tile) { double_double_by(tile, Exponents<double>{tile.y}); }
void double_double_integers(Tile& tile) { double_double_by(tile, PairExponents{tile.y, tile.y_low}); }

template <typename Y>
void triple_double_by(Tile& tile, Y y) {
    const auto finish = [&](int, double, const TripleDoublePower& power) {
        tile.write({power.value.a, power.value.b, power.value.c}, power.k, power.error);
    };
    for (int i = 0; i < tile.n; i += td_tile)
        raise_triple_doubles(tile.x + i, y.from(i), std::min(td_tile, tile.n - i), finish);
}

void triple_double(Tile& tile) { triple_double_by(tile, Exponents<double>{tile.y}); }
void triple_double_integers(Tile& tile) { triple_double_by(tile, PairExponents{tile.y, tile.y_low}); }

// Limbs are written in halves, which doubles hold.
template <int L>
void exact(Tile& tile) {
    for (int i = 0; i < tile.n; ++i) {
        const auto t = wide_exponent<L>(dyadic_of(tile.x[i]), tile.y[i] < 0, dyadic_of(tile.y[i]));
        const Fixed<L> power = wide_exp2(t.f);
        for (int j = L - 1; j >= 0; --j) {
            tile.written.push_back(std::ldexp(static_cast<double>(power.limb[j] >> 32), 64 * (j - L + 1) + 32));
            tile.written.push_back(std::ldexp(static_cast<double>(power.limb[j] & 0xffffffff), 64 * (j - L + 1)));
        }
        tile.write({}, static_cast<uint64_t>(static_cast<int64_t>(t.k)), std::ldexp(1, error_bits - 64 * (L - 1)));
    }
}

// f with the shortcut that an exponent has, as a constant.
template <typename F>
void with_inexact_shortcut(double y, F f) {
    with_shortcut(shortcut_of(y), [&](auto shortcut) {
        if constexpr (shortcut != Shortcut::none && !is_exact(shortcut)) f(shortcut);
    });
}

void shortcut_in_doubles(Tile& tile) {
    for (int i = 0; i < tile.n; ++i) {
        with_inexact_shortcut(tile.y[i], [&](auto shortcut) {
            const double power = power_of<shortcut>(tile.x_float[i]);
            tile.write({power, power * shortcut_error}, 0, power * shortcut_error);
        });
    }
}

template <Shortcut shortcut>
PairOfFloats<float> pair_of_floats(float x) {
#ifdef __AVX512F__
    if constexpr (shortcut == Shortcut::reciprocal_root) {
        const auto power = pair_power_of<shortcut>(_mm512_set1_ps(x));
        alignas(64) float high[16], low[16];
        _mm512_storeu_ps(high, power.high);
        _mm512_storeu_ps(low, power.low);
        return {high[0], low[0]};
    }
#endif
    return pair_power_of<shortcut>(x);
}

void shortcut_in_floats(Tile& tile) {
    for (int i = 0; i < tile.n; ++i) {
        with_inexact_shortcut(tile.y[i], [&](auto shortcut) {
            if constexpr (!is_product(shortcut)) {
                const PairOfFloats<float> power = pair_of_floats<shortcut>(tile.x_float[i]);
                tile.write({power.high, power.low}, 0, power.high * static_cast<double>(pair_error_of(shortcut)));
            }
        });
    }
}

struct Phase {
    std::string_view name;
    void (*compute)(Tile&);
};

constexpr Phase phases[] = {
    {"fast", fast},
    {"pairs of floats", pairs_of_floats},
    {"pairs of floats, rows", pairs_by_rows},
    {"fast, float64", fast_float64<false>},
    {"fast, float64, integers", fast_float64<true>},
#ifdef __AVX512F__
    {"fast, sixteenths", sixteenths},
    {"fast, sixteenths, integers", sixteenths_integers},
#endif
    {"double-double", double_double},
    {"double-double, integers", double_double_integers},
    {"triple-double", triple_double},
    {"triple-double, integers", triple_double_integers},
    {"exact, 192 bits", exact<4>},
    {"exact, 320 bits", exact<6>},
    {"shortcuts in doubles", shortcut_in_doubles},
    {"shortcuts in floats", shortcut_in_floats},
};

int run(const Phase& phase) {
    FpEnvironment default_environment;
    static Tile tile;
    std::vector<Operands> operands(tile_size);
    for (size_t n; (n = std::fread(operands.data(), sizeof(Operands), tile_size, stdin)) > 0;) {
        tile.n = static_cast<int>(n);
        for (size_t i = 0; i < n; ++i) {
            tile.x[i] = operands[i].x;
            tile.y[i] = operands[i].y;
            tile.y_low[i] = operands[i].y_low;
            tile.x_float[i] = static_cast<float>(operands[i].x);
        }
        tile.written.clear();
        phase.compute(tile);
        if (std::fwrite(tile.written.data(), sizeof(double), tile.written.size(), stdout) != tile.written.size())
            return 1;
    }
    return 0;
}

}  // namespace

}  // namespace halfulp::HALFULP_ISA

int main(int argc, char** argv) {
    using namespace halfulp::HALFULP_ISA;
    for (const Phase& phase : phases)
        if (argc == 2 && phase.name == argv[1]) return run(phase);
    return 2;
}
