"""What of a case its document leaves open, by the row's ``unspecified``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from halfulp._interop import Array
from halfulp.conformance.case import Case, broadcast
from halfulp.conformance.verdict.unspecified_rules import RULES


class UnspecifiedOutput(NamedTuple):
    """What a document leaves open of a case's output.

    Attributes:
        elements: for each element of the output whether it is open.
        zero_signs: for each element whether the sign of a zero is open.
        whole: whether everything is: even that there is an output.
        refusal: whether the case may be refused, though its output is judged if there is one.
        question: what is open, with its place in the row: ``"onnx.Pow-15.U4: An integer result ..."``.
    """

    elements: Array
    zero_signs: Array
    whole: bool
    refusal: bool
    question: str


@np.errstate(invalid="ignore")  # signalling NaNs
def unspecified(case: Case) -> UnspecifiedOutput | None:
    """Return what the document leaves open of a case; None where that is nothing."""
    questions = [
        (f"{case.row.id}.U{number}: {entry.question}", rule)
        for number, entry in enumerate(case.row.unspecified, start=1)
        if (rule := RULES[entry.key]) is not None
    ]
    for question, rule in questions:
        if rule.whole is not None and rule.whole(case):
            nothing = np.zeros((), bool)
            return UnspecifiedOutput(nothing, nothing, True, True, question)
    if case.clause is not None:
        return None
    x, *rest = broadcast(case)
    # An operator of one input has its exponent as an attribute.
    y = rest[0] if rest else np.broadcast_to(np.float32(case.attributes["Exponent"]), x.shape)
    elements, zero_signs = np.zeros(x.shape, bool), np.zeros(x.shape, bool)
    refusal, asked = False, None
    for question, rule in questions:
        if rule.refusal is not None and rule.refusal(case):
            refusal, asked = True, asked or question
        for function, mask in ((rule.elements, elements), (rule.zero_signs, zero_signs)):
            if function is not None:
                found = function(case, x, y)
                mask |= found
                asked = asked or (question if found.any() else None)
    return None if asked is None else UnspecifiedOutput(elements, zero_signs, False, refusal, asked)
