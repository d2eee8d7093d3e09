"""The source of a function, and one call of it. Imports no rule of torch and evaluates nothing."""
