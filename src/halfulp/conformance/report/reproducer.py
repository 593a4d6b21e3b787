"""For each finding a short program that shows it: it builds the model and the inputs bit by bit, and needs no halfulp.

``program.py.jinja`` is the program. It consists of pieces (the finding, the inputs, the model, the call, the output),
most of which many programs share. Where a case has few elements, the program has them all. For a large case it has the
worst element, in an array of the case's shape, or the extreme elements if there is nothing to compare.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.resources import files
from keyword import iskeyword
from pathlib import PurePath
from typing import Any

import numpy as np
import onnx
from jinja2 import Environment, StrictUndefined, Template

from halfulp._interop import Array
from halfulp.conformance import cases as known
from halfulp.conformance.case import Case, broadcast
from halfulp.conformance.document import CaseEntry, ReproducibilityEntry
from halfulp.conformance.judge import decimal
from halfulp.conformance.report import Target, gist, repetition_gist
from halfulp.conformance.targets import BUILT_IN, TargetSpec
from halfulp.conformance.targets.arrays import number_of
from halfulp.conformance.targets.models import input_names, model, model_inputs
from halfulp.errors import HalfulpError, printable
from halfulp.floats import codes, ranks
from halfulp.specs import find
from halfulp.types import element_type

Program = tuple[str, ...]
"""The pieces of a program, in their order."""

_LIBRARIES = ("numpy", "torch", "jax", "cupy")
_VARIABLES = ("x", "y", "extra")  # some invalid cases have one input too many
_WHOLE = 64  # a program has all inputs of a case of at most this number of elements
_COMMENTED = 8
_LISTED = 256
_CUT = "\f"
# Raised for documents that are not about cases of this version.
_STRANGE = (HalfulpError, ValueError, TypeError, ArithmeticError, LookupError)


def reproducers(cases: Sequence[tuple[Target, CaseEntry]]) -> list[Program]:
    """Return a program for each case of a target."""
    # Cases that are generated together are rebuilt together.
    order = sorted(range(len(cases)), key=lambda place: cases[place][1]["id"])
    made = {place: reproducer(*cases[place]) for place in order}
    return [made[place] for place in range(len(cases))]


def reproducer(target: Target, entry: CaseEntry) -> Program:
    """Return the program for one case of a target; only comments if this version has no such case."""
    where = f"{entry['id']} in {target.document['target']['name']}: {entry['verdict']}"
    notes = where, _clause(entry) if entry["clause"] else gist(entry), _made(target)
    try:
        example, case = entry["example"], _case(entry)
        if example is None:
            return _program(target, case, notes)
        word = int(example["expected"]["bits"], 16)
        right = literal(_filled(entry["types"][0], (), word))
        return _program(target, case, notes, index=tuple(example["index"]), expected=right)
    except _STRANGE as error:
        return (comment(*notes, f"no program for it: {error}"),)


def repetition(target: Target, entry: ReproducibilityEntry) -> Program:
    """Return the program that computes the same element in two surroundings; empty if this version lacks the case."""
    if (example := entry["example"]) is None:
        return ()
    try:
        again = known.case(example["case"])
        first = known.case(again.compared_with or "")
        notes = f"the bits depend on {entry['aspect']}: {again.id} and {first.id}", repetition_gist(example)
        index = tuple(example["index"])
        place = int(np.ravel_multi_index(index, broadcast(again)[0].shape))
        if again.positions is not None:
            place = int(again.positions.reshape(-1)[place])
        return _program(target, again, (*notes, _made(target)), index=index, first=first, place=place)
    except _STRANGE:
        return ()


# --- the case ------------------------------------------------------------------------------------


def _case(entry: CaseEntry) -> Case:
    """Return the case of an entry, so small that a person can read it."""
    example = entry["example"]
    is_small = sum(math.prod(shape) for shape in entry["shapes"]) <= _WHOLE
    words = [int(number["bits"], 16) for number in example["inputs"]] if example else []
    names = [*entry["types"], entry["types"][-1]]
    told = Case(
        id=entry["id"],
        operator=entry["operator"],
        group=entry["group"],
        inputs=tuple(
            _filled(name, tuple(shape), words[place] if example else None)
            for place, (name, shape) in enumerate(zip(names, entry["shapes"], strict=False))
        ),
        attributes=entry["attributes"],
        constants=frozenset(entry["constants"]),
        clause=entry["clause"],
    )
    # The entry lacks some of a reproducibility case, such as its threads.
    if example is not None and not is_small and entry["group"] != "reproducibility":
        return told
    case = None
    with suppress(HalfulpError):
        case = known.case(entry["id"])
    if case is None or [list(shape) for shape in case.shapes] != entry["shapes"]:
        return told
    # Whether a process dies may depend on all of the input.
    if is_small or entry["verdict"] in ("crashed", "hung"):
        return case
    if example is not None:
        return replace(case, inputs=told.inputs)
    if len(set(case.shapes)) != 1:
        return case
    # The inputs meet element by element: the extreme elements stand for all.
    flat = [array.reshape(-1) for array in case.inputs]
    keys = [ranks(array) for array in flat]
    chosen = sorted({int(extreme(key)) for key in keys for extreme in (np.argmin, np.argmax)})
    return replace(case, inputs=tuple(array[chosen] for array in flat))


def _filled(name: str, shape: tuple[int, ...], bits: int | None) -> Array:
    """Return an array of one value, given by its bits; of ones if not given."""
    kind = element_type(name).dtype
    if bits is None:
        return np.ones(shape).astype(kind)
    return np.full(shape, bits, f"u{kind.itemsize}").view(kind)


# --- the program ---------------------------------------------------------------------------------


def _program(target: Target, case: Case, notes: Sequence[str], **more: Any) -> Program:
    """Return a program; ``more`` has ``index`` and ``expected``, or ``index``, ``place`` and the ``first`` case."""
    found = target.document["target"]
    name, versions = found["name"], found["versions"]
    library, _, device = name.removesuffix(")").partition(" (")
    runtime, _, provider = name.partition(":")
    library_file, _, symbol = found.get("library", "").rpartition(":")
    torch_pow = "torch.compile(torch.pow)" if library == "inductor" else "torch.pow"
    library = "torch" if library == "inductor" else library
    if library not in _LIBRARIES or device not in ("", "cuda"):
        library = ""
    plain = all(_is_numpys(array.dtype) for array in case.inputs)
    needs = ["numpy", *([] if plain else ["ml_dtypes"])]
    needs += ["onnx"] if case.row.format == "onnx" and not library else []
    needs = [package for package in needs if package not in versions]
    needs += [f"{package}=={text}" if text[:1].isdigit() else package for package, text in versions.items()]
    text = _template().render(
        notes=comment(*notes, f"pip install {' '.join(needs)}"),
        name=name,
        library=library,
        torch_pow=torch_pow,
        own_code=_own_code(BUILT_IN.get(runtime)),
        library_file=library_file,
        symbol=symbol,
        named_object=_named_object(name),
        runtime=runtime if runtime in BUILT_IN else name,
        provider=provider,
        device=device or "cpu",
        # A command has no version; a module has a version, or a dot in its name.
        is_module="." in name or versions,
        plain=plain,
        case=case,
        **{"first": None, "expected": ""} | more,
    )
    return tuple(piece for piece in text.split(_CUT) if piece)


def _own_code(spec: TargetSpec | None) -> str:
    """Return the lines of a target's own file, which stand alone; empty if it has none."""
    if spec is None or spec.code not in ("arrays.Functions", "models.Backend"):
        return ""
    name = spec.argument.rpartition(".")[2]
    text = (files("halfulp.conformance.targets") / f"{name}.py").read_text("utf-8")
    return text.partition('"""\n\n')[2]


