"""The code of programs that reproduce a finding: arrays bit for bit, and the call of each runtime.

A program does the same as the targets in :mod:`halfulp.conformance.targets`, for a person to read and without
halfulp.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case
from halfulp.conformance.floats import codes
from halfulp.conformance.judge import decimal
from halfulp.conformance.report import Target
from halfulp.conformance.targets.arrays import prepare
from halfulp.conformance.targets.models import input_names
from halfulp.errors import printable
from halfulp.types import element_type

LIBRARIES = ("numpy", "torch", "jax", "cupy")
VARIABLES = ("x", "y", "extra")
"""A program's names of an operator's inputs; some invalid cases have one too many."""

_COMMENTED = 8
_LISTED = 256


def numpy_has(dtype: Any) -> bool:
    """Tell whether a type is one of NumPy's own."""
    return element_type(dtype).dtype.isbuiltin == 1


def only_numpys(case: Case) -> bool:
    """Tell whether all inputs have types of NumPy's own, so that any runtime takes the arrays as they are."""
    return all(numpy_has(array.dtype) for array in case.inputs)


def dtype(name: Any) -> str:
    """Return the expression for an element type."""
    return f"{'np' if numpy_has(name) else 'ml_dtypes'}.{element_type(name).name}"


def scalar(bits: int, name: Any) -> str:
    """Return the expression for one element of a type."""
    size = element_type(name).dtype.itemsize
    return f"np.array(0x{bits:0{2 * size}x}, np.uint{8 * size}).view({dtype(name)})"


def literal(array: Array) -> str:
    """Return the expression for an array, bit for bit, with a comment for people.

    A large array of different values is compressed.
    """
    name, size = dtype(array.dtype), array.dtype.itemsize
    if array.size == 0:
        return f"np.zeros({array.shape}, {name})"
    if array.size > _LISTED and (codes(array) != codes(array).reshape(-1)[0]).any():
        data = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes())).decode()
        text = f'np.frombuffer(zlib.decompress(base64.b64decode("{data}")), {name})'
        return f"{text}.reshape({array.shape})"
    values = array.reshape(-1)
    words = [f"0x{int(code):0{2 * size}x}" for code in codes(values[:_LISTED])]
    if len(set(words)) == 1:
        return f"np.full({array.shape}, {words[0]}, np.uint{8 * size}).view({name})  # {decimal(values[0])}"
    text = f"np.array([{', '.join(words)}], np.uint{8 * size}).view({name})"
    if array.ndim != 1:
        text += f".reshape({array.shape})"
    decimals = ", ".join(decimal(value) for value in values[:_COMMENTED])
    return f"{text}  # {decimals}{', ...' if array.size > _COMMENTED else ''}"


def keywords(attributes: Mapping[str, Any]) -> str:
    """Return the attributes as arguments after others."""
    named = {name: _value(value) for name, value in sorted(attributes.items())}
    if all(name.isidentifier() and not iskeyword(name) for name in named):
        return "".join(f", {name}={value}" for name, value in named.items())
    return ", **{" + ", ".join(f"{name!r}: {value}" for name, value in named.items()) + "}"


def _value(value: Any) -> str:
    return f"float({str(value)!r})" if isinstance(value, float) and not math.isfinite(value) else repr(value)


def filled(name: str, shape: tuple[int, ...], bits: int | None) -> Array:
    """Return an array of one value, given by its bits; of ones if not given."""
    kind = element_type(name).dtype
    if bits is None:
        return np.ones(shape).astype(kind)
    return np.full(shape, bits, f"u{kind.itemsize}").view(kind)


def comment(*texts: str) -> str:
    """Return texts as comments, a line each: a runtime's message must not become code."""
    return "".join(f"# {printable(text, most=None, instead=' ')}\n" for text in texts if text)


# --- which runtime -------------------------------------------------------------------------------


def call(target: Target, case: Case) -> tuple[str, ...]:
    """Return the code that computes ``got`` from ``x`` and ``y`` as the target did, in pieces."""
    name = target.document["target"]["name"]
    if (library := library_of(name)) is not None:
        return (_array_library(*library, case),)
    if name == "openvino-native":
        return _openvino_native(case)
    if case.row.standard != "onnx":
        inputs = ", ".join(VARIABLES[: len(case.inputs)])
        called = f"hu.op({case.operator!r})({inputs}{keywords(case.attributes)})"
        return (f"import halfulp as hu\n\ngot = {called}\n",)
    if name == "openvino":
        return (_model(case), *_openvino_from_onnx(case))
    if name == "onnxruntime":
        return (_model(case), _onnxruntime(case))
    if name in _FROM_MODEL:
        return (_model(case), _FROM_MODEL[name])
    # A command can't be asked for its version; a module has one, or a dot in its name.
    is_module = "." in name or target.document["target"]["versions"]
    return (_model(case), _module(name) if is_module else _command(case))


