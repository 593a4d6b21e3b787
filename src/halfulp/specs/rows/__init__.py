"""The rows: a file for each standard."""
