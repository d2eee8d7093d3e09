"""What is known of torch 2.13: names, tensors, layers, captures. Imports nothing that evaluates Python."""
