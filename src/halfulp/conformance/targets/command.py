"""Any program: a command that reads an ONNX model and its inputs from files, and writes its outputs to one.

The inputs and outputs are .npz files, an entry for each name in the model. Of types that NumPy lacks (bfloat16)
an entry holds the bits, as NumPy stores arrays of ml_dtypes: items of type ``V2``; in the outputs unsigned integers
of that width will do too. The model says which type is meant.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx

from halfulp._interop import Array
from halfulp.conformance.targets import CrashedError, death
from halfulp.conformance.targets.models import ModelTarget, Prepared
from halfulp.errors import HalfulpError
from halfulp.models.files import read_npz
from halfulp.types import TYPES


class Command(ModelTarget):
    """Runs the command once for each case, in files of its own. A command can't be asked for its version."""

    packages = ()

    def __init__(self, threads: int, argument: str) -> None:
        """The argument is the command, with {model}, {inputs} and {outputs} in it."""
        self._words = shlex.split(argument)

    def run(self, prepared: Prepared) -> list[Array]:
        """Return the outputs.

        Raises:
            CrashedError: the command died of a signal.
            RuntimeError: it exited with a status that is not 0, or wrote no outputs.
        """
        with tempfile.TemporaryDirectory(prefix="halfulp-check-") as folder:
            files = {name: Path(folder) / name for name in ("model.onnx", "inputs.npz", "outputs.npz")}
            files["model.onnx"].write_bytes(prepared.model.SerializeToString())
            np.savez(files["inputs.npz"], allow_pickle=False, **prepared.inputs)
            words = [_filled(word, files) for word in self._words]
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                check=False,
            )
            _check_status(done.returncode, done.stderr)
            if not files["outputs.npz"].exists():
                raise RuntimeError("exited with status 0, and wrote no outputs")
            return _outputs(prepared.model, files["outputs.npz"])


def _filled(word: str, files: dict[str, Path]) -> str:
    for name, path in files.items():
        word = word.replace("{" + name.partition(".")[0] + "}", str(path))
    return word


def _check_status(code: int, errors: bytes) -> None:
    if code == 0:
        return
    number = -code if code < 0 else code - 128  # a shell's way to say it
    if 0 < number < signal.NSIG:
        raise CrashedError(death(number))
    # A program says in its last line why it failed, after whatever led to it.
    said = [line.strip() for line in errors.decode(errors="replace").splitlines() if line.strip()]
    raise RuntimeError(f"exited with status {code}" + (f": {said[-1]}" if said else ""))


def _outputs(model: onnx.ModelProto, file: Path) -> list[Array]:
    try:
        entries = read_npz(file)
    except HalfulpError as error:
        raise RuntimeError(error.message.replace(str(file), "its outputs")) from None
    return [
        _typed(entries[value.name], value.type.tensor_type.elem_type)
        for value in model.graph.output
        if value.name in entries
    ]


def _typed(array: Array, number: int) -> Array:
    """Return the bits of a type that NumPy lacks as that type."""
    dtype = next((row.dtype for row in TYPES.values() if row.onnx_enum == number), None)
    if dtype is None or dtype.isbuiltin == 1 or array.dtype.itemsize != dtype.itemsize:
        return array
    return np.ascontiguousarray(array).view(dtype).reshape(array.shape) if array.dtype.kind in "Vu" else array
