"""What ``hookpatch run`` puts on PYTHONPATH where no start-up file is active: with ``pip install --target``, for one.

Python imports a module of this name at its start. It runs the one that it stands before, then does what the start-up
file would have done.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def _run_the_other() -> None:
    elsewhere = [folder for folder in sys.path if folder != os.path.dirname(__file__)]
    spec = PathFinder.find_spec(__name__, elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


try:
    _run_the_other()
finally:
    from hookpatch._startup import main

    main(site_is_done=True)
