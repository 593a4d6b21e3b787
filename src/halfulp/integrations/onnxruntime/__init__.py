"""ONNX Runtime with exact Pow and PRelu: every such node of a model runs on halfulp's kernels.

From ONNX Runtime 1.24 on an execution provider runs these nodes of a model as it is. For earlier versions and for CUDA
there are custom operators: a session runs a patched copy of the model, whose nodes have the domain ``halfulp``. Both
are in this package's native library, which ONNX Runtime loads. They run on the session's own threads and read and write
its own memory.
"""

import contextlib
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import wraps
from importlib import import_module
from itertools import starmap
from mmap import ACCESS_READ, mmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

from halfulp.errors import (
    REPAIR,
    HalfulpError,
    HalfulpWarning,
    ModelError,
    SpecError,
    UnsupportedError,
    did_you_mean,
    printable,
    within,
)
from halfulp.installed import get_library
from halfulp.integrations.fusions import fused_by_onnxruntime
from halfulp.models.files import Source, opened
from halfulp.models.graph import Value, listed
from halfulp.models.onnx import Onnx, parse
from halfulp.models.onnx.checks import check_calls, label
from halfulp.models.onnx.infer import Scope
from halfulp.models.onnx.inline import RESOLVED, inlined
from halfulp.models.onnx.tensors import declaration
from halfulp.models.onnx.walk import SUPPORTED_OPS, every_node
from halfulp.operators import powers_of
from halfulp.specs import OpVersion, TensorType, find
from halfulp.types import TYPES, codes

__all__ = ["library", "patch", "provider", "register", "run", "session"]
__dir__ = __all__.copy

PROVIDER = "HalfulpExecutionProvider"
# Entries of a session's configuration: of the provider, ONNX Runtime's own, of options that have the custom operators.
_OPERATORS = f"ep.{PROVIDER.lower()}.operators"
_DISABLED = "optimization.disable_specified_optimizers"
_EXTERNAL_DATA = "session.model_external_initializers_file_folder_path"
_REGISTERED = "halfulp.registered"
# ONNX Runtime's optimizers that compute or replace powers before a provider is asked for its nodes.
_FOLDING, _FUSION = "ConstantFolding", "LayerNormFusionL1"
_KEYWORDS = ("provider_options", "disabled_optimizers", "enable_fallback", "read_config_from_model")
"""The keywords of ``InferenceSession``."""

# The types that NumPy lacks and that ONNX stores unpacked, by their names and by ONNX Runtime's.
_SMALL = {
    name: row
    for row in TYPES.values()
    if row.onnx and row.bits == 8 * row.dtype.itemsize and not hasattr(np, row.name)
    for name in (row.name, f"tensor({row.onnx})")
}


