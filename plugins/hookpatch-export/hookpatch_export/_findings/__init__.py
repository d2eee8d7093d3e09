"""The findings about a line of a model. Imports no module that searches for findings."""
