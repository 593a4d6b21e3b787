"""Reports on the findings of ``halfulp check``: tables in the terminal, and one self-contained HTML page."""
