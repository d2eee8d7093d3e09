"""The layers of patches over a value: the effect, the arguments, the calls and the order of each."""
