"""What runtimes were measured to do: a JSON file for each version, and its reader."""

from halfulp.measured.reader import (
    SLOPES,
    Broadcast,
    Group,
    Measured,
    Row,
    available,
    kind_of_slope,
    nearest,
)

__all__ = ["SLOPES", "Broadcast", "Group", "Measured", "Row", "available", "kind_of_slope", "nearest"]
