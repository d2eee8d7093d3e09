"""What changed from one ONNX model to another: read without weights, matched node by node, told and drawn."""
