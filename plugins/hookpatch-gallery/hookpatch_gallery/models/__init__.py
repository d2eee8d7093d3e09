"""Plugins for torch and transformers."""
