"""The runtimes to check: one file each, with a class ``Target``; here are their names.

A target's file is imported in a worker process alone, so that no runtime is ever loaded where the judging is done.
"""

from __future__ import annotations

import difflib
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from halfulp.conformance.case import parse
from halfulp.errors import HalfulpError
from halfulp.specs import ids
from halfulp.types import TYPES

if TYPE_CHECKING:
    from halfulp.conformance.case import Case


class Target(Protocol):
    """What the class ``Target`` of a file here has; it is made with the number of threads and an argument."""

    def __init__(self, threads: int, argument: str) -> None:
        """Load the runtime."""

    def versions(self) -> dict[str, str]:
        """Return the versions of the runtime and of what takes part, by package."""

    def prepare(self, case: Case) -> Any:
        """Return what ``run`` takes: a model, built by us. What is raised here is our own fault."""

    def run(self, prepared: Any) -> list[Any]:
        """Return the outputs, as NumPy arrays of their own types.

        Raises:
            Exception: any, with which the runtime refuses the model or the inputs.
            CrashedError: the program that computes this died.
        """


class CrashedError(Exception):
    """The program that a target started died; the text says of what."""


@dataclass(frozen=True)
class TargetSpec:
    """A target by name: which file here runs it, and what that needs.

    Attributes:
        name: as reports show it.
        module: the file's name here.
        argument: what it is made with: a command, or the name of a module.
        package: what has to be installed, as it is imported.
        extra: the extra of halfulp that installs it.
        families: the operators that it takes, by the start of their ids.
        newest: whether it takes only the newest version of each: array libraries have no versions, only semantics.
        refuses: whether it can be asked to refuse: array libraries know no invalid model.
        types: the column of the type table with its names of types: where it has none, there is nothing to ask.
        by_call: whether a function makes the operator: then there is no wrong number of inputs, nor an output declared.
        devices: where it can be asked to compute, the first one unless something else is said; it is made with the
            device's name as the argument.
    """

    name: str
    module: str
    argument: str = ""
    package: str = "onnx"
    extra: str = "check"
    families: tuple[str, ...] = ("onnx.",)
    newest: bool = False
    refuses: bool = True
    types: str = ""
    by_call: bool = False
    devices: tuple[str, ...] = ("cpu",)

    def takes(self, case: Case) -> bool:
        """Tell whether a case is for this target: whether it has such operators at all."""
        if case.group == "invalid" and not self.refuses:
            return False
        if self.by_call and (case.declared is not None or len(case.inputs) != len(case.row.inputs)):
            return False
        return self.takes_types(case.operator, parse(case.id).types)

    def takes_types(self, operator: str, types: Iterable[str]) -> bool:
        """Tell whether an operator version with such inputs is for this target."""
        if not operator.startswith(self.families) or (self.newest and operator not in _newest()):
            return False
        return not self.types or all(getattr(TYPES[name], self.types) for name in types)

    def open(self, threads: int) -> Target:
        """Load the runtime, in this process; raises what its import raises."""
        module = import_module(f"halfulp.conformance.runner.targets.{self.module}")
        target: Target = module.Target(threads, self.argument)
        return target


def _arrays(name: str, extra: str, *devices: str) -> TargetSpec:
    argument, *_ = devices = devices or ("cpu",)
    return TargetSpec(
        name, name, argument, package=name, extra=extra, newest=True, refuses=False, devices=devices
    )


_EVERY = ("onnx.", "openvino.", "directml.")
_OWN_NEEDS = (
    "numpy",
    "onnx",
    "gmpy2",
)  # who has halfulp has these, and need not mean to run anything on them
_BUILT_IN = (
    TargetSpec("onnxruntime", "onnxruntime", package="onnxruntime", extra="onnxruntime"),
    TargetSpec("openvino", "openvino", package="openvino", extra="openvino"),
    TargetSpec(
        "openvino-native",
        "openvino_native",
        package="openvino",
        extra="openvino",
        families=("openvino.",),
        types="openvino",
        by_call=True,
    ),
    _arrays("torch", "torch", "cpu", "cuda"),
    _arrays("jax", "jax", "cpu", "cuda"),
    _arrays("cupy", "cupy", "cuda"),
    _arrays("numpy", "check"),
    TargetSpec("onnx-reference", "onnx_reference"),
    TargetSpec("onnx-converter", "onnx_converter"),
    TargetSpec("halfulp", "halfulp", package="gmpy2", families=_EVERY),
)

