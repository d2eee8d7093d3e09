"""Law: the room finds the slots matched by a rule. It changes nothing, runs no property, imports no lazy name."""
