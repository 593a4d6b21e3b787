"""The command line. A file has the verbs of a panel of ``--help``; this one, what happens around all of them.

A verb imports the modules that load the onnx package inside its function, so that ``halfulp --help`` starts at once.
"""

import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from threading import Timer
from traceback import walk_tb
from typing import Annotated, Any, TextIO

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from halfulp.cli.check import accuracy, check
from halfulp.cli.models import audit, bench, convert, repair, run
from halfulp.cli.programs import demo, doors, exec, spec
from halfulp.errors import HalfulpError, HalfulpWarning, in_shell, printable
from halfulp.installed import ANSWERS, version_of


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Show each warning of halfulp once, as a line on stderr."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if not issubclass(category, HalfulpWarning):
            usual(message, category, *rest)
        elif str(message) not in shown:
            shown.add(str(message))
            typer.echo(str(message), err=True)

    with warnings.catch_warnings():
        usual = warnings.showwarning
        warnings.showwarning = show  # type: ignore[assignment]
        warnings.simplefilter("always", HalfulpWarning)
        yield


class _Flags:
    """A command whose flags are shown without a type."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class _Verb(_Flags, TyperCommand): ...


class _Verbs(_Flags, TyperGroup):
    """The verbs. An error becomes text on stderr and an exit status, never a traceback."""

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().main(*args, **extra)
        except (OSError, SystemExit) as error:
            if not _is_closed_pipe(error):
                raise
            # If the usage error cannot be written, only the exit status reports it.
            _let_go(sys.stderr)
            sys.exit(2)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _in_words():
            return super().make_context(*args, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and Path(args[0]).is_file():
            ctx.fail(f"A verb is missing before the file, such as: halfulp audit {in_shell(args[0])}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        # A large model is many objects that live to the end. Frequent searches for cycles take a quarter of the time.
        gc.set_threshold(100_000, 50)
        with _in_words(), _warnings_as_lines():
            return super().invoke(ctx)


@contextmanager
def _in_words() -> Iterator[None]:
    """Turn an error into text on stderr and a status; without one, write the standard output."""
    ended = None
    try:
        try:
            yield
        except typer.Exit as error:
            ended = error
        if sys.stdout is not None:  # None if it was closed at the start
            sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None  # the status that a shell reports
    except (BrokenPipeError, SystemExit) as error:
        if not _is_closed_pipe(error):
            raise
        _let_go(sys.stdout)  # the reader closed the pipe, as in `halfulp ... | head`
        raise typer.Exit(0) from None
    except Exception as error:
        if (text := _words(error)) is None:
            raise
        _let_go(sys.stdout)
        try:
            typer.echo(f"error: {text}", err=True)
        except OSError:
            _let_go(sys.stderr)
        raise typer.Exit(2) from None
    if ended is not None:
        raise ended


def _words(error: Exception) -> str | None:
    """Return an error in a line; None for a fault of halfulp."""
    if isinstance(error, HalfulpError):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return "not enough memory"
    frames = [frame for frame, _ in walk_tb(error.__traceback__) if frame.f_code.co_name == "<module>"]
    if not {frame.f_globals.get("__name__") for frame in frames} & {"onnx", "google.protobuf"}:
        return None
    reason = printable(f"{type(error).__name__}: {error}".partition("\n")[0], most=300)
    return f"onnx can't be imported: pip install --upgrade onnx protobuf ({reason})"


def _is_closed_pipe(error: OSError | SystemExit) -> bool:
    """Return whether the output can't be written, where rich exits with status 1 if its reader closed the pipe."""
    return isinstance(error, OSError) or isinstance(error.__context__, BrokenPipeError)


def _let_go(stream: TextIO | None) -> None:
    """Redirect an unwritable stream to the null device, or Python would report an error at exit."""
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        assert stream is not None
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


app = typer.Typer(
    name="halfulp",
    cls=_Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PANELS = {
    "Models": (audit, repair, convert, run, bench),
    "Runtimes and documents": (check, accuracy, spec),
    "Programs": (exec, doors, demo),
}
for _panel, _verbs in _PANELS.items():
    for _verb in _verbs:
        # All that follows the program of exec is the program's.
        _settings = {"allow_interspersed_args": _verb is not exec}
        app.command(cls=_Verb, rich_help_panel=_panel, context_settings=_settings)(_verb)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"halfulp {version_of('halfulp') or '(not installed)'}")
        raise typer.Exit


@app.callback()
def _common(
    wants_version: Annotated[
        bool, Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Power and PReLU of ONNX, OpenVINO and DirectML, every result correctly rounded.

    Exit status: 0 done, 1 differences or findings, 2 bad input or usage.

    For programs in C: --cflags, --libs, --cmakedir and --pkgconfigdir print where the library is.
    """


_SECONDS = 600  # for a command with an IR file
_CRASHES = [s for s in signal.Signals if s.name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGABRT", "SIGILL")]


def _continue_in_a_child(file: str) -> None:
    """Let a child process do the work, so that its end inside a library, or a hang of OpenVINO, becomes one line."""
    if not hasattr(os, "fork"):
        return
    library = "OpenVINO" if file.endswith(".xml") else "the onnx package or a runtime"
    seconds = os.environ.get("HALFULP_TIMEOUT", "")
    limit = int(seconds) if seconds.isdecimal() and 0 < int(seconds) < 1 << 31 else _SECONDS
    child = os.fork()
    if child == 0:
        return
    text = ""

    def stop() -> None:
        nonlocal text
        text = f"it takes more than {limit} s, and OpenVINO may hang; HALFULP_TIMEOUT=SECONDS gives it more"
        os.kill(child, 9)  # SIGKILL, which Windows lacks

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the child, too
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    if library == "OpenVINO":
        Timer(limit, stop).start()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if -status in _CRASHES:
        shows = "PYTHONFAULTHANDLER=1 before the command shows where"
        text = f"{library} ended the process ({signal.Signals(-status).name}); {shows}"
    elif status == -9 and not text:
        text = "the system ended the process (SIGKILL), as it does where memory is short"
    if text:
        print(printable(f"error: {file}: {text}", most=None), file=sys.stderr)
    os._exit(status if status >= 0 else 2 if text else 128 - status)


def main() -> None:
    """Run the command line and exit with its status."""
    # Elsewhere than on Linux, a system's threads may not survive a fork.
    ends = (".xml", ".onnx") if sys.platform == "linux" and sys.argv[1:2] != ["exec"] else (".xml",)
    if models := [word for end in ends for word in sys.argv[1:] if word.endswith(end)]:
        _continue_in_a_child(models[0])
    if sys.argv[1:] and all(option in ANSWERS for option in sys.argv[1:]):
        try:
            print(*(ANSWERS[option]() for option in sys.argv[1:]))
        except HalfulpError as error:
            sys.exit(f"error: {error}")
        return
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that is not UTF-8 shows ? for some characters
    app(prog_name="halfulp")
