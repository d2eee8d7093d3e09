"""Find lines of source: by an object, or in a message of torch."""
