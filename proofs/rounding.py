"""The rounding tests: the results that they decide are right, for every type, also subnormal results and overflow.

Theorem. Let a phase's value be within its claimed error of x^y. If its rounding test gives the same result for both
ends, that is x^y rounded to nearest, ties to even, in the type.

    elements    A monotone function that has the same value at both ends of an interval is constant in it. Rounding is
                monotone: round_once, encode and encode_exact scale a binade exactly and add 2^52, or shift. So they
                are tested next to each boundary of a type and at both ends of each binade of doubles. The conversion
                to float32 and sums of doubles are operations of the processor
    fast        x^y is in [v, v (1 + 2 fast_error)] (proofs/fast.py), and in a narrower interval if |t| is known: by
                arithmetic. fill_normal depends on a power's lower bits: tested for each of 2^30
    floats      A float that is not flagged as a tie of a shorter type is on x^y's side of each boundary: a power next
                to a boundary rounds to the boundary as a float, tested for each boundary. The flags of ties are tested
                for every float
    doubles     round_normal and round_to: the sum that is rounded last is low enough at the lower end and high enough
                at the upper end. round_to adds 2^-104 C to its error, which is more than the errors of its sums, for
                each spacing, with C = 2^52 times the spacing. C plus a power is rounded to a multiple of the spacing
    triples     sum_to_odd against exact sums. If a sum is rounded to odd with at least two bits more than the final
                result, the final rounding is as if the sum were exact (Boldo and Melquiond, 2008). round_to_double
                adds the lower parts so; the error before that is within TEST_OF_TRIPLES. round_to_odd does it twice,
                for types of at most 51 bits
"""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

from proofs import fast
from proofs.bounds import LN2, demand, proved_bound, together
from proofs.compiled import output, program
from proofs.errors import Input, RoundingErrors, fast_sum_residual, find
from proofs.fast import DECIDING_T, ULP, node
from proofs.interval import Interval, Polynomial, floor_log2, log2_text
from proofs.phase import FOR_THE_TEST, GREATEST_LOW, Phase, symbol
from proofs.step import Step, each
from proofs.trace import Node, Operand
from proofs.triple_double import TEST_OF_TRIPLES

GREATEST_ERROR = Fraction(1, 1 << 58)  # of a phase by pairs, where |t| is at most 1080
# Of values that round_to rounds, also those of the fast phase of float64.
GREATEST_ERROR_ON_GRID, GREATEST_LOW_ON_GRID = Fraction(1, 1 << 54), Fraction(1, 1 << 12)
VALUES = Interval.of(Fraction(7, 10), 2)
# The logarithms of the grids' spacings, for values from 0.7 to 2. (On a grid of 8, values up to 1.5 round to zero.)
SPACINGS = range(-52, 3)
SUMS = 20000


def steps(core: Path) -> list[Step]:
    found = [
        Step("elements: next to every boundary", lambda: checked(core, "types")),
        Step("floats that are ties", lambda: checked(core, "again")),
        Step("fill_normal: all lower bits", lambda: checked(core, "normal")),
        Step("from every float to 16 bits", lambda: checked(core, "floats"), quick=False),
        Step("sum_to_odd", lambda: sums_to_odd(core)),
    ]
    for name, instruction_set in (("fused", "avx2"), ("not fused", "scalar")):
        found += steps_of(core, name, instruction_set)
    return found


def steps_of(core: Path, name: str, instruction_set: str) -> list[Step]:
    phase, tests = fast.Phase(core, instruction_set), Tests(core, instruction_set)
    return [
        Step(f"the narrower interval of the fast phase, {name}", lambda: narrower_interval(phase)),
        Step(f"round_normal, {name}", tests.round_normal),
        Step(f"round_to, {name}", tests.round_to),
        Step(f"round_to_double and round_to_odd, {name}", tests.round_triples),
    ]


def checked(core: Path, part: str) -> str:
    """Run a part of the program, which fails at the first error, and return its summary."""
    told = output(program("rounding.cpp", core), part).splitlines()
    demand(bool(told), "the program printed nothing")
    return told[0] if len(told) == 1 else f"{len(told)} types or functions"


