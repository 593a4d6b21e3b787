"""Converting models: between formats and opsets, and into forms that a target accepts."""

from halfulp.conversion.api import Conversion, convert
from halfulp.models.source import Format

__all__ = ["Conversion", "Format", "convert"]
