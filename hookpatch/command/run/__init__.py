"""The command ``hookpatch run``: its words, the plugins, and the process of the program."""
