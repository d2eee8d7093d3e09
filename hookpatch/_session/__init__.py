"""Sessions: apply all patches of a selection or none, restore all, and record what became of each."""
