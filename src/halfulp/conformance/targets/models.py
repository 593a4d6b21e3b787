"""A case as an ONNX model of one node, and the runtimes that take such a model."""

import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

import halfulp.backend as backend
from halfulp._interop import Array
from halfulp.conformance.case import Case, expected
from halfulp.conformance.targets import CrashedError, NotOfferedError, Target, ending, imported
from halfulp.errors import HalfulpError, UnsupportedError, named
from halfulp.models.files import read_npz
from halfulp.models.onnx.infer import OLDEST_IR_OF_DEFAULTS
from halfulp.models.onnx.tensors import declaration, dtype_of
from halfulp.specs import TensorType

_PROVIDER_ALIASES = {"directml": "Dml", "trt": "Tensorrt"}


def model(case: Case) -> onnx.ModelProto:
    """Return a case's model, as wrong as an invalid case is; raises UnsupportedError if ONNX lacks the operator."""
    row = case.row
    if row.format != "onnx":
        raise UnsupportedError(f"ONNX has no operator {row.id}")
    output, inputs, fed = row.outputs[0].name, _inputs(case), model_inputs(case)
    if case.declared is not None:
        result = case.declared
    elif case.clause is not None:  # its shape is unknown
        rank = max(map(len, case.shapes))
        result = TensorType(case.types[0], tuple(f"{output}_{i}" for i in range(rank)))
    else:
        result = row.infer(*case.inputs, **case.attributes)
    graph = helper.make_graph(
        [helper.make_node(row.name, list(inputs), [output], **case.attributes)],
        row.name,
        [declaration(name, array.dtype.name, array.shape) for name, array in fed.items()],
        [declaration(output, *result)],
        [onnx.numpy_helper.from_array(array, name) for name, array in inputs.items() if name not in fed],
    )
    opset = helper.make_opsetid("", int(row.version))
    ir_version = max(OLDEST_IR_OF_DEFAULTS, helper.find_min_ir_version_for([opset]))
    return helper.make_model(
        graph, opset_imports=[opset], ir_version=ir_version, producer_name="halfulp", doc_string=case.id
    )


def _inputs(case: Case) -> dict[str, Array]:
    """Return a case's inputs by their names in the operator's document; one beyond those is ``extra``."""
    return dict(zip([*(port.name for port in case.row.inputs), "extra"], case.inputs, strict=False))


def model_inputs(case: Case) -> dict[str, Array]:
    """Return by name the inputs that are fed, because they are not constants."""
    return {name: it for i, (name, it) in enumerate(_inputs(case).items()) if i not in case.constants}


# --- runtimes that take a model ------------------------------------------------------------------


def _prepared(case: Case) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a case's model, and by name the inputs that are not initializers."""
    return model(case), model_inputs(case)


def reference(threads: int, argument: str, *, is_converted: bool = False) -> Target:
    """Evaluate the model with the onnx package's ReferenceEvaluator."""
    evaluator: Any = import_module("onnx.reference").ReferenceEvaluator

    def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
        if is_converted:
            model = onnx.version_converter.convert_version(model, onnx.defs.onnx_opset_version())
        return list(evaluator(model).run(None, inputs))

    return Target(run, _prepared)


converter = partial(reference, is_converted=True)  # to the newest opset, by the package's version converter


