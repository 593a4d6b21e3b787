"""Golden files: commands and their outputs.

``python -m tests.golden`` writes today's outputs into all of them, or into those that it is given. Review the
difference before you commit it.

A file begins with the files that its commands read: models in ONNX's text, arrays and bytes in Python, links as
``-> FILE``. A section may have more, and runs in a folder of its own. A status other than 0 follows its output in
brackets. An .xml is read in a process of its own only where the title says so: that takes half a second. Beside
``halfulp`` there are ``show``, which prints a model's versions, inputs and operators, ``text``, which prints all of it,
``values``, which prints its outputs, ``same``, ``near``, ``engines`` and ``compare``, which compare these, ``report``,
which is ``halfulp run`` without times, ``edit``, which replaces a part of a file, and ``cmp``, which compares files.
"""

import os
import re
import shlex
import sys
import tempfile
from contextlib import chdir, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator
from typer.testing import CliRunner

from halfulp import running
from halfulp.cli import app
from halfulp.cli.shared import fed, parted
from halfulp.conversion import verify
from halfulp.conversion.editor import Change
from halfulp.conversion.verify import Feed
from halfulp.errors import HalfulpError
from halfulp.models.onnx import parse
from halfulp.models.run.report import show as type_of
from halfulp.running import evaluate, opened

FILES = sorted(Path(__file__).parent.glob("*/golden/*.txt"))
BLOCK = re.compile(r"^--- (\S+)\n(.*?)(?=^--- |^\$ |^## |\Z)", re.MULTILINE | re.DOTALL)
# Versions, the newest opset that is known, the memory here, OpenVINO's count of its nodes, the day and the machine are
# no words of a verb.
VARYING = {
    r"\b\d+\.\d+\.\d+\b": "<version>",
    r"(?<=: 1 to )\d+": "<newest>",
    r"(?<=: at most )\d+(?=, or a newer)": "<newest>",
    r"(?<=at most )[\d.]+(?= GiB)": "<memory>",
    r"(?<=\bPower_)\d+": "<number>",
    r"[\d-]+, quick run": "<date>, quick run",
    r"\S+ \S+, Python <version>": "<machine>, Python <version>",
}


def parts(file: Path) -> list[str]:
    """Return the files that a golden file describes, as one text, and its sections."""
    return re.split(r"^(?=## )", file.read_text("utf-8"), flags=re.MULTILINE)


def parsed(text: str) -> ModelProto:
    """Return a model; weights without values are made up."""
    model = parser.parse_model(text)
    results = {name for node in model.graph.node for name in node.output}
    rng = np.random.default_rng(0)
    for info in [each for each in model.graph.value_info if each.name not in results]:
        shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        kind = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        weights = rng.normal(size=shape).astype(kind)
        model.graph.initializer.append(numpy_helper.from_array(weights, info.name))
        model.graph.value_info.remove(info)
    return model


def models(file: Path) -> list[ModelProto]:
    """Return the models that a golden file describes."""
    return [
        parsed(text) for _, text in BLOCK.findall(file.read_text("utf-8")) if text.startswith("<ir_version")
    ]


def write(described: str) -> None:
    """Write the described files into the current folder."""
    for name, text in BLOCK.findall(described):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("<ir_version"):
            onnx.save(parsed(text), name)
        elif name.endswith((".npy", ".npz")) or text.startswith(("b'", 'b"', "bytes")):
            value = eval(text, {"np": np, "bfloat16": ml_dtypes.bfloat16, "onnx": onnx, "parsed": parsed})
            if isinstance(value, bytes):
                Path(name).write_bytes(value)
            elif isinstance(value, dict):
                np.savez(name, **value)
            else:
                np.save(name, value)
        elif text.startswith("-> "):
            Path(name).symlink_to(text[3:].strip())
        else:
            Path(name).write_text(text, "utf-8")


