"""Runtimes that take an ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from halfulp.conformance.case import Case
from halfulp.conformance.report.literals import VARIABLES, keywords, only_numpys
from halfulp.conformance.runner.onnx_model import input_names
from halfulp.types import element_type


def model(case: Case) -> str:
    """Return the code that builds ``model``, and ``feeds``: what it is fed, by name."""
    row, names = case.row, input_names(case)
    named = list(zip(names, VARIABLES, case.inputs, strict=False))
    fed = [entry for index, entry in enumerate(named) if index not in case.constants]
    held = [entry for index, entry in enumerate(named) if index in case.constants]
    values = [_value(name, array.dtype, f"{variable}.shape") for name, variable, array in fed]
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
        return _value(name, case.declared.type, repr(None if shape is None else list(shape)))
    return _value(name, case.inputs[0].dtype if case.inputs else "float32", "None")


def _value(name: str, dtype: Any, shape: str) -> str:
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


def _reference(case: Case) -> str:
    return "from onnx.reference import ReferenceEvaluator\n\ngot = ReferenceEvaluator(model).run(None, feeds)[0]\n"


def _converter(case: Case) -> str:
    return (
        "from onnx.reference import ReferenceEvaluator\n"
        "from onnx.version_converter import convert_version\n\n"
        "model = convert_version(model, onnx.defs.onnx_opset_version())\n"
        "got = ReferenceEvaluator(model).run(None, feeds)[0]\n"
    )


def _halfulp(case: Case) -> str:
    return "import halfulp.backend\n\ngot = halfulp.backend.run_model(model, feeds)[0]\n"


RUNTIMES: Mapping[str, Callable[[Case], str]] = {
    "onnxruntime": _onnxruntime,
    "onnx-reference": _reference,
    "onnx-converter": _converter,
    "halfulp": _halfulp,
}


def module(name: str) -> str:
    """Return the code for a module with the interface of ``onnx.backend.base``."""
    return (
        "import importlib\n\n"
        f"backend = importlib.import_module({name!r})\n"
        'if hasattr(backend, "prepare"):\n'
        '    got = backend.prepare(model, "CPU").run(list(feeds.values()))[0]\n'
        "else:\n"
        '    got = backend.run_model(model, list(feeds.values()), "CPU")[0]\n'
    )


def command(case: Case) -> str:
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
