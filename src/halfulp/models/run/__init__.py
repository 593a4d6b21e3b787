"""Running models: the walk over a graph, control flow, and the operators around Pow and PRelu."""
