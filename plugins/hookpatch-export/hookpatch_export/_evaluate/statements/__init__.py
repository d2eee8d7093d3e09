"""Evaluate statements, and functions made of statements. Collects no findings."""
