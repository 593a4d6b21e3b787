"""``hu.power``, and NumPy's own power on our loops: the bits are MPFR's, all else is NumPy's."""

import itertools
import operator
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gmpy2
import ml_dtypes
import numpy as np
import pytest
from tests.oracle.compare import assert_same_bits
from tests.oracle.grids import pow_grid

import halfulp as hu
from halfulp import reference
from halfulp.conformance.cases.values import hard_pairs
from halfulp.integrations import numpy as door
from halfulp.types import codes

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

TYPES = ("float16", "float32", "float64")
RNG = np.random.default_rng(7)
# NumPy with glibc misrounds some of them.
X, Y = (operand[:960].reshape(3, 320) for operand in hard_pairs("float32", "float32"))
EXACT = reference.pow(X, Y)


def assert_same(got: Any, expected: Any) -> None:
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert (codes(got) == codes(expected)).all()


def in_place(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x = x.copy()
    x **= y
    return x


def one_by_one(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.array([np.power(*pair) for pair in zip(x, y, strict=True)], x.dtype)


@pytest.mark.parametrize("name", TYPES)
def test_the_bits_are_mpfrs(name, rng):
    parts = pow_grid(name, name, rng)
    assert_same_bits(parts, hu.power, reference.pow)
    with door.exact():
        for power in (operator.pow, in_place, one_by_one):
            assert_same_bits(parts, power, hu.pow)
    x, y = (rng.uniform(low, 9, 50_000).astype(name) for low in (0.5, -9))
    if name != "float16":
        assert not np.array_equal(np.power(x, y), hu.power(x, y))


def test_bfloat16_is_exact_in_the_ufunc_alone(rng):
    parts = pow_grid("bfloat16", "bfloat16", rng)
    assert_same_bits(parts, hu.power, reference.pow)
    assert_same_bits(parts, lambda x, y: hu.power(x, y, out=x.copy()), reference.pow)
    assert_same_bits(parts, lambda x, y: hu.power(x[::-1], y[::-1])[::-1], reference.pow)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        hu.power(ml_dtypes.bfloat16(0), ml_dtypes.bfloat16(-1))


def test_every_way_to_a_power():
    where = X > 1
    strided = np.zeros((3, 640), np.float32)
    with door.exact():
        assert_same(np.power(X, Y, out=strided[:, ::2]), EXACT)
        assert_same(np.power(X[:, ::-1], Y[:, ::-1]), EXACT[:, ::-1])
        assert_same(np.power(X.T, Y.T), EXACT.T)
        assert_same(np.power(X.astype(">f4"), Y), EXACT)
        assert_same(np.power(X, Y, out=X.copy(), where=where), np.where(where, EXACT, X))
        assert_same(np.power(X, Y, out=np.zeros(X.shape)), EXACT.astype(np.float64))
        assert_same(np.power(X, Y, dtype=np.float64), reference.pow(X.astype(np.float64), Y))
        assert_same(np.float_power(X, Y), reference.pow(X.astype(np.float64), Y))
        assert_same(X**2.7, reference.pow(X, np.float32(2.7)))
        assert_same(2.7**X, reference.pow(np.float32(2.7), X))
        assert_same(np.arange(1, 9) ** 0.7, reference.pow(np.arange(1.0, 9), 0.7))
        assert_same(np.power.outer(X[0], Y[0]), reference.pow(X[0][:, None], Y[0]))
        line = np.append(np.float32(1.7), RNG.uniform(0.8, 1.3, 300).astype(np.float32))
        steps = list(itertools.accumulate(line, lambda x, y: reference.pow(x, y)[()]))
        assert_same(np.power.accumulate(line), np.array(steps))
        assert_same(np.power.reduce(line[:9]), steps[8])
        assert_same(np.power.reduce(np.stack([X, Y])), EXACT)
        assert_same(np.power.reduceat(np.stack([X, Y], -1).ravel(), np.arange(0, 1920, 2)), EXACT.ravel())
        chosen = X.copy()
        np.power.at(chosen, (slice(None), [3, 5]), Y[:, [3, 5]])
        assert_same(chosen[:, [3, 5]], EXACT[:, [3, 5]])
        assert_same((np.ma.masked_array(X, ~where) ** Y).compressed(), EXACT[where & np.isfinite(EXACT)])


def test_other_libraries():
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    stats = pytest.importorskip("scipy.stats")
    series, array = pandas.Series(X[0]), xarray.DataArray(X)
    with door.exact():
        assert_same((series ** Y[0]).to_numpy(), EXACT[0])
        assert_same((pandas.DataFrame(X) ** Y).to_numpy(), EXACT)
        assert_same((array**Y).to_numpy(), EXACT)
        x = RNG.uniform(1, 9, 3000)
        assert_same(stats.pareto.pdf(x, 1.5), 1.5 * reference.pow(x, -2.5))
    for own in (series, array[0]):
        powers = hu.power(own, Y[0])
        assert type(powers) is type(own)
        assert_same(powers.to_numpy(), EXACT[0])


@pytest.mark.parametrize("name", TYPES)
def test_exponents_that_numpy_takes_for_operations_of_their_own(name, rng):
    """They are square, reciprocal, sqrt, and with NumPy before 2.3 positive and ones: right but for two roots."""
    x = np.concatenate([part.x for part in pow_grid(name, name, rng)])
    roots = np.isin(x, [0, -np.inf])  # these are np.sqrt's: -0.0 and NaN
    with door.exact():
        for y in (2, -1, 0.5, 2.0, -1.0, 0, 1, 0.0, 1.0, 3, np.dtype(name).type(0.5)):
            expected = hu.pow(x, y)
            for power in (x**y, in_place(x, y), x.reshape(1, -1)[0] ** y):
                is_right = (power == expected) | (np.isnan(power) & np.isnan(expected))
                assert (is_right | (roots & (y == 0.5))).all()
            np.testing.assert_array_equal(np.power(x, np.array(y, name)), expected)


def test_rules_for_types_and_other_numbers_are_numpys():
    assert hu.power.types == np.power.types

    def outcome(power: Any, x: Any, y: Any) -> Any:
        try:
            return power(x, y)
        except (ValueError, TypeError, OverflowError) as error:
            return type(error)

    dtypes = [*"?bBhHiIlLqQefdgFDGO", ml_dtypes.bfloat16]
    kinds = [np.array([3, 2], dtype) for dtype in dtypes] + [[3, 2], 3, 2.5, -2, True]
    for x, y in itertools.product(kinds, kinds):
        ours, numpys = outcome(hu.power, x, y), outcome(np.power, x, y)
        assert type(ours) is type(numpys)
        if not isinstance(ours, type):
            assert ours.dtype == numpys.dtype
            np.testing.assert_allclose(ours.astype(complex), numpys.astype(complex), rtol=1e-3)
            assert ours.dtype.kind not in "biu" or (ours == numpys).all()


def test_it_is_pickled_and_has_a_name_of_its_own():
    assert pickle.loads(pickle.dumps(hu.power)) is hu.power is door.power
    assert hu.power.__name__ == "halfulp_power"  # pandas takes a ufunc named power for its own **


@pytest.mark.parametrize("name", TYPES)
def test_exceptions_are_those_of_ieee_754(name):
    """Apart from those of exact subnormals, which raise nothing, NumPy's are the same."""
    info = np.finfo(name)
    exponents = [0, 1, 2, 3, 0.5, 0.99, info.minexp - 3, info.minexp / 2, info.minexp - info.nmant]
    sizes = [*exponents, 2.5, info.tiny, 3 * info.tiny, info.smallest_subnormal, info.max, np.inf, np.nan]
    numbers = np.array([sign * size for size in sizes for sign in (1, -1)], name)

    def raised(x: Any, y: Any, out: Any = None) -> set[str]:
        kinds: set[str] = set()
        with np.errstate(all="call", call=lambda kind, _: kinds.add(kind.split()[0])):
            hu.power(x, y, out=out)
        return kinds

    for x, y in itertools.product(numbers, numbers):
        power = float(hu.pow(x, y))
        with gmpy2.context(precision=5000, emin=-(2**40), emax=2**40) as wide:
            exact = gmpy2.mpfr(float(x)) ** gmpy2.mpfr(float(y))
        expected = {
            "invalid": wide.invalid and not (np.isnan(x) or np.isnan(y)),
            "divide": wide.divzero,
            "overflow": wide.overflow or (np.isinf(power) and gmpy2.is_finite(exact)),
            "underflow": wide.underflow or (abs(power) < info.tiny and power != exact),
        }
        kinds = {kind for kind, is_raised in expected.items() if is_raised}
        few, many = np.full(3, x), np.full(40, x)
        assert raised(few, y) == raised(many, y) == raised(many, y, many) == kinds, (x, y)


def test_warnings_are_numpys():
    zero, two = np.zeros(3), np.full(3, 2.0)
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in halfulp_power"):
        hu.power(zero, -1)
    with door.exact():
        for x, y, what in (
            (zero, -1.5, "divide by zero"),
            (two, 1e9, "overflow"),
            (-two, 0.5, "invalid value"),
        ):
            with pytest.warns(RuntimeWarning, match=f"{what} encountered in power"):
                np.power(x, y)
            with np.errstate(all="raise"), pytest.raises(FloatingPointError, match=what):
                np.power(x, y, out=x.copy())
        with np.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow"):
            two**-1e9
        with np.errstate(all="raise"):
            np.power(two, -1074.0)
            np.power(np.array([np.inf, np.nan, 0.0, -np.inf]), [-1.5, 2, 3, 0.5])


def test_contexts_count_and_leave_nothing():
    before = np.power(X, Y)
    assert not np.array_equal(before, EXACT)
    with door.exact():
        with pytest.raises(IndexError), door.exact():
            X[np.flatnonzero(X**Y == EXACT).size]
        assert_same(X**Y, EXACT)
    assert_same(X**Y, before)
    assert_same(hu.power(X, Y), EXACT)
    assert_same(door.exact()(np.power)(X, Y), EXACT)  # a decorator
    with pytest.raises(hu.HalfulpError, match="not enabled"):
        door.disable()

    def work(number: int) -> None:
        for _ in range(200):
            with door.exact():
                assert_same(X**Y, EXACT)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert_same(X**Y, before)


def test_large_arrays_and_little_memory():
    x, y = RNG.uniform(0.2, 4, 300_001), RNG.uniform(-5, 5, 300_001)
    assert_same(hu.power(x, y), hu.pow(x, y))
    assert_same(hu.power(x, y, out=x.copy()), hu.pow(x, y))
