"""Questions about patches. Nothing here changes a slot."""