def session(
    model: Source,
    sess_options: Any = None,
    providers: Sequence[Any] | None = None,
    *,
    keep_fusions: bool = False,
    repair: bool = False,
    **kwargs: Any,
) -> Any:
    """Return an ``onnxruntime.InferenceSession`` whose Pow and PRelu nodes run on halfulp's kernels.

    ONNX Runtime 1.24 and later runs the model as it is, by the execution provider. It runs a patched copy if another
    provider than the CPU's is named, and if it refuses the model as it is.

    Args:
        model: a path, the bytes of a file, or an ``onnx.ModelProto``, which is not changed.
        sess_options: an ``onnxruntime.SessionOptions``. It gets the execution provider or the custom operators.
        providers: as for ``InferenceSession``. The nodes run on the CPU, or on CUDA if that provider is named.
        keep_fusions: let ONNX Runtime make LayerNorm of its nodes, from opset 17 on, in the model as it is. It then
            computes the powers in them.
        repair: open what :func:`halfulp.repair` makes of the model, whose Pow and PRelu nodes may break a clause.
        **kwargs: ``provider_options``, ``disabled_optimizers``, ``enable_fallback`` and ``read_config_from_model`` of
            ``InferenceSession``, which would ignore a misspelt name.

    Warns:
        HalfulpWarning: subgraphs with a Pow run node by node, which ONNX Runtime would replace by operators of its own.

    Raises:
        ModelError: a node breaks a clause of its operator's version, or its types can't be inferred.
        UnsupportedError: onnxruntime is not installed, or too old.

    Example:
        >>> import numpy as np, pytest; _ = pytest.importorskip("onnxruntime")
        >>> from onnx import parser
        >>> model = parser.parse_model('''<ir_version: 8, opset_import: ["": 15]>
        ...     g (float16[N] x, uint8[N] y) => (float16[N] z) { z = Pow(x, y) }''')
        >>> feeds = {"x": np.array([0.1, 3], np.float16), "y": np.array([2, 4], np.uint8)}
        >>> session(model).run(None, feeds)
        [array([9.995e-03, 8.100e+01], dtype=float16)]
    """
    for name in kwargs.keys() - {*_KEYWORDS}:
        help = did_you_mean(name, (*_KEYWORDS, "sess_options", "providers", "keep_fusions", "repair"))
        raise TypeError(f"session() takes no argument {name!r}; {help}")
    if sess_options is None:
        sess_options = installed().SessionOptions()
        sess_options.log_severity_level = 3  # no warnings of other providers' nodes
    if repair:
        repaired = import_module("halfulp").repair(model)  # conversion imports this package
        if repaired.changes:
            warnings.warn("; ".join(map(str, repaired.changes)), HalfulpWarning, stacklevel=2)
        if repaired.folder is not None:
            find_external_data(sess_options, Onnx(repaired.model, str(model), repaired.folder))
        model = repaired.model
    opened = open_session(model, sess_options, providers, keep_fusions=keep_fusions, **kwargs)
    norms = {} if keep_fusions else _norms(model)
    if powers := [power for power, is_norm in norms.items() if is_norm]:
        slow = f"the norms around {listed(powers, 3)} run node by node; ONNX Runtime may fuse each"
        hint = "keep_fusions=True keeps its LayerNorm, from opset 17 on, whose powers are not exact"
        warnings.warn(f"{slow}, which is up to 3 times as fast. {hint}", HalfulpWarning, stacklevel=2)
    return opened


def open_session(
    model: Source, options: Any, providers: Any = None, *, keep_fusions: bool = False, **kwargs: Any
) -> Any:
    """Return a session as :func:`session` does, but do not tell of fusions that are given up."""
    with contextlib.suppress(Exception):
        is_cpus = providers is None or [*providers] == ["CPUExecutionProvider"]
        if is_cpus and (not options.has_providers() or _entry(options, _OPERATORS)):
            return _session_by_provider(options, model, kwargs, set() if keep_fusions else {_FUSION})
    parsed = parse(model)
    register(options)
    find_external_data(options, parsed)
    # It names the clause that a node breaks, if one does.
    data = _patched(parsed).SerializeToString()
    return installed().InferenceSession(data, options, providers=providers, **kwargs)


def _session_by_provider(options: Any, model: Source, given: dict[str, Any], fusions: set[str]) -> Any:
    """Return a session that runs a model as it is; an error if it has custom operators or is refused."""
    if isinstance(model, ModelProto):
        model = model.SerializeToString()
    # It is not parsed, since parsing takes as long as a good part of the session's creation.
    data = _bytes_of(model)
    powers = powers_of(data)
    assert powers is not None  # it has no custom operators
    if _has_functions(data):  # ONNX Runtime inlines them however large they become
        check_calls(ModelProto.FromString(data[:]), "")
    provider(options)
    disabled = {*fusions, *(given.get("disabled_optimizers") or ()), *([_FOLDING] if powers[0] else ())}
    asked = {**given, "disabled_optimizers": disabled, "enable_fallback": 0}
    return installed().InferenceSession(model, options, **asked)


