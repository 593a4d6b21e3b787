"""The pool of threads under the thread sanitizer: callers side by side and within each other, early stops."""

import platform
from pathlib import Path

import pytest
from tests.house.builds import CORE, run, tool
from tests.house.test_compilers import BOTH, libraries

ROUNDS = 20_000
FLAGS = [
    "-std=c++20",
    "-O1",
    "-g",
    "-fsanitize=thread",
    "-pthread",
    "-Wall",
    "-Wextra",
    "-Werror",
    f"-I{CORE}",
]


@pytest.mark.exhaustive
@BOTH
def test_no_data_race(compiler, tmp_path):
    libraries(compiler, "libtsan.so" if compiler == "g++" else f"libclang_rt.tsan-{platform.machine()}.a")
    sources = [
        Path(__file__).with_name("thread_pool.cpp"),
        CORE / "array" / "thread_pool.cpp",
        CORE / "array" / "processors.cpp",
    ]
    run(tool(compiler), *FLAGS, *sources, "-o", tmp_path / "threads")
    said = run(tmp_path / "threads", str(ROUNDS))
    assert said == f"{ROUNDS} rounds of 4 callers\n"
