"""What a report or the end of a session says of a patch: bypassed, still held, without effect."""
