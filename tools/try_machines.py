"""Install and try the source distribution as on fresh machines: each Python with compilers old and new.

    python tools/try_machines.py               every machine that the interpreters and compilers here can make
    python tools/try_machines.py 3.13 g++-11   those whose names have one of these words; '3.13 g++-11 newest' one
    python tools/try_machines.py --docs        also write the table in docs/platforms.md

A machine is an environment with an empty home, no cache, and of this one's variables only PATH and pip's. One machine
has the oldest packages that pyproject.toml allows, the others the newest. build/machines/ keeps the results, so that
several runs can make the table. The exit status is 1 if a machine failed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.house.pythons import PROJECT, clean, interpreters  # noqa: E402

FOLDER = ROOT / "build" / "machines"
PAGE = ROOT / "docs" / "platforms.md"
BEGIN, END = "<!-- machines:begin -->\n", "<!-- machines:end -->\n"
EXTRAS = PROJECT["project"]["optional-dependencies"]
RUNTIMES = ["onnxruntime", "openvino", "dask", "jax"]  # torch: tests/constraints.txt pins the only one
CORE = ["tests/core", "tests/house/test_pages.py"]
MODELS = ["tests/models", "tests/conversion", "tests/auditing", "tests/cli"]
SOME = ["tests/core/test_quick_calls.py", "tests/core/test_integers.py", "tests/core/test_threads.py"]


@dataclass(frozen=True)
class Machine:
    """What is installed, and what is run there."""

    python: str
    compiler: str
    packages: str = "newest"
    tests: tuple[str, ...] = (*SOME, "tests/house/test_pages.py")

    @property
    def name(self) -> str:
        return f"{self.python} {self.compiler} {self.packages}"


def compilers() -> list[str]:
    """Return GCC and Clang in the oldest version that CMakeLists.txt allows and in the newest, if PATH has them."""
    chosen = []
    for command, oldest in re.findall(r'"\w+ \w+ (\S+) (\d+)"', (ROOT / "CMakeLists.txt").read_text()):
        versions = [version for version in range(int(oldest), 40) if shutil.which(f"{command}-{version}")]
        chosen += [f"{command}-{version}" for version in sorted({*versions[:1], *versions[-1:]})]
    return chosen


def machines() -> Iterator[Machine]:
    """Yield every Python with every compiler, then the oldest packages that pyproject.toml allows."""
    for python in sorted(interpreters()):
        for compiler in compilers():
            yield Machine(python, compiler)
    oldest = min(interpreters(), key=lambda version: int(version.split(".")[1].rstrip("t")))
    tests = (*CORE, *MODELS, *(f"tests/integrations/test_{name}.py" for name in RUNTIMES))
    yield Machine(oldest, compilers()[-1], "oldest", tests)


def lower_ends(requirements: list[str]) -> list[str]:
    """Return requirements such as numpy>=2.0 as the oldest version that they allow, numpy==2.0.*."""
    ends = [re.match(r"([\w\[\],-]+)>=(\d+(?:\.\d+)*)", requirement) for requirement in requirements]
    return [f"{end[1]}=={end[2] if '.' in end[2] else f'{end[2]}.0'}.*" for end in ends if end]


def processor_time() -> float:
    """Return the seconds that processors have worked for programs of this one which ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def attempt(machine: Machine, sdist: Path) -> dict[str, Any]:
    """Install the source distribution on a machine and run the tests; return the result as it is kept."""
    before = processor_time()
    with tempfile.TemporaryDirectory(prefix="halfulp-machine-") as folder:
        home = Path(folder)
        subprocess.run([interpreters()[machine.python], "-m", "venv", home / "env"], check=True)
        python = home / "env" / "bin" / "python"
        environment = clean(home, python.parent) | {"CXX": machine.compiler, "PIP_NO_CACHE_DIR": "1"}

        def run(*command: str | Path) -> None:
            done = subprocess.run(
                [python, "-m", *command],
                cwd=home,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise subprocess.CalledProcessError(1, machine.name, f"{done.stdout}\n{done.stderr}")

        pip = ["pip", "install", "--quiet", "--disable-pip-version-check"]
        needs = PROJECT["tool"]["cibuildwheel"]["test-requires"]
        try:
            if machine.packages == "oldest":
                build = lower_ends(PROJECT["build-system"]["requires"])
                extras = [
                    requirement for name in ("models", "check", *RUNTIMES) for requirement in EXTRAS[name]
                ]
                run(*pip, *build, *lower_ends([*PROJECT["project"]["dependencies"], *extras]), *needs)
                run(*pip, "--no-build-isolation", "--no-deps", sdist)
            else:
                run(*pip, f"{sdist}[models]", *needs)
            installed = processor_time() - before
            options = ["-q", "-x", "-n", "2", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
            options += ["-c", str(ROOT / "pyproject.toml")]
            if machine.packages == "oldest":  # which newer ones beside them may deprecate
                options += ["-W", "ignore::DeprecationWarning", "-W", "ignore::FutureWarning"]
            run("pytest", *options, *(ROOT / test for test in machine.tests))
        except subprocess.CalledProcessError as error:
            log = FOLDER / f"{machine.name.replace(' ', '-')}.log"
            log.write_text(error.output or "")
            return {"result": "failed", "log": str(log.relative_to(ROOT))}
    version = subprocess.run([machine.compiler, "--version"], capture_output=True, text=True, check=True)
    return {
        "result": "passed",
        "minutes": round(installed / 60, 1),
        "compiler_version": re.findall(r"\d+\.\d+\.\d+", version.stdout)[0],
    }


def wheel() -> dict[str, Any]:
    """Make the wheel with the oldest Python that has the stable ABI, and try it in later ones without a compiler."""
    stable = [
        version for version in sorted(interpreters()) if version not in ("3.11",) and "t" not in version
    ]
    if len(stable) < 2:
        return {"result": "skipped"}
    environment = clean(FOLDER / "home") | {"HALFULP_CUDA": "1"}
    command = ["make", "wheel", f"PYTHON={interpreters()[stable[0]]}", f"VENV={FOLDER / 'wheel'}"]
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0:
        return {"result": "failed", "file": "", "tried": stable[:1]}
    (file,) = (ROOT / "dist").glob("*.whl")
    trials = [[interpreters()[version], ROOT / "tools" / "try_wheel.py", file] for version in stable[1:]]
    failed = [
        trial for trial in trials if subprocess.run(trial, env=environment, check=False).returncode != 0
    ]
    return {"result": "failed" if failed else "passed", "file": file.name, "tried": stable}


def table(results: dict[str, dict[str, Any]]) -> str:
    """Return the table of the results as Markdown."""
    lines = [
        "| Python | compiler | packages | result | minutes of a processor to install | date |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in sorted(results.items()):
        if name == "wheel":
            continue
        python, compiler, packages = name.split()
        compiler = f"{compiler.split('-')[0]} {result.get('compiler_version', '')}"
        cells = [python, compiler, packages, result["result"], result.get("minutes", ""), result["date"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    if "wheel" in results and (made := results["wheel"])["result"] != "skipped":
        first, *others = map(str, made["tried"])
        lines.append("")
        lines.append(
            f"Python {first} made the wheel `{made['file']}`. It was tried without a compiler, there and with"
        )
        lines.append(f"{', '.join(others)}: {made['result']}, {made['date']}.")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Try the machines that are asked for, keep the results, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "words",
        nargs="*",
        help="only machines of these names, or with one of these words in theirs; or wheel",
    )
    parser.add_argument("--docs", action="store_true", help="write the table in docs/platforms.md")
    arguments = parser.parse_args()
    (FOLDER / "home").mkdir(parents=True, exist_ok=True)
    kept = FOLDER / "results.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    subprocess.run([sys.executable, "-m", "build", "--sdist", "--outdir", FOLDER, ROOT], check=True)
    (sdist,) = FOLDER.glob("*.tar.gz")
    trials = {machine.name: machine for machine in machines()} | {"wheel": None}
    for name, machine in trials.items():
        if arguments.words and not {name, *name.split()}.intersection(arguments.words):
            continue
        outcome = attempt(machine, sdist) if machine else wheel()
        results[name] = outcome | {"date": datetime.date.today().isoformat()}
        print(name, outcome, flush=True)
        kept.write_text(json.dumps(results, indent=2))
    if arguments.docs:
        page = PAGE.read_text()
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(before + BEGIN + table(results) + END + rest.partition(END)[2])
    sys.exit(any(result["result"] == "failed" for result in results.values()))


if __name__ == "__main__":
    main()
