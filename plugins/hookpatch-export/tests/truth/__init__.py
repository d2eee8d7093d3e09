"""Establish the truth about a model's captures by running the model and the captures."""
