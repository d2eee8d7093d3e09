"""Edit the source of a function: find the piece, replace it, compile what comes of it."""
