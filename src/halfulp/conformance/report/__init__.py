"""What ``halfulp check`` found, for people: a table in the terminal, and one self-contained HTML page."""
