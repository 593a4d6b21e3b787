"""Cases as files for any runtime's tests: the folders of ONNX's backend tests."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.resources import files
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import onnx

from halfulp._interop import Array
from halfulp.conformance.case import Case, broadcast, expected
from halfulp.conformance.judge import unspecified
from halfulp.conformance.targets.models import model, model_inputs
from halfulp.errors import HalfulpError
from halfulp.types import codes, float_type, is_float

__all__ = ["Exported", "export"]

FORMATS = ("onnx", "csv", "c")


class Exported(NamedTuple):
    """The numbers of cases written and left out."""

    valid: int
    invalid: int
    left_out: int


def export(
    directory: str | Path, cases: Iterable[Case], *, format: str = "onnx", ulp_limit: float = 4
) -> Exported:
    """Write cases as folders of ONNX's backend tests, or in a plainer format, all of them or none.

    A case becomes ``valid/test_.../``: ``model.onnx``, ``test_data_set_0/input_0.pb``, ``output_0.pb`` and so on, and
    ``data.json`` with the tolerances that the onnx package's runner reads (see ``tolerances``) and the case's id. One
    that must be refused becomes ``invalid/test_.../``, without outputs, and with the clause in its ``data.json``.
    Operators that ONNX lacks, cases with open elements, and the long arrays that try threads are left out. ``run.py``
    runs them all in ONNX Runtime or another backend, without halfulp.

    As ``csv`` all are one table, ``cases.csv``. As ``c`` they are an array in ``cases.h`` for each operator version and
    types. Both have the bits of the operands and the result of each element. Cases that must be refused, and those with
    attributes, are left out of these two.

    Args:
        directory: a new or an empty folder.
        cases: from ``cases()``.
        format: one of ``FORMATS``.
        ulp_limit: the distance, in representable values, that a result may have; 0 demands every bit.

    Raises:
        HalfulpError: the folder has something in it already, or can't be written.

    Example:
        >>> import tempfile
        >>> from halfulp.conformance.cases import case
        >>> folder = Path(tempfile.mkdtemp())
        >>> export(folder, [case("onnx.Pow-7/float32,float32/broadcast/2x3x4,4")])
        Exported(valid=1, invalid=0, left_out=0)
        >>> sorted(path.name for path in folder.rglob("*.*"))
        ['data.json', 'input_0.pb', 'input_1.pb', 'model.onnx', 'output_0.pb', 'run.py']
    """
    counts, directory = Counter[str](), Path(directory)
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise HalfulpError(f"{directory}: exists already, and is not an empty folder")
        directory.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{directory.name[:50]}.", dir=directory.parent) as temporary:
            folder = Path(temporary) / "cases"
            folder.mkdir()
            fitting = _fitting(cases, format, counts)
            if format == "onnx":
                for case in fitting:
                    kind = "valid" if case.clause is None else "invalid"
                    _write(folder / kind / folder_name(case), case, ulp_limit)
                program = (files(__package__) / "run_exported.py").read_text("utf-8")
                (folder / "run.py").write_text(program, "utf-8")
            else:
                _write_elements(folder, fitting, format)
            folder.replace(directory)  # once it is complete
    except OSError as error:
        raise HalfulpError(f"{directory}: can't be written: {error.strerror}") from None
    return Exported(counts["valid"], counts["invalid"], counts["left out"])


def _fitting(cases: Iterable[Case], format: str, counts: Counter[str]) -> Iterator[Case]:
    """Yield the cases that a format has, and whose document determines the whole result or the refusal; count all."""
    for case in cases:
        is_told = format == "onnx" or not (case.clause or case.attributes)
        is_determined = not unspecified(case).elements.any()
        if is_told and is_determined and case.row.standard == "onnx" and case.threads is None:
            counts["valid" if case.clause is None else "invalid"] += 1
            yield case
        else:
            counts["left out"] += 1


def folder_name(case: Case) -> str:
    """Return the name of a case's folder: its id, with underscores for the characters that file systems dislike."""
    return "test_" + re.sub(r"[^A-Za-z0-9_-]", "_", case.id)


def tolerances(result: Array, ulp_limit: float) -> dict[str, float]:
    """Return the relative and the absolute tolerance that allow ``ulp_limit`` ulps, and 0 for integers."""
    if not is_float(result):
        return {"rtol": 0, "atol": 0}
    facts = float_type(result.dtype.name)
    return {"rtol": ulp_limit * 2.0 ** (1 - facts.digits), "atol": ulp_limit * 2.0**facts.least_exponent}


def _write_elements(folder: Path, cases: Iterable[Case], format: str) -> None:
    """Write the bits of operands and results: a table, or C arrays, one for each operator version and types."""
    rows: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        operator, types = case.id.split("/")[:2]
        form = "  {{{0}, {1}, {2}}},\n" if format == "c" else f"{operator},{types},{{}},{{}},{{}},{case.id}\n"
        bits = (codes(array).ravel().tolist() for array in (*broadcast(case), expected(case)))
        texts = (form.format(*(f"0x{word:x}" for word in words)) for words in zip(*bits, strict=True))
        rows.setdefault((operator, types), []).extend(texts)
    if format == "csv":
        head = "operator,x type,y type,x,y,expected,case\n"
        (folder / "cases.csv").write_text(head + "".join(chain.from_iterable(rows.values())), "utf-8")
        return
    text = "/* The bits of operands and of the exact results, by halfulp. */\n#include <stdint.h>\n\n"
    text += "struct halfulp_case { uint64_t x, y, expected; };\n"
    for key, lines in rows.items():
        array = re.sub(r"\W", "_", "/".join(key).partition(".")[2])
        text += f"\nstatic const struct halfulp_case {array}[] = {{\n{''.join(lines)}}};\n"
    (folder / "cases.h").write_text(text, "utf-8")


def _write(folder: Path, case: Case, ulp_limit: float) -> None:
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model(case), folder / "model.onnx")
    facts: dict[str, object] = {"id": case.id}
    for number, (name, array) in enumerate(model_inputs(case).items()):
        onnx.save_tensor(onnx.numpy_helper.from_array(array, name), data / f"input_{number}.pb")
    if case.clause is None:
        result = expected(case)
        output = onnx.numpy_helper.from_array(result, case.row.outputs[0].name)
        onnx.save_tensor(output, data / "output_0.pb")
        facts |= tolerances(result, ulp_limit)
    else:
        clause = next(c for c in case.row.clauses if case.clause == f"{case.row.id}.{c.id}")
        facts |= {"refused_by": case.clause, "text": clause.text}
    (folder / "data.json").write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
