"""Run the next sitecustomize, and do the work of the start-up file.

``hookpatch run`` puts this folder on PYTHONPATH where no start-up file is active: with ``pip install --target``, for
example. Python imports a module of this name at the start.
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
