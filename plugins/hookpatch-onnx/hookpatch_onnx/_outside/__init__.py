"""Compare a model that plugins have changed with the plain export of the same model."""
