"""hookpatch plugins for ONNX export: one module a plugin."""
