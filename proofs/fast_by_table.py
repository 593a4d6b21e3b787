"""The error of the fast phase's logarithm by tables (core/kernels/float/log2_table.h), which kernels for AVX-512 use:
fast_error_of_exp2 and fast_error_of_t are bounds with it too.

Theorem. The theorem of proofs/fast.py, for normal floats x.

    x = m 2^e   part j of 16 has m from 1 + j/16 to 1 + (j + 1)/16: the processor splits the bits
    f           m r - 1: exact in the parts next to 1, where r is a power of two; otherwise rounded, which changes
                log2(1 + f) by 1.5 times as much
    log2 x      e - log2 r + f P(f): in each part for binades of e; if e - log2 r is zero, for binades of f
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from proofs import fast
from proofs.bounds import demand, proved_bound, together
from proofs.errors import Input, RoundingErrors
from proofs.fast import binades_of_exponents, node
from proofs.interval import Interval, Polynomial, log2_text
from proofs.logarithm_tables import least_ratio, parts_without_zero
from proofs.sollya import greatest_error, relative_error
from proofs.step import Step, each, once
from proofs.trace import Constant, Function, trace

PARTS = 16
EXPONENTS = Interval.of(-126, 127)
DERIVATIVE = Fraction(3, 2)  # more than that of log2(1 + f), 1.4427/(1 + f), for f >= -1/32
LEAST_F = Fraction(-1, 32)


def steps(core: Path) -> list[Step]:
    logarithm, phase = Logarithm(core), fast.Phase(core, "avx2")
    return [
        Step("log2 x by tables", lambda: log2_text(logarithm.error())),
        Step("fast_error with it", lambda: phase.claims(logarithm.error())),
    ]


class Logarithm:
    """The logarithm of normal floats."""

    def __init__(self, core: Path):
        # One lane of each vector is recorded.
        self.trace = trace("log2_table.cpp", core, "avx2", "one_lane")

    @once
    def error(self) -> Fraction:
        """Return the relative error of log2 x."""
        return max(error for errors in each(self.error_of, range(PARTS)) for error in errors)

    def error_of(self, j: int) -> list[Fraction]:
        """Return the errors in part j."""
        part = Part(self.trace.functions[f"log2_by_table.{j}"], j)
        exponents = [e for e in binades_of_exponents() if e.magnitude <= EXPONENTS.magnitude]
        return [part.error(e) for e in [Interval.of(0, 0), *exponents]]


class Part:
    """Part j of a binade."""

    def __init__(self, function: Function, j: int):
        self.function = function
        product = function.nodes[node(function.outputs["log2"])]
        demand(product.operation == "mul" and product.operands[1] == Constant(Fraction(1)), "not y log2 x")
        self.result = node(product.operands[0])
        self.m = Input(
            Interval(1 + Fraction(j, PARTS), 1 + Fraction(j + 1, PARTS) - Fraction(1, 1 << 23)), -23
        )
        self.f = next(i for i, found in enumerate(function.nodes) if found.operation == "fma")
        self.minus_log2_r = self.constant(
            next(i for i, found in enumerate(function.nodes) if found.operation == "add")
        )
        self.r = self.constant(self.f)

    def constant(self, i: int) -> Fraction:
        """Return the second operand of a node, which is from a table."""
        operand = self.function.nodes[i].operands[1]
        demand(isinstance(operand, Constant), "an operand is not from a table")
        assert isinstance(operand, Constant)
        return operand.value

    def error_of_f(self) -> tuple[Interval, Fraction]:
        """Return the range of f, and its maximum distance from m r - 1."""
        errors = RoundingErrors(self.function, {"x": self.m}, [self.m], until=self.f)
        m = Polynomial.symbol(f"made{self.function.made()[0]}")
        ideal = m * Polynomial.constant(self.r) - Polynomial.constant(1)
        return errors.range(self.f), proved_bound(errors, errors.value(self.f), f"n{self.f}", ideal)

    def error(self, e: Interval) -> Fraction:
        """Return the relative error of log2 x for a range of e."""
        range_of_f, of_f = self.error_of_f()
        demand(range_of_f.least >= LEAST_F, "f is below -1/32")
        whole = e + Interval(self.minus_log2_r, self.minus_log2_r)
        is_zero = whole == Interval.of(0, 0)
        demand(not is_zero or of_f == 0, "f is not exact next to 1")
        ranges = parts_without_zero(range_of_f) if is_zero else [range_of_f]
        return max(self.error_for(e, whole, some, of_f) for some in ranges)

    def error_for(self, e: Interval, whole: Interval, f: Interval, of_f: Fraction) -> Fraction:
        e_input = Input.constant(e.least) if e.least == e.greatest else Input(e, 0)
        errors = RoundingErrors(
            self.function, {"x": self.m}, [self.m, e_input], cuts={self.f: ("f", Input(f))}, until=self.result
        )
        value = errors.value(self.result)
        series = value.only("f")
        series = series - Polynomial.constant(series.terms.get((), Fraction(0)))
        sum_ = errors.value(self.function.made()[1]) + Polynomial.constant(self.minus_log2_r)
        bound = proved_bound(errors, value, f"n{self.result}", series + sum_)
        of_series = relative_error(series, "f", "log2(1+x)", Interval(LEAST_F, Fraction(1, 16)))
        if whole == Interval.of(0, 0):
            return together(of_series, bound / (f.mignitude * least_ratio(series, f)))
        size = series.range({"f": f}).magnitude * (1 + 2 * of_series) + DERIVATIVE * of_f
        demand(whole.mignitude > size, "e - log2 r is not greater than f P(f)")
        of_table = greatest_error("-log2(x)", self.r, self.minus_log2_r)
        return (bound + of_table + of_series * size + DERIVATIVE * of_f) / (whole.mignitude - size)
