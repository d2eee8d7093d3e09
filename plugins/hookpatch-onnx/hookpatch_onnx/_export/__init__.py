"""Follow one call of torch.onnx.export: mark regions of the model, replace each by nodes."""
