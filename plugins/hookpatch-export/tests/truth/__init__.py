"""What a model's capture really does, established by running it."""
