"""Write what targets are like into a lock file, and compare them with it later. Knows no layer."""
