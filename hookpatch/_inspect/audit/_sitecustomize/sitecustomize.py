"""Begin to record a program, and run the next sitecustomize. ``hookpatch audit`` puts this folder on PYTHONPATH.

Python imports a module of this name at the start, before the program and before any other sitecustomize.
"""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from hookpatch._inspect.audit import recorder

recorder.start()
_elsewhere = [folder for folder in sys.path if folder != os.path.dirname(__file__)]
sys.path[:] = _elsewhere
_spec = PathFinder.find_spec(__name__, _elsewhere)
if _spec is not None and _spec.loader is not None:
    _spec.loader.exec_module(module_from_spec(_spec))
    if recorder.running:
        recorder.running[0].note_changes("during sitecustomize")
