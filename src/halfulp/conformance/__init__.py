"""Checking runtimes: cases, the processes that run them, verdicts on the answers, and reports."""
