"""What can be seen in a program without notes: the values, and the sources of the modules."""
