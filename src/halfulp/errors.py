"""The errors of halfulp and their one formatter.

The first line of an error names the file, the node, the fault and, in parentheses, the clause. Indented lines below
show the operands, the expected and the actual value, and the command that helps. ``str(error)`` is the whole text.
The command line prints it behind ``error: ``.
"""

from __future__ import annotations

import copyreg
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from html import escape
from numbers import Integral
from os.path import basename
from typing import Any

# Each of these has its own line. All other values of an error share one line.
_OWN_LINE = ("expected", "got", "run")
_LONGEST = 500

REPAIR = "repair"
"""The verb for a broken node, as ``run`` of an error. A ModelError shows the whole command."""


def format_error(where: str, message: str, clause: str | None, shown: Mapping[str, object]) -> str:
    """Return the text of an error: a line with the place, the fault and the clause, then lines for what is shown.

    Characters that control a terminal or cannot be printed, such as a line break in a name from a file, become
    question marks.
    """
    cited = "" if clause is None else f" ({clause})"
    lines = [f"{where}: {message}{cited}" if where else f"{message}{cited}"]
    texts = {name: _text(value) for name, value in shown.items()}
    operands = [f"{name}: {text}" for name, text in texts.items() if name not in _OWN_LINE]
    if operands:
        lines.append("  " + "   ".join(operands))
    lines += [f"  {name}: {texts[name]}" for name in _OWN_LINE if name in texts]
    return "\n".join(printable(line, most=None) for line in lines)


def check_integer(name: str, value: object, least: int | None = None) -> None:
    """Refuse an argument that is not an integer or is less than ``least``. True and False are not integers here."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if is_integer and (least is None or value >= least):  # type: ignore[operator]
        return
    bound = "" if least is None else f" >= {least}"
    # An integer is passed as a number: Python refuses to print one of thousands of digits.
    raise HalfulpError(f"{name} must be an integer{bound}", got=value if is_integer else repr(value)[:80])


def check_sizes(dims: Mapping[str, int] | None) -> None:
    """Refuse sizes of symbolic dims that are not integers >= 0."""
    for name, size in (dims or {}).items():
        check_integer(f"the size of dim {name!r}", size, 0)


def printable(text: str, most: int | None = 80) -> str:
    """Return an untrusted text as one line that is safe to print, with ? for each character that can't be printed.

    It is truncated after ``most`` characters; None is no limit.
    """
    cut = text if most is None or len(text) <= most else f"{text[: most - 3]}..."
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "?" for c in cut)


def in_shell(file: object) -> str:
    """Return a file's name as a shell's command line takes it, also one that begins like an option."""
    name = str(file)
    return shlex.quote(f"./{name}" if name.startswith("-") else name)


def command(file: str, verb: str, **options: str | int) -> str:
    """Return the command of a verb on a file, with an output of another name; without a file, the call in Python."""
    words = [option(file, *item) for item in options.items()]
    if file.startswith("<"):
        return f"hu.{verb}({', '.join(['model', *words])})"
    return " ".join([f"halfulp {verb} {in_shell(file)} {output_of(verb, file)}", *words])


def option(file: str, name: str, value: str | int) -> str:
    """Return an option in the command of a verb on a file; without a file, the keyword in Python."""
    if file.startswith("<"):
        return f"{name}={json.dumps(value) if isinstance(value, str) else value}"
    return f"--{name}" if value is True else f"--{name} {shlex.quote(str(value))}"


def output_of(verb: str, file: str) -> str:
    """Return the name of the output in the command of a verb on a file."""
    return f"{verb}ed{'2' if basename(file) == f'{verb}ed.onnx' else ''}.onnx"


def count_of(number: int, noun: str) -> str:
    """Return a number of things in words, such as ``1 input``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def named(given: str, names: Iterable[str], aliases: Mapping[str, str] | None = None) -> str | None:
    """Return the name that a person means: the same, one that differs in case alone, or that of an alias; or None."""
    known = list(names)
    folded = {name.lower(): name for name in reversed(known)}
    return given if given in known else folded.get((aliases or {}).get(given.lower(), given).lower())


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """Return the help for a name that is not known: the likely one, or all that there are."""
    folded = {name.lower(): name for name in names}
    close = get_close_matches(given[:80].lower(), folded, 1)
    return f"did you mean {folded[close[0]]}?" if close else f"there are {_text(', '.join(folded.values()))}"


