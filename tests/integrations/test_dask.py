"""Dask: lazy, any chunks, the same bits on threads, processes and a cluster."""

import hashlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import halfulp as hu

da = pytest.importorskip("dask.array")

import dask  # noqa: E402

import halfulp.integrations.dask as hdask  # noqa: E402

RNG = np.random.default_rng(8)
X = RNG.uniform(0.5, 9, (7, 9)).astype(np.float32)
Y = RNG.uniform(-3, 3, 9).astype(np.float32)

FUNCTIONS = pytest.mark.parametrize(
    ("pow", "prelu"), [(hdask.pow, hdask.prelu), (hu.pow, hu.prelu)], ids=["integration", "plain"]
)


def assert_same(lazy: Any, expected: np.ndarray, **options: Any) -> None:
    """Lazy, and on computing of the type, shape and bits."""
    assert isinstance(lazy, da.Array)
    assert lazy.dtype == expected.dtype
    got = lazy.compute(**options)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert got.tobytes() == expected.tobytes()


@FUNCTIONS
class TestBothWays:
    @pytest.mark.parametrize("x_chunks", [-1, 1, (3, 4), ((1, 6), (2, 3, 4))])
    @pytest.mark.parametrize("y_chunks", [-1, 2])
    def test_any_chunks(self, pow, prelu, x_chunks, y_chunks):
        x, y = da.from_array(X, x_chunks), da.from_array(Y, y_chunks)
        assert_same(pow(x, y), hu.pow(X, Y))
        assert_same(pow(y[:, None], x.T), hu.pow(Y[:, None], X.T))
        assert_same(pow(x[:, None], x), hu.pow(X[:, None], X))
        assert_same(prelu(-x, y), hu.prelu(-X, Y))
        assert_same(prelu(-x, y[0]), hu.prelu(-X, Y[0]))

    def test_numbers_and_arrays(self, pow, prelu):
        x = da.from_array(X, (3, 4))
        for number in (2, 2.3, np.float64(2.3), 10**30 + 1):
            assert_same(pow(x, number), hu.pow(X, number))
        assert_same(pow(2.3, x), hu.pow(2.3, X))
        assert_same(prelu(-x, 0.3), hu.prelu(-X, 0.3))
        assert_same(pow(x, Y), hu.pow(X, Y))
        assert_same(pow(X, da.from_array(Y, 2)), hu.pow(X, Y))

    @pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3fn", "int4", "int8", "uint64"])
    def test_types(self, pow, prelu, name):
        array = np.arange(7).astype(getattr(ml_dtypes, name, name))
        x = da.from_array(array, 2)
        assert_same(pow(x, 2.5), hu.pow(array, 2.5))
        assert_same(pow(2, x), hu.pow(2, array))
        assert_same(pow(X[:, :7], x), hu.pow(X[:, :7], array))
        assert_same(prelu(x, 3), hu.prelu(array, 3))

    def test_sizes_that_dask_does_not_know(self, pow, prelu):
        x = da.from_array(X, (3, 4))
        some = x[x > 2]
        assert np.isnan(some.shape[0])
        assert_same(pow(some, some), hu.pow(some.compute(), some.compute()))
        assert_same(prelu(-some, 0.3), hu.prelu(-some.compute(), 0.3))

    def test_no_elements(self, pow, prelu):
        empty = da.ones((0, 4), dtype="float32")
        assert_same(pow(empty, 2.5), np.ones((0, 4), np.float32))
        assert_same(prelu(empty, np.ones(4, np.float32)), np.ones((0, 4), np.float32))

    def test_nothing_is_computed_before_it_is_asked_for(self, pow, prelu):
        computed = []

        def block(*_: Any, **__: Any) -> Any:
            computed.append(1)
            return np.ones((2, 2), np.float32)

        x = da.map_blocks(block, chunks=((2, 2), (2, 2)), dtype=np.float32, meta=np.ones((0, 0), np.float32))
        lazy = prelu(pow(x, 2.5), 0.3)
        assert not computed
        lazy.compute()
        assert len(computed) == 4

    def test_the_same_call_has_the_same_name(self, pow, prelu):
        x = da.from_array(X, (3, 4))
        assert pow(x, 2.5).name == pow(x, 2.5).name != pow(x, 2.0).name
        assert pow(x, 2.5).name != prelu(x, 2.5).name

    @pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
    def test_schedulers(self, pow, prelu, scheduler):
        assert_same(pow(da.from_array(X, 2), Y), hu.pow(X, Y), scheduler=scheduler)