def needs(target: Target, case: Case) -> list[str]:
    """Return the packages that a program needs, as pip takes them."""
    found = target.document["target"]
    more = ["numpy"] if only_numpys(case) else ["numpy", "ml_dtypes"]
    if case.row.standard == "onnx" and library_of(found["name"]) is None:
        more.append("onnx")
    pinned = [f"{name}=={text}" if text[:1].isdigit() else name for name, text in found["versions"].items()]
    return [name for name in more if name not in found["versions"]] + pinned


# --- runtimes that take an ONNX model ------------------------------------------------------------


def _model(case: Case) -> str:
    """Return the code that builds ``model``, and ``feeds``, its inputs by name."""
    row, names = case.row, input_names(case)
    named = list(zip(names, VARIABLES, case.inputs, strict=False))
    fed = [entry for index, entry in enumerate(named) if index not in case.constants]
    held = [entry for index, entry in enumerate(named) if index in case.constants]
    values = [_declared(name, array.dtype, f"{variable}.shape") for name, variable, array in fed]
    constants = [f"onnx.numpy_helper.from_array({variable}, {name!r})" for name, variable, _ in held]
    lines = [
        "import onnx",
        "from onnx import TensorProto, helper",
        "",
        f"node = helper.make_node({row.name!r}, {names!r}, [{row.outputs[0].name!r}]{keywords(case.attributes)})",
        "graph = helper.make_graph(",
        "    [node],",
        '    "reproducer",',
        *_list(values),
        *_list([_output(case)]),
        *(_list(constants) if held else []),
        ")",
        f'opset = helper.make_opsetid("", {row.version})',
        "ir_version = max(4, helper.find_min_ir_version_for([opset]))",
        "model = helper.make_model(graph, opset_imports=[opset], ir_version=ir_version)",
        "feeds = {" + ", ".join(f"{name!r}: {variable}" for name, variable, _ in fed) + "}",
    ]
    return "\n".join(lines) + "\n\n"


def _list(items: list[str]) -> list[str]:
    """Return the lines of a list that is an argument."""
    if len(items) == 1:
        return [f"    [{items[0]}],"]
    return ["    [", *(f"        {item}," for item in items), "    ],"]


def _output(case: Case) -> str:
    name = case.row.outputs[0].name
    if case.declared is not None:
        shape = case.declared.shape
        return _declared(name, case.declared.type, repr(None if shape is None else list(shape)))
    return _declared(name, case.inputs[0].dtype if case.inputs else "float32", "None")


def _declared(name: str, dtype: Any, shape: str) -> str:
    word = str(element_type(dtype).onnx).upper()
    return f"helper.make_tensor_value_info({name!r}, TensorProto.{word}, {shape})"


def _onnxruntime(case: Case) -> str:
    session = (
        "options = onnxruntime.SessionOptions()\n"
        f"options.intra_op_num_threads = {case.threads or 1}\n"
        'providers = ["CPUExecutionProvider"]\n'
        "session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers)\n"
    )
    if only_numpys(case):
        return f"import onnxruntime\n\n{session}got = session.run(None, feeds)[0]\n"
    # Arrays of types that NumPy lacks cross by their addresses.
    return (
        f"import ctypes\n\nimport onnxruntime\n\n{session}"
        "binding = session.io_binding()\n"
        "for name, array in feeds.items():\n"
        "    kind = helper.np_dtype_to_tensor_dtype(array.dtype)\n"
        '    binding.bind_input(name, "cpu", 0, kind, array.shape, array.ctypes.data)\n'
        'binding.bind_output(session.get_outputs()[0].name, "cpu")\n'
        "session.run_with_iobinding(binding)\n"
        "value = binding.get_outputs()[0]\n"
        "size = int(np.prod(value.shape())) * x.itemsize\n"
        "got = np.frombuffer(ctypes.string_at(value.data_ptr(), size), x.dtype).reshape(value.shape())\n"
    )


_FROM_MODEL = {
    "onnx-reference": (
        "from onnx.reference import ReferenceEvaluator\n\n"
        "got = ReferenceEvaluator(model).run(None, feeds)[0]\n"
    ),
    "onnx-converter": (
        "from onnx.reference import ReferenceEvaluator\n"
        "from onnx.version_converter import convert_version\n\n"
        "model = convert_version(model, onnx.defs.onnx_opset_version())\n"
        "got = ReferenceEvaluator(model).run(None, feeds)[0]\n"
    ),
    "halfulp": "import halfulp.backend\n\ngot = halfulp.backend.run_model(model, feeds)[0]\n",
}


