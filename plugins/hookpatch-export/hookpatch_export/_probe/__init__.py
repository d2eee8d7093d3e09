"""Run a model and the model's captures, and compare the answers. Does not print."""