def _named_object(name: str) -> tuple[str, str, str]:
    """Return the folder, the module and the object of a target ``module:f`` or ``file.py:f``; else empty texts."""
    place, _, found = name.partition(":")
    file = PurePath(place)
    folder, module = (str(file.parent), file.stem) if file.suffix == ".py" else ("", place)
    is_object = found.isidentifier() and all(part.isidentifier() for part in module.split("."))
    return (folder, module, found) if is_object and module not in BUILT_IN else ("", "", "")


@cache
def _template() -> Template:
    environment = Environment(
        extensions=["jinja2.ext.do"], undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "literal": literal,
        "keywords": keywords,
        "quoted": quoted,
        "repr": repr,
        "type_of": lambda array: element_type(array.dtype),
        "without_imports": _without_imports,
    }
    environment.globals |= {
        "cut": _CUT,
        "variables": _VARIABLES,
        "zip": zip,
        "named": lambda case: zip(input_names(case), _VARIABLES, strict=False),
        "model_inputs": model_inputs,
        "model_text": _model_text,
        "number_of": number_of,
        "is_numpys": _is_numpys,
        "dtype": _dtype,
    }
    return environment.from_string((files(__package__) / "program.py.jinja").read_text("utf-8"))


def _model_text(case: Case) -> str:
    """Return a case's model without its initializers, as ``onnx.parser`` reads it."""
    made = model(case)
    del made.graph.initializer[:]
    made.ClearField("producer_name")
    made.ClearField("doc_string")
    return onnx.printer.to_text(made)