def _guard(ort: Any) -> None:
    """Let sessions with the provider leave out the fusion into LayerNorm if it would change a model's function."""
    # ONNX Runtime fuses before it asks a provider for its nodes, and only a session's arguments can prevent that.
    start = ort.InferenceSession.__init__
    if hasattr(start, "__wrapped__"):
        return

    @wraps(start)
    def guarded(self: Any, path_or_bytes: Any, *args: Any, **given: Any) -> None:
        named = dict(zip(("sess_options", "providers"), args, strict=False)) | given
        options, providers = named.get("sess_options"), named.get("providers") or ()
        names = {each if isinstance(each, str) else each[0] for each in providers}
        has_provider = PROVIDER in names or (options is not None and _entry(options, _OPERATORS))
        disabled = {*(given.get("disabled_optimizers") or ())}
        if has_provider and _FUSION not in disabled:
            with contextlib.suppress(Exception):  # it is not a readable ONNX file
                if not all(_norms(path_or_bytes).values()):
                    given["disabled_optimizers"] = {*disabled, _FUSION}
        start(self, path_or_bytes, *args, **given)

    ort.InferenceSession.__init__ = guarded


def _norms(model: Any) -> dict[str, bool]:
    """Return whether parts that ONNX Runtime may take for norms are such, by the names of their powers."""
    data = model.SerializeToString() if isinstance(model, ModelProto) else _bytes_of(model)
    _, may_be_fused = powers_of(data) or (False, False)
    if not may_be_fused:
        return {}
    folder = None if isinstance(model, bytes | ModelProto) else Path(model).parent
    return fused_by_onnxruntime(ModelProto.FromString(data[:]), folder)


def _bytes_of(model: Any) -> Any:
    """Return the bytes of a model, or of a file, which is mapped."""
    if isinstance(model, bytes):
        return model
    with opened(Path(model)) as file:
        return mmap(file.fileno(), 0, access=ACCESS_READ)


# The tag of a field, and a number or the length of what follows, if the kind of the field has one.
_FIELD = re.compile(rb"([\x80-\xff]{0,9}[\x00-\x7f])([\x80-\xff]{0,9}[\x00-\x7f])?")


def _has_functions(data: bytes | mmap) -> bool:
    """Return whether a serialized model has functions, by the tags of its fields."""
    place = 0
    while place < len(data) and (field := _FIELD.match(data, place)):
        numbers = (enumerate(digits or b"") for digits in field.groups())
        tag, length = (sum((digit & 127) << 7 * n for n, digit in digits) for digits in numbers)
        if tag >> 3 == ModelProto.FUNCTIONS_FIELD_NUMBER:
            return True
        place = {1: field.end(1) + 8, 2: field.end() + length, 5: field.end(1) + 4}.get(tag & 7, field.end())
    return False