def played(section: str) -> str:
    """Return a section with today's outputs."""
    if ".xml in OpenVINO" in section.partition("\n")[0]:
        pytest.importorskip("openvino")
    write(section)
    title, *commands = re.split(r"^\$ ", section, flags=re.MULTILINE)
    lines = [title.rstrip("\n"), ""]
    for command in commands:
        command = command.partition("\n")[0]
        first, *rest = shlex.split(command)
        with (
            nullcontext() if "OpenVINO's process" in title else patch("halfulp.integrations.ir._try_to_read")
        ):
            output, status = ran(rest) if first == "halfulp" else (TOOLS[first](*rest), 0)
        output = "\n".join(line.rstrip() for line in output.rstrip("\n").splitlines())
        for pattern, word in VARYING.items() if first not in ("show", "text") else ():
            output = re.sub(pattern, word, output)
        lines += [f"$ {command}", *([output] if output else []), *([f"[{status}]"] if status else [])]
    return "\n".join([*lines, "", ""])


def show(file: str) -> str:
    """Return the versions, the inputs and the operators of a model, with their integer attributes."""
    model = onnx.load(file)
    operators = ""
    for node in (each for each in model.graph.node if each.op_type != "Constant"):
        integers = ", ".join(f"{each.name} = {each.i}" for each in node.attribute if each.type == each.INT)
        operators += f" {node.op_type}<{integers}>" if integers else f" {node.op_type}"
    inputs = " ".join(info.name for info in model.graph.input)
    return f"IR version {model.ir_version}, opset {model.opset_import[0].version}, {inputs}:{operators}"


def text(file: str) -> str:
    """Print a model, a line for each node, or that there is none."""
    if not os.path.exists(file):
        return "no file"
    lines = onnx.printer.to_text(onnx.load(file)).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines if len(line) > 1)


def values(file: str, *inputs: str) -> str:
    """Print what halfulp computes of a model, for arrays of files or for made-up ones, or its error."""
    files, dims = parted([*inputs])
    try:
        model = opened(file, "halfulp")
        run = evaluate(model, fed(model, files) if files else "random", "halfulp", dims=dims)
    except HalfulpError as error:
        return str(error)
    found = {name: " ".join(str(value).split()) for name, value in run.outputs.items()}
    return "\n".join(
        [run.made_up, *(f"{name}: {type_of(run.outputs[name])} {found[name]}" for name in found)]
    ).strip()


def outputs(file: str, inputs: dict[str, Any]) -> list[Any]:
    """Return what ONNX Runtime computes."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns of weights that no node reads
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def inputs_of(model: ModelProto, *special: float) -> dict[str, Any]:
    """Return made-up inputs, which begin with special values."""
    rng = np.random.default_rng(1)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {}
    for info in model.graph.input:
        if info.name not in weights:
            shape = [dim.dim_value or 4 for dim in info.type.tensor_type.shape.dim]
            kind = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            values = np.asarray(rng.normal(size=shape) * 4)
            values.reshape(-1)[: len(special)] = special[: values.size]
            with np.errstate(invalid="ignore"):  # a NaN as an integer
                inputs[info.name] = values.astype(kind)
    return inputs


def same(file: str, right: str) -> str:
    """Compare the bits of the outputs of two models in ONNX Runtime."""
    onnx.checker.check_model(onnx.load(file), full_check=True)
    for special in ((), (np.nan, -0.0, np.inf, -1.0)):
        inputs = inputs_of(onnx.load(right), *special)
        for one, other in zip(outputs(file, inputs), outputs(right, inputs), strict=True):
            if (one.dtype, one.tobytes()) != (other.dtype, other.tobytes()):
                return f"other bits: {one.ravel()[:5]}, not {other.ravel()[:5]}"
    return "the same bits"


def near(file: str, right: str, tolerance: str) -> str:
    """Compare a model in ONNX Runtime with another in the onnx package's evaluator."""
    onnx.checker.check_model(onnx.load(file), full_check=True)
    inputs = inputs_of(onnx.load(right))
    expected = ReferenceEvaluator(right).run(None, inputs)
    is_near = all(
        np.allclose(one, other, rtol=float(tolerance), atol=float(tolerance))
        for one, other in zip(outputs(file, inputs), expected, strict=True)
    )
    return "near" if is_near else "far off"


