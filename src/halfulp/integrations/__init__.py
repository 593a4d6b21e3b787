import threading
from collections.abc import Callable
from contextlib import ContextDecorator

from halfulp.errors import HalfulpError


class Replacement(ContextDecorator):
    """The first ``enable`` puts the kernels in, and the last ``disable`` takes them out, in any thread."""

    def __init__(self, put_in: Callable[[], object], take_out: Callable[[], object]) -> None:
        self._put_in, self._take_out = put_in, take_out
        self._lock, self._depth = threading.Lock(), 0

    def enable(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._put_in()
            self._depth += 1

    def disable(self) -> None:
        """Put the library's own kernels back, once it is called as often as ``enable``.

        Raises:
            HalfulpError: halfulp's kernels are not enabled.
        """
        with self._lock:
            if self._depth == 0:
                raise HalfulpError("halfulp's kernels are not enabled")
            self._depth -= 1
            if self._depth == 0:
                self._take_out()

    __enter__ = enable

    def __exit__(self, *error: object) -> None:
        self.disable()
