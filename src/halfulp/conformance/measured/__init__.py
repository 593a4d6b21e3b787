"""What runtimes were measured to do: a JSON file for each version, and its reader."""

from halfulp.conformance.measured.reader import Group, Measured, Row, available, nearest

__all__ = ["Group", "Measured", "Row", "available", "nearest"]
