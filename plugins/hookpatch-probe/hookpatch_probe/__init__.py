"""Inputs other than a model's example, and the search for one on which what was captured of the model disagrees."""
