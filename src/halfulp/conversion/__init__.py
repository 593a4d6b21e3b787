"""Converting models: between formats and opsets, and into what a target accepts."""

from halfulp.conversion.api import Conversion, Format, convert

__all__ = ["Conversion", "Format", "convert"]
