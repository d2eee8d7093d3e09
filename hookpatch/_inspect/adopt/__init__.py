"""Foreign patches expressed as patches of hookpatch: the functions that patch run in a process thrown away."""
