"""Compare two ONNX models node by node; the result is values, and nothing is printed."""
