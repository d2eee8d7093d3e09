"""The commands that look at foreign patches: ``hookpatch audit`` and ``hookpatch adopt``."""
