"""Declare a patch: its verb, its target, its versions. Imports no other part of the engine."""
