"""The runtimes to check by their names. The files beside this one have a function for each, which loads it.

A runtime is loaded in a worker process alone, never in the process that judges it.
"""

import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import filterfalse
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from halfulp.conformance.case import Case, parse
from halfulp.errors import HalfulpError, did_you_mean, named
from halfulp.installed import RUNTIME_ALIASES, has_module, versions
from halfulp.models.files import SUFFIXES
from halfulp.specs import ids
from halfulp.types import TYPES


class NotOfferedError(Exception):
    """The runtime has no such operator for such types or shapes: the case does not count."""


class CrashedError(Exception):
    """The program that a target started died; the text names the signal."""


class Target(NamedTuple):
    """A runtime that is loaded in this process.

    ``run`` returns the outputs, as NumPy arrays of their own types, for the arguments that ``prepare`` made of a case.
    By any exception it refuses the model or the inputs, except by CrashedError and the one that says that it does not
    offer this. An exception of ``prepare`` is a fault of halfulp.
    """

    run: Callable[..., list[Any]]
    prepare: Callable[[Case], tuple[Any, ...]] = lambda case: (case,)
    versions: Mapping[str, str] = {}  # that the runtime tells itself
    not_offered: type[Exception] = NotOfferedError


def ending(code: int) -> str:
    """Return the words for a process that ended with a status, or below 0 of a signal."""
    if code >= 0:
        return f"exited with status {code}"
    with suppress(ValueError):
        return f"died of {signal.Signals(-code).name}"
    return f"died of signal {-code}"


@dataclass(frozen=True)
class TargetSpec:
    """A target by name: the function that loads it, and the packages that it needs."""

    name: str  # as reports show it
    code: str  # the file here, and the function in it: "models.reference"
    argument: str = ""  # the function's: a command, the name of a module, or a device
    package: str = "onnx"  # the package that has to be installed, by the name of its import
    measured: str = ""  # the packages whose versions a report shows, beside those that the target tells
    extra: str = "check"  # the extra of halfulp that installs it
    pip: str = ""  # the packages of PyPI that do, where no extra does, whose versions a report shows, too
    only: tuple[str, ...] = ()  # the types that it has, if few; all inputs then have one of them
    families: tuple[str, ...] = ("onnx.",)  # the operators that it takes, by the start of their ids
    # The standard in whose own graph it takes a node. A function makes the node: the number of inputs is right, and the
    # output undeclared. The table of types has the standard's names of types; those without a name are not tried.
    graph: str = ""

    @property
    def has_models(self) -> bool:
        """Whether it takes models, which have versions, and which it can refuse; array libraries have none."""
        return not self.code.startswith("arrays.")

    def takes(self, case: Case) -> bool:
        """Tell whether a case is for this target."""
        is_no_call = case.declared is not None or len(case.inputs) != len(case.row.inputs)
        if (case.group == "invalid" and not self.has_models) or (self.graph and is_no_call):
            return False
        return self.takes_types(case.operator, parse(case.id).types)

    def takes_types(self, operator: str, types: Iterable[str]) -> bool:
        """Tell whether an operator version with inputs of these types is for this target."""
        family = operator.replace("sonnx.", "onnx.")
        if not family.startswith(self.families) or not (self.has_models or operator in _NEWEST):
            return False
        if self.only and not (len({*types}) == 1 and {*types} <= {*self.only}):
            return False
        return not self.graph or all(getattr(TYPES[name], self.graph) for name in types)

    @property
    def file(self) -> Path | None:
        """The program or the library of a function that is given by its place."""
        is_given = self.code in ("arrays.function", "arrays.symbol")
        return Path(self.argument.rpartition(":")[0]) if is_given else None

    @property
    def install(self) -> str:
        package = self.pip or (self.extra and f"'halfulp[{self.extra}]'")
        return f"pip install {package}" if package else "part of the system"

    def open(self, threads: int) -> Target:
        """Load the runtime in this process; raises the exceptions of its import."""
        file, _, name = self.code.partition(".")
        load = getattr(import_module(f"halfulp.conformance.targets.{file}"), name)
        target: Target = load(threads, self.argument)
        installed = versions(*f"{self.measured} {self.pip}".split())
        return target._replace(versions={**target.versions, **installed})


# The newest version of each operator is the last one of the table.
_NEWEST = frozenset({id.rpartition("-")[0]: id for id in ids()}.values())
_BOTH = ("onnx.Pow-", "onnx.PRelu-")
_FLOATS = ("float32", "float64")
_C_NUMBERS = (*_FLOATS, "int32", "int64")