def provider(
    session_options: Any = None,
    *,
    operators: Sequence[str] = SUPPORTED_OPS,
    fusions: Literal["keep", "exact"] = "keep",
) -> str:
    """Register halfulp's execution provider with ONNX Runtime and return its name. A second call only changes choices.

    A session that has it runs a model's own Pow and PRelu nodes on halfulp's kernels, in bodies and functions too.

    Args:
        session_options: an ``onnxruntime.SessionOptions`` that gets the provider. Without it, name the provider to
            ``InferenceSession``.
        operators: the operators that these sessions compute by halfulp.
        fusions: with ``"exact"`` these sessions neither fold powers of constants nor replace subgraphs with a Pow by
            operators of ONNX Runtime's own, such as LayerNorm. With ``"keep"`` they make LayerNorm of norms only.

    Raises:
        UnsupportedError: onnxruntime is not installed, or older than 1.24; without session_options, than 1.25.
        ValueError: there is no such operator or choice of fusions, or the choice comes without options.

    Example:
        >>> import pytest; ort = pytest.importorskip("onnxruntime", "1.24")
        >>> options = ort.SessionOptions()
        >>> provider(options)  # then ort.InferenceSession(file, options)
        'HalfulpExecutionProvider'
    """
    ort = installed()
    hint = "; halfulp.integrations.onnxruntime.session serves earlier ones"
    _require(ort, (1, 24), "this onnxruntime takes no execution provider with kernels", hint)
    if fusions not in ("keep", "exact") or not set() < {*operators} <= {*SUPPORTED_OPS}:
        choices = "operators are Pow and PRelu, fusions keep or exact"
        raise ValueError(f"{choices}; got {operators!r}, {fusions!r}")
    if session_options is None:
        if (fusions, {*operators}) != ("keep", {*SUPPORTED_OPS}):
            raise ValueError("a choice of operators or fusions needs session_options")
        hint = ", or provider(session_options)"
        _require(ort, (1, 25), "this onnxruntime would ignore the provider's name", hint)
    if not _devices(ort):
        ort.register_execution_provider_library("halfulp", library())
    _guard(ort)
    if session_options is None:
        return PROVIDER
    before = _entry(session_options, _OPERATORS)
    if not before:
        session_options.add_provider_for_devices(_devices(ort), {"operators": ",".join(operators)})
    elif before.split(",") != [*operators]:
        session_options.add_session_config_entry(_OPERATORS, ",".join(operators))
    if fusions == "exact":
        disabled = {_FOLDING, _FUSION, *_entry(session_options, _DISABLED).split(";")} - {""}
        session_options.add_session_config_entry(_DISABLED, ";".join(sorted(disabled)))
    return PROVIDER


def register(session_options: Any) -> None:
    """Register the custom operators with an ``onnxruntime.SessionOptions``. A second call changes nothing.

    Sessions with these options run models from :func:`patch`.

    Raises:
        UnsupportedError: onnxruntime is not installed, or too old.

    Example:
        >>> import pytest; ort = pytest.importorskip("onnxruntime")
        >>> options = ort.SessionOptions()
        >>> register(options)
    """
    installed()
    if _entry(session_options, _REGISTERED):
        return
    try:
        session_options.register_custom_ops_library(library())
    except Exception as error:  # onnxruntime's error classes are not public
        raise UnsupportedError(str(error).rpartition(" : ")[2]) from None
    session_options.add_session_config_entry(_REGISTERED, "1")


def patch(model: Source) -> ModelProto:
    """Return a copy of a model in which every Pow and PRelu node is a custom operator.

    Args:
        model: a path, the bytes of a file, or an ``onnx.ModelProto``. Its external data is not copied.

    Returns:
        A model for sessions with the custom operators: by :func:`register`, or in any other language of ONNX Runtime
        by registering the library of :func:`library`.

    Raises:
        ModelError: a node breaks a clause of its operator's version, or its types can't be inferred.
        UnsupportedError: a function with such nodes needs another opset than the model's.

    Example:
        >>> from onnx import parser
        >>> model = parser.parse_model('''<ir_version: 8, opset_import: ["": 15]>
        ...     g (float16[N] x, uint8[N] y) => (float16[N] z) { z = Pow(x, y) }''')
        >>> node = patch(model).graph.node[0]
        >>> node.domain, node.op_type
        ('halfulp', 'Pow_float16')
    """
    return _patched(parse(model))


def library() -> str:
    """Return the path of the native library, for ONNX Runtime's ``RegisterCustomOpsLibrary``: ``hu.get_library()``."""
    return get_library()


