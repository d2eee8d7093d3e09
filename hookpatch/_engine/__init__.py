"""Patches on slots: no plugin, no session and no environment variable is known here."""
