"""Plugins for libraries that talk over the network."""
