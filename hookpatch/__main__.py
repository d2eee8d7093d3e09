"""``python -m hookpatch``: the command, where its script is not on the path."""

import sys

if not sys.flags.safe_path:  # Python has put the current folder first: a json.py there is not to be run
    sys.path[:] = [*sys.path[1:], ""]

from hookpatch.command import main

main()
