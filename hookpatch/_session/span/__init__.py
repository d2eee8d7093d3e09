"""The span of a session: opened with locks, entered again on the road, closed; and what an interrupt leaves."""
