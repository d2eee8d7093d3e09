"""The functions that run at a patched call, and their signatures for inspect. Imports no other part of the engine."""
