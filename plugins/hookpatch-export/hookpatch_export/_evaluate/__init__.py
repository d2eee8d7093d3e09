"""Evaluate Python source without running it. Does not know the start of the walk."""
