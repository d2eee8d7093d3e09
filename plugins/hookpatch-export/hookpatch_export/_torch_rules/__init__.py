"""Rules for torch 2.13: names, tensors, layers, captures. Imports no module that evaluates Python."""
