"""Comparing a model with what it was converted to: both run on the same inputs, bits compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from halfulp.errors import HalfulpError
from halfulp.models.directml.dxdispatch import Dispatch, Program
from halfulp.models.graph import Array, Graph, Model, Value
from halfulp.models.run.api import run
from halfulp.models.run.inputs import make_inputs
from halfulp.models.run.report import show
from halfulp.types import TYPES

_ROUNDS = 4
_SPECIAL_FLOATS = (
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    -0.5,
    3.0,
    1e-45,
    -1e-310,
    6e-8,
)
_SPECIAL_INTEGERS = (0, 1, -1, 2, -2, 3, 7, 31, 64)


@dataclass(frozen=True)
class Verification:
    """What a comparison found.

    Attributes:
        rounds: on how many sets of inputs both ran.
        elements: how many elements of outputs were compared.
        differences: what differs, a line each; empty where every bit is the same.
    """

    rounds: int
    elements: int
    differences: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether no bit differs."""
        return not self.differences

    def __str__(self) -> str:
        if self.differences:
            return "\n".join(self.differences)
        return f"the same bits: {self.elements} elements of outputs, {self.rounds} sets of inputs"


def compare(
    before: Model | Program,
    after: Model | Program,
    *,
    seed: int = 0,
    renamed: Mapping[str, str] | None = None,
) -> Verification:
    """Run two models on seeded inputs, special values among them, and compare the outputs' bits.

    Args:
        before, after: with inputs and outputs of the same names, but for
        renamed: the new names of outputs, by the old.
        seed: the same seed makes the same inputs.

    Raises:
        HalfulpError: inputs can't be made up, or the first model refuses all that are.
    """
    before, after = _silent(before), _silent(after)
    names = {value.name: value for value in after.inputs}
    flat = isinstance(before, Program) or isinstance(after, Program)  # whose tensors are memory in one piece
    compared = rounds = 0
    differences: list[str] = []
    for number in range(_ROUNDS):
        inputs = _inputs(before, names, seed + number, special=number > 0)
        try:
            expected = run(before, inputs)
        except HalfulpError:
            if number == _ROUNDS - 1 and not rounds:
                raise
            continue
        rounds += 1
        try:
            got = run(after, {name: _shaped(array, names[name]) for name, array in inputs.items()})
        except HalfulpError as error:
            differences.append(f"inputs of seed {seed + number} are refused now: {error.message}")
            continue
        for name, value in expected.items():
            found = got.get((renamed or {}).get(name, name))
            if flat and found is not None and found.size == value.size:
                found = found.reshape(value.shape)
            difference = _difference(value, found)
            if difference is not None:
                differences.append(f"output {name!r}, inputs of seed {seed + number}: {difference}")
            compared += value.size if isinstance(value, np.ndarray) else 1
    return Verification(rounds, compared, tuple(differences))


def _silent(model: Model | Program) -> Model | Program:
    """Return a program without its commands to print and to write files."""
    if isinstance(model, Model):
        return model
    dispatches = tuple(command for command in model.commands if isinstance(command, Dispatch))
    return replace(model, commands=dispatches)


def _shaped(array: Array, declared: Value) -> Array:
    if declared.shape is None or len(declared.shape) == array.ndim:
        return array
    return array.reshape([-1 if not isinstance(dim, int) else dim for dim in declared.shape])


def _inputs(model: Model | Program, wanted: Collection[str], seed: int, *, special: bool) -> dict[str, Array]:
    if isinstance(model, Program):
        declared = tuple(value for value in model.inputs if value.name in wanted)
        model = Model(model.file, Graph("", declared, (), {}, (), {}))
    inputs = make_inputs(model, seed=seed)
    if special:
        rng = np.random.default_rng(seed)
        inputs = {name: _with_special(array, rng) for name, array in inputs.items()}
    return inputs


def _with_special(array: Array, rng: np.random.Generator) -> Array:
    """Return an array of which about half the elements are special values of its type."""
    row = TYPES.get(array.dtype.name)
    if row is None:
        return array
    with np.errstate(all="ignore"):
        if row.kind == "float":
            special = np.array(_SPECIAL_FLOATS).astype(row.dtype)
        else:
            info = _limits(row.bits, signed=row.kind == "int")
            fitting = [value for value in (*_SPECIAL_INTEGERS, *info) if info[0] <= value <= info[1]]
            special = np.array(fitting, np.uint64 if info[1] >= 1 << 63 else np.int64).astype(row.dtype)
        return np.where(rng.random(array.shape) < 0.5, rng.choice(special, array.shape), array)


def _limits(bits: int, *, signed: bool) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _difference(a: Any, b: Any) -> str | None:
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        found = (_difference(x, y) for x, y in zip(a, b, strict=True))
        return next((text for text in found if text is not None), None)
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return None if a is None and b is None else f"{show(a)} became {show(b)}"
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{show(a)} became {show(b)}"
    if a.dtype == object:
        differs = np.asarray(a != b)
    else:
        flat = [np.ascontiguousarray(each).reshape(-1) for each in (a, b)]
        bits = [each.view(np.uint8).reshape(each.size, a.itemsize) for each in flat]
        differs = (bits[0] != bits[1]).any(axis=1)
    places = np.flatnonzero(differs)
    if not places.size:
        return None
    first = int(places[0])
    values = [str(each.reshape(-1)[first]) for each in (a, b)]
    return f"{places.size} of {a.size} elements differ, first at {first}: {values[0]} became {values[1]}"
