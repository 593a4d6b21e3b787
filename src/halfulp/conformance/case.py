"""One case: inputs for an operator version, or a node that it must refuse, and the right result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from halfulp._interop import Array
from halfulp.errors import HalfulpError
from halfulp.operators import op
from halfulp.specs import OpVersion, TensorType, find
from halfulp.types import element_type, tensor_type

Group = Literal["values", "special", "edge", "hard", "broadcast", "invalid", "reproducibility"]
Aspect = Literal["position", "length", "threads", "scalar exponent", "constant folding"]
Mode = Literal["quick", "full"]

GROUPS: tuple[Group, ...] = get_args(Group)
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)


@dataclass(frozen=True, eq=False)
class Case:
    """One case, which its id alone determines: it depends on no clock and no global random state.

    A reproducibility case has an ``aspect``, its difference from the case ``compared_with``. Its ``positions`` are, for
    each element of its output, the flat index in the other output; None if the elements have the same places.
    """

    id: str  # operator version, input types, group and a name: "onnx.Pow-15/float32,int64/special/grid"
    operator: str  # the id of the operator version
    group: Group
    inputs: tuple[Array, ...]  # in an invalid case perhaps more or fewer than the operator has
    attributes: Mapping[str, Any] = field(default_factory=dict)  # by their names in the document
    constants: frozenset[int] = frozenset()  # the indices of inputs that the model holds as initializers
    clause: str | None = None  # in an invalid case the clause that must refuse it, such as "onnx.Pow-7.C2"
    aspect: Aspect | None = None
    compared_with: str | None = None  # the id of the other case
    positions: Array | None = None
    threads: int | None = None  # the number that the runtime is to use; None where that doesn't matter
    declared: TensorType | None = None  # the output's type and shape where the model declares them wrong

    @property
    def row(self) -> OpVersion:
        return find(self.operator)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(tensor_type(array).type for array in self.inputs)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(array.shape for array in self.inputs)

    @property
    def name(self) -> str:
        """The last part of the id."""
        return parse(self.id).name

    def elements_of(self, other: Array) -> Array:
        """Return in a line the elements of the other case's output that this case's has in their order."""
        return other.ravel() if self.positions is None else other.ravel()[self.positions]


class Id(NamedTuple):
    """The parts of a case's id."""

    operator: str
    types: tuple[str, ...]
    group: Group
    name: str


def parse(id: str) -> Id:
    """Return the parts of a case's id; raises HalfulpError if it isn't an id."""
    parts = id.split("/")
    for group in GROUPS:
        if len(parts) == 4 and all(parts) and parts[2] == group:
            return Id(parts[0], tuple(parts[1].split(",")), group, parts[3])
    raise HalfulpError(f"not the id of a case: {id!r}")


def broadcast(case: Case) -> tuple[Array, ...]:
    """Return a valid case's inputs in the output's shape, as the operator's rule broadcasts them."""
    if len(case.inputs) == 1:
        return case.inputs
    x, y = case.inputs
    plan = case.row.plan(tensor_type(x), tensor_type(y), **case.attributes)
    return np.broadcast_arrays(x, y.reshape(plan.y_shape))


def operands_of(case: Case) -> tuple[Array, Array]:
    """Return a valid case's operands in the output's shape. One of an operator of one input is its attribute."""
    x, *rest = broadcast(case)
    return x, rest[0] if rest else np.broadcast_to(np.float32(case.attributes["Exponent"]), x.shape)


def expected(case: Case) -> Array:
    """Return the right output of a case, by halfulp; raises SpecError with ``case.clause`` if the case is invalid."""
    out = None
    if (declared := case.declared) is not None:
        shape = tuple(dim for dim in declared.shape or () if isinstance(dim, int))
        out = np.empty(shape, element_type(declared.type).dtype)
    return op(case.operator)(*case.inputs, out=out, **case.attributes)


def oracle(case: Case, index: tuple[int, ...] | None = None) -> Array:
    """Return a valid case's right output, or one element of it, by the slow exact oracle alone; needs gmpy2."""
    import halfulp.reference as reference  # lazily, since the cases alone don't need gmpy2

    x, y = (operand[... if index is None else index] for operand in operands_of(case))
    if case.row.kernel == "prelu":
        return reference.prelu(x, y)
    scale_bias = case.row.check_attributes(case.attributes).get("ScaleBias")
    return reference.pow(x, y, directml=case.row.kernel == "pow_directml", scale_bias=scale_bias)