def _module(name: str) -> str:
    """Return the code for a module with the interface of ``onnx.backend.base``."""
    return (
        "import importlib\n\n"
        f"backend = importlib.import_module({name!r})\n"
        'if hasattr(backend, "prepare"):\n'
        '    got = backend.prepare(model, "CPU").run(list(feeds.values()))[0]\n'
        "else:\n"
        '    got = backend.run_model(model, list(feeds.values()), "CPU")[0]\n'
    )


def _command(case: Case) -> str:
    """Return the code for any program; it is given as the reproducer's own arguments."""
    bits = "" if only_numpys(case) else ".view(x.dtype)"
    return (
        "# Run it as: python reproducer.py mytool {model} {inputs} {outputs}\n"
        "import pathlib\nimport subprocess\nimport sys\nimport tempfile\n\n"
        "folder = pathlib.Path(tempfile.mkdtemp())\n"
        'files = {"{model}": "model.onnx", "{inputs}": "inputs.npz", "{outputs}": "outputs.npz"}\n'
        '(folder / files["{model}"]).write_bytes(model.SerializeToString())\n'
        'np.savez(folder / files["{inputs}"], **feeds)\n'
        "words = sys.argv[1:]\n"
        "for sign, name in files.items():\n"
        "    words = [word.replace(sign, str(folder / name)) for word in words]\n"
        "subprocess.run(words, check=True)\n"
        f'got = np.load(folder / files["{{outputs}}"])[graph.output[0].name]{bits}\n'
    )


# --- OpenVINO ------------------------------------------------------------------------------------


_FUNCTIONS = {"openvino.Power-1": "power", "openvino.PReLU-1": "prelu"}


def _openvino_from_onnx(case: Case) -> tuple[str, ...]:
    """Return the code that reads ``model``."""
    graph = "core = ov.Core()\ngraph = core.read_model(model.SerializeToString())\n"
    return (
        "import openvino as ov\n",
        _tensors(case),
        graph,
        _infer(case, "feeds.items()", "request.set_tensor"),
    )


def _openvino_native(case: Case) -> tuple[str, ...]:
    """Return the code that builds a graph of one node."""
    lines, operands, fed = [], [], []
    for place, (name, array) in enumerate(zip(VARIABLES, case.inputs, strict=False)):
        if place in case.constants:
            operands.append(f"ov.op.Constant(tensor({name}))")
        else:
            kind = f"ov.Type.{element_type(array.dtype).openvino}"
            lines.append(f"input_{name} = ov.op.Parameter({kind}, ov.PartialShape(list({name}.shape)))\n")
            operands.append(f"input_{name}")
            fed.append(name)
    parameters = ", ".join(f"input_{name}" for name in fed)
    graph = (
        "core = ov.Core()\n"
        f"{''.join(lines)}"
        f"node = opset1.{_FUNCTIONS[case.operator]}({', '.join(operands)}{keywords(case.attributes)})\n"
        f"graph = ov.Model([node], [{parameters}])\n"
    )
    feeds = f"enumerate([{', '.join(fed)}])"
    return (
        "import openvino as ov\nfrom openvino import opset1\n",
        _tensors(case),
        graph,
        _infer(case, feeds, "request.set_input_tensor"),
    )


def _tensors(case: Case) -> str:
    """Return the functions from arrays to tensors, bit for bit, and back."""
    rows = {array.dtype.name: element_type(array.dtype) for array in case.inputs}
    kinds = ", ".join(f"{name!r}: ov.Type.{row.openvino}" for name, row in rows.items())
    pack = unpack = ""
    # OpenVINO stores two values of four bits in a byte; arrays have one in each.
    packed = [name for name, row in rows.items() if row.bits == 4]
    if packed:
        pack = (
            f"    if array.dtype.name in {packed}:\n"
            "        bits = np.append(bits.reshape(-1) & 15, np.zeros(bits.size % 2, np.uint8))\n"
            "        bits = bits[::2] | bits[1::2] << 4\n"
        )
        unpack = (
            f"    if dtype.name in {packed}:\n"
            "        data = np.stack([data & 15, data >> 4], axis=-1).reshape(-1)[: int(np.prod(made.shape))]\n"
            "        data = data.reshape(tuple(made.shape))\n"
        )
    return (
        f"\nkinds = {{{kinds}}}\n\n\n"
        "def tensor(array):\n"
        "    made = ov.Tensor(kinds[array.dtype.name], ov.Shape(array.shape))\n"
        '    bits = np.ascontiguousarray(array).view(f"u{array.itemsize}")\n'
        f"{pack}"
        "    made.data.view(bits.dtype)[...] = bits.reshape(made.data.shape)\n"
        "    return made\n\n\n"
        "def array_of(made, dtype):\n"
        '    data = np.array(made.data).view(f"u{dtype.itemsize}")\n'
        f"{unpack}"
        "    return data.view(dtype)\n\n\n"
    )