def _library(
    name: str, pip: str, only: tuple[str, ...], families: tuple[str, ...] = ("onnx.Pow-",), package: str = ""
) -> TargetSpec:
    """Return the target of a library of arrays in ``arrays``."""
    return TargetSpec(name, f"arrays.{name}", "", package or name, "", "", pip, only, families)


_BUILT_IN = (
    TargetSpec("onnxruntime", "models.onnxruntime", "", "onnxruntime", "onnx", "onnxruntime"),
    TargetSpec("openvino", "models.openvino", "", "openvino", "openvino onnx", "openvino"),
    TargetSpec(
        *("openvino-native", "models.openvino_native", "", "openvino", "openvino onnx", "openvino"),
        families=("openvino.",),
        graph="openvino",
    ),
    TargetSpec("torch", "arrays.torch", "cpu", "torch", "torch", "torch"),
    TargetSpec("jax", "arrays.jax", "cpu", "jax", "jax jaxlib", "jax"),
    TargetSpec("cupy", "arrays.cupy", "cuda", "cupy", "cupy", "cupy"),
    TargetSpec("numpy", "arrays.numpy", "", "numpy", "numpy ml_dtypes"),
    TargetSpec("onnx-reference", "models.reference", measured="onnx numpy ml_dtypes"),
    TargetSpec("onnx-converter", "models.converter", measured="onnx numpy ml_dtypes"),
    TargetSpec("halfulp", "models.halfulp", "", "gmpy2", "halfulp", families=("",)),
    TargetSpec("tract", "models.tract", "", "tract", pip="tract"),
    TargetSpec("iree", "models.iree", "", "iree", pip="iree-base-compiler iree-base-runtime"),
    TargetSpec("tvm", "models.tvm", "", "tvm", pip="apache-tvm"),
    _library("tensorflow", "tensorflow-cpu", ("float16", "bfloat16", *_C_NUMBERS), _BOTH),
    _library("litert", "ai-edge-litert flatbuffers", ("float32", "int32"), _BOTH, "ai_edge_litert"),
    _library("ncnn", "ncnn", ("float32",), _BOTH),
    _library("mnn", "MNN", ("float32", "int32"), package="MNN"),
    _library("mlx", "mlx mlx-cpu", ("float16", "float32", "int32", "int64"), _BOTH),
    _library("paddle", "paddlepaddle", _C_NUMBERS),
    TargetSpec("inductor", "arrays.inductor", "cpu", "torch", "torch", "torch"),
    _library("executorch", "executorch torch", ("float16", *_C_NUMBERS)),
    _library("numba", "numba llvmlite", _C_NUMBERS),
    _library("numexpr", "numexpr", _C_NUMBERS),
    _library("libm", "", _FLOATS, package="ctypes"),
)
DEFAULT = ("onnxruntime", "openvino", "openvino-native", "torch", "jax", "cupy")  # if no target is named
BUILT_IN = {spec.name: spec for spec in _BUILT_IN}
_ON_DEVICES = BUILT_IN | {f"{spec.name}:{spec.argument or 'cpu'}": spec for spec in _BUILT_IN}
for _name in ("torch", "jax", "inductor"):
    _ON_DEVICES[f"{_name}:cuda"] = replace(BUILT_IN[_name], name=f"{_name} (cuda)", argument="cuda")

_NAMED = re.compile(r"\A\s*(?:([A-Za-z][\w.-]*)=)?(.*)\Z", re.DOTALL)
_LIBRARY = re.compile(r"\.(so|dylib|dll)(\.|$)")
_PLACEHOLDERS = ("{model}", "{inputs}", "{outputs}")


def find(target: object) -> TargetSpec:
    """Return the target of a name, of a module, of a function or of a command; raises HalfulpError if there is none.

    A module, or a class in it, has ``prepare`` or ``run_model``, as ``onnx.backend.base`` has them. A function takes
    two arrays, and may be given itself. In a command ``{model}``, ``{inputs}`` and ``{outputs}`` stand for files.
    ``onnxruntime:cuda`` is an execution provider of ONNX Runtime, ``torch:cuda`` a target on a device.
    """
    text = target if isinstance(target, str) else _place(target)
    if "{" in text or " " in text.strip():
        return find_command(text)
    module, colon, variant = text.partition(":")
    if variant and _LIBRARY.search(module):
        return find_library(text)
    name = named(module, BUILT_IN, RUNTIME_ALIASES)
    spec = _ON_DEVICES.get(f"{name}{colon}{variant}")
    if name == "onnxruntime" and variant:
        spec = replace(BUILT_IN[name], name=f"{name}:{variant}", argument=variant)
    if spec is None:
        return _find_in_python(text)
    if not has_module(spec.package):
        raise HalfulpError(f"the target {text} needs {spec.package}, which is not installed: {spec.install}")
    return spec


