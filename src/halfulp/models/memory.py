"""The limit of an array's memory: the free memory of the machine and of the process's control groups."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from halfulp.errors import HalfulpError
from halfulp.models.graph import check_rank
from halfulp.specs.tensor import format_shape

# Every machine has this much. Reading the system's files before each small array would take longer than the array.
_ALWAYS_THERE = 1 << 26


def guard_memory(shape: tuple[int, ...], itemsize: int, what: str) -> None:
    """Refuse an array that NumPy can't make or that does not fit into the free memory."""
    check_rank(len(shape), what)
    size = math.prod(shape) * itemsize
    is_countable = all(dim < 1 << 62 for dim in shape)
    if size <= _ALWAYS_THERE and is_countable:
        return
    memory = available_memory()
    if size > memory or not is_countable:
        expected, got = f"at most {memory / 2**30:.3g} GiB", f"{size / 2**30:.3g} GiB"
        message = f"{what} would not fit into this computer's memory"
        raise HalfulpError(message, expected=expected, got=f"{got} for {format_shape(shape)}")


def available_memory(root: Path = Path("/")) -> int:
    """Return the number of bytes that this process may still take."""
    return max(min(_of_the_machine(root), *_of_the_groups(root)), 0)


def _of_the_machine(root: Path) -> int:
    free = _number(root / "proc/meminfo", "MemAvailable:")
    if free is not None:
        return free << 10
    try:
        if sys.platform == "win32":
            # MEMORYSTATUSEX: length and load in 32 bits each, then numbers of 64 bits; the second is the free memory.
            status = (ctypes.c_uint64 * 8)(64)
            return int(status[2]) if ctypes.windll.kernel32.GlobalMemoryStatusEx(status) else sys.maxsize
        else:  # noqa: RET505  # or the type checker calls it unreachable for Windows
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not known on this system
        return sys.maxsize


def _of_the_groups(root: Path) -> Iterator[int]:
    """Yield the limits of this process's control groups and their parents."""
    yield sys.maxsize
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        # number:controllers:path. Version 2 has no controllers there; version 1 has a tree for each of them.
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        tree = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        place = tree / path.lstrip("/")
        # In a container the path may be the host's. A folder that does not exist sets no limit.
        for folder in (place, *place.parents):
            if folder.is_relative_to(tree):
                yield _left_in(folder)


def _left_in(group: Path) -> int:
    for most, used, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, taken = _number(group / most), _number(group / used)
        if limit is not None and taken is not None:
            # Cached files are dropped as soon as memory is needed.
            return limit - taken + (_number(group / "memory.stat", cache) or 0)
    return sys.maxsize


def _number(file: Path, word: str | None = None) -> int | None:
    """Return the first number of a file, or the one after a word; None if there is none, as for "max"."""
    try:
        words = file.read_text().split()
        return int(words[0 if word is None else words.index(word) + 1])
    except (OSError, ValueError, IndexError):
        return None