def test_what_is_refused_is_refused_at_once():
    x, y = da.from_array(X, (3, 4)), da.from_array(Y, 5)
    with pytest.raises(hu.SpecError, match="X and Y must be broadcastable"):
        hdask.pow(x, y[:4])
    with pytest.raises(hu.SpecError, match="slope must be broadcastable"):
        hdask.prelu(x[:, :1], y)
    with pytest.raises(hu.SpecError, match="must have the same type"):
        hdask.prelu(x, y.astype("float64"))
    with pytest.raises(hu.SpecError, match="X must have a type that T allows"):
        hdask.pow(x.astype(complex), y)
    for prelu in (hu.prelu, hdask.prelu):
        with pytest.raises(hu.SpecError, match="slope does not fit the type int32"):
            prelu(x.astype("int32"), 2.5)
    with pytest.raises(hu.SpecError, match="X must have a type that T allows"):
        hu.pow(x.astype(bool), 2)


def test_arrays_are_made_dask_arrays():
    assert_same(hdask.pow(X, Y), hu.pow(X, Y))
    assert_same(hdask.prelu([[-1.0, 2.0]], [0.5, 0.5]), np.array([[-0.5, 2.0]]))
    assert_same(hdask.pow(2, 3), np.array(8))


def digest(block: np.ndarray) -> np.ndarray:
    """A block's bits, as an array of one row."""
    return np.frombuffer(hashlib.sha256(block.tobytes()).digest(), np.uint8).reshape(1, -1)


def process() -> tuple[int, int]:
    """A worker's process, and the most memory that it has held so far, in KiB."""
    import os
    import resource

    return os.getpid(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_a_graph_goes_to_another_process():
    cloudpickle = pytest.importorskip("cloudpickle")
    lazy = hdask.prelu(hu.pow(da.from_array(X, 2), Y), 0.3)
    assert_same(cloudpickle.loads(cloudpickle.dumps(lazy)), hu.prelu(hu.pow(X, Y), 0.3))


@pytest.mark.exhaustive
@pytest.mark.not_emulated
@pytest.mark.filterwarnings("ignore")  # distributed's own: ports in use, event loops, open sockets
def test_a_cluster_holds_a_small_part_of_the_array():
    distributed = pytest.importorskip("distributed")
    # In blocks of 4 MiB, made where they are used, of which only a digest comes back.
    x = da.random.default_rng(9).uniform(0.1, 9, (40, 1 << 20), chunks=(1, -1)).astype(np.float32)
    y = da.linspace(-3, 3, 1 << 20, chunks=-1).astype(np.float32)
    powers = hu.pow(x, y)
    digests = hdask.prelu(-powers, 0.3).map_blocks(digest, dtype=np.uint8, chunks=(1, 32))
    # No limit of memory: by one, a worker on a busy machine might be paused or ended.
    patient: dict[str, object] = {
        f"distributed.comm.timeouts.{what}": "10 minutes" for what in ("connect", "tcp")
    }
    with (
        dask.config.set({**patient, "distributed.comm.retry.count": 3, "temporary-directory": None}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=0, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, timeout=600) as client,
    ):
        before = client.run(process)
        got = digests.compute()
        after = client.run(process)
        assert len({number for number, _ in after.values()}) == 2
        for worker, (number, most) in after.items():
            assert number == before[worker][0], "a worker died"
            assert (most - before[worker][1]) << 10 < x.nbytes / 2
    exponents = y.compute()
    with dask.config.set(scheduler="synchronous"):
        for row, bits in list(enumerate(got))[::4]:
            whole = hu.prelu(-hu.pow(x.blocks[row].compute(), exponents), 0.3)
            assert digest(whole).tobytes() == bits.tobytes(), row
