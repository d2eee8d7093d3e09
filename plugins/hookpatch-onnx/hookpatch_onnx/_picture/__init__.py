"""Show a comparison of two ONNX models: in words, as JSON, as an HTML page."""
