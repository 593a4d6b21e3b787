"""Reading the files that a person hands to ``check``."""

from __future__ import annotations

from pathlib import Path

from halfulp.errors import HalfulpError


def read_text(path: Path, most: int) -> str:
    """Return the text of a file of at most so many bytes.

    Raises:
        HalfulpError: it can't be read, is larger, or is not UTF-8.

    Example:
        >>> read_text(Path("missing.json"), 1 << 20)
        Traceback (most recent call last):
            ...
        halfulp.errors.HalfulpError: HalfulpError: missing.json: can't be read: No such file or directory
    """
    try:
        if path.stat().st_size > most:
            raise HalfulpError(f"{path}: too large", expected=f"at most {most} bytes")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise HalfulpError(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise HalfulpError(f"{path}: not UTF-8") from None
