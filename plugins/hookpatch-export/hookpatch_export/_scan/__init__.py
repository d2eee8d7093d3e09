"""Walk a model from forward and collect findings. Runs no code of the model, and does not print."""
