"""What is said of a line of a model. Imports nothing of how the line was found."""
