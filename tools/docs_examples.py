"""What griffe asks for while MkDocs reads docstrings: their one example is a section of examples there."""

from __future__ import annotations

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Call the section ``Example`` as griffe calls it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of each object."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")
