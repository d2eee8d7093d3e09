"""The layers over a slot. Only this room of the engine changes the value of a slot."""