def compare(before: str, after: str, *more: str) -> str:
    """Verify a model against another one: with a file of inputs, or with changes as OUTPUT:ULPS:HOW IT DIFFERS."""
    inputs = next((dict(np.load(each)) for each in more if each.endswith(".npz")), None)
    announced = [each.split(":") for each in more if not each.endswith(".npz")]
    changes = [
        Change("", "", how, False, name, float(ulps) if ulps else None) for name, ulps, how in announced
    ]
    return str(verify.compare(parse(before).check(), parse(after).check(), Feed(inputs=inputs), changes))


def cmp(*files: str) -> str:
    """Say whether all files have the same bytes."""
    return "different" if len({Path(file).read_bytes() for file in files}) > 1 else "the same"


def engines(file: str) -> str:
    """Compare the bits of halfulp's walk with ONNX Runtime's by the provider and by custom operators."""
    pytest.importorskip("onnxruntime")
    plugin = import_module("halfulp.integrations.onnxruntime")
    for source in (Path(file), plugin.patch(Path(file))):
        for special in ((), (np.nan, -0.0, np.inf, -1.0)):
            inputs = inputs_of(onnx.load(file), *special)
            right = running.evaluate(running.opened(file, "halfulp"), inputs, "halfulp").outputs
            for name, value in plugin.run(plugin.session(source), inputs).items():
                if (value.dtype, value.tobytes()) != (right[name].dtype, right[name].tobytes()):
                    return f"other bits of {name}: {value.ravel()[:5]}, not {right[name].ravel()[:5]}"
    return "the same bits"


def patched(file: str) -> str:
    """Print a model with custom operators instead of its own powers, or why there is none."""
    try:
        onnx.save(import_module("halfulp.integrations.onnxruntime").patch(Path(file)), "patched.onnx")
    except ValueError as error:
        return str(error)
    return text("patched.onnx")


def report(*words: str) -> str:
    """Print what ``halfulp run`` does, but neither times nor the widths of columns."""
    printed, status = ran(["run", *words])
    assert status == 0, printed
    lines = (" ".join(re.sub("─+", "", line).split()) for line in printed.splitlines())
    return re.sub(r"[\d.]+ \d+% |, \d+% of the time", "", "\n".join(filter(None, lines)))


def edit(file: str, old: str, new: str) -> str:
    """Replace a text in a file, where it is first."""
    text = Path(file).read_text("utf-8")
    assert old in text
    Path(file).write_text(text.replace(old, new, 1), "utf-8")
    return ""


TOOLS = {
    tool.__name__: tool
    for tool in (show, text, values, same, near, compare, cmp, engines, patched, report, edit)
}


def held() -> dict[str, bytes | None]:
    """Return the contents of the folder's files; a link or another folder has none."""
    return {
        name: None if Path(name).is_symlink() or not Path(name).is_file() else Path(name).read_bytes()
        for name in os.listdir()
    }


def ran(words: list[str]) -> tuple[str, int]:
    """Return the output and the status of the command; a refused one leaves the folder as it was."""
    before = held()
    with (
        patch("halfulp.auditing.target.installed", lambda: {"onnxruntime": "1.31.1"}),
        patch("halfulp.installed.environment", lambda threads: {}),  # is for this process's libraries
        patch("gc.collect"),  # of so many objects as a test process has, it would be most of an audit's time
    ):
        done = CliRunner().invoke(app, words, env={"COLUMNS": "120"})
    assert done.exception is None or isinstance(done.exception, SystemExit)
    if done.exit_code == 2:
        assert done.stdout == ""
        assert held() == before
    return done.output.replace(os.getcwd(), "<folder>"), done.exit_code


def renew(files: list[Path]) -> None:
    """Write today's outputs into golden files."""
    for file in files:
        described, *sections = parts(file)
        renewed = [described]
        for section in sections:
            with tempfile.TemporaryDirectory() as folder, chdir(folder):
                write(described)
                renewed.append(played(section))
        file.write_text("".join(renewed).rstrip("\n") + "\n", "utf-8")


if __name__ == "__main__":
    renew([Path(name) for name in sys.argv[1:]] or FILES)
