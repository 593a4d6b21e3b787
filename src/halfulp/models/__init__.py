"""Models: the graph that ONNX and OpenVINO's IR are read into, and the walk that runs a graph."""