BUILT_IN = {spec.name: spec for spec in _BUILT_IN}
"""The targets that are built in, by name."""

_NAMED = re.compile(r"(?P<name>[A-Za-z][\w.-]*)=(?P<command>.*)", re.DOTALL)
_PLACEHOLDERS = ("{model}", "{inputs}", "{outputs}")


def find(target: object) -> TargetSpec:
    """Return the target of a name, of an ``onnx.backend`` module, or of a command.

    Args:
        target: a name of ``BUILT_IN``; the name of a module with ``prepare`` or ``run_model``, as
            ``onnx.backend.base`` has them; or a command in which ``{model}``, ``{inputs}`` and ``{outputs}``
            stand for files.

    Raises:
        HalfulpError: there is no such target, what it needs is not installed, or the command is broken.
    """
    if not isinstance(target, str):
        wanted = f"a name, such as {', '.join(BUILT_IN)}; the name of a module, or a command"
        raise HalfulpError("a target is named by a string", expected=wanted, got=repr(target)[:80])
    if "{" in target or " " in target.strip():
        return find_command(target)
    spec = BUILT_IN.get(target)
    if spec is None:
        return _module(target)
    if not _installed(spec.package):
        raise HalfulpError(
            f"the target {target} needs {spec.package}, which is not installed: pip install 'halfulp[{spec.extra}]'"
        )
    return spec


def installed() -> list[TargetSpec]:
    """Return the runtimes that are installed, but for what halfulp itself needs: NumPy, the onnx package."""
    return [spec for spec in _BUILT_IN if spec.package not in _OWN_NEEDS and _installed(spec.package)]


def on_device(spec: TargetSpec, device: str) -> TargetSpec:
    """Return a target as it computes on a device.

    Raises:
        HalfulpError: it has no such device.
    """
    if device not in spec.devices:
        raise HalfulpError(f"{spec.name} computes on {' and '.join(spec.devices)}, not on {device}")
    if device == spec.devices[0]:
        return spec
    return replace(spec, name=f"{spec.name} ({device})", argument=device)


def find_command(text: str) -> TargetSpec:
    """Return the target of a command, whose name is its program's or stands before it: ``NAME=PROGRAM ...``.

    Raises:
        HalfulpError: a placeholder is missing, or the program is.
    """
    named = _NAMED.fullmatch(text.strip())
    command = named["command"] if named else text
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise HalfulpError(f"a broken command: {error}", got=text) from None
    missing = [name for name in _PLACEHOLDERS if not any(name in word for word in words)]
    if missing:
        raise HalfulpError(f"a command must have {', '.join(missing)}", got=text)
    program = shutil.which(words[0])
    if program is None:
        raise HalfulpError(f"no program {words[0]!r}", got=text)
    return TargetSpec(
        named["name"] if named else _program_name(words), "command", shlex.join([program, *words[1:]])
    )


def _module(name: str) -> TargetSpec:
    package = name.partition(".")[0]
    if all(part.isidentifier() for part in name.split(".")) and _installed(package):
        return TargetSpec(name, "module", name, package)
    close = difflib.get_close_matches(name, BUILT_IN, 1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(BUILT_IN)}"
    raise HalfulpError(f"no target {name[:80]}; {hint}")


def _program_name(words: list[str]) -> str:
    """Return what to call a command: its program, or its script where that is an interpreter."""
    script = next((word for word in words[1:] if word.endswith((".py", ".sh"))), words[0])
    return Path(script).stem


def _installed(package: str) -> bool:
    try:
        return package in sys.modules or find_spec(package) is not None
    except (ImportError, ValueError):
        return False


@cache
def _newest() -> frozenset[str]:
    newest: dict[str, str] = {}
    for operator in ids():
        name, _, version = operator.rpartition("-")
        if name not in newest or _number(version) > _number(newest[name].rpartition("-")[2]):
            newest[name] = operator
    return frozenset(newest.values())


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("_")))
