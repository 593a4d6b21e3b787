"""The Pow and PRelu operators of a DxDispatch file."""

from __future__ import annotations

from pathlib import Path

from halfulp.auditing.node import Operand, Use, breach_of
from halfulp.errors import ModelError, SpecError, printable
from halfulp.models.directml import FEATURE_LEVELS, OperatorDesc, attributes, tensors, validate
from halfulp.models.directml.dxdispatch import Program, load
from halfulp.specs import in_force


def uses(source: Path | bytes, file: str) -> tuple[list[Use], tuple[str, ...]]:
    """Return the dispatchables of a DxDispatch file that are Pow or PRelu, and those that may contain such.

    The latter are ONNX models and shaders (HLSL).

    A file does not name a feature level, so the newest level's version is in force. If the front end refuses
    the file because a description breaks a clause, only that description is returned.

    Args:
        source: a path, or the bytes of a file.
        file: its name in messages.

    Raises:
        ModelError, UnsupportedError: as the front end's, unless a broken clause of Pow or PRelu is the reason.
    """
    try:
        program = load(source, file=file)
    except ModelError as error:
        if error.clause is None or error.node is None or not error.clause.startswith("directml."):
            raise
        operator = error.clause.rpartition(".")[0]
        refused = breach_of(error, error.clause)
        return [Use(error.node, operator, FEATURE_LEVELS[-1], (), Operand(""), {}, refused)], ()
    unread = (each for each in program.dispatchables.values() if each.type.lower() in ("onnx", "hlsl"))
    return _of(program), tuple(f"'{printable(each.name)}' ({each.type})" for each in unread)


def _of(program: Program) -> list[Use]:
    found = []
    for dispatchable in program.dispatchables.values():
        desc = dispatchable.desc
        if not isinstance(desc, OperatorDesc):
            continue
        *inputs, output = (
            Operand(point, tensor.element_type.name, tensor.Sizes) for point, tensor in tensors(desc).items()
        )
        label = f"'{printable(dispatchable.name)}' ({desc.type})"
        row = in_force("directml", desc.type, FEATURE_LEVELS[-1])
        given = {name: value for name, value in attributes(desc).items() if value is not None}
        found.append(Use(label, row.id, f"{least_level(desc)} or later", tuple(inputs), output, given))
    return found


def least_level(desc: OperatorDesc) -> str:
    """Return the oldest feature level that takes a description."""
    for level in FEATURE_LEVELS[:-1]:
        try:
            validate(desc, level)
        except SpecError:
            continue
        except ValueError:  # this feature level lacks the operator
            continue
        return level
    return FEATURE_LEVELS[-1]
