"""How many processors control groups allow: their files as Linux writes them, in a folder of the test's own."""

from pathlib import Path

import pytest
from tests.house.builds import CORE, program, run, tool

SOURCE = Path(__file__).with_name("processors.cpp")


@pytest.fixture(scope="module")
def count() -> Path:
    """Return a program that prints the number, given a list of groups and the root of their files."""
    options = ["-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{CORE}"]
    command = [tool("c++"), *options, SOURCE, CORE / "array" / "processors.cpp"]
    return program("processors", command, SOURCE, CORE / "array")


V1 = "7:memory:/small\n4:cpu,cpuacct:/a/b\n1:name=systemd:/a\n0::/\n"


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {}, 0),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 3),
        ("0::/\n", {"cpu.max": "9000000000000000000 1\n"}, 1 << 16),
        # The least of a group and its parents; the folders of others don't count.
        ("0::/a/b\n", {"a/cpu.max": "100000 100000\n", "a/b/cpu.max": "300000 100000\n"}, 1),
        ("0::/a/b\n", {"a/cpu.max": "max 100000\n", "a/b/cpu.max": "300000 100000\n"}, 3),
        # A container sees the host's path, and its own quota at the root.
        ("0::/host/path\n", {"cpu.max": "400000 100000\n"}, 4),
        ("0::/../../other\n", {"cpu.max": "400000 100000\n"}, 4),
        # Version 1: a tree for the controller, two files, -1 for no limit.
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "-1\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, 0),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "150000\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, 2),
        (V1, {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "50000\n"}, 1),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "150000\n"}, 0),
        # What is not understood sets no limit.
        ("0::/\n", {"cpu.max": "many 100000\n"}, 0),
        ("", {"cpu.max": "100000 100000\n"}, 0),
        ("0::a\nnonsense\n:::\n", {"cpu.max": "100000 100000\n"}, 0),
    ],
)
def test_quotas(groups, files, expected, count, tmp_path):
    (tmp_path / "list").write_text(groups)
    root = tmp_path / "root"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    assert run(count, tmp_path / "list", root) == str(expected)


def test_no_list(count, tmp_path):
    assert run(count, tmp_path / "none", tmp_path) == "0"
