"""Write fingerprints of targets into a lock file, and compare the targets with the file later. Imports no layer."""
