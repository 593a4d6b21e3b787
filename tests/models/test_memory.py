"""How much memory there is: the files of Linux in a folder of the test's own, and systems that have none of them."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from halfulp.errors import HalfulpError
from halfulp.models import graph
from halfulp.models.files import read_npz
from halfulp.models.graph import available_memory, guard_memory

MACHINE = {"proc/meminfo": "MemTotal:       9000000 kB\nMemFree: 1 kB\nMemAvailable:    4000000 kB\n"}
FREE = 4_000_000 << 10
V1 = "4:memory:/a/b\n3:cpu,cpuacct:/c\n1:name=systemd:/\n"


@pytest.mark.parametrize(
    ("groups", "files", "left"),
    [
        # Version 2: the group's limit, less what it uses, of which files that nobody reads do not count.
        ("0::/\n", {"memory.max": "1000\n", "memory.current": "300\n"}, 700),
        (
            "0::/\n",
            {
                "memory.max": "1000\n",
                "memory.current": "900\n",
                "memory.stat": "anon 700\ninactive_file 200\n",
            },
            300,
        ),
        ("0::/\n", {"memory.max": "max\n", "memory.current": "300\n"}, FREE),
        # The least of a group and its parents; the folders of others don't count.
        (
            "0::/a/b\n",
            {
                "a/memory.max": "500\n",
                "a/memory.current": "100\n",
                "a/b/memory.max": "900\n",
                "a/b/memory.current": "90\n",
            },
            400,
        ),
        # A container sees the host's path, and its own limit at the root.
        ("0::/host/path\n", {"memory.max": "1000\n", "memory.current": "300\n"}, 700),
        # Version 1: a tree for the controller, other names, a large number for no limit.
        (
            V1,
            {
                "memory/a/memory.limit_in_bytes": "1000\n",
                "memory/a/memory.usage_in_bytes": "900\n",
                "memory/a/memory.stat": "inactive_file 5\ntotal_inactive_file 100\n",
                "memory/c/memory.limit_in_bytes": "10\n",
                "memory/c/memory.usage_in_bytes": "9\n",
            },
            200,
        ),
        (
            V1,
            {
                "memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
                "memory/a/b/memory.usage_in_bytes": "1\n",
            },
            FREE,
        ),
        # What is not understood sets no limit.
        ("0::/\n", {"memory.max": "1000\n"}, FREE),
        ("nonsense\n:::\n", {}, FREE),
    ],
)
def test_what_control_groups_leave(groups, files, left, tmp_path):
    write(tmp_path, MACHINE | {"proc/self/cgroup": groups})
    write(tmp_path / "sys/fs/cgroup", files)
    assert available_memory(tmp_path) == left


def test_no_control_groups(tmp_path):
    write(tmp_path, MACHINE)
    assert available_memory(tmp_path) == FREE


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="this system has no sysconf")
def test_a_system_without_linux_files(tmp_path, monkeypatch):
    assert available_memory(tmp_path) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.delattr(os, "sysconf")
    assert available_memory(tmp_path) == sys.maxsize  # it does not tell: nothing is refused for that


def test_an_array_is_compared_with_what_is_left(monkeypatch):
    monkeypatch.setattr(graph, "available_memory", lambda: 0)
    guard_memory((16 << 20,), 4, "its output")  # every machine has that
    monkeypatch.setattr(graph, "available_memory", lambda: 100 << 20)
    guard_memory((25 << 20,), 4, "its output")
    with pytest.raises(HalfulpError) as caught:
        guard_memory((26 << 20,), 4, "its output")
    assert str(caught.value) == (
        "its output would not fit into this computer's memory\n"
        "  expected: at most 0.0977 GiB\n"
        "  got: 0.102 GiB for [27262976]"
    )


def test_an_archive_is_read_no_further_than_memory(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", x=np.zeros(1000))
    monkeypatch.setattr("halfulp.models.files.available_memory", lambda: 100)
    with pytest.raises(ValueError, match="would not fit into this computer's memory"):
        read_npz(tmp_path / "x.npz")


def test_small_entries_are_counted_together(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", **{f"x{index}": np.zeros(1000) for index in range(3)})
    monkeypatch.setattr("halfulp.models.files.available_memory", lambda: 20_000)
    with pytest.raises(ValueError, match=r"'x2'.* would not fit into this computer's memory"):
        read_npz(tmp_path / "x.npz")


def write(folder: Path, files: dict[str, str]) -> None:
    """Write texts to files below a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