def narrower_interval(phase: fast.Phase) -> str:
    """Prove that x^y is in [least, least (1 + 2 nearer)], least = v (1 + (fast_error - nearer)) and nearer =
    |t| fast_error_of_t + fast_error_of_exp2, rounded, for v = x^y (1 - fast_error) (1 + d), |d| within the proved
    error."""
    fast_error, fixed, of_t = map(phase.claim, ("fast_error", "fast_error_of_exp2", "fast_error_of_t"))
    rounding = 8 * ULP
    exponent = together(phase.log2(), ULP) * LN2[1] * (1 + rounding)
    for t in (
        Fraction(0),
        Fraction(DECIDING_T),
    ):  # both sides are linear in t, except for terms far below the distance
        d = together(phase.exp2(), t * exponent * (1 + t * exponent))
        nearer = fixed + t * of_t
        nearer_low, nearer_high = nearer * (1 - rounding), nearer * (1 + rounding)
        greatest_v, least_v = (1 - fast_error) * (1 + d), (1 - fast_error) * (1 - d)
        least = greatest_v * (1 + fast_error - nearer_low) * (1 + rounding)
        greatest = least_v * (1 + fast_error - nearer_high) * (1 + 2 * nearer_low) * (1 - rounding)
        demand(least <= 1 <= greatest, f"x^y may be outside for |t| = {t}")
    return f"|t| <= {DECIDING_T}"


class Tests(Phase):
    """The rounding tests, compiled for an instruction set."""

    def round_normal(self) -> str:
        """Prove that the number rounded last is high + low - error, within FOR_THE_TEST."""
        function = self.function("round_normal")
        given = {
            "value": Input(VALUES),
            "value_low": Input(Interval.within(GREATEST_LOW)),
            "error": Input(Interval(Fraction(0), GREATEST_ERROR)),
        }
        demand(len(function.looked_at) == 2, "not two ends")
        worst = Fraction(0)
        for end, sign in zip(function.looked_at, (-1, 1), strict=True):
            errors = RoundingErrors(function, given, until=end)
            ideal = symbol("value") + symbol("value_low") + symbol("error") * Polynomial.constant(sign)
            worst = max(worst, self.lost(errors, end, ideal))
        demand(worst <= FOR_THE_TEST, f"{log2_text(worst)} is lost")
        return f"{log2_text(worst)} lost, {log2_text(FOR_THE_TEST)} left for it"

    def lost(self, errors: RoundingErrors, end: int, ideal: Polynomial) -> Fraction:
        """Return the distance of the exact sum of an addition's operands from `ideal`."""
        found = find(errors.function.nodes, end, "add")
        demand(found is not None, "the ends are not sums")
        assert found is not None
        a, b = found
        names = [errors.given.get(o, f"n{o}") for o in (a, b) if isinstance(o, int)]
        return proved_bound(errors, errors.value(a) + errors.value(b), " + ".join(names), ideal)

    def round_to(self) -> str:
        """Prove normal float64 as round_normal. On a grid the errors are less than the amount added to the error."""
        double = self.function("round_to.double")
        worst = Fraction(0)
        for name, sign in (("least", -1), ("greatest", 1)):
            end = self.last_sum(double.outputs[name], double.nodes)
            errors = RoundingErrors(double, self.inputs(), [Input.constant(0)] * 9, until=end)
            ideal = symbol("value") + symbol("value_low") + symbol("error") * Polynomial.constant(sign)
            worst = max(worst, self.lost(errors, end, ideal))
        demand(worst <= FOR_THE_TEST, f"{log2_text(worst)} is lost")
        ratio = max(each(self.round_to_grid, SPACINGS))
        demand(ratio <= 1, f"the errors are {float(ratio):.3g} of the amount added for them")
        return f"{log2_text(worst)} lost of doubles; on grids at most {float(ratio):.2f} of the amount added"

    def inputs(self) -> dict[str, Input]:
        return {
            "value": Input(VALUES, -53),
            "value_low": Input(Interval.within(GREATEST_LOW_ON_GRID)),
            "error": Input(Interval(Fraction(0), GREATEST_ERROR_ON_GRID)),
        }

    def last_sum(self, result: Operand, nodes: list[Node]) -> int:
        """Return the sum of C and a power. The result is that sum minus C, scaled twice."""
        scaled = find(nodes, result, "mul")
        first = scaled and find(nodes, scaled[0], "mul")
        difference = first and find(nodes, first[0], "sub")
        demand(difference is not None, "the result is scaled in another way")
        assert difference is not None
        return node(difference[0])

    def round_to_grid(self, spacing: int) -> Fraction:
        """Return the errors relative to the amount that is added for them, for C = 2^(52 + spacing)."""
        function = self.function("round_to.normal")
        big = Fraction(2) ** (52 + spacing)
        worst = Fraction(0)
        for name, sign in (("least", -1), ("greatest", 1)):
            end = self.last_sum(function.outputs[name], function.nodes)
            total = next(i for i, found in enumerate(function.nodes) if found.operation == "add")
            lost = max(i for i in range(end) if is_residual(function.nodes, i, total))
            cuts: dict[Operand, tuple[str, Input]] = {
                total: ("high", Input(values_below(big), -53)),
                lost: ("low", Input(Interval.within(ULP))),
            }
            errors = RoundingErrors(function, self.inputs(), [Input.constant(big)], cuts=cuts, until=end)
            added = big / 2**104
            ideal = symbol("high") + symbol("low")
            ideal = ideal + (symbol("error") + Polynomial.constant(added)) * Polynomial.constant(sign)
            ideal = ideal + Polynomial.constant(big)
            worst = max(worst, self.lost(errors, end, ideal) / added)
        return worst

    def round_triples(self) -> str:
        """Return the error of the lower parts before they are rounded to odd."""
        function = self.function("round_triple_double")
        given = {
            "value_low": Input(Interval.within(ULP)),
            "value_last": Input(Interval.within(ULP * ULP)),
            "error": Input(Interval.within(Fraction(1, 1 << 98))),
        }
        worst = Fraction(0)
        (end,) = function.looked_at
        ideal = symbol("value") + symbol("value_low") + symbol("value_last") + symbol("error")
        for spacing in range(-53, SPACINGS.stop):
            big = Input.constant(Fraction(2) ** (52 + spacing) if spacing > -53 else 0)
            value = Input(values_below(big.range.greatest or Fraction(2)), -53)
            errors = RoundingErrors(function, given | {"big": big, "value": value}, until=end)
            rounded = find(function.nodes, node(function.outputs["rounded"]), "add")
            assert rounded is not None
            sum_ = errors.value(rounded[0])
            big_value = big.value or Polynomial({})
            worst = max(worst, self.lost(errors, end, ideal + big_value - sum_))
            if spacing == -53:
                demand(worst <= Fraction(1, 1 << 145), f"{log2_text(worst)} is lost of a normal result")
        demand(worst <= TEST_OF_TRIPLES, f"{log2_text(worst)} is lost")
        return f"{log2_text(worst)} lost, {log2_text(TEST_OF_TRIPLES)} left for it"


