"""Auditing models: what their Pow and PRelu nodes break, leave open, and meet in runtimes. Nothing is run."""
