"""Plugins for libraries that hold, write and show data."""
