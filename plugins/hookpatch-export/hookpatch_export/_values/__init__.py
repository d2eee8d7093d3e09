"""What a value can be at export. Imports no rule of torch."""
