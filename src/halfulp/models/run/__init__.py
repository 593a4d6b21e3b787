"""Running models: the walk over a graph, and the operators that are not ours."""
