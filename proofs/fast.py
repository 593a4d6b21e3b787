"""The error of the fast phase (core/numerics/pow_fast.h).

Theorem. Let x be a positive finite normal double, y finite, t = y log2 x and |t| <= 1020. Then the value v of
exp2_fast(y log2_fast(quotient_fast(x))) is within a relative fast_error_of_exp2 + |t| fast_error_of_t of
x^y (1 - fast_error). If |t| <= 150, x^y is in [v, v (1 + 2 fast_error)], where the product is rounded.

    x = m 2^e    m in [sqrt(1/2), sqrt 2], or slightly less for floats; integers split the bits (a lemma:
                 docs/proofs.md)
    s            (m - 1)/(m + 1), m - 1 exact: the relative error by Gappa
    log2         e + s P(s^2): the rounding error by Gappa, relative if e = 0, otherwise absolute for each binade of e,
                 where |log2 x| >= |e| - 1/2. P by Sollya. The error of s has the factor s G'(s)/G(s), G(s) = s P(s^2)
    t            rounded once
    2^t          r = t - k is exact and |r| <= 1/2 (for |t| < 1/2, k = 0). Q(r) by Sollya, its rounding error by Gappa.
                 Scaling by 2^k is exact: the value is a normal double
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from proofs import gappa
from proofs.bounds import LN2, demand, proved_bound, together
from proofs.compiled import output, program
from proofs.errors import Input, RoundingErrors, find
from proofs.interval import Interval, Polynomial, log2_text
from proofs.sollya import relative_error
from proofs.step import Step, Unproved, each, once
from proofs.trace import Function, Operand, Trace, trace

LEAST_EXPONENT, GREATEST_EXPONENT = -1074, 1023
ROOT = Fraction(14142135623730951, 10**16)  # slightly more than sqrt 2
# The least significand: of floats, slightly less than sqrt(1/2).
LEAST_M = Fraction(float.fromhex("0x1.6a09e6p-1"))
GREATEST_LOG2_M = Fraction(50000003, 10**8)
GREATEST_T, DECIDING_T = 1020, 150
ULP = Fraction(1, 1 << 53)
GREATEST_S = (1 - LEAST_M) / (1 + LEAST_M) * (1 + 8 * ULP)
HALF = Fraction(1, 2)


def steps(core: Path) -> list[Step]:
    found = [Step("x = m 2^e", lambda: output(program("splits.cpp", core), "fast").strip())]
    for name, instruction_set in (("fused", "avx2"), ("not fused", "scalar")):
        found += steps_of(Phase(core, instruction_set), name)
    return found


def steps_of(phase: Phase, name: str) -> list[Step]:
    return [
        Step(f"s = (m - 1)/(m + 1), {name}", lambda: log2_text(phase.quotient())),
        Step(f"log2 x by quotients, {name}", lambda: log2_text(phase.log2())),
        Step(f"2^t (1 - fast_error), {name}", lambda: log2_text(phase.exp2())),
        Step(f"fast_error, {name}", lambda: phase.claims(phase.log2())),
    ]


def binades_of_exponents() -> list[Interval]:
    """Return the exponents except 0, in ranges from 1, 2, 4 and so on, of both signs."""
    ends = [(1 << i, min((2 << i) - 1, GREATEST_EXPONENT)) for i in range(10)]
    return (
        [Interval.of(*end) for end in ends]
        + [Interval.of(-b, -a) for a, b in ends]
        + [Interval.of(-1074, -1024)]
    )


def node(operand: Operand) -> int:
    """Return an operand that is not a constant."""
    assert isinstance(operand, int)
    return operand


def condition_of(odd_polynomial: Polynomial, greatest: Fraction) -> Fraction:
    """Return the maximum |s G'(s)/G(s)|, |s| <= greatest, for an odd G with positive coefficients."""
    terms = {sum(power for _, power in m): c for m, c in odd_polynomial.terms.items()}
    demand(
        min(terms.values()) > 0 and all(power % 2 for power in terms),
        "the series has unexpected coefficients",
    )
    return sum(power * c * greatest ** (power - 1) for power, c in terms.items()) / terms[1]


def last_operand_of_two(function: Function, shifted: int) -> int:
    """Return the node t - (shifted - magic)."""
    for i, found in enumerate(function.nodes):
        inner = find(function.nodes, found.operands[1], "sub") if found.operation == "sub" else None
        if inner and inner[0] == shifted:
            return i
    raise Unproved(f"{function.name} has no node t - (shifted - magic)")


