"""The source of a function, and a call of the function. Imports no rule of torch, and evaluates no code."""
