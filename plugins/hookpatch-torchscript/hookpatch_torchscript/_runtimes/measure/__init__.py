"""Measure a mode in the child process of a command; imports torch."""
