"""Rounding errors of a traced function, as an identity and its bound.

Each rounded operation is its exact result plus an error, a symbol of its own whose bound is half the spacing in the
result's binade. So every number is exactly a polynomial in the inputs and these symbols. The low part of a pair or
triple has the error of its high part with the opposite sign, and in their sum it cancels. The remaining terms, bounded
one by one, are the distance of a result from any polynomial in the inputs. If nothing is subtracted from a number, its
error cannot cancel: then one symbol e{i} is the difference between the number and its value without any rounding. Other
products of errors are combined in one symbol g{i}.

An operation is exact, by
  - doubling: x + x
  - granularity: its result is a multiple of 2^g and at most 2^(g + 53) in magnitude (Sterbenz's lemma is a case of it)
  - the residual of a product: p = fl(a b), fma(a, b, -p). Lemma (Dekker): a b - p is a double, unless it is below the
    least subnormal number; then it is rounded by 2^-1075. Without fused operations, by Dekker's and Veltkamp's steps
  - the residual of a sum: s = fl(a + b), by Knuth's and Moller's steps. Lemma: a + b - s is a double, and the steps,
    two of which may be fused with a factor of -1, yield it for any a and b
  - the residual of a sum, b - (s - a), for |a| >= |b| or a = 0. Lemma (Dekker). The condition follows from the ranges
    of a and b; or a is a multiple of a unit not below |b|; or both are residuals of consecutive sums: a = A + B - S and
    b = b' + c - B. Lemma: A and B are multiples of the last place of B, |A| >= |B|, and |b| is below that place
The module finds these patterns in the trace. If any operation of a pattern is changed, it counts as one that rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from proofs.interval import Interval, Monomial, Polynomial, ceil_log2, floor_log2
from proofs.trace import Constant, Function, Node, Operand

LEAST_SUBNORMAL, LEAST_SUBNORMAL_FLOAT = -1074, -149


@dataclass(frozen=True)
class Input:
    """A double (or float) that a function takes: its range, its granularity, and its value if that is a polynomial in
    other symbols."""

    range: Interval
    granularity: int | None = None
    value: Polynomial | None = None

    @classmethod
    def constant(cls, value: float | Fraction) -> Input:
        return cls(Interval.of(value, value), value=Polynomial.constant(value))


@dataclass(frozen=True)
class Rule:
    """`monomial` is equal to `value`."""

    monomial: Monomial
    value: Polynomial


@dataclass(frozen=True)
class Error:
    """The symbol of an operation's error, expression - result."""

    node: int
    bound: Fraction