def values_below(big: Fraction) -> Interval:
    """The values whose grid has a C: those below it."""
    return Interval(VALUES.least, min(VALUES.greatest, big))


def is_residual(nodes: list[Node], i: int, total: int) -> bool:
    """Return whether a node is the residual of a sum of numbers in order."""
    terms = fast_sum_residual(nodes, nodes[i])
    return terms is not None and find(nodes, total, "add") == terms


def sums_to_odd(core: Path) -> str:
    """Test sum_to_odd: the sum, or its odd neighbour."""
    chance = random.Random(3)
    pairs = []
    for _ in range(SUMS):
        a = float(chance.getrandbits(53) | chance.choice((0, 1 << 52))) * chance.choice((-1, 1))
        b = chance.choice((chance.getrandbits(53), 1, 1 << 52, (1 << 53) - 1)) * chance.choice((-1.0, 1.0))
        pairs.append((a, b * 2.0 ** chance.randrange(-110, 60)))
    questions = "".join(f"{a.hex()} {b.hex()}\n" for a, b in pairs)
    told = output(program("sums.cpp", core), stdin=questions).splitlines()
    for (a, b), (text, bits) in zip(pairs, map(str.split, told), strict=True):
        exact, found = Fraction(a) + Fraction(b), Fraction(float.fromhex(text))
        if Fraction(float(exact)) == exact:
            demand(found == exact, f"{a.hex()} + {b.hex()} is {text}")
        else:
            demand(int(bits) % 2 == 1, f"{a.hex()} + {b.hex()} is {text}, which is even")
            demand(
                abs(found - exact) < unit_at(exact),
                f"{a.hex()} + {b.hex()} is {text}, which is not a neighbour",
            )
    return f"{SUMS} sums"


def unit_at(value: Fraction) -> Fraction:
    """Return the spacing of doubles around a number."""
    return Fraction(2) ** (floor_log2(abs(value)) - 52)
