"""hookpatch plugins for onnxsim: one module a plugin."""