def onnxruntime(threads: int, argument: str) -> Target:
    """Run the model once in a session of ONNX Runtime, with only the provider and the number of threads set."""
    ort: Any = import_module("onnxruntime")
    integration: Any = import_module("halfulp.integrations.onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    provider = _provider(ort, integration, argument or "cpu")
    if provider != "CPUExecutionProvider":
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")

    def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
        try:
            session = ort.InferenceSession(model.SerializeToString(), options, providers=[provider])
        except Exception as error:
            if "fallback to CPU EP has been explicitly disabled" in str(error):
                raise NotOfferedError(f"{provider} has no kernel for it") from None
            raise
        return list(integration.run(session, inputs).values())

    return Target(run, _prepared, {"onnxruntime": ort.__version__})  # whichever of its packages is installed


def _provider(ort: Any, integration: Any, name: str) -> str:
    """Return the provider of a name, such as ``cuda``, or that of a plugin's file."""

    def providers() -> set[str]:
        plugins = ort.get_ep_devices() if hasattr(ort, "get_ep_devices") else ()
        return {*ort.get_available_providers(), *(device.ep_name for device in plugins)}

    before = providers()
    if Path(name).is_file():
        ort.register_execution_provider_library(Path(name).stem, name)
        return min(providers() - before)
    if name.lower().startswith("halfulp"):
        integration.provider()
    short = {ep.removesuffix("ExecutionProvider"): ep for ep in sorted(providers())}
    chosen = named(re.sub("(?i)executionprovider$", "", name), short, _PROVIDER_ALIASES)
    if chosen is None:
        raise HalfulpError(f"not offered here: this ONNX Runtime has {', '.join(short)}, not {name[:80]}")
    return short[chosen]


def openvino(threads: int, argument: str) -> Target:
    """Read, compile and infer the model with OpenVINO on the CPU."""
    core, infer = _openvino(threads)
    return Target(lambda model, inputs: infer(core.read_model(model.SerializeToString()), inputs), _prepared)


def openvino_native(threads: int, argument: str) -> Target:
    """Build, compile and infer a graph of one node: Power-1 or PReLU-1. An invalid one is refused while it is built."""
    _, infer = _openvino(threads)
    ov: Any = import_module("openvino")
    tensor_of: Any = import_module("halfulp.integrations.openvino").tensor_of

    def run(case: Case) -> list[Array]:
        operands = [
            ov.op.Constant(tensor)
            if place in case.constants
            else ov.op.Parameter(tensor.element_type, ov.PartialShape(list(tensor.shape)))
            for place, tensor in enumerate(map(tensor_of, case.inputs))
        ]
        fed = [place for place in range(len(operands)) if place not in case.constants]
        node = getattr(ov.opset1, case.row.name.lower())(*operands, **case.attributes)
        graph = ov.Model([node], [operands[place] for place in fed])
        return infer(graph, {number: case.inputs[place] for number, place in enumerate(fed)})

    return Target(run)


def _openvino(threads: int) -> tuple[Any, Callable[[Any, Mapping[Any, Array]], list[Array]]]:
    """Return OpenVINO's core, and a function that infers in full precision: by default f32 may be bfloat16."""
    core: Any = import_module("openvino").Core()
    tensors: Any = import_module("halfulp.integrations.openvino")
    config = {"INFERENCE_NUM_THREADS": threads, "EXECUTION_MODE_HINT": "ACCURACY"}
    config |= {"INFERENCE_PRECISION_HINT": "f32"}

    def infer(model: Any, inputs: Mapping[Any, Array]) -> list[Array]:
        request = core.compile_model(model, "CPU", config).create_infer_request()
        for key, array in inputs.items():
            feed = request.set_tensor if isinstance(key, str) else request.set_input_tensor
            feed(key, tensors.tensor_of(array))
        request.infer()
        return [np.array(tensors.array_of(tensor)) for tensor in request.output_tensors]

    return core, infer


def of_backend(threads: int, argument: str) -> Target:
    """Run the model with any module, or a class in one, that has ``prepare`` or ``run_model`` of onnx.backend.base."""
    backend: Any = imported(argument)
    if not hasattr(backend, "prepare") and not hasattr(backend, "run_model"):
        hint = "" if ":" in argument else f"; name a function of it, as {argument}:pow"
        raise TypeError(f"{argument} has neither prepare nor run_model, as an onnx.backend has{hint}")

    def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Any]:
        values = list(inputs.values())  # in the model's order, as the interface wants them
        if hasattr(backend, "prepare"):
            outputs = backend.prepare(model, "CPU").run(values)
        else:
            outputs = backend.run_model(model, values, "CPU")
        return [outputs] if isinstance(outputs, np.ndarray) else list(outputs)

    return Target(run, _prepared)


def halfulp(threads: int, argument: str) -> Target:
    """Run ONNX models by ``halfulp.backend``, others by their ids; judged by the oracle; threads by the environment."""

    def run(given: Any, *inputs: Any) -> list[Array]:
        return list(backend.run_model(given, *inputs)) if inputs else [expected(given)]

    return Target(run, lambda case: _prepared(case) if case.operator.startswith("onnx.") else (case,))


