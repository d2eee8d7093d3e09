"""Compare a trace with its original on other inputs than the example."""
