"""Auditing the Pow and PRelu nodes of models: clauses, open questions, results in runtimes."""
