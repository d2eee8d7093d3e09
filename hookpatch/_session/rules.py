"""A rule in one session: look for matches in each imported module, and keep a lifecycle for each match.

Long because finding, counting and patching the matches share the tables of the matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias, final
from weakref import ref

from hookpatch._bootstrap import imports
from hookpatch._engine.patch.patch import Patch
from hookpatch._engine.patch.rule import bounds_of
from hookpatch._engine.patch.steps import Subclasses
from hookpatch._engine.rules.expand import REFUSED, in_words, patch_of, too_few, too_many
from hookpatch._engine.rules.match import ALIAS, Match, bases_of, matches_in, modules_of
from hookpatch._engine.site.late_restore import is_recognisable
from hookpatch._engine.site.site import Site
from hookpatch._engine.slots.originals import own_beneath
from hookpatch._engine.slots.resolve import resolve
from hookpatch._engine.slots.slot import ABSENT, inner, mro
from hookpatch._session.copies import OurValues, remove_copy, values_in
from hookpatch._session.ledger import Entry, Ledger, Requested
from hookpatch._session.lifecycle.everywhere import look_for_holders
from hookpatch._session.lifecycle.lifecycle import Formers, Lifecycle, Policy, fail_late
from hookpatch.errors import ApplyError, HookpatchError, MatchesError

_MOST: Final = 3  # near misses named in a report
_LATE: Final = "it appeared without an import, after the session was opened"
Modules: TypeAlias = Sequence[tuple[str, ModuleType]]


class _Matched(NamedTuple):
    """A match with the patch and the lifecycle made for the match."""

    match: Match
    patch: Patch
    lifecycle: Lifecycle


@final
class Rule:
    """The lifecycle of a rule in one session. Each match has a lifecycle of its own, without a watch.

    Thread safety as in ``Lifecycle``: a match is noted in ``_matches`` before ``_ended`` is read, and ``restore`` sets
    ``_ended`` before it reads ``_matches``.
    """

    def __init__(
        self, request: Requested, ledger: Ledger, policy: Policy, make: Callable[[Requested], Lifecycle]
    ) -> None:
        assert request.patch.target is not None  # a rule has a target
        self._request: Final = request
        self._patch: Final = request.patch
        self._target: Final = request.patch.target
        self._ledger: Final = ledger
        self._policy: Final = policy
        self._make: Final = make
        self._entry: Final[Entry] = ledger.open(request)
        self._bounds: Final = bounds_of(request.patch.matches, request.patch.required)
        self._spreads: Final = any(isinstance(step, Subclasses) for step in self._target.steps)
        self._matches: Final[dict[tuple[Any, ...], _Matched]] = {}  # by the key of the slot
        self._claims: Final[dict[tuple[Any, ...], object]] = {}  # by key: two threads share a slot's lifecycle
        self._begun: Final[dict[tuple[Any, ...], None]] = {}
        self._objects: Final[dict[int, tuple[tuple[Any, ...], Any]]] = {}  # reached everywhere, with the slot's key
        # By key, the matches at known addresses in other owners, such as a class made anew; None if patched since.
        self._anew: Final[dict[tuple[Any, ...], Match | None]] = {}
        self._near: Final[dict[str, str]] = {}  # by address, why a near miss is no match
        self._bases: Final[dict[int, Callable[[], type | None]]] = {}  # classes with ``+`` in the rule
        self._former: Final[dict[Site, list[object]]] = {}  # the originals from before a module ran anew
        self._watches: Final[list[imports.Watch]] = []
        self._has_looked = False  # at a module of the rule
        self._is_off = False
        self._ended = False

    @property
    def touched(self) -> list[Site]:
        """The sites of the rule's layers, for notifying plugins."""
        return [site for matched in [*self._matches.values()] for site in matched.lifecycle.touched]

    def skip(self, reason: str) -> None:
        """Never apply the rule."""
        self._is_off = True
        self._entry.become("skipped", reason)

    def await_addition(self) -> None:
        """Note that the refused rule waits for another patch of the session: an added name is a near miss."""
        self._entry.become("waiting")

    def check(self) -> list[Any]:
        """Raise like ``begin`` if a required match cannot be patched; change nothing. Return as ``Lifecycle.check``."""
        self._or_refuse(self._open)
        return [value for matched in [*self._matches.values()] for value in matched.lifecycle.check()]

    def begin(self) -> None:
        """Patch all present and future matches; raise if a required match cannot be patched."""
        if self._is_off:
            return
        self._watch(imports.ANY if self._spreads else str(self._target.module), self._arrive)
        self._or_refuse(self._open)
        if not self._is_off:
            for match, _, lifecycle in [*self._matches.values()]:
                self._begin(match.key, lifecycle, partial(lifecycle.apply, match.module))
            self._note_count()

    def _open(self) -> None:
        self._find(self._present(), judges=True)

    def _present(self) -> Modules:
        """Return the fully imported modules of the rule."""
        return [(name, module) for name, module in modules_of(self._target) if imports.present(name) is module]

    def _watch(self, module: str, arrival: Callable[[ModuleType], None]) -> None:
        self._watches.append(watch := imports.Watch(module, arrival))  # first: the session's end cancels the watch
        watch.begin()
        if self._ended:
            watch.cancel()

    def _or_refuse(self, act: Callable[[], object]) -> None:
        """Act while the session is opened: an error refuses the session, or skips a rule that is not required."""
        try:
            act()
        except ApplyError as error:
            self._is_off = not self._patch.required
            self._entry.become("skipped" if self._is_off else "failed", error)
            if not self._is_off:
                raise

    def planned(self) -> tuple[list[Patch], str]:
        """Return the patch of each present match, as ``begin`` applies the patch, and the rule in words.

        Change nothing.

        Raises:
            MatchesError: the rule has fewer or more matches than allowed.
            ApplyError: ``only=`` raises an error, or the source cannot be imported.
        """
        patches = [patch for _, patch in self._new_matches(self._present()).values()]
        self._judge(len(patches))
        return patches, self._in_words(len(patches))

    def _find(self, modules: Modules, judges: bool) -> list[_Matched]:
        """Return the new matches in some modules. Raise like ``planned``.

        ``judges``: too few matches are an error, if the module is no pattern.
        """
        new = self._new_matches(modules)
        if judges:
            self._judge(len(self._matches) + len(new))
        matches, values = [], self._values()
        for key, (match, patch) in new.items():
            if self._claims.setdefault(key, patch) is patch:  # GIL: one operation
                remove_copy(match.target, match.module, values)
                lifecycle = self._make(self._request._replace(patch=patch, rule=self._request))
                self._matches[key] = matched = _Matched(match, patch, lifecycle)
                matches.append(matched)
        return matches

    def _new_matches(self, modules: Modules) -> dict[tuple[Any, ...], tuple[Match, Patch]]:
        """Return the new matches in some modules, each with its patch, by the key of the slot.

        Raises:
            MatchesError: the rule has more matches than allowed; no new match is patched.
            ApplyError: ``only=`` raises an error, or the source cannot be imported.
        """
        new: dict[tuple[Any, ...], tuple[Match, Patch]] = {}
        known, values = [matched.patch for matched in [*self._matches.values()]], self._values()
        addresses = {patch.target for patch in known if patch.module is not None}
        for name, module in modules:
            self._has_looked = True
            for base in bases_of(self._target, name, module):
                self._bases[id(base)] = ref(base)
            for match in matches_in(self._target, name, module, bool(self._patch.add)):
                is_reached = self._is_reached(match, values)  # asked of a known match, too: notes a reloaded object
                if is_reached or any(match.key in known_keys for known_keys in (self._matches, self._anew, new)):
                    continue
                if match.target in addresses:
                    self._anew[match.key] = match
                    continue
                patch_or_reason = patch_of(self._patch, match, self._request.owner)
                if isinstance(patch_or_reason, str):
                    self._near[str(match.target)] = patch_or_reason
                else:
                    new[match.key] = match, patch_or_reason
        most = self._bounds.most
        if most is not None and len(self._matches) + len(new) > most:
            patches = [*known, *(patch for _, patch in new.values())]
            problem = too_many(self._patch, [patch.address for patch in patches], self._bounds)
            raise MatchesError(self._patch.address, self._request.owner, problem)
        return new

    def _is_reached(self, match: Match, values: OurValues) -> bool:
        """Return True if another match has the same object: with reach="everywhere" an object is patched once."""
        value = inner(match.original)
        if self._patch.reach == "slot" or not is_recognisable(value):
            return False
        return id(value) in values or self._objects.setdefault(id(value), (match.key, value))[0] != match.key

    def _values(self) -> OurValues:
        return values_in(site for matched in [*self._matches.values()] for site in matched.lifecycle.touched)

    def _judge(self, count: int) -> None:
        """Raise MatchesError if all modules of the rule are imported, with fewer matches than required."""
        if count < self._bounds.least and self._has_looked and "*" not in str(self._target.module):
            problem = too_few(self._patch, count, self._bounds, [*self._near.items()])
            raise MatchesError(self._patch.address, self._request.owner, problem)

    def _begin(self, key: tuple[Any, ...], lifecycle: Lifecycle, act: Callable[[], None]) -> None:
        self._begun[key] = None
        if self._ended:
            lifecycle.restore([], [], {})
        else:
            act()

    def _arrive(self, module: ModuleType) -> None:
        """Patch the matches in a module executed just now, inside a foreign import."""
        names = [(name, imported) for name, imported in modules_of(self._target) if imported is module]
        is_base = any(issubclass(type(value), type) and self._is_subclass(value) for value in [*vars(module).values()])
        if self._is_off or not (names or (self._spreads and is_base)):
            return
        for match, patch, lifecycle in [self._matches[key] for key in [*self._begun] if key in self._matches]:
            is_of_module = patch.module is not None and imports.module_named(patch.module) is module
            if is_of_module and not _is_inherited_now(match, module):
                own = lifecycle.touched
                remove_copy(match.target, module, self._values(), own, self._former)
                originals = [site.original for site in own]
                lifecycle.arrive(module)
                for site in lifecycle.touched:  # of a module imported anew there is a new site
                    self._former.setdefault(site, []).extend(originals)
        self._extend(names or self._present(), judges=bool(names), executed=module)

    def _extend(
        self,
        modules: Modules,
        judges: bool = False,
        late: str = "",
        is_whole: bool = False,
        executed: ModuleType | None = None,
    ) -> None:
        """Patch the new matches in some modules.

        ``late``: why the patches come late; ``is_whole``: the package of the modules is imported, too; ``executed``:
        the module with patches that have just arrived.
        """
        try:
            if not is_whole and self._waits_for_package(modules):
                return
            new = self._find(modules, judges)
            if self._patch.reach == "everywhere" and len(new) > 1:
                look_for_holders(self._ledger, [value for matched in new for value in matched.lifecycle.check()])
            for match, _, lifecycle in new:
                self._begin(match.key, lifecycle, partial(lifecycle.arrive, match.module, late))
            for matched, match in self._made_anew():
                if match.module is not executed and not self._ended:
                    matched.lifecycle.arrive(match.module, late or _LATE)
            self._ledger.forget_looks()
            self._note_count()
        except HookpatchError as error:
            fail_late(self._entry, self._policy, error, is_late=bool(late))
        finally:
            imports.afterwards(self._ledger.notify)

    def _made_anew(self) -> Iterator[tuple[_Matched, Match]]:
        """Yield the matches whose owner was made anew since the last look, each with the match as of now; once."""
        by_target = {matched.patch.target: matched for matched in [*self._matches.values()]}
        for key, match in [*self._anew.items()]:
            if match is not None:
                self._anew[key] = None
                yield by_target[match.target], match

    def _waits_for_package(self, modules: Modules) -> bool:
        """Return True if the source is not imported, and the package of the target is being imported.

        The source may import the package. Therefore the rule waits for the end of the package's import.
        """
        source = (self._patch.source or "").partition(":")[0]
        if not source or "*" in source or imports.loaded(source) is not None:
            return False
        package = next((name.partition(".")[0] for name, _ in modules), "")
        if not package or any(name == package for name, _ in modules) or imports.present(package) is not None:
            return False
        if len(self._watches) == 1:
            self._watch(package, lambda _: self._extend(self._present(), judges=True, is_whole=True))
        return True

    def match_again(self) -> None:
        """Patch new matches that came without an import of a module of the rule."""
        if not (self._is_off or self._ended) and self._watches and self._entry.state != "failed":
            self._extend(self._present(), late=_LATE)

    def _is_subclass(self, cls: type) -> bool:
        bases = [base() for base in [*self._bases.values()]]
        return any(base in mro(cls) for base in bases)

    def _note_count(self) -> None:
        """Note the number of matches in the entry of the rule, and a shortfall."""
        entry = self._entry
        if entry.state in ("waiting", "applied"):
            count = len(self._matches)
            entry.become("applied" if count else "waiting", self._in_words(count) if self._has_looked else None)
        entry.shortfall = ""
        if len(self._matches) < self._bounds.least and (self._has_looked or self._patch.matches is not None):
            entry.shortfall = too_few(self._patch, len(self._matches), self._bounds, [*self._near.items()])

    def _in_words(self, count: int) -> str:
        """Return in words the number of matches, and the near misses."""
        near = [
            f"{address} {why}" for address, why in [*self._near.items()] if why != REFUSED and not why.startswith(ALIAS)
        ]
        further = f" and {len(near) - _MOST} more" if len(near) > _MOST else ""
        return in_words(count) + (f"; no match: {', '.join(near[:_MOST])}{further}" if near else "")

    def restore(self, errors: list[Exception], touched: list[Site], copied: Formers) -> None:
        """Remove all layers, past every error; collect as ``Lifecycle.restore``."""
        self._ended = True
        for watch in self._watches:
            watch.cancel()
        for matched in reversed([*self._matches.values()]):
            matched.lifecycle.restore(errors, touched, copied)
        if self._entry.state == "waiting":
            reason = self._entry.reason or f"no module of {self._target.module} was imported"
            self._entry.become("unused", reason)
        elif self._entry.state == "applied":
            self._entry.become("restored", self._entry.reason)

    def forget(self) -> None:
        """Forget the restored matches. Last: an interrupted restore is repeated."""
        for matched in [*self._matches.values()]:
            matched.lifecycle.forget()
        self._matches.clear()
        self._begun.clear()
        self._objects.clear()
        self._anew.clear()
        self._former.clear()


def _is_inherited_now(match: Match, module: ModuleType) -> bool:
    """Return True if a class executed anew inherits a name that was the class's own: the name matches no longer."""
    if match.original is ABSENT or match.target.of_instances is not None:
        return False
    with suppress(ApplyError):  # raised again when the patch is applied
        slot = resolve(match.target, module, "a rule")
        return own_beneath(slot) is ABSENT and slot.inherited() is not ABSENT
    return False
