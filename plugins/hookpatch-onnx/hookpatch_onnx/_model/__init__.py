"""Read ONNX models as graphs, without the data of their weights; imports no other room."""
