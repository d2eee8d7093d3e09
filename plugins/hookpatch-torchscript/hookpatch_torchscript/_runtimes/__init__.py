"""Measure a model in each mode; the rooms inside are jobs, measure, show and command, from the ground up."""
