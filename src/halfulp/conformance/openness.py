"""Which elements of a case its document leaves open, by the row's ``unspecified``."""

from __future__ import annotations

from typing import NamedTuple

from halfulp.conformance.case import Case
from halfulp.protocols import Array


class Openness(NamedTuple):
    """What a document leaves open of a case's output.

    Attributes:
        elements: for each element of the output whether it is open.
        zero_signs: for each element whether the sign of a zero is open, or None where none is.
        whole: whether everything is: even that there is an output.
        question: what is open, with its place in the row: ``"onnx.Pow-15.U4: An integer result ..."``.
    """

    elements: Array
    zero_signs: Array | None
    whole: bool
    question: str


def openness(case: Case) -> Openness | None:
    """Return what the document leaves open of a case; None where that is nothing."""
    return None
