"""Evaluate statements and functions made of them. Collects no findings."""
