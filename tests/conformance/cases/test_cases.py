"""The cases as a whole: which there are, that they come from the rows alone, that halfulp and MPFR agree on them."""

import dataclasses
import hashlib
import os
import subprocess
import sys
from collections import defaultdict
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from halfulp import specs
from halfulp.conformance.case import ASPECTS, GROUPS, expected, oracle, parse
from halfulp.conformance.cases import case, cases, selected, type_pairs
from halfulp.conformance.judge import judge, unspecified
from halfulp.errors import HalfulpError, SpecError
from halfulp.specs import Clause, find, ids
from halfulp.specs.broadcast import NONE
from halfulp.types import codes

ROOT = Path(__file__).parents[3]
ROWS = [find(id) for id in ids()]


@cache
def quick():
    return list(cases("quick", ids()))


def of_row(row):
    return [one for one in quick() if one.operator == row]


def digest(made):
    """Return every bit of some cases."""
    state = hashlib.sha256()
    for one in made:
        told = (one.id, one.attributes, sorted(one.constants), one.clause, one.aspect, one.compared_with)
        told += (one.threads, one.types, one.shapes, one.declared)
        state.update(repr(told).encode())
        for array in (*one.inputs, *([] if one.positions is None else [one.positions])):
            state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()[:16]


def test_ids_are_distinct_and_say_what_a_case_is():
    assert len({one.id for one in quick()}) == len(quick()) > 2000
    for one in quick():
        parts = parse(one.id)
        assert (parts.operator, parts.group) == (one.operator, one.group)
        assert parts.types in type_pairs(one.row)
        assert one.clause is not None or parts.types == one.types
        assert not set(one.id) & set(" *?[]\\\n")  # patterns and shells keep out


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_every_pair_of_types_has_every_kind_of_values(row):
    found = defaultdict(set)
    for one in of_row(row.id):
        found[parse(one.id).types].add(one.group)
    wanted = {"values", "special", "edge"}
    assert set(found) == set(type_pairs(row))
    assert all(groups >= wanted for groups in found.values())
    one_for_all = next(groups for types, groups in found.items() if set(types) == {"float32"})
    assert one_for_all >= wanted | {"broadcast", "invalid"}
    assert ("hard" in one_for_all) == (row.kernel != "prelu" and len(row.inputs) == 2)


def test_all_aspects_of_reproducibility():
    known = {one.id for one in quick()}
    for row in ROWS:
        mine = [one for one in of_row(row.id) if one.group == "reproducibility"]
        # A scalar needs broadcasting.
        wanted = set(ASPECTS) - ({"scalar exponent"} if row.broadcasting is NONE else set())
        assert {one.aspect for one in mine} - {None} == (wanted if len(row.inputs) == 2 else set())
        for one in mine:
            assert (one.compared_with is None) == (one.aspect is None)
            assert one.compared_with is None or one.compared_with in known


def test_a_counterpart_has_the_same_elements():
    others = {one.id: one for one in quick()}
    for one in (one for one in quick() if one.compared_with and one.aspect != "threads"):
        mine, theirs = expected(one), expected(others[one.compared_with])
        places = np.arange(mine.size) if one.positions is None else one.positions
        assert np.array_equal(codes(mine).ravel(), codes(theirs).ravel()[places]), one.id


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_every_clause_that_a_check_enforces_has_an_invalid_case(row):
    breached = {one.clause for one in of_row(row.id) if one.clause}
    enforced = {f"{row.id}.{clause.id}" for clause in row.clauses if clause.enforces}
    # One input alone has no shape to differ from.
    assert enforced - breached == ({f"{row.id}.C2"} if len(row.inputs) == 1 else set())


def test_halfulp_refuses_what_is_invalid_and_names_the_clause():
    for one in (one for one in quick() if one.clause):
        assert refused_by(one) == one.clause, one.id


def refused_by(one):
    with pytest.raises(SpecError) as caught:
        expected(one)
    return caught.value.clause


def test_slopes_of_legacy_versions():
    """The digests below hold the cases of the legacy axis."""
    for row in ("onnx.PRelu-1", "onnx.PRelu-6"):
        names = {one.name for one in of_row(row) if one.group == "broadcast"}
        assert names >= {"2x3x4,1", "2x3x4,scalar", "2x3x4x5,3", "2x3x3x3,3", "2x3x4,3x4", "1x3x1x2,3x1x1"}


@pytest.mark.parametrize("operator", ["onnx.Pow-7", "onnx.PRelu-9", "directml.ELEMENT_WISE_CONSTANT_POW-3_0"])
def test_the_quick_cases_are_among_the_full_ones(operator):
    every = list(cases("full", [operator]))
    full = {one.id: one for one in every}
    quick = list(cases("quick", [operator]))
    assert len(every) == len(full) > len(quick)
    for one in quick:
        assert digest([one]) == digest([full[one.id]])


# Digests of all bits of some operators' quick cases. They change with the cases.
DIGESTS = {
    "onnx.Pow-1": "38d1826da3f8ae8c",
    "onnx.PRelu-16": "3382ae498d56c9c5",
    "openvino.Power-1": "bf63e3bc21d1dfe0",
}


