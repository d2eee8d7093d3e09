"""The possible values of an expression at export. Imports no rule of torch."""
