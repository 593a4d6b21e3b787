"""The parts of benchmarks/run.py: the rows, the process that measures them, the bars, and the chart."""
