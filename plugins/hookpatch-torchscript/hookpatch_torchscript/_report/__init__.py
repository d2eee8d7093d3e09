"""Show a record of torch.jit.script: as a note, a tree, JSON, a file."""