def command(threads: int, argument: str) -> Target:
    """Run a program once for each case, with files for {model}, {inputs} and {outputs} as docs/check.md says."""
    command = shlex.split(argument)

    def run(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
        with tempfile.TemporaryDirectory(prefix="halfulp-check-") as folder:
            files = {name: Path(folder) / name for name in ("model.onnx", "inputs.npz", "outputs.npz")}
            files["model.onnx"].write_bytes(model.SerializeToString())
            np.savez(files["inputs.npz"], allow_pickle=False, **inputs)
            places = {path.stem: str(path) for path in files.values()}
            words = [re.sub("{(model|inputs|outputs)}", lambda m: places[m[1]], word) for word in command]
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            if code := done.returncode:
                number = -code if code < 0 else code - 128  # a shell adds 128 to the signal's number
                if 0 < number < signal.NSIG:
                    raise CrashedError(ending(-number))
                # The last line that a program writes is the reason why it failed.
                lines = list(filter(None, map(str.strip, done.stderr.decode(errors="replace").splitlines())))
                raise RuntimeError(": ".join([ending(code), *lines[-1:]]))
            if not files["outputs.npz"].exists():
                raise RuntimeError("exited with status 0, and wrote no outputs")
            try:
                entries = read_npz(files["outputs.npz"])
            except HalfulpError as error:
                raise RuntimeError(error.message.replace(str(files["outputs.npz"]), "its outputs")) from None
        written = (value for value in model.graph.output if value.name in entries)
        return [_typed(entries[value.name], value.type.tensor_type.elem_type) for value in written]

    return Target(run, _prepared)


def _typed(array: Array, number: int) -> Array:
    """Return the bits of a type that NumPy lacks as that type."""
    dtype = dtype_of(number)
    is_bits = dtype.isbuiltin != 1 and array.dtype.kind in "Vu" and array.itemsize == dtype.itemsize
    return array.view(dtype) if is_bits else array


# --- runtimes that take a few lines ------------------------------------------------------------------


def tract(threads: int, argument: str) -> Target:
    tract: Any = import_module("tract")

    def compute(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.onnx"
            file.write_bytes(model.SerializeToString())
            runnable = tract.onnx().load(str(file)).into_model().into_runnable()
        return [output.to_numpy() for output in runnable.run(list(inputs.values()))]

    return Target(compute, _prepared, not_offered=NotImplementedError)


def iree(threads: int, argument: str) -> Target:
    """Make a module of one ONNX operator by IREE's importer, compiled for this CPU, on one thread."""
    ir: Any = import_module("iree.compiler.ir")
    importer: Any = import_module("iree.compiler.extras.onnx_importer")
    compile_text: Any = import_module("iree.compiler").compile_str
    runtime: Any = import_module("iree.runtime")

    @lru_cache(16)
    def compiled(model: bytes) -> Any:
        info = importer.ModelInfo(onnx.load_from_string(model))
        with ir.Context():
            module = info.create_module().operation
            importer.NodeImporter.define_function(info.main_graph, module).import_all()
            text = str(module)
        target = {"target_backends": ["llvm-cpu"], "extra_args": ["--iree-llvmcpu-target-cpu=host"]}
        program = compile_text(text, input_type="onnx", **target)
        context = runtime.SystemContext(config=runtime.Config("local-sync"))
        context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, program))
        return context.modules.module[info.main_graph.graph_proto.name]

    def compute(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Any]:
        values = *model.graph.input, *model.graph.output
        if onnx.TensorProto.DOUBLE in {value.type.tensor_type.elem_type for value in values}:
            raise NotImplementedError("IREE demotes float64 to float32")
        return [np.asarray(compiled(model.SerializeToString())(*inputs.values()))]

    return Target(compute, _prepared, not_offered=NotImplementedError)


def tvm(threads: int, argument: str) -> Target:
    """Compile for the CPU by LLVM what Relax's importer of ONNX makes."""
    tvm: Any = import_module("tvm")
    from_onnx: Any = import_module("tvm.relax.frontend.onnx").from_onnx

    @lru_cache(1)
    def compiled(model: bytes) -> Any:
        module = from_onnx(onnx.load_from_string(model), keep_params_in_input=False)
        module = tvm.relax.transform.LegalizeOps()(module)
        return tvm.relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())

    def compute(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Any]:
        output = compiled(model.SerializeToString())["main"](*map(tvm.runtime.tensor, inputs.values()))
        return [output.numpy() if hasattr(output, "numpy") else output[0].numpy()]

    return Target(compute, _prepared, not_offered=NotImplementedError)