class RoundingErrors:
    """The numbers of a function, as polynomials in its inputs and errors."""

    def __init__(
        self,
        function: Function,
        inputs: Mapping[str, Input],
        made: Sequence[Input] = (),
        cuts: Mapping[Operand, tuple[str, Input]] | None = None,
        until: Operand | None = None,
        others: Mapping[str, Input] | None = None,
        rules: Sequence[Rule] = (),
    ):
        """`made`: the numbers made by integers, in order. `cuts`: nodes that count as inputs, with a name. `others`:
        symbols in the values of inputs."""
        self.function = function
        self.given: dict[int, str] = {}  # the nodes that are inputs, and their names
        self.symbols: dict[str, Interval] = {}
        self.rules = rules
        self.errors: dict[str, Error] = {}  # of operations
        self.gathered: dict[str, Polynomial] = {}  # products of errors
        self.plain: dict[str, int] = {}  # whole errors of numbers, which nothing is subtracted from
        self.exact: dict[int, str] = {}  # operations that are, and why
        self.residuals: dict[int, tuple[Operand, Operand, Operand]] = {}  # by lemma: a, b and p or s of
        self._subtracted = subtracted(function.nodes)
        self.values: list[Polynomial] = []
        self.ranges: list[Interval] = []
        self.granularities: list[int | None] = []
        self.others = others or {}
        for name, other in self.others.items():
            self.symbols[name] = other.range
        self._inputs = inputs
        self._made = iter(made)
        self._cuts = cuts or {}
        last = until if isinstance(until, int) else len(function.nodes) - 1
        for i in range(last + 1):
            self._add(i, function.nodes[i])

    # Properties of an operand.

    def value(self, operand: Operand) -> Polynomial:
        return Polynomial.constant(operand.value) if isinstance(operand, Constant) else self.values[operand]

    def range(self, operand: Operand) -> Interval:
        return (
            Interval(operand.value, operand.value) if isinstance(operand, Constant) else self.ranges[operand]
        )

    def granularity(self, operand: Operand) -> int | None:
        """Return g if the operand is a multiple of 2^g."""
        if isinstance(operand, Constant):
            return None if operand.value == 0 else granularity_of(operand.value)
        return self.granularities[operand]

    def bound(self, polynomial: Polynomial) -> Fraction:
        """Return the maximum magnitude of a polynomial in the symbols."""
        return self.reduced(polynomial).range(self.symbols).magnitude

    def reduced(self, polynomial: Polynomial) -> Polynomial:
        """Return a polynomial with the rules applied as long as any applies."""
        for rule in self.rules:
            pattern = dict(rule.monomial)
            while found := [m for m in polynomial.terms if divides(pattern, m)]:
                for monomial in found:
                    powers = {s: p - pattern.get(s, 0) for s, p in monomial}
                    rest = tuple((s, p) for s, p in sorted(powers.items()) if p)
                    term = Polynomial({monomial: polynomial.terms[monomial]})
                    polynomial = (
                        polynomial - term + Polynomial({rest: polynomial.terms[monomial]}) * rule.value
                    )
        return polynomial

    # One operation.

    def _add(self, i: int, node: Node) -> None:
        self.values.append(Polynomial({}))
        self.ranges.append(Interval.within(0))
        self.granularities.append(None)
        first = self.function.first[i]
        if first != i:
            self._set(i, self.values[first], self.ranges[first], self.granularities[first])
        elif i in self._cuts:
            self._add_input(i, *self._cuts[i])
        elif node.operation == "input":
            self._add_input(i, node.name, self._inputs[node.name])
        elif node.operation in ("from_bits", "from_integer"):
            self._add_input(i, f"made{i}", next(self._made))
        elif node.operation == "neg":
            operand = node.operands[0]
            self._set(i, -self.value(operand), self.range(operand).times(-1), self.granularity(operand))
        elif node.operation == "div":
            self._add_quotient(i, node)
        else:
            self._add_rounded(i, node)

    def _set(self, i: int, value: Polynomial, range_: Interval, granularity: int | None) -> None:
        self.values[i] = value
        self.ranges[i] = range_
        self.granularities[i] = granularity

    def _add_input(self, i: int, name: str, given: Input) -> None:
        self.given[i] = name
        value = given.value
        if value is None:
            value = Polynomial.symbol(name)
            self.symbols[name] = given.range
        granularity = given.granularity
        if granularity is None and given.range.mignitude:
            granularity = floor_log2(given.range.mignitude) - (23 if self.function.nodes[i].single else 52)
        self._set(i, value, given.range, granularity)

    def _add_quotient(self, i: int, node: Node) -> None:
        """Add q = fl(a / b) as a symbol of its own, and r{i} with q b = a + r{i}."""
        a, b = (self.range(operand) for operand in node.operands)
        assert 0 not in b
        range_ = a * Interval.hull([1 / b.least, 1 / b.greatest])
        bound = rounding_bound(range_.magnitude, node.single)
        self.symbols[f"q{i}"] = rounded_outward(range_, node.single)
        self.symbols[f"r{i}"] = Interval.within(bound * b.magnitude)
        self._set(i, Polynomial.symbol(f"q{i}"), self.symbols[f"q{i}"], None)

    def expression(self, node: Node) -> tuple[Polynomial, Interval, int | None]:
        """Return the value that an operation rounds, its range and its granularity."""
        a, b = node.operands[0], node.operands[-1] if len(node.operands) < 3 else node.operands[1]
        if node.operation == "round":
            return self.value(a), self.range(a), self.granularity(a)
        if node.operation in ("add", "sub"):
            sign = 1 if node.operation == "add" else -1
            value = self.value(a) + self.value(b) * Polynomial.constant(sign)
            range_ = self.range(a) + self.range(b).times(sign)
            return value, range_, coarsest(self, [a, b])
        product = self.value(a) * self.value(b), self.range(a) * self.range(b)
        if a == b:
            product = product[0], self.range(a).power(2)
        granularities = self.granularity(a), self.granularity(b)
        granularity = None if None in granularities else sum(g for g in granularities if g is not None)
        if node.operation == "mul":
            return *product, granularity
        assert node.operation == "fma", node.operation
        c = node.operands[2]
        of_c = self.granularity(c)
        if granularity is not None and not is_zero(c):
            granularity = None if of_c is None else min(granularity, of_c)
        return product[0] + self.value(c), product[1] + self.range(c), granularity

    def expression_of_residual(self, i: int) -> tuple[Polynomial, Interval, int | None]:
        """Return a b - p, or a + b - s."""
        a, b, result = self.residuals[i]
        is_product = find(self.function.nodes, result, "mul") is not None
        whole = Node("mul" if is_product else "add", (a, b))
        value, range_, granularity = self.expression(whole)
        return value - self.value(result), range_ - self.range(result), granularity

    def _add_rounded(self, i: int, node: Node) -> None:
        lemma = residual_by_lemma(self.function.nodes, node)
        if lemma:
            reason, self.residuals[i] = lemma
            value, range_, granularity = self.expression_of_residual(i)
        else:
            value, range_, granularity = self.expression(node)
        value = self._without_products_of_errors(i, self.reduced(value))
        range_ = range_.meet(value.range(self.symbols))
        if not lemma:
            reason = self._why_exact(i, node, value, range_, granularity) or ""
        if reason:
            self.exact[i] = reason
            least = format_of(node.single)[1]
            if reason == "the residual of a product" and (granularity is None or granularity < least):
                value = value + self._error(i, Fraction(2) ** (least - 1))
            self._set(i, value, rounded_outward(range_, node.single), granularity)
        else:
            value = self._without_cancelling(
                i, value + self._error(i, rounding_bound(range_.magnitude, node.single))
            )
            outward = rounded_outward(range_, node.single)
            if outward.mignitude:
                least = floor_log2(outward.mignitude) - (23 if node.single else 52)
                granularity = least if granularity is None else max(least, granularity)
            self._set(i, value, outward, granularity)

    def _error(self, i: int, bound: Fraction) -> Polynomial:
        name = f"d{i}"
        self.errors[name] = Error(i, bound)
        self.symbols[name] = Interval.within(bound)
        return Polynomial.symbol(name)

    def _without_cancelling(self, i: int, value: Polynomial) -> Polynomial:
        """Replace all errors by one symbol, if none of them can cancel."""
        symbols = {symbol for monomial in value.terms for symbol, _ in monomial}
        nodes = {self.errors[symbol].node for symbol in symbols if symbol in self.errors}
        if nodes & self._subtracted or any(is_numbered(symbol, "gqr") for symbol in symbols):
            return value
        ideal = Polynomial(
            {m: c for m, c in value.terms.items() if not any(is_numbered(s, "de") for s, _ in m)}
        )
        name = f"e{i}"
        self.plain[name] = i
        self.symbols[name] = (value - ideal).range(self.symbols)
        return ideal + Polynomial.symbol(name)

    def _without_products_of_errors(self, i: int, value: Polynomial) -> Polynomial:
        """Replace the terms with two or more errors by one symbol."""

        def many(monomial: Monomial) -> bool:
            return sum(power for symbol, power in monomial if is_numbered(symbol, "dge")) > 1

        gathered = Polynomial({m: c for m, c in value.terms.items() if many(m)})
        symbols = {symbol for monomial in value.terms for symbol, _ in monomial}
        if not gathered.terms or not any(is_numbered(symbol, "dg") for symbol in symbols):
            return value
        name = f"g{i}"
        self.gathered[name] = gathered
        self.symbols[name] = gathered.range(self.symbols)
        return value - gathered + Polynomial.symbol(name)

    def _why_exact(
        self, i: int, node: Node, value: Polynomial, range_: Interval, granularity: int | None
    ) -> str | None:
        for known in self.values[:i]:
            if len(known.terms) == len(value.terms) and value in (known, -known):
                return "a double that was there before"
        if not value.terms:
            return "a constant"
        bits, least = format_of(node.single)
        if set(value.terms) == {()} and is_number(value.terms[()], bits):
            return "a constant"
        # Gappa does not derive the granularity of a product.
        has_unit = granularity is not None and granularity >= least and node.operation != "mul"
        if has_unit and range_.magnitude <= Fraction(2) ** ((granularity or 0) + bits):
            return "granularity"
        if node.operation == "add" and node.operands[0] == node.operands[1]:
            return "twice a number"
        nodes = self.function.nodes
        terms = fast_sum_residual(nodes, node)
        if terms and self._in_order(*terms):
            return "the residual of a sum of numbers in order"
        return None

    def _in_order(self, a: Operand, b: Operand) -> bool:
        """Return whether |a| >= |b| or a = 0."""
        range_a, range_b, unit = self.range(a), self.range(b), self.granularity(a)
        if range_a.magnitude == 0 or range_a.mignitude >= range_b.magnitude:
            return True
        if unit is not None and Fraction(2) ** unit >= range_b.magnitude:
            return True
        nodes = self.function.nodes
        node_a, node_b = node_at(nodes, a), node_at(nodes, b)
        terms = fast_sum_residual(nodes, node_a) if node_a and a in self.exact else None
        residual = sum_residual(nodes, node_b) if node_b else None
        return terms is not None and residual is not None and terms[1] == residual[2]


