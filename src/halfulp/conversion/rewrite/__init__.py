"""Rewriting the nodes of an ONNX model: how nodes are replaced, and what is known of its values."""
