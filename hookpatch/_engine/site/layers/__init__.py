"""The layers of patches over a value: what each does, gives, counts, and where each lies."""
