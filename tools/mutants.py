"""Change one condition of the package at a time, and list the changes that no test notices.

    make mutants
    make mutants ARGS='auditing conversion --count 30 --seed 2'

First each test file runs once and leaves in build/mutants/map the lines that each of its tests reaches; a file runs
again after it changed, and all run again with --renew. Then conditions of functions are drawn among the lines that
tests reach: a comparison is negated, a ``not`` removed, an operand of ``and`` or ``or`` removed, the condition before
an early return made false, a ``raise`` removed. For each, the tests that reach its line run, one of each function
first, until one fails.

The package's files stay as they are. One process collects the tests of a folder. It forks for each change, and the
functions of the child get the changed code. Processes that tests start, and later imports, find the changed module in
build/mutants, by a sitecustomize.py there.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gc
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src/halfulp"
BUILD = ROOT / "build/mutants"
FOLDERS = ("conversion", "auditing", "models", "integrations")
# These test other folders than those above.
NOT_MAPPED = [
    *(
        "benchmark",
        "conformance",
        "core",
        "cuda",
        "exhaustive",
        "house",
        "oracle",
        "pages",
        "phases",
        "proofs",
    ),
    *("reference", "specs", "tools", "windows"),
]
TESTS_OF_A_MUTANT = 60.0  # seconds of processor time that the tests of a mutant may take together, without it
# The module that HALFULP_MUTANT names comes from the file there, before the finders of editable installs.
SITE = """
import importlib.util, os, sys

NAME, PATH, *PACKAGE = os.environ["HALFULP_MUTANT"].split("=")

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == NAME:
            return importlib.util.spec_from_file_location(name, PATH, submodule_search_locations=PACKAGE or None)

sys.meta_path.insert(0, Finder)
"""


@dataclass(frozen=True)
class Mutant:
    """A change of one condition: where it begins and ends in a file's original text, and the text in its place."""

    file: Path
    line: int
    function: tuple[str, int]  # the outermost, by its name and its first line
    begin: int
    end: int
    text: str
    what: str
    original: str

    def source(self) -> str:
        """Return the file's text with the change, and the other lines where they were."""
        lost = self.original[self.begin : self.end].count("\n") - self.text.count("\n")
        text = f"{self.text[:-1]}{lost * chr(10)})" if self.text.endswith(")") else self.text + lost * "\n"
        return self.original[: self.begin] + text + self.original[self.end :]

    @property
    def module(self) -> str:
        """The name by which the package imports the file."""
        name = ".".join(self.file.relative_to(PACKAGE.parent).with_suffix("").parts)
        return name.removesuffix(".__init__")


