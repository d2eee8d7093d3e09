"""Walk a model from its forward and collect findings. Runs nothing of the model, prints nothing."""