def _infer(case: Case, feeds: str, feed: str) -> str:
    return (
        f'settings = {{"INFERENCE_NUM_THREADS": {case.threads or 1}}}\n'
        'settings |= {"EXECUTION_MODE_HINT": "ACCURACY", "INFERENCE_PRECISION_HINT": "f32"}\n'
        'request = core.compile_model(graph, "CPU", settings).create_infer_request()\n'
        f"for name, array in {feeds}:\n"
        f"    {feed}(name, tensor(array))\n"
        "request.infer()\n"
        "got = array_of(request.output_tensors[0], x.dtype)\n"
    )


# --- array libraries -----------------------------------------------------------------------------


def library_of(target: str) -> tuple[str, str] | None:
    """Return the array library and the device of a target; None for other targets."""
    library, _, device = target.removesuffix(")").partition(" (")
    return (library, device or "cpu") if library in LIBRARIES and device in ("", "cuda") else None


def _array_library(library: str, device: str, case: Case) -> str:
    """Return the code that computes ``got`` with a library, on a device."""
    is_prelu = case.row.kernel == "prelu"
    prepared, y = prepare(case), case.inputs[1]
    fitted = "" if prepared.y.shape == y.shape else f"y = y.reshape({prepared.y.shape})\n"
    if prepared.number is not None and not (is_prelu and library != "jax"):
        fitted = "y = y.item()\n"
    if library == "numpy":
        return (
            fitted
            + f"got = {'np.where(x < 0, x * y, x)' if is_prelu else 'np.asarray(x**y).astype(x.dtype)'}\n"
        )
    if library == "cupy":
        compute = "cupy.where(x < 0, x * y, x)" if is_prelu else "(x**y).astype(x.dtype)"
        second = "" if "item" in fitted else "y = cupy.asarray(y)\n"
        return f"import cupy\n\n{fitted}x = cupy.asarray(x)\n{second}got = cupy.asnumpy({compute})\n"
    return (_torch if library == "torch" else _jax)(case, device, fitted, is_prelu)


def _torch(case: Case, device: str, fitted: str, is_prelu: bool) -> str:
    x, y = case.inputs
    compute = "torch.where(x < 0, x * y, x)" if is_prelu else "torch.pow(x, y)"
    got = "got" if device == "cpu" else "got.cpu()"
    back = f"{got}.numpy()"
    if not numpy_has(x.dtype):
        back = f"{got}.view(torch.{_bits(x)}).numpy().view({dtype(x.dtype)})"
    return (
        "import torch\n\n"
        f"torch.set_num_threads({case.threads or 1})\n"
        f"{fitted}"
        f"{_tensor('x', x, device)}"
        f"{'' if 'item' in fitted else _tensor('y', y, device)}"
        f"got = {compute}.to(x.dtype)\n"
        f"got = {back}\n"
    )


def _tensor(name: str, array: Array, device: str) -> str:
    moved = "" if device == "cpu" else f".to({device!r})"
    if numpy_has(array.dtype):
        return f"{name} = torch.from_numpy({name}){moved}\n"
    return (
        f"{name} = torch.from_numpy({name}.view(np.{_bits(array)})).view(torch.{array.dtype.name}){moved}\n"
    )


def _bits(array: Array) -> str:
    return "int16" if array.dtype.itemsize == 2 else "uint8"


def _jax(case: Case, device: str, fitted: str, is_prelu: bool) -> str:
    constants = case.constants | {1} if "item" in fitted else case.constants
    formula = "jax.numpy.where(x < 0, x * y, x)" if is_prelu else "jax.numpy.power(x, y).astype(x.dtype)"
    fed = ", ".join(name for place, name in enumerate(VARIABLES[:2]) if place not in constants)
    held = "x = jax.numpy.asarray(x)\n" if 0 in constants else ""
    return (
        "import jax\n\n"
        f'jax.config.update("jax_platforms", "{device}")\n'
        'jax.config.update("jax_enable_x64", True)\n'
        f"{fitted}{held}"
        f"got = np.asarray(jax.jit(lambda {fed}: {formula})({fed}))\n"
    )
