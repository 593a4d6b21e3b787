"""The fast phase of float64 (core/numerics/pow_fast_float64.h), with and without fused operations: x^y is between the
ends of its interval.

Theorem. Let x be a positive normal double, y = y_high + y_low an exponent of the kernels, t = y log x, |t| <= 690.
Before they are rounded to doubles, the ends of float64_ends(float64_exp(t)) are not above and not below x^y.

    x = m 2^e   part j of 256 has m from 1 + (2 j - 1)/512 to 1 + (2 j + 1)/512, and part 0 from 1 - 1/1024:
                programs/splits.cpp tests both ends of each
    tables      - log r, ln 2 and 2^(i/128), each entry against the function
    f           m r - 1, exact, for each part
    log x       whole + whole_low + f - f^2/2 + f^3 P(f), whole = e ln 2 - log r: for each part next to 1; where log x
                reaches zero, for each binade of f; elsewhere for each binade of whole
    t           y times that
    s           t - k ln 2/128: `steps`, a cut, is the integer k. t.high minus its product with the high part of
                ln 2/128 is exact, for each binade of t.high: both are multiples of 2^-61, and the difference is below
                2^-8
    ends        power (1 + s + s^2 Q(s) + correction -+ error), for 1 <= power < 2: other powers differ by a power of
                two, and by 2^-1075 if a product is subnormal
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

from proofs.bounds import LN2, demand, proved_bound, together
from proofs.compiled import output, program
from proofs.errors import Input, RoundingErrors
from proofs.fast import ULP, node
from proofs.interval import Interval, Polynomial, log2_text
from proofs.logarithm_tables import Case, NaturalLogarithms, part
from proofs.phase import both_signs, symbol
from proofs.sollya import greatest_error, relative_error
from proofs.step import Step, each, once
from proofs.trace import Constant, Operand

PARTS, STEPS = 256, 128
GREATEST_T = 690
GREATEST_S = Fraction(274, 100000)
E_TO_S = 1 + 2 * GREATEST_S  # more than e^s
SUBNORMAL = Fraction(1, 1 << 1075) * (1 << 997)  # what a subnormal product loses, of the least power


def steps(core: Path) -> list[Step]:
    fused, not_fused = Float64(core, "avx2"), Float64(core, "scalar")
    return [
        Step(
            "x = m 2^e in parts of a binade", lambda: output(program("splits.cpp", core), "float64").strip()
        ),
        Step("the table of logarithms", lambda: log2_text(fused.logarithms())),
        Step("the table of powers", lambda: log2_text(fused.powers())),
        *steps_of(fused, "fused"),
        *steps_of(not_fused, "not fused"),
    ]


def steps_of(phase: Float64, name: str) -> list[Step]:
    return [
        Step(f"f = m r - 1 is exact, {name}", phase.range_of_f),
        Step(f"log x, {name}", lambda: log2_text(phase.log()[0]), quick=False),
        Step(f"t = y log x, {name}", lambda: log2_text(phase.t()[0]), quick=False),
        Step(f"s = t - k ln 2/128, {name}", lambda: log2_text(phase.remainder()), quick=False),
        Step(f"float64_error, {name}", phase.claims, quick=False),
    ]


class Float64(NaturalLogarithms):
    """The phase, compiled for an instruction set."""

    parts, whole_granularity = PARTS, -42
    far_from_one, greatest_whole = Fraction(1, 32), Fraction(1024)
    # ln 2 less its high part, and - log r less its: below 2^-43, times 1075.
    greatest_low = Fraction(1, 1 << 32)

    def outputs(self, j: int) -> tuple[int, int, int]:
        found = self.function(f"begin_float64_log.{j}").outputs
        return node(found["f"]), node(found["whole"]), node(found["whole_low"])

    def begin(self, j: int, m: Input) -> tuple[RoundingErrors, Polynomial, Polynomial]:
        """Return the start of a logarithm for some of part j, e, and m."""
        function = self.function(f"begin_float64_log.{j}")
        biased, of_m = function.made()
        made = [Input(Interval.of(1 << 52, (1 << 52) + 4095), 0), m]
        e = symbol(f"made{biased}") - Polynomial.constant(Fraction((1 << 52) + 2048))
        return RoundingErrors(function, {"x": m}, made, until=max(self.outputs(j))), e, symbol(f"made{of_m}")

    @once
    def entry(self, j: int) -> tuple[Fraction, Fraction, Fraction]:
        errors, _, m = self.begin(j, part(j, PARTS)[0])
        (of_m,) = m.terms
        r = errors.value(self.outputs(j)[0]).terms.get(of_m, Fraction(0))
        function = self.function(f"begin_float64_log.{j}")
        parts = tuple(
            operand.value
            for i in self.outputs(j)[1:]
            for operand in function.nodes[i].operands[-1:]
            if isinstance(operand, Constant)
        )
        demand(len(parts) == 2, f"- log r has another form in part {j}")
        return r, parts[0], parts[1]

    @once
    def ln2(self) -> tuple[Fraction, Fraction]:
        errors, e, _ = self.begin(1, part(1, PARTS)[0])
        biased = next(m for m in e.terms if m)
        high = errors.value(self.outputs(1)[1]).terms[biased]
        function = self.function("begin_float64_log.1")
        low_node = function.nodes[self.outputs(1)[2]]
        if low_node.operation == "add":
            low_node = function.nodes[node(low_node.operands[0])]
        (low,) = (o.value for o in low_node.operands[:2] if isinstance(o, Constant))
        demand(max(abs(high + low - end) for end in LN2) <= Fraction(1, 1 << 96), "ln 2 is wrong")
        return high, low

    @once
    def logarithms(self) -> Fraction:
        """Return the error of the table of - log r."""
        entries = [self.entry(j) for j in range(PARTS)]
        worst = max(greatest_error("-log(x)", r, high + low) for r, high, low in entries)
        demand(worst <= Fraction(1, 1 << 96), f"an entry is {log2_text(worst)} off")
        return worst

    @once
    def powers(self) -> Fraction:
        """Return the relative error of the table of 2^(i/128)."""
        entries = [self.power(i) for i in range(STEPS)]
        worst = max(
            greatest_error("2^x", Fraction(i, STEPS), power * (1 + lost))
            for i, (power, lost) in enumerate(entries)
        )
        demand(worst <= Fraction(1, 1 << 96), f"an entry is {log2_text(worst)} off")
        demand(all(abs(lost) <= ULP for _, lost in entries), "a correction is too large")
        return worst

    def power(self, i: int) -> tuple[Fraction, Fraction]:
        return self.claim(f"float64_power.{i}"), self.claim(f"float64_correction.{i}")

    @once
    def fs(self, j: int) -> list[Input]:
        """Return f of part j. It is exact, and so is the high part of e ln 2 - log r."""
        found = []
        f, whole, _ = self.outputs(j)
        r, high, _ = self.entry(j)
        for m in part(j, PARTS):
            errors, _e, of_m = self.begin(j, m)
            ideal = of_m * Polynomial.constant(r) - Polynomial.constant(1)
            demand(errors.value(f) == ideal, f"f is not m r - 1 in part {j}")
            # |e ln 2 - log r| <= 2^10, a multiple of 2^-42.
            is_whole = high % Fraction(1, 1 << 42) == 0 and self.ln2()[0] % Fraction(1, 1 << 42) == 0
            demand(is_whole, f"e ln 2 - log r is rounded in part {j}")
            of_e = self.function(f"begin_float64_log.{j}").nodes[whole]
            demand(of_e.operation in ("fma", "add"), "e ln 2 - log r has another form")
            found.append(Input(errors.value(f).range(errors.symbols), -61))
        return found

    def log_of(self, case: Case) -> tuple[Fraction, Fraction]:
        _, (_, whole_low) = case
        # whole_low is rounded twice, and ln 2 and the entry are what their tables lack off.
        lost = whole_low.range.magnitude * 4 * ULP + 1076 * Fraction(1, 1 << 96) + self.logarithms()
        return self.logarithm_of("float64_log", "log(1+x)", case, lost)

    @once
    def remainder(self) -> Fraction:
        """Return the error of s as t - k ln 2/128."""
        ends = [Fraction(0), *(Fraction(2) ** i for i in range(-9, 10)), Fraction(GREATEST_T)]
        ranges = [some for low, high in itertools.pairwise(ends) for some in both_signs(low, high)]
        return max(each(self.remainder_of, ranges))

    def remainder_of(self, t: Interval) -> Fraction:
        function = self.function("float64_remainder")
        high, low = self.claim("float64_step.high"), self.claim("float64_step.low")
        exact_step = tuple(end / STEPS for end in LN2)
        place = next(i for i, n in enumerate(function.nodes) if n.operation in ("fma", "add"))
        magic = Fraction(3 << 51)
        steps_node = next(i for i, n in enumerate(function.nodes) if n.operation == "sub")
        demand(function.nodes[steps_node].operands == (place, Constant(magic)), "k is found in another way")
        demand(function.nodes[place].operands[-1] == Constant(magic), "k is found in another way")
        rate = next(o.value for n in function.nodes for o in n.operands if isinstance(o, Constant))
        demand(abs(rate * exact_step[0] - 1) <= 4 * ULP, "k is not t 128/ln 2")
        # k is within 1/2 of t rate, which is rounded once at most.
        k = Interval.within(t.magnitude * rate * (1 + ULP) + Fraction(1, 2))
        if t.magnitude * rate * (1 + ULP) < Fraction(1, 2):
            k = Interval.within(0)
        reach = (Fraction(1, 2) + k.magnitude * 8 * ULP) * exact_step[1] + k.magnitude * abs(low) * (1 + ULP)
        t_low = t.magnitude * self.t()[1]
        rest = Input(Interval.within(min(reach, t.magnitude) if not k.magnitude else reach), -61)
        if not k.magnitude:  # t itself
            inputs = {"t": Input(t), "t_low": Input(Interval.within(t_low))}
            errors = RoundingErrors(
                function,
                inputs,
                cuts={steps_node: ("steps", Input.constant(0))},
                until=node(function.outputs["s"]),
            )
            ideal = symbol("t") + symbol("t_low")
        else:
            demand(t.mignitude >= Fraction(1, 1 << 9), "t may not be a multiple of 2^-61")
            demand(
                high % Fraction(1, 1 << 42) == 0 and reach < Fraction(1, 1 << 8), "t - k ln 2/128 is rounded"
            )
            demand(k.magnitude * high * (1 << 42) <= 1 << 53, "k times the high part of ln 2/128 is rounded")
            product = symbol("steps") * Polynomial.constant(high)
            value = symbol("rest") + product
            cuts: dict[Operand, tuple[str, Input]] = {steps_node: ("steps", Input(k, 0, symbol("steps")))}
            cuts |= {
                i: ("product", Input(k.times(-high), -42, -product))
                for i, found in enumerate(function.nodes)
                if found.operation == "mul" and found.operands == (steps_node, Constant(-high))
            }
            inputs = {"t": Input(t, -61, value), "t_low": Input(Interval.within(t_low))}
            errors = RoundingErrors(
                function,
                inputs,
                cuts=cuts,
                until=node(function.outputs["s"]),
                others={"rest": rest, "steps": Input(k, 0)},
            )
            ideal = symbol("rest") + symbol("t_low") - symbol("steps") * Polynomial.constant(low)
        s = node(function.outputs["s"])
        demand(errors.range(s).magnitude <= GREATEST_S, "s is too large")
        bound = proved_bound(errors, errors.value(s), f"n{s}", ideal)
        return bound + k.magnitude * max(abs(high + low - end) for end in exact_step)

    def end_of(self, name: str) -> tuple[Fraction, Polynomial]:
        """Return the error of an end as power (1 + s + s^2 Q(s) + correction -+ error), relative to power; and
        s + s^2 Q(s)."""
        function = self.function("float64_ends")
        end = node(function.outputs[name])
        last = function.nodes[end]
        inputs = {
            "s": Input(Interval.within(GREATEST_S)),
            "t": Input(Interval.within(GREATEST_T)),
            "power": Input(Interval.of(1, 2), -52),
            "correction": Input(Interval.within(ULP)),
        }
        made = [Input(Interval.of(0, GREATEST_T))]
        errors = RoundingErrors(function, inputs, made)
        size = symbol(f"made{function.made()[0]}")
        fixed, of_t = self.claim("float64_error"), self.claim("float64_error_of_t")
        error = Polynomial.constant(fixed) + size * Polynomial.constant(of_t)
        slope = next(
            o for o in last.operands if isinstance(o, int) and function.nodes[o].operation in ("add", "mul")
        )
        lost = Fraction(0)
        if function.nodes[slope].operation == "mul":  # power times the slope, rounded
            (inner,) = (
                o for o in function.nodes[slope].operands if function.nodes[node(o)].operation == "add"
            )
            lost = errors.range(node(inner)).magnitude * ULP + SUBNORMAL
            slope = node(inner)
        value = errors.value(slope)
        series = value.only("s")
        series = series - Polynomial.constant(series.terms.get((), Fraction(0)))
        ideal = series + symbol("correction") + (error if name == "greatest" else -error)
        return proved_bound(errors, value, f"n{slope}", ideal) + lost, series

    def claims(self) -> str:
        ends, series = zip(*map(self.end_of, ("least", "greatest")), strict=True)
        demand(series[0] == series[1], "the ends are computed in different ways")
        of_series = relative_error(
            series[0] + Polynomial.constant(1), "s", "exp(x)", Interval.within(GREATEST_S)
        )
        # e^(t - k ln 2/128), of s: s is off by its remainder's error, the table by its own, and the correction lacks
        # its product with e^s - 1.
        fixed = max(ends) + E_TO_S * together(of_series, self.remainder() * (1 + ULP), self.powers())
        fixed += ULP * GREATEST_S * E_TO_S
        of_t = self.t()[0]
        claimed, claimed_of_t = self.claim("float64_error"), self.claim("float64_error_of_t")
        for t in (0, GREATEST_T):  # convex, and so below the line
            found = fixed + E_TO_S * of_t * t * (1 + of_t * t)
            demand(
                found <= claimed + t * claimed_of_t,
                f"the error at |t| = {t} is {log2_text(found)}, and {log2_text(claimed + t * claimed_of_t)} is claimed",
            )
        proved = f"{log2_text(fixed)} + |t| {log2_text(E_TO_S * of_t)}"
        return f"{proved}, claimed {log2_text(claimed)} + |t| {log2_text(claimed_of_t)}"