def digests():
    return {operator: digest(cases("quick", [operator])) for operator in DIGESTS}


def test_cases_are_the_same_everywhere():
    """As on the machine and with the NumPy where this was written; in another process, with another hash seed."""
    assert digests() == DIGESTS
    code = "from tests.conformance.cases.test_cases import digests; print(digests())"
    environment = os.environ | {"PYTHONHASHSEED": "7", "HALFULP_ISA": "scalar"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=ROOT
    )
    assert done.stdout.strip() == str(DIGESTS)


@pytest.mark.parametrize("group", GROUPS)
def test_a_case_is_made_again_from_its_id(group):
    mine = [one for one in quick() if one.group == group]
    for one in mine[:: max(1, len(mine) // 12)]:
        assert digest([case(one.id)]) == digest([one])


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("onnx.Pow-7", "not the id of a case"),
        ("onnx.Pow-7/float32,float32/values/nothing", "no case onnx.Pow-7"),
        ("onnx.Pow-7/int8,int8/values/0", "no case onnx.Pow-7"),
        ("onnx.Pow-8/float32,float32/values/0", "no case onnx.Pow-8"),
        ("onnx.Pov-7/float32,float32/values/0", "no operator version onnx.Pov-7"),
        ("onnx.Pow-7/float32,float32/other/0", "not the id of a case"),
    ],
)
def test_no_such_case(id, words):
    with pytest.raises(HalfulpError, match=words):
        case(id)


def test_a_selection():
    assert [row.id for row in selected(["onnx.Pow", "PReLU"], ["1"])] == ["onnx.Pow-1", "openvino.PReLU-1"]
    assert {one.operator for one in cases("quick", ["onnx"], ["13"])} == {"onnx.Pow-13"}
    # SONNX is a profile of ONNX, whose operators are chosen by its name alone.
    assert [row.id for row in selected() if row.standard == "sonnx"] == []
    assert [row.id for row in selected(["Pow"], ["15"])] == ["onnx.Pow-15"]
    assert [row.id for row in selected(["SONNX.pow"])] == ["sonnx.Pow-15"]
    chosen = list(cases("quick", ["onnx.Pow-13"], types=["bfloat16"]))
    assert {parse(one.id).types[0] for one in chosen} == {"bfloat16"}
    assert {one.group for one in chosen} == {*GROUPS}


def test_a_new_row_has_its_cases_without_any_other_change(monkeypatch):
    """A version that some later document may bring: other types, other clauses, an attribute."""
    old, power = find("onnx.Pow-15"), find("openvino.Power-1")
    row = dataclasses.replace(
        old,
        id="onnx.Pow-99",
        type_variables={"T": ("float32", "int8"), "T1": ("float8_e4m3fn", "float32")},
        attributes=power.attributes,
        broadcasting=power.broadcasting,
        clauses=(
            *(clause for clause in old.clauses if clause.id != "C5"),
            Clause("C5", "There is one attribute.", ("unknown attribute", "attribute auto_broadcast")),
            Clause("C8", "Shapes may have to be equal.", ("equal shapes",)),
        ),
    )
    monkeypatch.setitem(specs._ROWS, row.id, row)
    made = list(cases("quick", ["onnx.Pow-99"]))
    assert {one.group for one in made} == set(GROUPS)
    assert {parse(one.id).types for one in made} == {*product(*row.type_variables.values())}
    assert {one.clause for one in made} - {None} == {f"onnx.Pow-99.C{n}" for n in (2, 3, 4, 5, 6, 7, 8)}
    assert any(one.attributes.get("auto_broadcast") == "none" for one in made)
    for one in made:
        if one.clause is None:
            assert expected(one).dtype == one.inputs[0].dtype
        else:
            assert refused_by(one) == one.clause
    assert "onnx.Pow-99" in {one.operator for one in cases("quick", ["onnx.Pow"])}


@pytest.mark.parametrize("group", [group for group in GROUPS if group != "invalid"])
def test_mpfr_confirms_what_is_expected(group):
    """Some elements of every case; all of the cases about shapes."""
    for one in (one for one in quick() if one.group == group and one.threads is None):
        right = expected(one)
        assert judge(one, right, right).verdict in ("exact", "unspecified"), one.id
        if group == "broadcast":
            assert same(oracle(one), right), one.id
            continue
        chosen = np.random.default_rng(len(one.id)).integers(0, right.size, min(10, right.size))
        exact = oracle(one, np.unravel_index(chosen, right.shape))
        assert same(exact, right.ravel()[chosen]), one.id


@pytest.mark.exhaustive
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_mpfr_confirms_every_element_of_full_mode(row):
    seen = set()
    for one in cases("full", [row.id]):
        assert one.id not in seen
        seen.add(one.id)
        if one.clause is not None:
            assert refused_by(one) == one.clause, one.id
        elif one.threads is None:
            assert same(oracle(one), expected(one)), one.id


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(codes(a), codes(b))


def test_what_is_open_has_cases_of_its_own():
    for one in quick():
        if one.clause is None and one.group in ("values", "special", "edge", "hard"):
            elements = unspecified(one).elements
            assert elements.any() == elements.all() == one.name.endswith("-open"), one.id
