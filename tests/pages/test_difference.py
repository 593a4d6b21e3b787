"""What changed between two versions, in words; and the command that prints it."""

from __future__ import annotations

import itertools

import pytest

from halfulp.errors import UnsupportedError
from halfulp.pages import Bullets, page, text
from halfulp.pages.difference import difference
from halfulp.specs import find, ids


def items(new: str, old: str) -> dict[str, tuple[str, ...]]:
    """Return the sentences of a difference, by heading."""
    found = {}
    for section in difference(find(new), find(old)).sections:
        (bullets,) = section.blocks
        assert isinstance(bullets, Bullets)
        found[section.heading] = bullets.items
    return found


def test_from_pow_7_to_pow_12() -> None:
    assert (
        text(difference(find("onnx.Pow-12"), find("onnx.Pow-7")))
        == """\
From onnx.Pow-7 to onnx.Pow-12
==============================

Added
  - X and Z also take int32 and int64.
  - Type variable T1, for Y: float64, float32, float16, int16, int32, int64, int8, uint16, uint32,
    uint64 and uint8.
  - Clause C7: Y has a type that T1 allows, whatever X's type is.
  - Left open: An integer result that the type does not hold. Our choice: The exact integer modulo
    2^n (it wraps); 0^0 = 1.
  - Left open: An integer base with a negative or a floating exponent. Our choice: The exact real
    value truncated toward zero and saturated to the type; NaN gives 0, and 0 to a negative power
    gives the type's maximum.

Changed
  - Y has the type T1; before, T (with X and Z).
  - Clause C3: X and Z have the same type, one that T allows. Before, C3: X, Y and Z have the same
    type, one that T allows.

Unchanged
  - attributes, broadcasting, limits on ranks and sizes, function body and shape inference."""
    )


def test_what_single_steps_changed() -> None:
    assert items("onnx.Pow-13", "onnx.Pow-12")["Added"] == ("X and Z also take bfloat16.",)
    assert items("onnx.Pow-15", "onnx.Pow-13")["Added"] == ("Y also takes bfloat16.",)
    assert items("onnx.PRelu-9", "onnx.PRelu-7")["Added"][0] == (
        "X, slope and Y also take int32, int64, uint32 and uint64."
    )
    assert (
        "A function body: the operator can be expanded into simpler ones."
        in items("onnx.PRelu-16", "onnx.PRelu-9")["Added"]
    )
    prelu_6 = items("onnx.PRelu-6", "onnx.PRelu-1")
    assert prelu_6["Added"] == ("Shape inference.",)
    assert items("onnx.PRelu-1", "onnx.PRelu-6")["Removed"] == ("Shape inference.",)
    assert prelu_6["Removed"] == (
        "Attribute consumed_inputs (INTS, optional): legacy optimization attribute.",
    )
    relu = items("directml.ACTIVATION_PARAMETERIZED_RELU-2_0", "directml.ACTIVATION_PARAMETERIZED_RELU-1_0")
    assert relu["Changed"] == (
        (
            "Tensors have 4 to 5 dimensions, no size of 0, and at most 4294967295 elements."
            " Before: Tensors have 4 dimensions, no size of 0, and at most 4294967295 elements."
        ),
    )


def test_pow_7_drops_the_attributes_of_pow_1() -> None:
    removed = items("onnx.Pow-7", "onnx.Pow-1")["Removed"]
    assert removed[:2] == (
        "Attribute axis (INT, optional): If set, defines the broadcast dimensions.",
        "Attribute broadcast (INT, default 0): Pass 1 to enable broadcasting.",
    )


@pytest.mark.parametrize(("new", "old"), list(itertools.permutations(ids(), 2)))
def test_turning_a_difference_round_swaps_added_and_removed(new: str, old: str) -> None:
    there, back = items(new, old), items(old, new)
    there.pop("Unchanged", None), back.pop("Unchanged", None)
    assert there, "two rows never say the same"

    def topics(found: tuple[str, ...]) -> set[str]:
        return {said.partition(":")[0] for said in found if said.startswith(("Attribute ", "Clause "))}

    assert topics(there.get("Added", ())) == topics(back.get("Removed", ()))
    assert len(there.get("Changed", ())) == len(back.get("Changed", ()))


def test_a_version_does_not_differ_from_itself() -> None:
    for id in ids():
        assert set(items(id, id)) == {"Unchanged"}


def test_different_operators_are_called_so() -> None:
    assert difference(find("onnx.Pow-7"), find("onnx.PRelu-7")).lead == "These are different operators."


# --- halfulp spec ---------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[str, BaseException | None]:
    typer = pytest.importorskip("typer")
    testing = pytest.importorskip("typer.testing")
    from halfulp.cli.spec import spec

    app = typer.Typer()
    app.command()(spec)
    result = testing.CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100"})
    return result.output, result.exception


def test_spec_prints_the_page() -> None:
    output, error = run("onnx.Pow-14")
    assert error is None
    assert output == f"{text(page(find('onnx.Pow-13')))}\n"


def test_spec_diff_prints_the_page_and_then_the_difference() -> None:
    output, error = run("onnx.Pow-12", "--diff", "onnx.Pow-7")
    assert error is None
    words = text(difference(find("onnx.Pow-12"), find("onnx.Pow-7")))
    assert output == f"{text(page(find('onnx.Pow-12')))}\n\n{words}\n"


@pytest.mark.parametrize("arguments", [("onnx.Pow",), ("onnx.Pow-12", "--diff", "onnx.Pwo-7")])
def test_spec_prints_nothing_for_an_unknown_id(arguments: tuple[str, ...]) -> None:
    output, error = run(*arguments)
    assert output == ""
    assert isinstance(error, UnsupportedError)