def run(session: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Run a session and return its outputs by name: ``session.run`` for every element type.

    ``session.run`` itself refuses bfloat16 and float8 arrays. Here inputs are copied only if they have another byte
    order, and outputs of these types are not copied.

    Args:
        session: an ``onnxruntime.InferenceSession``.
        inputs: arrays by name, or the values that ``session.run`` accepts for a sequence or a map.

    Raises:
        Exception: the errors of ``session.run``.

    Example:
        >>> import ml_dtypes, numpy as np, pytest; _ = pytest.importorskip("onnxruntime")
        >>> from onnx import parser
        >>> model = parser.parse_model('''<ir_version: 8, opset_import: ["": 16]>
        ...     g (bfloat16[N] x) => (bfloat16[N] y) { y = PRelu(x, x) }''')
        >>> run(session(model), {"x": np.array([-0.5, 3], ml_dtypes.bfloat16)})
        {'y': array([0.25, 3], dtype=bfloat16)}
    """
    outputs = session.get_outputs()
    names, types = [output.name for output in outputs], [output.type for output in outputs]
    arrays = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
    # onnxruntime reads an array in the machine's byte order, whatever its dtype says.
    native = {name: a.astype(a.dtype.newbyteorder("="), copy=False) for name, a in arrays.items()}
    inputs = {**inputs, **native}
    types += [str(getattr(value, "dtype", "")) for value in inputs.values()]
    if _SMALL.keys().isdisjoint(types):
        return dict(zip(names, session.run(names, inputs), strict=True))
    values = {name: _ort_value(value) for name, value in inputs.items()}
    results = session.run_with_ort_values(names, values)
    return {name: _array(result) for name, result in zip(names, results, strict=True)}


def installed() -> Any:
    """Return the module onnxruntime; raises UnsupportedError if it can't be imported."""
    try:
        return import_module("onnxruntime")
    except ImportError as error:
        message = f"onnxruntime can't be imported: {str(error) or 'it was built for another NumPy'}"
        raise UnsupportedError(message, expected="pip install 'halfulp[onnxruntime]'") from None


def find_external_data(session_options: Any, model: Onnx) -> None:
    """Let sessions, which get the model as bytes, read external data from its folder, or raise UnsupportedError."""
    weights = model.proto.graph.initializer
    if model.folder is None or not any(each.data_location == TensorProto.EXTERNAL for each in weights):
        return
    problem = f"{model.file}: this onnxruntime can't read the external data of a patched model"
    _require(installed(), (1, 21), problem, ", or onnx.load(path) as the model")
    session_options.add_session_config_entry(_EXTERNAL_DATA, os.path.abspath(model.folder))


def _require(ort: Any, least: tuple[int, int], problem: str, hint: str) -> None:
    if tuple(map(int, ort.__version__.split(".")[:2])) < least:
        expected = f"onnxruntime {least[0]}.{least[1]} or later{hint}"
        raise UnsupportedError(problem, expected=expected, got=ort.__version__)


def _devices(ort: Any) -> list[Any]:
    return [device for device in ort.get_ep_devices() if device.ep_name == PROVIDER]


def _entry(session_options: Any, key: str) -> str:
    """Return an entry of a session's configuration; an empty text if it is absent."""
    try:
        return str(session_options.get_session_config_entry(key))
    except RuntimeError:
        return ""


def _array(value: Any) -> Any:
    row = _SMALL.get(value.data_type())
    if row is None:
        return value.numpy()
    word, place = np.dtype(f"u{row.dtype.itemsize}").str, (value.data_ptr(), False)
    interface = {"version": 3, "shape": tuple(value.shape()), "typestr": word, "data": place}
    # NumPy keeps this object alive, and so the value.
    return np.asarray(SimpleNamespace(__array_interface__=interface, value=value)).view(row.dtype)


def _ort_value(value: Any) -> Any:
    array, kind = np.asarray(value), installed().OrtValue
    row = _SMALL.get(array.dtype.name)
    if row is None:
        return kind.ortvalue_from_numpy(array)
    return kind.ortvalue_from_numpy_with_onnx_type(codes(array), row.onnx_enum)


# --- Models of custom operators ------------------------------------------------------------------------
#
# Each node becomes the operator of its X's type (``Pow_float16``), with its version as attributes: the broadcasting
# rule, and the clause that each check enforces. So types must be known before the model runs. The onnx package infers
# them; ONNX Runtime does if the onnx package fails, as at ONNX Runtime's own operators.

DOMAIN = "halfulp"

# The checks whose clauses the kernels look up by their attributes: bindings/onnxruntime/rules.h.
_SHAPE_CHECKS = ("shape", "equal shapes", "1-dim expansion", "attribute axis")


class _Untyped(ModelError):
    """The type of a node's operand can't be inferred."""


def _patched(model: Onnx) -> ModelProto:
    """Return the model of :func:`patch`."""
    resolved = inlined(model.proto, model.file, every=False)
    if all(node.domain != RESOLVED for node in every_node(resolved.graph)):
        return resolved
    try:
        patched = _patch(Onnx(deepcopy(resolved), model.file, ask="none"))
    except _Untyped:
        patched = _patch(Onnx(resolved, model.file, ask="all"))
    if DOMAIN not in {entry.domain for entry in patched.opset_import}:
        patched.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return patched


def _patch(model: Onnx) -> ModelProto:
    """Patch a model's resolved nodes, and declare their outputs; return the model's message."""
    for scope in model.scopes(model.proto.graph):
        graph: Any = scope.owner
        declared = {info.name for info in (*graph.value_info, *graph.output)}
        for index, node in enumerate(graph.node):
            if node.domain == RESOLVED:
                output = _patch_node(node, index, scope, model.file)
                scope.types.setdefault(output.name, output)
                # ONNX Runtime infers no shapes of custom operators, and reuses memory only for known shapes.
                if output.name not in declared:
                    graph.value_info.append(declaration(output.name, output.type, output.shape))
    return model.proto


def _patch_node(node: NodeProto, index: int, scope: Scope, file: str) -> Value:
    """Make a node a custom operator, and return its output's type and shape."""
    row = find(node.op_type)
    named = label(NodeProto(name=node.name, op_type=row.name), index, "")
    with within(file, named):
        if not (all(node.input) and any(node.output)):
            raise HalfulpError("an operand or the output is missing")
        attributes: dict[str, Any] = {}
        for attribute in node.attribute:
            try:
                attributes[attribute.name] = helper.get_attribute_value(attribute)
            except ValueError:
                raise HalfulpError(f"its attribute {printable(attribute.name)!r} has no value") from None
        operands = []
        for value in map(scope.value, node.input):
            if value.kind not in ("undeclared", "tensor"):
                raise HalfulpError("an operand is not a tensor", got=str(value))
            if value.type is None:
                hint = "can't be inferred: declare it in the graph's value_info"
                raise _Untyped(f"the type of {printable(value.name)!r} {hint}", file=file, node=named)
            operands.append(TensorType(value.type, value.shape))
        try:
            output = row.infer(*operands, **attributes)
        except SpecError as error:
            raise SpecError(error.clause, error.message, **error.shown, run=REPAIR) from None
        given = row.check_attributes(attributes)
    node.domain, node.op_type = DOMAIN, f"{row.name}_{output.type}"
    del node.attribute[:]
    node.attribute.extend(starmap(helper.make_attribute, _told(row, given).items()))
    return Value(node.output[0], output.type, output.shape)


def _told(row: OpVersion, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a custom operator: the parts of its version that the kernel needs."""
    enforced = {check for clause in row.clauses for check in clause.enforces}
    clauses = {
        "clause_" + re.sub("[ -]", "_", check): f"{row.id}.{row.clause(check).id}"
        for check in filter(enforced.__contains__, _SHAPE_CHECKS)
    }
    numbers = {name: value for name, value in given.items() if isinstance(value, int)}
    return {"version": row.id, "broadcasting": row.broadcasting.name, **clauses, **numbers}
