"""Record what torch.jit.script does while a call runs, and why the call failed."""
