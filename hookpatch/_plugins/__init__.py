"""Load plugins with pluggy, convert their options, check their relations, notify them. Knows no session."""
