"""Hold what the plugins report, as plain values; imports no other room."""
