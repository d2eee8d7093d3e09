"""Compare the order of imports: a module can have copied a value only from a distribution imported earlier."""

from __future__ import annotations

from types import ModuleType
from typing import Final, final

from hookpatch._bootstrap import imports
from hookpatch._inspect.audit.origin import PYTHON, Origin, requires
from hookpatch._inspect.audit.snapshot import names_of_module


@final
class ImportOrder:
    """The modules of a process in the order of their first import. Lives as long as one audit."""

    def __init__(self) -> None:
        self._positions: Final[dict[int, int]] = {}
        self._by_name: Final[dict[str, int]] = {}
        self._by_file: Final[dict[str, int]] = {}
        for position, (name, module) in enumerate(imports.modules()):
            self._positions.setdefault(id(module), position)
            self._by_name[name] = position
            file = names_of_module(module).get("__file__") if issubclass(type(module), ModuleType) else None
            if type(file) is str:
                top = self._by_name.get(name.partition(".")[0], position)
                self._by_file.setdefault(file, min(position, top))

    def is_before(self, module: ModuleType, home: Origin, author: Origin) -> bool:
        """Return True if a module was executed before the first import of the package that defines a value.

        A module that requires the author's distribution may have imported the package itself.

        Args:
            module: the module with the value.
            home: the origin of the module.
            author: the origin of the value.
        """
        position = self._by_file.get(author.file or "")
        return position is not None and self._positions[id(module)] < position and self.is_unrelated(home, author)

    def is_unrelated(self, home: Origin, author: Origin) -> bool:
        """Return True if a distribution does not require the author's, not even by other distributions."""
        if home.distribution is None or author.distribution in (None, PYTHON, home.distribution):
            return False
        return home.distribution == PYTHON or not requires(home.distribution, str(author.distribution))
