"""Apply remedies to a copy in memory, script that, and compare the answers with those of the model."""
