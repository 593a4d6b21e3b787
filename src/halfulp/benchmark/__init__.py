"""Side by side with other libraries: time, and how many of the results are not correctly rounded.

``halfulp bench`` and ``benchmarks/run.py`` in the source tree use these modules.
"""