def _find_in_python(target: str) -> TargetSpec:
    """Return the target of a module, of a class in it, or of a function in it or in a file."""
    module, _, attribute = target.partition(":")
    package = module.partition(".")[0]
    is_file = os.path.isfile(module)  # False for a name that is too long
    argument = target
    if is_file and module.endswith(".py"):  # a program may have the name of a module
        argument = str(Path(module).resolve()) + target.removeprefix(module)
    elif not (all(map(str.isidentifier, module.split("."))) and has_module(package)):
        if Path(target).suffix.lower() in SUFFIXES:
            advice = "check takes runtimes; halfulp audit examines models"
            raise HalfulpError(f"{target[:80]}: a model, but {advice}")
        options = f"a program is --command {module}, and a function of a C library --library FILE:FUNCTION"
        help = options if is_file else did_you_mean(target, BUILT_IN)
        raise HalfulpError(f"no target {target[:80]}; {help}")
    if not attribute.rpartition(".")[2].lstrip("_")[:1].islower():
        return TargetSpec(target, "models.of_backend", argument, package, f"{package} onnx")
    operator = "onnx.PRelu-" if "prelu" in attribute.lower() else "onnx.Pow-"
    return TargetSpec(target, "arrays.function", argument, package, package, families=(operator,))


def _place(target: object) -> str:
    """Return the name of a module, of a function in one, or in a file if a program defines it."""
    is_module = isinstance(target, ModuleType)
    module = getattr(target, "__name__" if is_module else "__module__", None)
    name = "" if is_module else getattr(target, "__qualname__", None)
    if module is None or name is None or not (is_module or callable(target)):
        names = f"a name, such as {', '.join(BUILT_IN)}"
        wanted = f"{names}; a module or a function, or the name of one, or a command"
        raise HalfulpError("a target is named by a string", expected=wanted, got=repr(target)[:80])
    file = getattr(sys.modules.get(module), "__file__", None) if module == "__main__" else module
    if "<" in name or file is None:
        reason = "a function must be in a file, since it runs in a process of its own"
        raise HalfulpError(reason, got=repr(target)[:80])
    return f"{file}:{name}".removesuffix(":")


def imported(text: str) -> Any:
    """Return the module, or the object in it, of ``module``, ``module:name``, ``file.py:name`` or ``module.name``."""
    module, _, attribute = text.partition(":")
    if module.endswith(".py"):
        sys.path.insert(0, str(Path(module).parent))
        module = Path(module).stem
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        parent, _, name = module.rpartition(".")
        if not parent or error.name != module:
            raise
        loaded = getattr(import_module(parent), name)
    return attrgetter(attribute)(loaded) if attribute else loaded


def find_library(text: str) -> TargetSpec:
    """Return the target of a function in a C library: ``[NAME=]libfoo.so:powf``; or raise HalfulpError."""
    name, _, place = text.rpartition("=")
    path, _, symbol = place.rpartition(":")
    if not path or not symbol:
        raise HalfulpError("a library must be FILE:FUNCTION, such as libfoo.so:powf", got=text[:80])
    if "/" not in path and Path(path).exists():
        place = f"./{place}"
    only = ("float32",) if symbol.endswith("f") else ("float64",)
    name = name or f"{Path(path).stem}:{symbol}"
    return TargetSpec(name, "arrays.symbol", place, "ctypes", only=only, families=("onnx.Pow-",))


def find_command(text: str) -> TargetSpec:
    """Return the target of ``[NAME=]PROGRAM ...``, started for each case if it has placeholders, or else once."""
    name, command = _NAMED.findall(text)[0]
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise HalfulpError(f"a broken command: {error}", got=text) from None
    missing = list(filterfalse(command.__contains__, _PLACEHOLDERS))
    if 0 < len(missing) < len(_PLACEHOLDERS):
        raise HalfulpError(f"a command must have {', '.join(missing)}", got=text)
    if not words:
        raise HalfulpError("a command must have a program", got=text)
    if (program := shutil.which(words[0])) is None:
        raise HalfulpError(f"no program {words[0]!r}", got=text)
    # An interpreter's command has the name of its script.
    script = next((word for word in words[1:] if word.endswith((".py", ".sh"))), words[0])
    name = name or Path(script).stem
    return TargetSpec(name, "arrays.pipe" if missing else "models.command", shlex.join([program, *words[1:]]))
