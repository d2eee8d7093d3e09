"""``python -m hookpatch``: the command, where its script is not on the path."""

from hookpatch.command import main

main()
