"""Fifteen small plugins: one real fault of a real library each."""
