"""What runtimes were measured to do: a JSON file for each version, and its reader."""

from halfulp.measured.reader import Broadcast, Group, Measured, Row, available, nearest

__all__ = ["Broadcast", "Group", "Measured", "Row", "available", "nearest"]
