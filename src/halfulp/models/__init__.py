"""The front ends: one module per file format, each turning a file into the neutral graph."""
