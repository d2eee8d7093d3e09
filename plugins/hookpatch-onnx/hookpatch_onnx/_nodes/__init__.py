"""Build the nodes in place of a region; a plugin module chooses the node."""
