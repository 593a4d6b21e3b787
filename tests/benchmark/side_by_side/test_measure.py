"""The processes that measure, and the yardstick."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from side_by_side.peers import constant_power, power, prelu


def test_a_row_is_measured_in_two_processes_that_are_started_again(measure, rows, tmp_path, monkeypatch):
    slow = ["torch", "jax", "openvino", "numba"]
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules |= dict.fromkeys({slow})")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    known = rows.rows(quick=True)
    index = next(
        i for i, row in enumerate(known) if row.label == "int32 ** int32" and row.place == rows.IN_CACHE
    )
    few = next(i for i, row in enumerate(known) if row.label == "16 elements")
    # The worker makes the row by its index, and asks all that are installed and quick to import.
    with measure.workers(quick=True, log=tmp_path / "log.txt") as workers:
        lines = workers.measure(index, known[index], seconds=0, least=6)
        with pytest.raises(measure.WorkerError, match="ended"):
            workers.measure(len(known), known[few], seconds=0, least=1)
        assert "IndexError" in (tmp_path / "log.txt").read_text()
        again = workers.measure(few, known[few], seconds=0, least=1)
    assert again[0].library == "halfulp"
    log = (tmp_path / "log.txt").read_text()
    for threads in (1, 2):
        own = {line.library: line for line in lines if line.threads == threads}
        assert own["halfulp"].turns == own["numpy"].turns == 6, log
        assert own["numpy"].misrounded == 0  # it wraps as we do
        assert own["halfulp"].elements == 1 << 16
        assert own["halfulp"].ns > 0


def test_other_instruction_sets_give_the_same_bits_or_the_run_fails(measure, rows):
    class Liar:
        def __init__(self, setting: Any, *_: Any) -> None:
            self.setting = setting

        def ask(self, *_: Any) -> dict[str, Any]:
            return {"digest": self.setting.threads, "times": {}}

    workers = measure.Workers(quick=True, log=Path("unused"))
    workers._running = {setting: Liar(setting) for setting in (rows.ONE, rows.TWO)}
    row = next(row for row in rows.rows() if len(row.settings) == 2)
    with pytest.raises(measure.WorkerError, match="bits differ"):
        workers.measure(0, row, 0, 1)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_memory_moves_every_byte(memory, tmp_path_factory, threads):
    library = memory.compiled(tmp_path_factory.getbasetemp() / "yardstick")
    if library is None:
        pytest.skip("no compiler")
    cases = [
        power("float32", "int64", 5 * 64),
        power("float64", "int8", 1024),
        constant_power("float16", 2, 640),
        prelu("int8", (1, 64, 8, 8), (64, 1, 1)),
    ]
    for case in cases:
        block = 64 * case.x.itemsize
        for call in memory.calls(library, case, threads).values():
            case.output.fill(0)
            x, y, out = (array.reshape(-1).view(np.uint8) for array in call())
            first = -out.ctypes.data % 64
            moved = (out.nbytes - first) // block * block
            assert moved > out.nbytes - 64 - block
            changed = out[first : first + moved] != x[:moved]
            assert changed.any() == (y.nbytes > memory._FEW)
            assert not out[:first].any()
            assert not out[first + moved :].any()
