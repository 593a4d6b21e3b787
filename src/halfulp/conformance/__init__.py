"""Checking runtimes: cases, the processes that run them, verdicts on their results, and reports."""
