"""Show comparisons of modes: in words, as a table, a picture, JSON; torch is not imported."""