class Printed:
    """A result with a text for ``print``, which notebooks show, too; its repr is one line."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@contextmanager
def within(file: str | None, node: str | None = None, kind: str = "node") -> Iterator[None]:
    """Name the file and the node in every error of halfulp that is raised within.

    Errors that name a file already are not changed, unless another file is missing. An UnsupportedError stays one.
    Every other error becomes a ModelError, with the clause of a SpecError. ``kind`` is the format's word for a node;
    empty if ``node`` contains it.
    """
    try:
        yield
    except MissingFileError as error:
        if error.file == file:
            raise
        raise MissingFileError(f"{error.file}: {error.message}", file=file, node=node) from error
    except ModelError:
        raise
    except UnsupportedError as error:
        if error.file is not None:
            raise
        place = node and f"{kind} {node}".lstrip()
        where = ": ".join(filter(None, (file, place)))
        named = UnsupportedError(f"{where}: {error.message}", **error.shown)
        named.file = file
        raise named from error
    except HalfulpError as error:
        raise ModelError(error.message, file=file, node=node, clause=error.clause, **error.shown) from error
    except MemoryError:
        raise ModelError("not enough memory", file=file, node=node) from None


def _text(value: object) -> str:
    try:
        return printable(str(value), _LONGEST)
    except ValueError:  # Python does not print integers of thousands of digits
        return "a number of thousands of digits"


class HalfulpError(ValueError):
    """The root of every error that halfulp raises on purpose.

    Args:
        message: the fault, in one line.
        **shown: values to show below it: operands by name, then ``expected``, ``got`` and ``run``, a command.

    Example:
        >>> raise HalfulpError("a dim must be an integer >= 0", got=-1)
        Traceback (most recent call last):
            ...
        halfulp.errors.HalfulpError: a dim must be an integer >= 0
          got: -1
    """

    clause: str | None

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        node: str | None = None,
        clause: str | None = None,
        **shown: Any,
    ) -> None:
        self.message, self.file, self.node, self.clause = message, file, node, clause
        self.shown = {name: value for name, value in shown.items() if value is not None or name == "got"}
        where = (file, None if node is None else f"node {node}")
        place = ": ".join(part for part in where if part is not None)
        super().__init__(format_error(place, message, clause, self.shown))

    def __str__(self) -> str:
        return str(self.args[0])

    @property
    def line(self) -> str:
        """The message and the values in one line, without the file and the node."""
        shown = ", ".join(f"{name}: {value}" for name, value in self.shown.items())
        return f"{self.message}; {shown}" if shown else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are pickled as type(*args), which would format the text twice. multiprocessing and Dask pickle
        # errors.
        state = {name: value for name, value in vars(self).items() if not name.startswith("__")}
        return copyreg.__newobj__, (type(self),), state | {"args": self.args}  # type: ignore[attr-defined]


class SpecError(HalfulpError):
    """A breach of a document's rule, with the clause that states it.

    Args:
        clause: the full id of the clause, such as ``"onnx.PRelu-9.C2"``.
        message: the fault, in one line.
        **shown: operands by name, then ``expected`` and ``got``.

    Example:
        >>> error = SpecError("onnx.PRelu-9.C2", "slope must be unidirectionally broadcastable to X",
        ...                   X="float32[2, 3, 4]", slope="float32[5]")
        >>> print(error)
        slope must be unidirectionally broadcastable to X (onnx.PRelu-9.C2)
          X: float32[2, 3, 4]   slope: float32[5]
        >>> error.clause
        'onnx.PRelu-9.C2'
    """

    clause: str

    def __init__(self, clause: str, message: str, **shown: Any) -> None:
        super().__init__(message, clause=clause, **shown)


class ModelError(HalfulpError):
    """A model that is broken, unsafe or contradicts itself, naming the file and the node.

    Args:
        message: the fault, in one line.
        file: the model's file, or a substitute such as ``"<bytes>"``.
        node: the node's name, or how to find it.
        clause: the full id of the clause that the node breaks, if any.
        **shown: operands by name, then ``expected`` and ``got``.

    Example:
        >>> print(ModelError("Y has no initializer", file="net.onnx", node="pow_3"))
        net.onnx: node pow_3: Y has no initializer
    """

    def __init__(self, message: str, *, file: str | None = None, **rest: Any) -> None:
        if rest.get("run") == REPAIR:
            rest["run"] = command(file or "<model>", REPAIR)
        super().__init__(message, file=file, **rest)


class MissingFileError(ModelError, FileNotFoundError):
    """A file that does not exist: a model, an array, or what belongs to one.

    Example:
        >>> print(MissingFileError("can't be read: No such file or directory", file="net.onnx"))
        net.onnx: can't be read: No such file or directory
    """

    def __new__(cls, *args: object, **shown: object) -> MissingFileError:
        return FileNotFoundError.__new__(cls)  # ValueError's makes no room for an OSError


class UnsupportedError(HalfulpError):
    """An operator, version or type that halfulp does not support.

    Example:
        >>> print(UnsupportedError("no operator onnx.Sqrt", expected="onnx.Pow or onnx.PRelu"))
        no operator onnx.Sqrt
          expected: onnx.Pow or onnx.PRelu
    """


@dataclass(frozen=True)
class Remedy:
    """What helps: a command or a sentence, and its reason or the steps behind it."""

    action: str
    reason: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.action, self.reason)))


@dataclass(frozen=True)
class Finding:
    """One thing to act on: what an audit finds, or what a repair leaves.

    Its kind is ``file``: it can't be read; ``clause``: the node breaks its document; ``shape``: it is valid only for
    one size of an unknown dim; ``doubtful``: it is valid, and may be meant otherwise; ``declaration``: the file
    declares its output otherwise than it is, or it reads several types where its operator takes one; ``range``: the
    data leaves a type there; ``refused``, ``wrong``, ``crashed``, ``hung``: the target's result; ``depends``: the
    target's bits depend on more than the operands.
    """

    file: str  # the model, relative to the folder where one was audited
    node: str | None  # as messages name it; None for a finding about the file
    kind: str
    text: str  # the finding, in a line
    remedy: Remedy | None = None  # None if the file itself has to be corrected
    target: str | None = None  # the runtime, where it concerns one
    clause: str | None = None  # the clause that is broken, where one is
    grade: str | None = None  # how ordinary the operands are that show a runtime's fault; None if not known

    @property
    def to_do(self) -> str | None:
        """The remedy in a line."""
        return None if self.remedy is None else str(self.remedy)

    @property
    def about(self) -> str:
        """The finding with its target or clause, without the place."""
        target = f"{self.target}: {self.kind}: " if self.target else ""
        cited = f" ({self.clause})" if self.clause else ""
        return f"{target}{self.text}{cited}"

    def __str__(self) -> str:
        where = self.file if self.node is None else f"{self.file}: node {self.node}"
        return f"{where}: {self.about}"


class HalfulpWarning(UserWarning):
    """A call that succeeds with a difference: a model is read in another way, or a program keeps its own powers.

    Example:
        >>> print(HalfulpWarning("net.onnx: its nodes were not in order and have been sorted"))
        net.onnx: its nodes were not in order and have been sorted
    """
