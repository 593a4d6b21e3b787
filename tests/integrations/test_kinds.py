"""Every kind of array that is more than its memory: the right result, or a refusal that says how to convert it."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import halfulp as hu

np_masked = np.ma.masked_array([1.0, 2.0], [False, True])


def refused_by_all(make: Callable[[], Any], words: str) -> None:
    """hu.pow, hu.prelu and an operator refuse a kind of array as either operand."""
    operator = hu.op("onnx.Pow-15")
    for call in (
        lambda x: hu.pow(x, 2),
        lambda x: hu.pow(2.0, x),
        lambda x: hu.pow(np.ones(2, np.float32), x),
        lambda x: hu.prelu(x, 2),
        lambda x: hu.prelu(np.ones(2, np.float32), x),
        lambda x: operator(x, np.float32(2)),
        lambda x: operator(np.ones(2, np.float32), x),
    ):
        with pytest.raises(hu.HalfulpError, match=words):
            call(make())


class TestTorch:
    torch = pytest.importorskip("torch")

    def refused(self, make: Callable[[], Any], words: str) -> None:
        """The operators of torch refuse it, too."""
        import halfulp.integrations.torch as htorch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, of its prototypes
            refused_by_all(make, words)
            one = self.torch.ones(())
            for call in (htorch.pow, htorch.prelu, self.torch.ops.halfulp.pow, self.torch.ops.halfulp.prelu):
                with pytest.raises(hu.HalfulpError, match=words):
                    call(make(), one)
                with pytest.raises(hu.HalfulpError, match=words):
                    call(one, make())

    @pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
    def test_sparse(self, layout):
        kind = getattr(self.torch, layout)
        self.refused(
            lambda: self.torch.eye(2).to_sparse(layout=kind),
            rf"layout torch\.{layout}: .*; pass x\.to_dense\(\)",
        )

    @pytest.mark.parametrize("layout", ["strided", "jagged"])
    def test_nested(self, layout):
        parts = [self.torch.ones(2), self.torch.ones(3)]
        kind = getattr(self.torch, layout)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, of its prototypes
            refused_by_all(
                lambda: self.torch.nested.nested_tensor(parts, layout=kind),
                r"a nested tensor: .*; pass the tensors of x\.unbind\(\)",
            )

    def test_quantised(self):
        torch = self.torch
        self.refused(
            lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
            r"a quantised tensor \(torch\.qint8\): .*; pass x\.dequantize\(\)",
        )

    def test_masked(self):
        torch = self.torch
        self.refused(
            lambda: torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False])),
            r"a MaskedTensor: .*; pass x\.to_tensor\(value\)",
        )

    def test_without_elements(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        import halfulp.integrations.torch as htorch

        refused_by_all(lambda: self.torch.empty(2, device="meta"), "on the meta device: it has no elements")
        assert htorch.pow(self.torch.empty(2, device="meta"), 2.5).is_meta
        with FakeTensorMode():
            fake = self.torch.empty(2)
        refused_by_all(
            lambda: fake, "a FakeTensor: this subclass .* does not keep its elements in its own memory"
        )

    def test_a_subclass_with_memory_of_its_own(self):
        class Named(self.torch.Tensor):
            pass

        result = hu.pow(self.torch.tensor([2.0, 3.0]).as_subclass(Named), 2)
        assert isinstance(result, self.torch.Tensor)
        assert result.tolist() == [4, 9]

    def test_a_subclass_around_another_tensor(self):
        torch = self.torch

        class Around(torch.Tensor):
            @staticmethod
            def __new__(cls, inner: Any) -> Any:
                return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

            def __init__(self, inner: Any) -> None:
                self.inner = inner

            @classmethod
            def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                plain = [a.inner if isinstance(a, Around) else a for a in args]
                return Around(func(*plain, **(kwargs or {})))

        import halfulp.integrations.torch as htorch

        refused_by_all(lambda: Around(torch.ones(2)), "an? Around: .* or call halfulp.integrations.torch")
        assert htorch.pow(Around(torch.tensor([2.0, 3.0])), 2).inner.tolist() == [4, 9]

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of torch.jit
    @pytest.mark.parametrize("transform", ["vmap", "grad", "jvp", "functionalize"])
    def test_inside_a_transform(self, transform):
        torch, seen = self.torch, []

        def function(x: Any) -> Any:
            refused_by_all(lambda: x, "in a torch.func transform: halfulp.integrations.torch takes such")
            seen.append(x)
            return x.sum()

        operands = (torch.ones(2),)
        if transform == "jvp":
            torch.func.jvp(function, operands, operands)
        else:
            getattr(torch.func, transform)(function)(*operands)
        assert len(seen) == 1

    def test_parameters(self):
        parameter = self.torch.nn.Parameter(self.torch.tensor([2.0, 3.0]))
        refused_by_all(lambda: parameter, r"requires gradients: .*; x\.detach\(\) drops them")
        assert hu.pow(parameter.detach(), 2).tolist() == [4, 9]
        assert hu.pow(self.torch.nn.Parameter(parameter.detach(), requires_grad=False), 2).tolist() == [4, 9]

    @pytest.mark.exhaustive  # tests of torch compile, too
    @pytest.mark.filterwarnings("ignore::UserWarning")  # torch's, of functions that it does not trace
    def test_a_compiled_call_computes(self):
        self.torch._dynamo.reset()
        compiled = self.torch.compile(lambda x: hu.pow(x, 2) + 1, backend="eager")
        assert compiled(self.torch.tensor([2.0, 3.0])).tolist() == [5, 10]


class TestJax:
    jax = pytest.importorskip("jax")

    @pytest.mark.parametrize("transform", ["jit", "grad", "vmap", "eval_shape"])
    def test_tracers(self, transform):
        import halfulp.integrations.jax as hjax

        def function(x: Any) -> Any:
            refused_by_all(lambda: x, r"a JAX tracer: .*; halfulp\.integrations\.jax takes tracers")
            return hjax.pow(x, 2).sum()

        x = self.jax.numpy.array([2.0, 3.0])
        wrap = getattr(self.jax, transform)
        result = wrap(function, x) if transform == "eval_shape" else wrap(function)(x)
        assert result.dtype == np.float32

    def test_sparse(self):
        import halfulp.integrations.jax as hjax

        sparse = pytest.importorskip("jax.experimental.sparse")
        x = sparse.BCOO.fromdense(self.jax.numpy.ones(2))
        refused_by_all(lambda: x, r"a BCOO: it is not dense; pass x\.todense\(\)")
        with pytest.raises(hu.HalfulpError, match=r"pass x\.todense\(\)"):
            hjax.pow(x, 2)

    @pytest.mark.parametrize(
        ("operand", "words"),
        [
            (np_masked, r"a masked array: .*; pass x\.filled\(value\)"),
            (np.zeros(2, [("a", "f8")]), r"no element type \[\('a'"),
            (np.array([1.0, None]), "no element type object"),
            (np.ones(2, bool), "must have a type that T"),
        ],
        ids=["masked", "record", "object", "bool"],
    )
    def test_operands_of_numpys(self, operand, words):
        import halfulp.integrations.jax as hjax

        jnp = self.jax.numpy
        for call in (hjax.pow, hjax.prelu, lambda x, y: hjax.pow(jnp.ones(2), x)):
            with pytest.raises(hu.HalfulpError, match=words):
                call(operand, 2)


class TestNumPy:
    def test_an_operator_refuses_a_mask(self):
        operator = hu.op("onnx.Pow-15")
        for call in (lambda: operator(np_masked, 2), lambda: operator(np.ones(2), np_masked)):
            with pytest.raises(hu.HalfulpError, match=r"a masked array: .*; pass x\.filled\(value\)"):
                call()
        assert operator(np.ma.masked_array([1.0, 2.0]), 2.0).tolist() == [1, 4]
        with pytest.raises(hu.HalfulpError, match="out must not have masked elements"):
            operator(np.ones(2), 2.0, out=np_masked.copy())

    @pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
    @pytest.mark.parametrize("kind", [np.matrix, lambda a: np.rec.array(a), lambda a: a.view(np.recarray)])
    def test_other_subclasses(self, kind):
        x = kind(np.array([[2.0, 3.0]]))
        assert np.asarray(hu.pow(x, 2)).tolist() == [[4, 9]]
        assert type(hu.op("onnx.Pow-15")(x, 2.0)) is np.ndarray


class TestPandas:
    pd = pytest.importorskip("pandas")

    @pytest.mark.parametrize("dtype", ["Int64", "Int8", "Float32", "Float64"])
    def test_missing_values(self, dtype):
        operator = hu.op("onnx.Pow-15")
        array = self.pd.array([2, None], dtype=dtype)
        for x in (array, self.pd.Series(array), self.pd.Index(array), self.pd.DataFrame({"a": array})):
            with pytest.raises(
                hu.HalfulpError, match=r"has missing values \(pandas\.NA\); pass x\.fillna\(value\)"
            ):
                operator(np.ones(2), x)
        assert operator([3.0, 3.0], self.pd.Series([2, 3], dtype=dtype)).tolist() == [9, 27]

    def test_categories(self):
        for x in (self.pd.Categorical([2.0, 3.0]), self.pd.Series([2.0, 3.0], dtype="category")):
            with pytest.raises(TypeError, match="dtype category"):  # pandas' own, as of a NumPy ufunc
                hu.pow(x, 2)
        assert hu.pow(np.asarray(self.pd.Categorical([2.0, 3.0])), 2).tolist() == [4, 9]

    def test_sparse(self):
        x = self.pd.arrays.SparseArray([0.0, 3.0], fill_value=0.0)
        assert np.asarray(hu.pow(x, 0)).tolist() == [1, 1]

    def test_out_of_a_frame(self):
        frame, out = (self.pd.DataFrame({"a": [2.0, 3.0]}) for _ in range(2))
        hu.pow(frame, 2, out=out)
        assert out["a"].tolist() == [4, 9]


class TestSciPy:
    sparse = pytest.importorskip("scipy.sparse")

    @pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "coo_array", "dok_array"])
    def test_sparse(self, kind):
        make = getattr(self.sparse, kind)
        refused_by_all(lambda: make(np.eye(2)), rf"a {kind}: it is not dense; pass x\.todense\(\)")


class TestDask:
    da = pytest.importorskip("dask.array")

    def test_masked(self):
        x = self.da.ma.masked_array(self.da.from_array(np.array([2.0, 3.0]), chunks=1), [True, False])
        result = hu.pow(x, 2).compute()
        assert result.mask.tolist() == [True, False]
        with pytest.raises(hu.HalfulpError, match="a masked array"):
            hu.op("onnx.Pow-15")(x, 2.0)

    def test_inside_xarray(self):
        xarray = pytest.importorskip("xarray")
        x = xarray.DataArray([2.0, 3.0], dims="x").chunk(x=1)
        for lazy in (hu.pow(x, 2), hu.pow(x.to_dataset(name="v"), 2)["v"]):
            assert lazy.chunks == ((1, 1),)
            assert lazy.compute().values.tolist() == [4, 9]
        with pytest.raises(NotImplementedError, match="not yet supported in the `out` argument"):
            hu.pow(np.ones(2), 2, out=x)
