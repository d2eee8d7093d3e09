"""Example hookpatch plugin: one module."""
