"""A griffe extension for MkDocs: the docstrings' section ``Example`` becomes griffe's ``Examples``."""

from __future__ import annotations

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Rename the section ``Example`` of each docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of each object."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")
