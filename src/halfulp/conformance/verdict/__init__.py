"""Verdicts on answers: comparison with the right result, open questions of the documents, allowed findings."""
