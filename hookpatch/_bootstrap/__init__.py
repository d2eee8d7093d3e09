"""Run at interpreter start: read the environment, find plugins, hear of imports. Imports os, sys and its own files."""
