"""Run a model and its captures, and compare. Prints nothing."""
