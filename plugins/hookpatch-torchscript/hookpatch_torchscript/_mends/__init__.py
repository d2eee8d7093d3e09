"""Match messages of torch.jit.script with a problem and a remedy; imports no other room."""
