"""The instances of a class as owners of a slot, alive and to come. Knows no session."""
