"""The span of a session: opened with locks, entered again on the fast path, closed; and what an interrupt leaves."""
