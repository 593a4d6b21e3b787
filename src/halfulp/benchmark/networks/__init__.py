"""Whole networks in the runtimes that are installed: with their own Pow and PRelu, and with halfulp's."""
