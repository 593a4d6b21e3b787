"""Operator versions as rows, and what can be told from a row without computing anything."""

from halfulp.specs.attributes import ScaleBias
from halfulp.specs.model import OpVersion
from halfulp.specs.parts import Attribute, Clause, Example, Limits, Plan, Port, Unspecified
from halfulp.specs.registry import find, ids, in_force
from halfulp.specs.tensor import TensorType

__all__ = [
    "Attribute",
    "Clause",
    "Example",
    "Limits",
    "OpVersion",
    "Plan",
    "Port",
    "ScaleBias",
    "TensorType",
    "Unspecified",
    "find",
    "ids",
    "in_force",
]
