"""Apply remedies to a copy of a model, script the copy, and compare the answers with the model's answers."""
