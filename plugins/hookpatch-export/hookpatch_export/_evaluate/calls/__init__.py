"""Evaluate a call; functions with a source go through the frame's walk. Imports no statement."""
