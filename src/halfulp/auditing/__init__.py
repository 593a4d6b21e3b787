"""Auditing the Pow and PRelu nodes of models: clauses, results in runtimes."""
