"""Payload: the patches that open blocks hand on, in order, and the patches that cannot be handed on."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from child_programs import AROUND, LOUD, VENDOR, WORK, scene
from environments import Environment, furnished

import hookpatch
from hookpatch._processes.payload import unpacked
from hookpatch.errors import NotCarriedError, SettingError


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with a plugin, and a folder with the vendor's module and its callers."""
    files = {"vendor.py": VENDOR, "around.py": AROUND, "work.py": WORK}
    return furnished(tmp_path_factory.mktemp("children"), wheels, {"loud": LOUD}, files)


def _handed_on() -> list[list[dict[str, str]]]:
    """Return the items of each open block, as a new child process would read."""
    blocks = json.loads(os.environ.get("HOOKPATCH_INHERIT", '{"blocks": []}'))["blocks"]
    assert len({block["id"] for block in blocks}) == len(blocks)
    return [block["what"] for block in blocks]


def _is_whole() -> list[bool]:
    """Return for each block True if its patches are handed on, False for a mere note of the missing block."""
    return [all("patch" in item for item in block) for block in _handed_on()]


def test_block_that_is_too_large_by_itself_keeps_no_room_from_others() -> None:
    """A block larger than the limit never gets room; later blocks get the room of an ended block."""
    large, *small = (
        hookpatch.active(
            *(hookpatch.replace(f"never_imported:{name}{index}", "x" * 40_000) for index in range(count))
        ).open()
        for name, count in {"large": 3, "a": 1, "b": 1, "c": 1}.items()
    )
    assert _is_whole() == [False, True, True, False]
    small.pop(0).close()
    assert _is_whole() == [False, True, True]
    for session in (large, *small):
        session.close()


@pytest.mark.ends
def test_blocks_without_room_even_for_notes_are_told_of(home: Environment, tmp_path: Path) -> None:
    """Of a block with very many patches, and of very many blocks, the child process says that it lacks the patches."""
    lines = """
    many = [hookpatch.replace(f"never_imported:x{number}", "loud") for number in range(4000)]
    with hookpatch.active(*many):
        said.append(in_program())
    blocks = [hookpatch.active(hookpatch.replace("never_imported:x", "x" * 50_000)).open() for _ in range(400)]
    said.append(in_program())
    while blocks:
        blocks.pop().close()
    """
    said, stderr = scene(home, tmp_path, lines)
    assert said == ["vendor", "vendor"]
    assert "the patch of never_imported:x4 and 3995 more: the blocks that are open have too much to hand on" in stderr
    assert "the patches of this block and of all blocks opened later: the blocks that are open have too" in stderr


def _in_order() -> list[str]:
    """Return the addresses of the handed-on patches, in the order of the blocks."""
    return [item["of"].removeprefix("the patch of ") for block in _handed_on() for item in block]


def test_block_that_is_entered_again_hands_on_the_same_text() -> None:
    """A block entered again hands on the same text, alone and inside another block.

    The C library keeps each name and each text that the environment has ever had: a program that enters a block for
    each request would grow for ever.
    """
    outer, inner = hookpatch.replace("never_imported:x", 1), hookpatch.replace("never_imported:y", 1)
    texts = set()
    for _ in range(3):
        with hookpatch.active(outer):
            for _ in range(3):
                with hookpatch.active(inner):
                    texts.add(os.environ["HOOKPATCH_INHERIT"])
    assert len(texts) == 1


def test_blocks_that_overlap_are_handed_on_in_the_order_of_opening() -> None:
    """Overlapping blocks, as of threads that serve requests, stay in the order of opening, whichever ends first."""
    blocks: list[tuple[str, hookpatch.Session]] = []
    chance = random.Random(0)
    for number in range(1000):
        address = f"never_imported:x{number % 16}"
        blocks.append((address, hookpatch.active(hookpatch.replace(address, 1, required=False)).open()))
        assert _in_order() == [address for address, _ in blocks]
        if len(blocks) == 8:
            blocks.pop(chance.randrange(8))[1].close()
            assert _in_order() == [address for address, _ in blocks]
    for _, session in blocks:
        session.close()
    assert "HOOKPATCH_INHERIT" not in os.environ


def test_decorated_function_hands_on_in_each_task_that_calls_it(home: Environment, tmp_path: Path) -> None:
    """Two threads are inside at once, and each starts a program."""
    lines = """
    barrier = threading.Barrier(2)

    @hookpatch.active("loud", scope="task")
    def start():
        barrier.wait()
        said.append(in_program())
        barrier.wait()

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said.append(in_program())
    """
    assert scene(home, tmp_path, lines) == (["VENDOR!", "VENDOR!", "vendor"], "")


def test_function_that_is_no_longer_found_by_its_name_is_refused(make_module: Callable[[str, str], Any]) -> None:
    """The function is looked up each time, even if packed for an earlier block."""
    wrappers = make_module("wrappers", AROUND)
    patch = hookpatch.wrap("vendor:speak", wrappers.around)
    hookpatch.active(patch, children="require").close()
    wrappers.around = lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs)
    with pytest.raises(NotCarriedError, match=r"the patch of vendor:speak: cannot be pickled \(.*not the same obj"):
        hookpatch.active(patch, children="require")


def test_patches_that_differ_in_a_fact_are_packed_apart(make_module: Callable[[str, str], Any]) -> None:
    """Patches with the same target and function are packed apart."""
    around = make_module("wrappers", AROUND).around
    patches = hookpatch.wrap("vendor:speak", around), hookpatch.wrap("vendor:speak", around, why="it whispers")
    blocks = []
    for patch in patches:
        with hookpatch.active(patch):
            blocks += json.loads(os.environ["HOOKPATCH_INHERIT"])["blocks"]
    assert tuple(unpacked(item) for block in blocks for item in block["what"]) == patches


def test_what_cannot_be_pickled_is_refused() -> None:
    """The error has pickle's reason."""
    with pytest.raises(NotCarriedError, match=r"the patch of vendor:speed: cannot be pickled \(.*generator"):
        hookpatch.active(hookpatch.replace("vendor:speed", (item for item in ())), children="require")


def test_another_word_is_refused() -> None:
    """The error lists the valid words."""
    with pytest.raises(SettingError) as caught:
        hookpatch.active(children="all")  # type: ignore[arg-type]
    assert str(caught.value) == "active(): children='all' is none of 'inherit', 'local' and 'require'"
