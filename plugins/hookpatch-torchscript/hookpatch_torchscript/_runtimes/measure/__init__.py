"""Measure one mode in this process, which is the child process of a command; imports torch."""
