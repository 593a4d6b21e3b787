"""The runtimes to check by their names. The files beside this one have a class for each.

A runtime is loaded in a worker process alone, never where the judging is done.
"""

from __future__ import annotations

import difflib
import re
import shlex
import shutil
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from halfulp.conformance.case import Case, parse
from halfulp.errors import HalfulpError
from halfulp.installed import version_of
from halfulp.models.source import has_suffix_of_format
from halfulp.specs import ids
from halfulp.types import TYPES


class Target(ABC):
    """A runtime that is loaded in this process.

    Attributes:
        packages: the runtime's packages and those that take part, whose versions a report shows.
    """

    packages: tuple[str, ...] = ()

    def __init__(self, threads: int, argument: str) -> None:  # noqa: B027
        """Load the runtime, which may use ``threads`` threads, with the argument of its :class:`TargetSpec`."""

    def versions(self) -> dict[str, str]:
        """Return the versions of the runtime and of what takes part, by package."""
        return versions(*self.packages)

    @abstractmethod
    def prepare(self, case: Case) -> Any:
        """Return what ``run`` takes, such as a model. An exception here is a fault of halfulp."""

    @abstractmethod
    def run(self, prepared: Any) -> list[Any]:
        """Return the outputs, as NumPy arrays of their own types.

        Raises:
            Exception: any, with which the runtime refuses the model or the inputs.
            CrashedError: the program that computes this died.
        """


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of those packages that are installed; halfulp's source tree has none."""
    found = {package: version_of(package) for package in packages}
    if found.get("halfulp", "") is None:
        found["halfulp"] = "(source tree)"
    return {package: version for package, version in found.items() if version is not None}


class CrashedError(Exception):
    """The program that a target started died; the text names the signal."""


def death(number: int) -> str:
    """Return the words for a process that died of a signal."""
    try:
        return f"died of {signal.Signals(number).name}"
    except ValueError:
        return f"died of signal {number}"


@dataclass(frozen=True)
class TargetSpec:
    """A target by name: the class that runs it, and what that needs.

    Attributes:
        name: as reports show it.
        code: the file here and the class in it: ``"onnx_models.Reference"``.
        argument: the class's argument: a command, the name of a module, or a device.
        package: the package that has to be installed, as it is imported.
        extra: the extra of halfulp that installs it.
        families: the operators that it takes, by the start of their ids.
        newest: whether it takes only the newest version of each: array libraries have no versions, only semantics.
        refuses: whether it can be asked to refuse: array libraries know no invalid model.
        types: the column of the type table with its names of types; it is not asked about a type without a name.
        by_call: whether a function makes the operator, which has no wrong number of inputs and declares no output.
        devices: the devices on which it can compute, first the one that it takes by default.
    """

    name: str
    code: str
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
        """Tell whether a case is for this target."""
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
        file, _, name = self.code.partition(".")
        module = import_module(f"halfulp.conformance.runner.targets.{file}")
        target: Target = getattr(module, name)(threads, self.argument)
        return target


def _arrays(name: str, kind: str, extra: str, *devices: str) -> TargetSpec:
    return TargetSpec(
        name, f"arrays.{kind}", devices[0], name, extra, newest=True, refuses=False, devices=devices
    )


_EVERY = ("onnx.", "openvino.", "directml.")
# halfulp itself needs these, so their presence does not mean that the user wants them checked.
_OWN_NEEDS = ("numpy", "onnx", "gmpy2")
_BUILT_IN = (
    TargetSpec("onnxruntime", "onnx_models.OnnxRuntime", "", "onnxruntime", "onnxruntime"),
    TargetSpec("openvino", "openvino.FromOnnx", "", "openvino", "openvino"),
    TargetSpec(
        "openvino-native",
        "openvino.Native",
        "",
        "openvino",
        "openvino",
        ("openvino.",),
        types="openvino",
        by_call=True,
    ),
    _arrays("torch", "Torch", "torch", "cpu", "cuda"),
    _arrays("jax", "Jax", "jax", "cpu", "cuda"),
    _arrays("cupy", "CuPy", "cupy", "cuda"),
    _arrays("numpy", "NumPy", "check", "cpu"),
    TargetSpec("onnx-reference", "onnx_models.Reference"),
    TargetSpec("onnx-converter", "onnx_models.Converter"),
    TargetSpec("halfulp", "onnx_models.Halfulp", package="gmpy2", families=_EVERY),
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
        HalfulpError: there is no such target, its package is not installed, or the command is broken.
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
    """Return the runtimes that are installed, except the packages that halfulp itself needs."""
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
    # Named after its program, or after the script where that is an interpreter.
    script = next((word for word in words[1:] if word.endswith((".py", ".sh"))), words[0])
    name = named["name"] if named else Path(script).stem
    return TargetSpec(name, "command.Command", shlex.join([program, *words[1:]]))


def _module(name: str) -> TargetSpec:
    package = name.partition(".")[0]
    if all(part.isidentifier() for part in name.split(".")) and _installed(package):
        return TargetSpec(name, "onnx_models.Backend", name, package)
    if has_suffix_of_format(name):
        raise HalfulpError(
            f"{name[:80]}: a model, and check takes runtimes; halfulp audit says what they make of it"
        )
    close = difflib.get_close_matches(name, BUILT_IN, 1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(BUILT_IN)}"
    raise HalfulpError(f"no target {name[:80]}; {hint}")


def _installed(package: str) -> bool:
    try:
        return package in sys.modules or find_spec(package) is not None
    except (ImportError, ValueError):
        return False


@cache
def _newest() -> frozenset[str]:
    """Return the newest version of each operator."""

    def number(operator: str) -> tuple[int, ...]:
        return tuple(map(int, operator.rpartition("-")[2].split("_")))

    ordered = sorted(ids(), key=number)
    return frozenset({operator.rpartition("-")[0]: operator for operator in ordered}.values())
