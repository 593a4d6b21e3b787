"""For each finding a short program that shows it: it builds the model and the inputs bit by bit, and needs no halfulp.

A program consists of pieces (the finding, the inputs, the model, the call of the runtime, the output), most of which
many programs share. Where a case has few elements the program has them all; of a large one it has the worst element,
in an array of the case's shape, or the extreme elements where there is no result to compare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from halfulp.conformance.case import Case, broadcast, operands_at
from halfulp.conformance.cases import find_case
from halfulp.conformance.floats import ranks
from halfulp.conformance.judge import shown
from halfulp.conformance.report import Target, gist, repetition_gist
from halfulp.conformance.report.programs import (
    VARIABLES,
    call,
    comment,
    filled,
    literal,
    needs,
    only_numpys,
    scalar,
)
from halfulp.conformance.schema import CaseEntry, Difference, Example, ReproducibilityEntry
from halfulp.errors import HalfulpError
from halfulp.specs import find

Program = tuple[str, ...]
"""The pieces of a program, in their order."""

# Up to how many elements a program has all of a case's inputs.
_WHOLE = 64
# Raised for documents that are not about cases of this version.
_STRANGE = (HalfulpError, ValueError, ArithmeticError, LookupError)
_PRINTED = (
    'for name, value in (("{}", {}), ("{}", {})):\n'
    '    print(name, value, "0x" + value.tobytes()[::-1].hex())\n'
)


def reproducers(cases: Sequence[tuple[Target, CaseEntry]]) -> list[Program]:
    """Return a program for each case of a target."""
    # Those that are generated together are rebuilt together.
    order = sorted(range(len(cases)), key=lambda place: cases[place][1]["id"])
    made = {place: reproducer(*cases[place]) for place in order}
    return [made[place] for place in range(len(cases))]


def reproducer(target: Target, entry: CaseEntry) -> Program:
    """Return the program for one case of a target; only comments if this version has no such case."""
    try:
        case = _case(entry)
        return (
            _found(target, entry) + _installed(target, case),
            _inputs(case),
            *call(target, case),
            _expected(entry),
            _report(entry),
        )
    except _STRANGE as error:
        return (_found(target, entry) + comment(f"no program for it: {error}"),)


def _case(entry: CaseEntry) -> Case:
    """Return the case of an entry, so small that a person can read it."""
    small = sum(math.prod(shape) for shape in entry["shapes"]) <= _WHOLE
    told = _told(entry)
    # The entry lacks some of a reproducibility case, such as its threads.
    if entry["example"] is not None and not small and entry["group"] != "reproducibility":
        return told
    case = find_case(entry["id"])
    if case is None or not _same(case, entry):
        return told
    # Whether a process dies may depend on all of the input.
    if small or entry["verdict"] in ("crashed", "hung"):
        return case
    return _extremes(case) if entry["example"] is None else replace(case, inputs=told.inputs)


def _same(case: Case, entry: CaseEntry) -> bool:
    """Tell whether a case is the one of an entry; another version of halfulp may have made that."""
    if [list(shape) for shape in case.shapes] != entry["shapes"]:
        return False
    return entry["example"] is None or _meet(case, entry["example"])


def _meet(case: Case, example: Example | Difference) -> bool:
    """Tell whether the operands of an example are those of the case."""
    found = [shown(element)["bits"] for element in operands_at(case, tuple(example["index"]))]
    return found == [number["bits"] for number in example["inputs"]]


def _told(entry: CaseEntry) -> Case:
    """Return an entry's case with arrays of its shapes, filled with the example's operands or with ones."""
    example = entry["example"]
    inputs = []
    for place, shape in enumerate(entry["shapes"]):
        name = entry["types"][min(place, len(entry["types"]) - 1)]
        bits = int(example["inputs"][place]["bits"], 16) if example else None
        inputs.append(filled(name, tuple(shape), bits))
    return Case(
        id=entry["id"],
        operator=entry["operator"],
        group=entry["group"],
        inputs=tuple(inputs),
        attributes=entry["attributes"],
        constants=frozenset(entry["constants"]),
        clause=entry["clause"],
    )


def _extremes(case: Case) -> Case:
    """Return a case with the extreme elements of a large one, where its inputs go together one by one."""
    if len(set(case.shapes)) != 1:
        return case
    flat = [array.reshape(-1) for array in case.inputs]
    keys = [ranks(array) for array in flat]
    chosen = sorted({int(extreme(key)) for key in keys for extreme in (np.argmin, np.argmax)})
    return replace(case, inputs=tuple(array[chosen] for array in flat))


def repetition(target: Target, entry: ReproducibilityEntry) -> Program:
    """Return the program that computes the same element in two surroundings; empty if this version lacks the case."""
    try:
        return _repetition(target, entry)
    except _STRANGE:
        return ()


def _repetition(target: Target, entry: ReproducibilityEntry) -> Program:
    example = entry["example"]
    again = None if example is None else find_case(example["case"])
    first = None if again is None or again.compared_with is None else find_case(again.compared_with)
    if example is None or again is None or first is None or not _meet(again, example):
        return ()
    index = tuple(example["index"])
    shape = np.broadcast_shapes(*(array.shape for array in broadcast(again)))
    flat = int(np.ravel_multi_index(index, shape))
    place = flat if again.positions is None else int(again.positions.reshape(-1)[flat])
    depends = f"the bits depend on {entry['aspect']}: {again.id} and {first.id}"
    return (
        comment(depends, repetition_gist(example), _made(target)) + _installed(target, again),
        _inputs(first),
        *call(target, first),
        f"first = np.asarray(got).reshape(-1)[{place}]\n\n",
        _without_imports("".join((_inputs(again), *call(target, again)))),
        f"again = np.asarray(got)[{index}]\n\n" + _PRINTED.format("first", "first", "again", "again"),
    )


def _without_imports(code: str) -> str:
    lines = code.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("import ", "from "))).lstrip("\n")


def _made(target: Target) -> str:
    run = target.document["run"]
    return f"{target.versions or 'unknown version'}; halfulp check {run['halfulp']}, {run['date']}"


def _found(target: Target, entry: CaseEntry) -> str:
    """Return the finding as comments."""
    where = f"{entry['id']} in {target.document['target']['name']}: {entry['verdict']}"
    return comment(where, _clause(entry) if entry["clause"] else gist(entry), _made(target))


def _clause(entry: CaseEntry) -> str:
    """Return the id and the text of an entry's clause; no text if this version lacks the operator or the clause."""
    try:
        clauses = find(entry["operator"]).clauses
    except HalfulpError:
        clauses = ()
    texts = {f"{entry['operator']}.{clause.id}": clause.text for clause in clauses}
    return f"{entry['clause']}: {texts.get(entry['clause'] or '', '')}"


