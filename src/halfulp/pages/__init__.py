"""Pages about operator versions: as text in a terminal, as HTML in a notebook, as Markdown in the docs."""