def functions_of(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Yield the functions and methods of a module or a class, but none of a function's own."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            yield statement
        elif isinstance(statement, ast.ClassDef | ast.If):
            yield from functions_of(statement.body)


def mutants_of(file: Path) -> Iterator[Mutant]:
    """Yield each change of a file."""
    source = file.read_text("utf-8")
    for function in functions_of(ast.parse(source).body):
        yield from mutants_in(function, file, source)


def mutants_in(function: ast.FunctionDef, file: Path, source: str) -> Iterator[Mutant]:
    """Yield each change of an outermost function."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    outermost = function.name, min([function.lineno, *(each.lineno for each in function.decorator_list)])

    def place(node: ast.AST) -> tuple[int, int]:
        # The parser counts bytes.
        ends = [starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset]  # type: ignore[attr-defined]
        begin, end = (len(source.encode()[:byte].decode()) for byte in ends)
        return begin, end

    def change(node: ast.AST, text: str, what: str) -> Mutant:
        begin, end = place(node)
        old = " ".join(source[begin:end].split())
        return Mutant(file, node.lineno, outermost, begin, end, text, f"{what}: {old}", source)  # type: ignore[attr-defined]

    def text_of(node: ast.AST) -> str:
        begin, end = place(node)
        return source[begin:end]

    for node in (n for statement in function.body for n in ast.walk(statement)):
        match node:
            case (
                ast.If(test=ast.Name(id="TYPE_CHECKING"))
                | ast.Compare(left=ast.Attribute(attr="version_info"))
            ):
                continue
            case ast.Compare():
                yield change(node, f"(not ({text_of(node)}))", "negated")
            case ast.UnaryOp(op=ast.Not()):
                yield change(node, f"({text_of(node.operand)})", "without its not")
            case ast.BoolOp(values=values):
                for index, operand in enumerate(values):
                    word = " and " if isinstance(node.op, ast.And) else " or "
                    kept = word.join(f"({text_of(value)})" for value in values if value is not operand)
                    yield change(node, f"({kept})", f"without operand {index + 1}")
            case ast.If(test=test, body=[ast.Return() | ast.Continue() | ast.Raise()], orelse=[]):
                yield change(test, "(False)", "never true")
            case (
                ast.If(test=ast.Name() | ast.Call() | ast.Attribute())
                | ast.IfExp(test=ast.Name() | ast.Call() | ast.Attribute())
            ):
                yield change(node.test, f"(not ({text_of(node.test)}))", "negated")
            case ast.Raise():
                yield change(node, "pass", "removed")


# What follows runs inside pytest, as a plugin.


def forget() -> None:
    """Clear the caches of the package."""
    for name, module in list(sys.modules.items()):
        if name.startswith("halfulp"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear") and getattr(value, "__module__", "").startswith("halfulp"):
                    value.cache_clear()


def spent() -> float:
    """Return the processor time of this process and of those that it waited for: a busy machine adds none."""
    return sum(os.times()[:4])


class Recorder:
    """Notes the lines of the package that each test reaches, and its time."""

    def __init__(self, folder: Path) -> None:
        import coverage

        self.coverage = coverage.Coverage(
            data_file=str(folder / "coverage"), source=[str(PACKAGE / f) for f in FOLDERS], config_file=False
        )
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.coverage.start()

    def pytest_runtest_protocol(self, item: Any) -> None:
        """Begin a test: what an earlier one has cached is forgotten, so that this one reaches those lines too."""
        forget()
        self.coverage.switch_context(item.nodeid)
        self.begin = spent()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a test that fails without any change: it can tell nothing."""
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """End a test."""
        self.seconds[nodeid] = round(spent() - self.begin, 4)
        self.coverage.switch_context("")

    def save(self) -> dict[str, dict[str, Any]]:
        """Return, for each test, its seconds and its lines."""
        self.coverage.stop()
        data = self.coverage.get_data()
        tests: dict[str, dict[str, Any]] = {
            name: {"seconds": seconds, "lines": defaultdict(list)}
            for name, seconds in self.seconds.items()
            if name not in self.failed
        }
        for path in data.measured_files():
            name = str(Path(path).relative_to(PACKAGE))
            for line, contexts in data.contexts_by_lineno(path).items():
                for context in contexts:
                    if context in tests:
                        tests[context]["lines"][name].append(line)
        return tests


class Runner:
    """Runs the tests of each mutant in a child of its own, and writes a line of JSON for it."""

    def __init__(self, mutants: list[dict[str, Any]], folder: Path) -> None:
        self.mutants = mutants
        self.folder = folder

    def pytest_runtestloop(self, session: Any) -> bool:
        """Run all mutants instead of the tests."""
        if session.testsfailed:
            raise session.Interrupted("a file can't be collected")
        items = {item.nodeid: item for item in session.items}
        gc.unfreeze()
        # Not isinstance(): some objects warn when they are asked for their class.
        functions = [f for f in gc.get_objects() if type(f) is FunctionType]
        with (self.folder / "results").open("w") as results:
            for mutant in self.mutants:
                tests = [items[name] for name in mutant["tests"] if name in items]
                begin = time.monotonic()
                while (result := self.outcome(mutant, tests, functions, session)) != "survived":
                    last = (self.folder / "test").read_text()
                    if not last:
                        raise RuntimeError(f"no test ran: {(self.folder / 'tests').read_text()}")
                    through = int(last) + 1
                    # A test may fail in a child without any change.
                    if self.outcome(mutant, tests[through - 1 : through], [], session) == "survived":
                        break
                    del tests[through - 1 : through]
                    if not tests:
                        result = "survived"
                        break
                results.write(json.dumps([result, time.monotonic() - begin]) + "\n")
                results.flush()
        return True

    def outcome(
        self, mutant: dict[str, Any], tests: list[Any], functions: list[FunctionType], session: Any
    ) -> str:
        """Run tests in a child whose functions are changed, if any: return "caught", "hangs" or "survived"."""
        (self.folder / "test").write_text("")
        child = os.fork()
        if not child:
            self.run(mutant, tests, functions, session)
        end = time.monotonic() + 5 * TESTS_OF_A_MUTANT
        while time.monotonic() < end:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                is_late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
                return "hangs" if is_late else "caught" if status else "survived"
            time.sleep(0.01)
        os.killpg(child, 9)
        os.waitpid(child, 0)
        return "hangs"

    def run(
        self, mutant: dict[str, Any], tests: list[Any], functions: list[FunctionType], session: Any
    ) -> None:
        """Change the functions of this child, run the tests until one fails, and end."""
        code = 1
        try:
            os.setsid()
            output = os.open(self.folder / "tests", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            if functions:
                os.environ |= mutant["environment"]
                exec(SITE, {})
            changed = compile(
                Path(mutant["path"]).read_text("utf-8"), mutant["file"], "exec", dont_inherit=True
            )
            [outermost] = (
                c for c in codes_in(changed) if [c.co_name, c.co_firstlineno] == mutant["function"]
            )
            codes = {(c.co_name, c.co_firstlineno): c for c in (outermost, *codes_in(outermost))}
            for function in functions:
                old = function.__code__
                if old.co_filename == mutant["file"] and (old.co_name, old.co_firstlineno) in codes:
                    function.__code__ = codes[old.co_name, old.co_firstlineno]
            forget()
            for number, (test, following) in enumerate(zip(tests, [*tests[1:], None], strict=True)):
                (self.folder / "test").write_text(str(number))
                # A change may make a loop endless.
                most = time.process_time() + 10 + 3 * mutant["tests"][test.nodeid]
                resource.setrlimit(
                    resource.RLIMIT_CPU, (round(most), resource.getrlimit(resource.RLIMIT_CPU)[1])
                )
                session.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
                if session.testsfailed:
                    break
            code = min(session.testsfailed, 1)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of functions and classes within other code."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_in(constant)


def inside(argument: str) -> int:
    """Run what a JSON file says in this process: the files to record, or the mutants to try."""
    import pytest

    task = json.loads(Path(argument).read_text("utf-8"))
    options = ["-q", "-p", "no:cacheprovider"]
    if "record" in task:
        recorder = Recorder(Path(argument).parent)
        code = int(pytest.main([*options, *task["record"]], plugins=[recorder]))
        Path(task["result"]).write_text(json.dumps(recorder.save()), "utf-8")
        return code
    # No file of pytest's captured output is shared with a child.
    files = sorted({name.partition("::")[0] for mutant in task["mutants"] for name in mutant["tests"]})
    runner = Runner(task["mutants"], Path(argument).parent)
    return int(pytest.main([*options, "-s", *files], plugins=[runner])) if files else 0


def start(task: dict[str, Any], folder: Path) -> subprocess.Popen[bytes]:
    """Run a task in a process of its own, whose output is a file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.json").write_text(json.dumps(task), "utf-8")
    command = [sys.executable, __file__, "--inside", str(folder / "task.json")]
    with (folder / "output").open("wb") as output:
        return subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


# The map.


def test_files() -> list[Path]:
    """Return the files with tests that may reach the folders."""
    tests = [
        file
        for file in sorted(ROOT.glob("tests/**/test_*.py"))
        if file.relative_to(ROOT / "tests").parts[0] not in NOT_MAPPED
    ]
    return tests + [ROOT / "src/halfulp" / folder for folder in FOLDERS]


def digest(file: Path) -> str:
    """Return the name of a test file's map: a golden file's change counts, one of the package's examples does not."""
    texts = sorted(ROOT.glob("tests/*/golden/*.txt")) if file.name == "test_golden.py" else []
    text = b"".join(each.read_bytes() for each in (file, *texts)) if file.is_file() else b""
    return hashlib.sha256(str(file.relative_to(ROOT)).encode() + text).hexdigest()[:16]


def renew(*, is_stale: bool) -> dict[str, Any]:
    """Run the test files that have no map, folder by folder, and return all maps; if is_stale, run none."""
    (BUILD / "map").mkdir(parents=True, exist_ok=True)
    files = {file: BUILD / f"map/{digest(file)}.json" for file in test_files()}
    stale = defaultdict(list)
    for file, result in files.items():
        if not result.exists() and not is_stale:
            stale[file if file.is_dir() else file.parent].append(file)
    for folder, among in stale.items():
        names = [str(file.relative_to(ROOT)) for file in among]
        source = BUILD / f"sources/{time.time_ns()}"
        for each in FOLDERS:
            shutil.copytree(
                PACKAGE / each, source / each, ignore=shutil.ignore_patterns("__pycache__", "*.so")
            )
        print("map:", folder.relative_to(ROOT), f"({len(among)} files)", flush=True)
        result = BUILD / "record/result.json"
        shutil.rmtree(result.parent, ignore_errors=True)
        code = start({"record": names, "result": str(result)}, result.parent).wait()
        output = (result.parent / "output").read_text(errors="replace")
        if code not in (0, 5):
            print(output[-2000:])
        if not result.exists():
            raise SystemExit(f"no test was recorded:\n{output}")
        tests = json.loads(result.read_text("utf-8"))
        for file, name in zip(among, names, strict=True):
            own = {i: t for i, t in tests.items() if i.partition("::")[0].startswith(name)}
            files[file].write_text(json.dumps({"source": str(source), "tests": own}), "utf-8")
    return {
        str(result): json.loads(result.read_text("utf-8")) for result in files.values() if result.exists()
    }


def reached(maps: dict[str, Any], folders: Container[str]) -> dict[tuple[str, int], list[str]]:
    """Return the tests that reach each line of the folders, as it is numbered now."""

    @cache
    def numbers(source: str, file: str) -> dict[int, int]:
        if not (PACKAGE / file).exists():
            return {}
        old, new = ((folder / file).read_text("utf-8").splitlines() for folder in (Path(source), PACKAGE))
        if old == new:
            return {number: number for number in range(1, len(new) + 1)}
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        return {a + i + 1: b + i + 1 for a, b, size in blocks for i in range(size)}

    tests = defaultdict(list)
    for recorded in maps.values():
        for name, test in recorded["tests"].items():
            for file, lines in test["lines"].items():
                if file.partition("/")[0] not in folders:
                    continue
                now = numbers(recorded["source"], file)
                for line in lines:
                    if line in now:
                        tests[file, now[line]].append((test["seconds"], name))
    return {place: varied(sorted(among)) for place, among in tests.items()}


def varied(tests: list[tuple[float, str]]) -> list[str]:
    """Return the names of tests: first one of each function, then another one of each, and so on."""
    counts = Counter[str]()
    rounds = []
    for number, (_, name) in enumerate(tests):
        function = name.partition("[")[0]
        rounds.append((counts[function], number, name))
        counts[function] += 1
    return [name for *_, name in sorted(rounds)]


# The mutants.


def tests_of(mutant: Mutant, tests: dict[tuple[str, int], list[str]], seconds: dict[str, float]) -> list[str]:
    """Return tests that reach a mutant, of each function the quickest first, as many as the time allows."""
    names: list[str] = []
    total = 0.0
    for name in tests.get((str(mutant.file.relative_to(PACKAGE)), mutant.line), ()):
        if not names or total + seconds[name] <= TESTS_OF_A_MUTANT:
            names.append(name)
            total += seconds[name]
    return names


def outcomes(mutants: list[Mutant], tests: list[list[str]], seconds: dict[str, float]) -> Iterator[list[Any]]:
    """Run each mutant's tests: yield "caught", "hangs" or "survived", and the seconds."""
    folder = BUILD / f"run-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "site").mkdir(parents=True)
    (folder / "site/sitecustomize.py").write_text(SITE, "utf-8")
    path = os.pathsep.join([str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    tasks = []
    for number, (mutant, names) in enumerate(zip(mutants, tests, strict=True)):
        changed = folder / f"{number}.py"
        changed.write_text(mutant.source(), "utf-8")
        value = f"{mutant.module}={changed}"
        if mutant.file.name == "__init__.py":
            value += f"={mutant.file.parent}"
        environment = {"PYTHONPATH": path, "HALFULP_MUTANT": value}
        place = {"file": str(mutant.file), "function": mutant.function, "path": str(changed)}
        times = {name: seconds[name] for name in names}
        tasks.append({"tests": times, "environment": environment, **place})
    process = start({"mutants": tasks}, folder)
    done = 0
    while done < len(mutants):
        has_ended = process.poll() is not None
        lines = (folder / "results").read_text().splitlines() if (folder / "results").exists() else []
        yield from map(json.loads, lines[done:])
        if has_ended and len(lines) < len(mutants):
            raise SystemExit(f"the tests ended:\n{(folder / 'output').read_text(errors='replace')}")
        done = len(lines)
        time.sleep(0.1)


def main() -> int:
    """Read the command line, and print a line for each survivor and a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", default=FOLDERS, help="of src/halfulp: " + ", ".join(FOLDERS))
    parser.add_argument("--count", type=int, default=100, help="mutants of each folder")
    parser.add_argument("--seed", type=int, default=1, help="which mutants are drawn")
    parser.add_argument("--only", default="", help="a regular expression for FILE:LINE: all these")
    parser.add_argument("--renew", action="store_true", help="run all test files again")
    parser.add_argument(
        "--stale", action="store_true", help="run no test file for its map: use those that exist"
    )
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(options.inside)
    if options.renew:
        shutil.rmtree(BUILD, ignore_errors=True)
    maps = renew(is_stale=options.stale)
    tests = reached(maps, options.folders)
    seconds = {name: t["seconds"] for m in maps.values() for name, t in m["tests"].items()}
    rows = []
    for folder in options.folders:
        mutants = [m for file in sorted((PACKAGE / folder).glob("**/*.py")) for m in mutants_of(file)]
        within = [m for m in mutants if tests_of(m, tests, seconds)]
        drawn = random.Random(options.seed).sample(within, min(options.count, len(within)))
        if options.only:
            drawn = [m for m in within if re.search(options.only, f"{m.file}:{m.line}:")]
        drawn.sort(key=lambda m: (m.file, m.line))
        names = [tests_of(mutant, tests, seconds) for mutant in drawn]
        survived = 0
        for mutant, among, (result, time_taken) in zip(
            drawn, names, outcomes(drawn, names, seconds), strict=False
        ):
            survived += result == "survived"
            where = f"{mutant.file.relative_to(ROOT)}:{mutant.line}"
            print(f"{result:8} {where} {mutant.what} ({len(among)} tests, {time_taken:.0f} s)", flush=True)
        rows.append(
            f"{folder:14}{len(mutants):10}{len(within):10}{len(drawn):8}{len(drawn) - survived:8}{survived:10}"
        )
    print(
        f"{'folder':14}{'conditions':>10}{'reached':>10}{'tried':>8}{'caught':>8}{'survived':>10}",
        *rows,
        sep="\n",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
