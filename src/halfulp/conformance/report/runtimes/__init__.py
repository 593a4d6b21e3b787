"""How a program calls each runtime: the pieces of code between its inputs and what it prints.

They do what the files of :mod:`halfulp.conformance.runner.targets` do, for a person to read and without halfulp.
"""

from __future__ import annotations

from halfulp.conformance.case import Case
from halfulp.conformance.report.comparison import Target
from halfulp.conformance.report.literals import VARIABLES, keywords, only_numpys
from halfulp.conformance.report.runtimes import arrays, onnx_models, openvino

Pieces = tuple[str, ...]


def call(target: Target, case: Case) -> Pieces:
    """Return the code that computes ``got`` from ``x`` and ``y`` as the target did."""
    name = target.document["target"]["name"]
    if (library := arrays.library_of(name)) is not None:
        return (arrays.code(library[0], case, library[1]),)
    if name == "openvino-native":
        return openvino.native(case)
    if case.row.standard != "onnx":
        return (_operator(case),)
    return (onnx_models.model(case), *_from_model(target, name, case))


def _from_model(target: Target, name: str, case: Case) -> Pieces:
    if name == "openvino":
        return openvino.from_onnx(case)
    if name in onnx_models.RUNTIMES:
        return (onnx_models.RUNTIMES[name](case),)
    # A command can't be asked for its version; a module has one, or a dot in its name.
    if "." in name or target.document["target"]["versions"]:
        return (onnx_models.module(name),)
    return (onnx_models.command(case),)


def _operator(case: Case) -> str:
    inputs = ", ".join(VARIABLES[: len(case.inputs)])
    return f"import halfulp as hu\n\ngot = hu.op({case.operator!r})({inputs}{keywords(case.attributes)})\n"


def needs(target: Target, case: Case) -> list[str]:
    """Return what a program needs, as pip takes it."""
    found = target.document["target"]
    more = ["numpy"] if only_numpys(case) else ["numpy", "ml_dtypes"]
    if case.row.standard == "onnx" and arrays.library_of(found["name"]) is None:
        more.append("onnx")
    pinned = [f"{name}=={text}" if text[:1].isdigit() else name for name, text in found["versions"].items()]
    return [name for name in more if name not in found["versions"]] + pinned