def is_numbered(symbol: str, letters: str) -> bool:
    """Return whether this is the symbol of a node, of one of these kinds, and not of an input."""
    return symbol[0] in letters and symbol[1:].isdigit()


def subtracted(nodes: Sequence[Node]) -> set[int]:
    """Return the nodes that are an operand of a subtraction."""
    found: set[Operand] = set()
    for node in nodes:
        if node.operation in ("sub", "neg"):
            found.update(node.operands)
        elif node.operation == "fma" and node.operands[1] == Constant(Fraction(-1)):
            found.update((node.operands[0], node.operands[2]))
    return {operand for operand in found if isinstance(operand, int)}


def divides(pattern: Mapping[str, int], monomial: Monomial) -> bool:
    powers = dict(monomial)
    return all(powers.get(symbol, 0) >= power for symbol, power in pattern.items())


def is_zero(operand: Operand) -> bool:
    return operand == Constant(Fraction(0))


def coarsest(errors: RoundingErrors, operands: Sequence[Operand]) -> int | None:
    """Return g if all are multiples of 2^g. Zero is a multiple of any."""
    found = [errors.granularity(operand) for operand in operands if not is_zero(operand)]
    return None if None in found else min((g for g in found if g is not None), default=None)


def granularity_of(value: Fraction) -> int:
    """Return the greatest g for which a double is a multiple of 2^g."""
    numerator = value.numerator
    return (numerator & -numerator).bit_length() - 1 - (value.denominator.bit_length() - 1)


