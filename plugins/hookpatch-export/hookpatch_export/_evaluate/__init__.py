"""Evaluate Python source without running it. Knows nothing of where the walk began."""
