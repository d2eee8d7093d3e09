"""The annotations of a function: shared without evaluating them.

From Python 3.14 on annotations are evaluated when ``__annotations__`` is first read (PEP 649). Evaluation runs foreign
code, and fails for a name that only type checkers import.
"""

from __future__ import annotations

import gc
import sys
from types import FunctionType
from typing import Any


def evaluated_annotations(function: FunctionType) -> dict[str, Any] | None:
    """Return the dict of annotations that a function keeps, None if they are not evaluated or there are none.

    Source: the collector's list of a function's referents (CPython, Objects/funcobject.c, func_traverse).
    """
    builtins: Any = getattr(function, "__builtins__", None)
    other_ids = set(map(id, (function.__globals__, builtins, function.__kwdefaults__, vars(function))))
    dicts = [referent for referent in gc.get_referents(function) if type(referent) is dict]
    return next((annotations for annotations in dicts if id(annotations) not in other_ids), None)


if sys.version_info >= (3, 14):
    from annotationlib import Format, call_annotate_function

    def share_annotations(copy: FunctionType, like: FunctionType) -> None:
        """Give a function the annotations of another function, evaluated or not."""
        annotate = like.__annotate__
        if annotate is None:
            copy.__annotations__ = like.__annotations__  # set by hand, or none
        elif evaluated_annotations(like) is None:
            copy.__annotate__ = annotate
        else:
            # The dict of values may have been changed in place. A function keeps either a dict or an __annotate__.
            copy.__annotate__ = _annotate_as(like)

    def _annotate_as(like: FunctionType) -> Any:
        """Return an ``__annotate__`` that returns the very dict of another function."""

        def __annotate__(format: int, /) -> dict[str, Any]:
            annotate = like.__annotate__
            if format == Format.VALUE or annotate is None:
                return like.__annotations__
            return call_annotate_function(annotate, Format(format), owner=like)

        return __annotate__

else:

    def share_annotations(copy: FunctionType, like: FunctionType) -> None:
        """Give a function the annotations of another function."""
        copy.__annotations__ = like.__annotations__
