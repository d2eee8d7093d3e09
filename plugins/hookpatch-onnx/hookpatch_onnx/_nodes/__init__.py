"""Build the nodes that replace a region; a plugin module chooses which of them."""
