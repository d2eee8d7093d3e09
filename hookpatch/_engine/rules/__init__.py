"""Law: the room finds the slots that a rule stands for. It changes nothing, runs no property and wakes no lazy name."""
