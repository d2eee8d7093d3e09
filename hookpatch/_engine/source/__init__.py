"""Edit source: find a piece of code, replace the piece, compile the result."""
