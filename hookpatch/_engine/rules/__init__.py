"""Law: the room finds the slots that a rule stands for. Nothing is changed, and no lazy name imported."""