def format_of(single: bool) -> tuple[int, int]:
    """Return the precision of float or double, and the exponent of the least subnormal number."""
    return (24, LEAST_SUBNORMAL_FLOAT) if single else (53, LEAST_SUBNORMAL)


def is_number(value: Fraction, bits: int) -> bool:
    """Return whether a normal value has at most this many bits."""
    return value == 0 or abs(value) < Fraction(2) ** (granularity_of(value) + bits)


def rounding_bound(magnitude: Fraction, single: bool) -> Fraction:
    """Return a bound of the error of rounding a number of at most this magnitude to nearest."""
    bits, least = format_of(single)
    if magnitude == 0:
        return Fraction(0)
    return Fraction(2) ** max(ceil_log2(magnitude) - 1 - bits, least - 1)


def rounded_outward(range_: Interval, single: bool) -> Interval:
    """Return the range of the numbers rounded to nearest, or slightly more. Rounding is monotone."""

    def outward(value: Fraction) -> Fraction:
        if value == 0:
            return value
        unit = Fraction(2) ** (floor_log2(value) - (23 if single else 52))
        return -(-value // unit) * unit

    least, greatest = range_.least, range_.greatest
    low = -outward(-least) if least < 0 else -(-least // unit_of(least, single)) * unit_of(least, single)
    high = (
        outward(greatest)
        if greatest > 0
        else greatest // unit_of(greatest, single) * unit_of(greatest, single)
    )
    # Toward zero the nearest double may be inside or outside the range: take the one outside.
    if least > 0:
        low = least // unit_of(least, single) * unit_of(least, single)
    if greatest < 0:
        high = -(-greatest // unit_of(greatest, single)) * unit_of(greatest, single)
    return Interval(low, high)


def unit_of(value: Fraction, single: bool) -> Fraction:
    if value == 0:
        return Fraction(1)
    return Fraction(2) ** (floor_log2(abs(value)) - (23 if single else 52))


# Patterns in a trace.


def find(nodes: Sequence[Node], operand: Operand, operation: str) -> tuple[Operand, ...] | None:
    """Return the operands of a node, if it is this operation."""
    if isinstance(operand, Constant) or nodes[operand].operation != operation:
        return None
    return nodes[operand].operands


Residual = tuple[Operand, Operand, Operand]


def residual_by_lemma(nodes: Sequence[Node], node: Node) -> tuple[str, Residual] | None:
    """Return the lemma by which an operation yields a b - p or a + b - s, and a, b and p or s."""
    if found := product_residual(nodes, node):
        return "the residual of a product", found
    if found := sum_residual(nodes, node):
        return "the residual of a sum", found
    return None


def product_residual(nodes: Sequence[Node], node: Node) -> Residual | None:
    if node.operation == "fma":  # fma(a, b, -(a * b))
        a, b, c = node.operands
        negated = find(nodes, c, "neg")
        is_residual = negated is not None and find(nodes, negated[0], "mul") in ((a, b), (b, a))
        return (a, b, negated[0]) if negated and is_residual else None
    # ((ah bh - p) + ah bl + al bh) + al bl
    if node.operation != "add":
        return None
    outer = find(nodes, node.operands[0], "add"), find(nodes, node.operands[1], "mul")
    middle = outer[0] and find(nodes, outer[0][0], "add")
    inner = middle and find(nodes, middle[0], "sub")
    if not (outer[0] and outer[1] and middle and inner):
        return None
    products = [find(nodes, o, "mul") for o in (inner[0], middle[1], outer[0][1])]
    product = find(nodes, inner[1], "mul")
    if None in products or product is None:
        return None
    highs, high_low, low_high = (p for p in products if p)
    low_low = outer[1]
    if highs != (high_low[0], low_high[1]) or low_low != (low_high[0], high_low[1]):
        return None
    parts = zip(product, highs, low_low, strict=True)
    return (product[0], product[1], inner[1]) if all(is_split(nodes, *part) for part in parts) else None


def is_split(nodes: Sequence[Node], value: Operand, high: Operand, low: Operand) -> bool:
    """Match Veltkamp's splitting: high = c value - (c value - value), low = value - high, c = 2^27 + 1."""
    splitter = Fraction(2**27 + 1)
    if isinstance(value, Constant):
        number = float(value.value)
        scaled = float(splitter) * number
        expected = Fraction(scaled - (scaled - number))
        return high == Constant(expected) and low == Constant(value.value - expected)
    difference = find(nodes, high, "sub")
    inner = difference and find(nodes, difference[1], "sub")
    if not (difference and inner) or find(nodes, low, "sub") != (value, high):
        return False
    return inner == (difference[0], value) and find(nodes, difference[0], "mul") == (
        Constant(splitter),
        value,
    )


def sum_residual(nodes: Sequence[Node], node: Node) -> Residual | None:
    """Match (a - (s - b')) + (b - b') with b' = s - a, where the differences with b' may be fused."""
    if node.operation != "add":
        return None
    of_a, of_b = (node_at(nodes, operand) for operand in node.operands)
    if of_a is None or of_b is None or of_a.operation != "sub":
        return None
    b_and_part = difference(of_b)
    inner = find(nodes, of_a.operands[1], "sub")
    if b_and_part is None or inner is None:
        return None
    (b, part), a, (total, same_part) = b_and_part, of_a.operands[0], inner
    part_node = node_at(nodes, part)
    if part != same_part or part_node is None or difference(part_node) != (total, a):
        return None
    return (a, b, total) if find(nodes, total, "add") == (a, b) else None


def node_at(nodes: Sequence[Node], operand: Operand) -> Node | None:
    return None if isinstance(operand, Constant) else nodes[operand]


def difference(node: Node) -> tuple[Operand, Operand] | None:
    """Return x and y of x - y, or of fma(y, -1, x)."""
    if node.operation == "sub":
        return node.operands[0], node.operands[1]
    if node.operation == "fma" and node.operands[1] == Constant(Fraction(-1)):
        return node.operands[2], node.operands[0]
    return None


def fast_sum_residual(nodes: Sequence[Node], node: Node) -> tuple[Operand, Operand] | None:
    """Return a and b of b - (s - a), s = a + b; or of s - a."""
    if node.operation != "sub":
        return None
    inner = find(nodes, node.operands[1], "sub")
    if inner and find(nodes, inner[0], "add") == (inner[1], node.operands[0]):
        return inner[1], node.operands[0]
    total = find(nodes, node.operands[0], "add")
    if total and total[0] == node.operands[1]:
        return total[0], total[1]
    return None
