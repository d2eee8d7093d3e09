"""Show findings and probes: on a terminal, in a file, as warnings. Imported by doors alone."""
