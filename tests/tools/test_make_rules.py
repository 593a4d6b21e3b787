"""The rules of ONNX Runtime's kernels have the names and messages of the operator versions."""

from halfulp.integrations.onnxruntime import rewrite
from tools import make_rules


def test_the_script_makes_the_file() -> None:
    assert make_rules.generate() == make_rules.TARGET.read_text(encoding="ascii")


def test_nodes_are_given_the_clauses_of_these_checks() -> None:
    assert set(make_rules.checks()) == set(rewrite._SHAPE_CHECKS)