def _without_imports(code: str) -> str:
    lines = code.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("import ", "from "))).lstrip("\n")


def _made(target: Target) -> str:
    run = target.document["run"]
    return f"{target.versions or 'unknown version'}; halfulp check {run['halfulp']}, {run['date']}"


def _clause(entry: CaseEntry) -> str:
    """Return the id and the text of an entry's clause; no text if this version lacks the operator or the clause."""
    texts = {}
    with suppress(HalfulpError):
        texts = {f"{entry['operator']}.{each.id}": each.text for each in find(entry["operator"]).clauses}
    return f"{entry['clause']}: {texts.get(entry['clause'] or '', '')}"


# --- expressions ---------------------------------------------------------------------------------


def _is_numpys(dtype: Any) -> bool:
    """Tell whether a type is one of NumPy's own."""
    return element_type(dtype).dtype.isbuiltin == 1


def _dtype(dtype: Any) -> str:
    return f"{'np' if _is_numpys(dtype) else 'ml_dtypes'}.{element_type(dtype).name}"


def literal(array: Array) -> str:
    """Return the expression for an array, bit for bit, with a comment for people.

    A large array of different values is compressed.
    """
    name, size = _dtype(array.dtype), array.dtype.itemsize
    if array.size == 0:
        return f"np.zeros({array.shape}, {name})"
    values, bits = array.reshape(-1), codes(array).reshape(-1)
    if array.size > _LISTED and (bits != bits[0]).any():
        data = base64.b64encode(zlib.compress(np.ascontiguousarray(array).tobytes())).decode()
        text = f'np.frombuffer(zlib.decompress(base64.b64decode("{data}")), {name})'
        return f"{text}.reshape({array.shape})"
    words = [f"0x{int(code):0{2 * size}x}" for code in bits[:_LISTED]]
    is_one, kind, shaped = len(set(words)) == 1, f"np.uint{8 * size}", ""
    if array.ndim == 0:
        made = f"np.array({words[0]}, {kind})"
    elif is_one:
        made = f"np.full({array.shape}, {words[0]}, {kind})"
    else:
        made = f"np.array([{', '.join(words)}], {kind})"
        shaped = f".reshape({array.shape})" if array.ndim > 1 else ""
    decimals = ", ".join(map(decimal, values[: 1 if is_one else _COMMENTED]))
    decimals += ", ..." * (not is_one and array.size > _COMMENTED)
    return f"{made}.view({name}){shaped}  # {decimals}"


def keywords(attributes: Mapping[str, Any]) -> str:
    """Return the attributes as arguments after others."""
    named = {
        name: f"float('{value}')" if isinstance(value, float) and not math.isfinite(value) else repr(value)
        for name, value in sorted(attributes.items())
    }
    if all(name.isidentifier() and not iskeyword(name) for name in named):
        return "".join(f", {name}={value}" for name, value in named.items())
    return ", **{" + ", ".join(f"{name!r}: {value}" for name, value in named.items()) + "}"


def quoted(text: str) -> str:
    """Return the literal of a text of several lines, which a document's names and values can't end."""
    escaped = text.replace("\\", "\\\\").replace('"""', r"\"\"\"")
    return f'"""\n{escaped}\n"""' if all(line.isprintable() for line in text.split("\n")) else repr(text)


def comment(*texts: str) -> str:
    """Return texts as comments, a line each: a runtime's message must not become code."""
    return "".join(f"# {printable(text, most=None, instead=' ')}\n" for text in texts if text)