class Phase:
    """The fast phase, compiled for an instruction set. Its errors are relative."""

    def __init__(self, core: Path, instruction_set: str):
        self.trace: Trace = trace("phases.cpp", core, instruction_set)

    @once
    def quotient(self) -> Fraction:
        """Return the error of s as (m - 1)/(m + 1). If m = 1, both are zero."""
        return max(self.quotient_of(name) for name in ("quotient_fast", "quotient_fast_of_float"))

    def quotient_of(self, name: str) -> Fraction:
        """Return the same for doubles or for floats, whose least significands and last places differ."""
        function = self.function(name)
        least, granularity = (LEAST_M, -24) if name.endswith("float") else (1 / ROOT, -53)
        greatest = Fraction(0)
        m_plus_one = Polynomial.symbol("n") + Polynomial.constant(2)
        nearest = Fraction(2) ** granularity
        for n in (Interval.of(nearest, ROOT - 1), Interval.of(least - 1, -nearest)):
            m = Input(n + Interval.of(1, 1), granularity, Polynomial.symbol("n") + Polynomial.constant(1))
            exponent = Input(Interval.of(0, (1 << 52) + 4096), 0)
            s = node(function.outputs["s"])
            made = [exponent, m][-len(function.made()) :]
            errors = RoundingErrors(function, {"x": m}, made, until=s, others={"n": Input(n, granularity)})
            parts = [errors.value(part).only("n") for part in find(function.nodes, s, "div") or ()]
            demand(parts == [Polynomial.symbol("n"), m_plus_one], "s is not (m - 1)/(m + 1)")
            greatest = max(greatest, gappa.proved_relative(errors, s))
        return greatest

    def _log2(self, s: Interval, e: Input) -> tuple[RoundingErrors, Polynomial]:
        errors = RoundingErrors(self.function("log2_fast"), {"s": Input(s), "e": e})
        return errors, errors.value(self.function("log2_fast").outputs["log2"])

    @once
    def log2(self) -> Fraction:
        """Return the error of e + s P(s^2) as log2 x."""
        result = self.function("log2_fast").outputs["log2"]
        both_signs = Interval.of(ULP / 3, GREATEST_S), Interval.of(-GREATEST_S, -ULP / 3)
        series = self._log2(both_signs[0], Input.constant(0))[1].only("s")
        of_series = relative_error(series, "s", "log2((1+x)/(1-x))", Interval.within(GREATEST_S))
        condition = condition_of(series, GREATEST_S)
        of_s = self.quotient() * condition * (1 + ULP)
        demand(of_s < Fraction(1, 1 << 40), "s is too far from (m - 1)/(m + 1)")
        of_log2_m = together(of_series, of_s)
        greatest = Fraction(0)
        for s in both_signs:
            errors, _ = self._log2(s, Input.constant(0))
            greatest = max(greatest, together(of_log2_m, gappa.proved_relative(errors, node(result))))

        def of_exponents(e: Interval) -> Fraction:
            errors, value = self._log2(Interval.within(GREATEST_S), Input(e, 0))
            rounding = proved_bound(errors, value, f"n{result}", series + Polynomial.symbol("e"))
            return (rounding + GREATEST_LOG2_M * of_log2_m) / (e.mignitude - GREATEST_LOG2_M)

        return max(greatest, *each(of_exponents, binades_of_exponents()))

    @once
    def exp2(self) -> Fraction:
        """Return the error of the value as 2^t (1 - fast_error).

        If |t| < 1/2, t + round_magic rounds to round_magic, and r is t.
        """
        function = self.function("exp2_fast")
        total, shifted = function.looked_at[:2]
        r = last_operand_of_two(function, shifted)
        for t in (Interval.of(HALF, GREATEST_T), Interval.of(-GREATEST_T, -HALF)):
            reduction = RoundingErrors(function, {"t": Input(t)}, until=r)
            demand(r in reduction.exact, "t - k is not exact")
            demand(reduction.values[r].range(reduction.symbols).magnitude <= HALF, "|t - k| > 1/2")
        errors = RoundingErrors(
            function, {"t": Input(t)}, cuts={r: ("r", Input(Interval.within(HALF)))}, until=total
        )
        polynomial = errors.value(total).only("r")
        of_polynomial = relative_error(
            polynomial, "r", f"2^x*(1-({self.claim('fast_error')}))", Interval.within(HALF)
        )
        rounding = proved_bound(errors, errors.value(total), f"n{total}", polynomial)
        least = 1 / ROOT * (1 - self.claim("fast_error")) * (1 - of_polynomial)
        return together(of_polynomial, rounding / least)

    def claims(self, log2: Fraction) -> str:
        """Prove that the code's constants bound the errors, for the given error of the logarithm."""
        fast_error, fixed, of_t = map(self.claim, ("fast_error", "fast_error_of_exp2", "fast_error_of_t"))
        of_log2 = together(log2, ULP)  # t is rounded too

        def error(t: int) -> Fraction:
            exponent = of_log2 * t * LN2[1]  # 2^(t d) - 1 <= d t ln 2 (1 + d t ln 2), where d t < 1/2
            return together(self.exp2(), exponent * (1 + exponent))

        for t in (0, GREATEST_T):  # convex, and so below the line
            demand(
                error(t) <= (fixed + t * of_t) * (1 - Fraction(1, 1 << 20)),
                f"the error at |t| = {t} is {log2_text(error(t))}",
            )
        deciding = fixed + DECIDING_T * of_t
        lower = (1 - fast_error) * (1 + deciding)
        upper = (1 - fast_error) * (1 - deciding) * (1 + 2 * fast_error) * (1 - ULP)
        demand(lower <= 1 <= upper, "x^y may be outside [v, v (1 + 2 fast_error)]")
        proved = f"{log2_text(self.exp2())} + |t| {log2_text(of_log2 * LN2[1])}"
        return f"{proved}, claimed {log2_text(fixed)} + |t| {log2_text(of_t)}"

    def function(self, name: str) -> Function:
        return self.trace.functions[name]

    def claim(self, name: str) -> Fraction:
        return self.trace.constants[name]
