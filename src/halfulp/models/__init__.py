"""Models: the graph that all formats are read into, a package for each format, and the walk that runs a graph."""
