"""hookpatch plugins for ONNX export: a module for each plugin."""
