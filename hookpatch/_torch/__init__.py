"""hookpatch's own plugin for torch. torch is imported by the program, never here."""
