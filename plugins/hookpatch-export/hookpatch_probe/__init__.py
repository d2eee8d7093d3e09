"""Inputs other than a model's example, and the search for an input with different answers of model and capture."""
