"""Correctly rounded power and PReLU operators of ONNX, OpenVINO and DirectML."""