def _installed(target: Target, case: Case) -> str:
    packages = " ".join(needs(target, case))
    return comment(f"pip install {packages}") if packages else ""


def _inputs(case: Case) -> str:
    named = zip(VARIABLES, case.inputs, strict=False)
    lines = [f"{name} = {literal(array)}\n" for name, array in named]
    imports = "import numpy as np\n" if only_numpys(case) else "import ml_dtypes\nimport numpy as np\n"
    if any("zlib." in line for line in lines):
        imports = f"import base64\nimport zlib\n\n{imports}"
    return "\n".join([imports, "".join(lines), ""])


def _expected(entry: CaseEntry) -> str:
    example = entry["example"]
    if example is None:
        return "\n"
    right = scalar(int(example["expected"]["bits"], 16), entry["types"][0])
    text = comment(example["expected"]["value"])
    return f"\nindex = {tuple(example['index'])}\nexpected = {right}  {text}"


def _report(entry: CaseEntry) -> str:
    if entry["example"] is not None:
        return _PRINTED.format("expected", "expected", "got", "got[index]")
    if entry["clause"] is not None:
        text = f"accepted, though {entry['clause']} forbids it:"
        return f"print({text!r}, got.dtype, got.shape)\n"
    return 'print("got", got.dtype, got.shape)\n'
