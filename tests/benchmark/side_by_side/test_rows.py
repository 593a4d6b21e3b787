"""The rows and the bars: every case that was promised a ratio is a row, and every row can be made."""

import math

import halfulp as hu


def test_every_row_has_a_name_of_its_own(rows):
    for quick in (False, True):
        names = [(row.group, row.label, row.place) for row in rows.rows(quick)]
        assert len(names) == len(set(names)) > 80
        assert {group for group, _, _ in names} == set(rows.GROUPS)


def test_every_row_is_computed(rows):
    for row in rows.rows(quick=True):
        if row.place == rows.OUT_OF_CACHE:
            continue  # the same, larger
        case = row.make()
        function = hu.pow if case.operator == "pow" else hu.prelu
        assert function(case.x, case.y).shape == case.shape
        if row.beside is not None:
            assert math.prod(row.beside().shape) == math.prod(case.shape)


def test_every_bar_has_rows(rows, bars):
    known = {(row.group, row.label, row.place, setting) for row in rows.rows() for setting in row.settings}
    known.add(("calls", "import", "", rows.ONE))
    for bar in bars.BARS:
        for place in bar.places:
            labels = bar.labels or {
                label for group, label, at, _ in known if (group, at) == (bar.group, place)
            }
            missing = [label for label in labels if (bar.group, label, place, bar.setting) not in known]
            assert labels
            assert not missing, (bar.what, place)


def test_who_is_held_against_a_bar_takes_part(rows, bars):
    for bar in bars.BARS:
        own = [
            row
            for row in rows.rows()
            if row.group == bar.group and (not bar.labels or row.label in bar.labels)
        ]
        for row in own:
            if row.place in bar.places and bar.setting in row.settings:
                if bar.against == bars.BESIDE:
                    assert row.beside is not None, row
                elif bar.against == bars.MEMORY:
                    assert row.memory, row
                elif bar.against == bars.ADDITION:
                    assert row.addition, row
                elif bar.against not in (bars.FASTEST, bars.ONE_THREAD, bars.MICROSECOND):
                    assert bar.against in row.peers, row
