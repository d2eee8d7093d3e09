"""Describe a measurement and its result as plain values; torch is not imported."""
