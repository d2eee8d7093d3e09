"""Record the models that a program exports or simplifies; imports onnx only when a model is recorded."""
