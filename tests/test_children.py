"""A block's patches hold in the processes that are started inside it, and in no other."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from environments import Environment, furnished

import hookpatch
from hookpatch._luggage import unpacked
from hookpatch.errors import NotCarriedError, SettingError, UnknownPlugin

VENDOR = """
def speak(word="vendor"):
    return word
"""

LOUD = """
    '''Speak louder.'''
    from dataclasses import dataclass
    import hookpatch

    @dataclass(frozen=True)
    class Options:
        mark: str = "!"

    @hookpatch.hookimpl
    def hookpatch_patches(options):
        def louder(wrapped, instance, args, kwargs):
            return wrapped(*args, **kwargs).upper() + options.mark
        yield hookpatch.wrap("vendor:speak", louder)
"""

AROUND = """
def around(wrapped, instance, args, kwargs):
    return f"<{wrapped(*args, **kwargs)}>"
"""

WORK = """
import multiprocessing, os, subprocess, sys
import vendor

def speak(*_):
    return vendor.speak()

def in_program(*flags, **more):
    code = "import sys; sys.path.insert(0, '.'); import vendor; print(vendor.speak())"
    command = [sys.executable, *flags, "-c", code]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, **more).stdout.strip()

def in_process(method, function=speak, *args):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.apply(function, args)

def everywhere():
    return [speak(), in_program(), *map(in_process, ("fork", "spawn", "forkserver"))]
"""

BEGIN = """
import json, os, sys, threading, warnings
import hookpatch, vendor
from work import *

said = []

def main():
    environment = dict(os.environ)
{scene}
    assert dict(os.environ) == environment, set(os.environ.items()) ^ set(environment.items())
    print(json.dumps(said))

if __name__ == "__main__":
    warnings.simplefilter("error", hookpatch.errors.NotCarriedWarning)
    main()
"""


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with a plugin, and a folder with the vendor's module and what calls it."""
    files = {"vendor.py": VENDOR, "around.py": AROUND, "work.py": WORK}
    return furnished(tmp_path_factory.mktemp("children"), wheels, {"loud": LOUD}, files)


def scene(home: Environment, tmp_path: Path, lines: str, before: str = "", **variables: str) -> tuple[Any, str]:
    """Run lines of ``main`` in a script of their own; return what they noted, and stderr."""
    script = home.folder / f"{tmp_path.name}.py"
    indented = dedent(lines).strip("\n").replace("\n", "\n    ")
    script.write_text(BEGIN.format(scene=f"    {indented}").replace("said = []", f"{dedent(before)}\nsaid = []"))
    done = home.run(script, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


PLAIN = ["vendor"] * 5
KEPT: dict[str, int] = {}


def test_plugin_holds_in_all_that_is_started_inside(home: Environment, tmp_path: Path) -> None:
    """With its options; in a fork server that ran before, too. Afterwards in nothing, and the environment is back."""
    lines = """
    said.append(everywhere())
    with hookpatch.active("loud", options={"loud": {"mark": "?"}}):
        said.append(everywhere())
    said.append(everywhere())
    """
    assert scene(home, tmp_path, lines) == ([PLAIN, ["VENDOR?"] * 5, PLAIN], "")


def test_patch_holds_in_all_that_is_started_inside(home: Environment, tmp_path: Path) -> None:
    """One that is made of a function of a module, be it one beside the script."""
    lines = """
    with hookpatch.active(hookpatch.wrap("vendor:speak", around.around), hookpatch.inject("vendor:speak", word="x")):
        said.append(everywhere())
    said.append(everywhere())
    """
    assert scene(home, tmp_path, lines, "import around") == ([["<x>"] * 5, PLAIN], "")


def test_patch_of_json_changes_nothing_of_what_is_handed_on(home: Environment, tmp_path: Path) -> None:
    """What goes to another process is written by what no patch of json reaches; nor are our calls counted as its."""
    lines = """
    with hookpatch.active(
        hookpatch.wrap("json:dumps", around.around),
        hookpatch.wrap("vendor:speak", around.around, required=False),
        count=True,
    ) as session:
        process = multiprocessing.get_context("spawn").Process(target=speak)
        process.start()
        process.join()
        said.extend([process.exitcode, in_program(), json.dumps(1), session.report().patches[0].calls])
    """
    assert scene(home, tmp_path, lines, "import around") == ([0, "<vendor>", "<1>", {"eager": 1}], "")


def test_function_of_main_holds_in_processes_of_multiprocessing(home: Environment, tmp_path: Path) -> None:
    """Another program does not have it; it says so when it starts."""
    before = "def mine(wrapped, instance, args, kwargs): return 'mine'"
    lines = """
    with hookpatch.active(hookpatch.wrap("vendor:speak", mine)):
        said.append([in_process("spawn"), in_process("forkserver"), in_program()])
    """
    noted, stderr = scene(home, tmp_path, lines, before)
    assert noted == [["mine", "mine", "vendor"]]
    assert re.fullmatch(
        r"hookpatch\[\d+\]: warning: this process runs without the patch of vendor:speak: it is defined in __main__ of "
        r"the program that started this one; define it in a module \[hookpatch explain NotCarriedWarning\]\n",
        stderr,
    )


def test_what_cannot_be_carried_is_said_when_a_process_starts(home: Environment, tmp_path: Path) -> None:
    """Not where it is forked; and the report says it. What can be carried is."""
    lines = """
    patches = hookpatch.wrap("vendor:speak", lambda wrapped, instance, args, kwargs: "here"), "loud"
    with hookpatch.active(*patches) as session, warnings.catch_warnings(record=True) as all:
        warnings.simplefilter("always")
        said.append([in_process("fork"), len(all)])
        said.append([in_process("spawn"), in_program(), subprocess.run(["true"]).returncode])
        said.append([str(one.message) for one in all if one.category.__name__ == "NotCarriedWarning"])
        said.append([patch.stays for patch in session.report()])
        said.append(str(session.report()).splitlines()[1])
    """
    noted, _ = scene(home, tmp_path, lines)
    why = "it is made of a lambda, which another process does not find; define a function in a module"
    text = f"a process starts without the patch of vendor:speak: {why}"
    assert noted == [
        ["here", 0],
        ["VENDOR!", "VENDOR!", 0],
        [text] * 2,
        [why, None],
        f"          stays   in this process: {why}",
    ]


def test_local_block_holds_here_alone(home: Environment, tmp_path: Path) -> None:
    """And in what is forked, which has all that this process has. Nothing is said."""
    lines = """
    with hookpatch.active("loud", children="local") as session:
        said.append(everywhere())
        said.append([patch.stays for patch in session.report()])
    """
    expected = [["VENDOR!", "vendor", "VENDOR!", "vendor", "vendor"], ["children='local'"]]
    assert scene(home, tmp_path, lines) == (expected, "")


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (
            hookpatch.wrap("vendor:speak", lambda wrapped, instance, args, kwargs: None),
            "the patch of vendor:speak: it is made of a lambda, which another process does not find; define a function "
            "in a module",
        ),
        (
            hookpatch.replace(hookpatch.Target.item(KEPT, "a"), 1),
            f"the patch of <dict object at {id(KEPT):#x}>['a']: its target is an object at hand, which another process "
            "does not have",
        ),
        (
            hookpatch.replace("vendor:speak", b"x" * 90_000),
            "the patch of vendor:speak: more than 60000 bytes are too many to be handed on",
        ),
    ],
    ids=["lambda", "at hand", "large"],
)
def test_block_that_requires_its_children_is_refused(patch: hookpatch.Patch, why: str) -> None:
    """Before anything is patched, if something cannot be carried."""
    with pytest.raises(NotCarriedError) as caught:
        hookpatch.active(patch, children="require")
    assert str(caught.value) == f"cannot be carried to another process: {why}"


class Model:
    """One of some gigabytes, of which nobody is to make a copy."""

    nbytes = 1 << 33

    def __reduce__(self) -> Any:
        raise AssertionError


def test_what_is_large_is_not_copied() -> None:
    """It is asked for its size first."""
    with pytest.raises(NotCarriedError, match="the patch of vendor:speed: more than 60000 bytes are too many"):
        hookpatch.active(hookpatch.replace("vendor:speed", {"model": [Model()]}), children="require")


def test_environment_that_has_it_already_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that ignores it (-E), and opens a block of its own."""
    monkeypatch.setenv("HOOKPATCH_INHERIT", "of somebody else")
    for number in range(1, 10_000):
        monkeypatch.setenv(f"HOOKPATCH_INHERIT_{number}", "of somebody else")
    before = dict(os.environ)
    with hookpatch.active(hookpatch.replace("never_imported:x", lambda: 1)):
        assert os.environ == before
        outer = hookpatch.active(hookpatch.replace("never_imported:x", 1)).open()
        assert os.environ == {**before, "HOOKPATCH_INHERIT": os.environ["HOOKPATCH_INHERIT"]} != before
        with hookpatch.active(hookpatch.replace("never_imported:x", 2)):
            assert before.items() - os.environ.items() == {("HOOKPATCH_INHERIT", "of somebody else")}
            assert len(os.environ) == len(before) + 1
            outer.close()
            assert len(os.environ) == len(before) + 1
        assert os.environ == before
    assert os.environ == before


def test_multiprocessing_and_subprocess_are_as_before(home: Environment, tmp_path: Path) -> None:
    """What hands a block on is taken off with the last one that needs it."""
    lines = """
    import multiprocessing.popen_forkserver
    import multiprocessing.popen_spawn_posix
    spawning, forking = multiprocessing.popen_spawn_posix.Popen, multiprocessing.popen_forkserver.Popen
    config = multiprocessing.process.current_process()._config
    launch = spawning._launch
    with hookpatch.testing.pristine(spawning, forking, config, subprocess.Popen):
        outer = hookpatch.active(hookpatch.replace("never_imported:x", lambda: 1)).open()
        with hookpatch.active(hookpatch.replace("never_imported:y", 1)):
            said.append(spawning._launch is not launch)
            outer.close()
            said.append(spawning._launch is not launch)
        said.append(spawning._launch is launch)
    """
    assert scene(home, tmp_path, lines) == ([True, True, True], "")


def test_blocks_with_too_much_for_the_environment(home: Environment, tmp_path: Path) -> None:
    """Programs start all the same: the first blocks are handed on, and what is missing is said there.

    When a block ends, the next that was left out has its room.
    """
    lines = """
    patches = [hookpatch.replace(f"vendor:word{at}", "x" * 50_000) for at in range(4)]
    blocks = [hookpatch.active(patch).open() for patch in patches]
    with hookpatch.active("loud"):
        said.append([in_program(), in_process("spawn")])
        blocks.pop(0).close()
        print("ended", file=sys.stderr, flush=True)
        said.append(in_program())
    for block in blocks:
        block.close()
    """
    noted, stderr = scene(home, tmp_path, lines)
    assert noted == [["VENDOR!", "VENDOR!"], "VENDOR!"]
    missing = [
        re.findall(r"without the patch of vendor:(word\d): the blocks that are open have too much", part)
        for part in stderr.split("ended")
    ]
    assert missing == [["word2", "word3"], ["word3"]]


def _inherited() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name.startswith("HOOKPATCH_INHERIT")}


def test_block_that_is_too_large_by_itself_keeps_no_room_from_others() -> None:
    """It has none whatever ends; what was opened after it has what becomes free."""
    large, *others = (
        hookpatch.active(*(hookpatch.replace(f"never_imported:{name}{at}", "x" * 50_000) for at in range(count))).open()
        for name, count in {"large": 2, "a": 1, "b": 1, "c": 1}.items()
    )
    sizes = [len(text) for text in _inherited().values()]
    assert [size > 50_000 for size in sizes] == [False, True, True, False]
    others.pop(0).close()
    sizes = [len(text) for text in _inherited().values()]
    assert [size > 50_000 for size in sizes] == [False, True, True]
    for session in (large, *others):
        session.close()


def _in_order() -> list[str]:
    """Return what a program that is started now finds, block by block: the addresses of their patches."""
    found = sorted(
        _inherited().items(), key=lambda item: int(item[0].removeprefix("HOOKPATCH_INHERIT").strip("_") or 0)
    )
    blocks = [block for _, text in found for block in json.loads(text)]
    assert len({block["id"] for block in blocks}) == len(blocks)
    return [item["of"].removeprefix("the patch of ") for block in blocks for item in block["what"]]


def test_block_that_is_entered_again_hands_on_the_same_text() -> None:
    """In a variable of the same name, inside another one and by itself.

    The C library keeps each name and each text that the environment has ever had: a program that enters a block for
    each request would grow for ever.
    """
    outer, inner = hookpatch.replace("never_imported:x", 1), hookpatch.replace("never_imported:y", 1)
    seen = set()
    for _ in range(3):
        with hookpatch.active(outer):
            for _ in range(3):
                with hookpatch.active(inner):
                    seen.add(tuple(sorted(_inherited().items())))
    assert len(seen) == 1
    assert len(min(seen)) == 2


def test_blocks_that_overlap_for_ever_take_the_same_variables_again() -> None:
    """As those of threads that serve requests do: in the order in which they were opened, whatever their numbers."""
    blocks: list[tuple[str, hookpatch.Session]] = []
    names, texts = set[str](), set[str]()
    chance = random.Random(0)
    for at in range(1000):
        address = f"never_imported:x{at % 16}"
        blocks.append((address, hookpatch.active(hookpatch.replace(address, 1, required=False)).open()))
        assert _in_order() == [address for address, _ in blocks]
        names |= _inherited().keys()
        texts |= set(_inherited().values())
        if len(blocks) == 8:
            blocks.pop(chance.randrange(8))[1].close()
            assert _in_order() == [address for address, _ in blocks]
    for _, session in blocks:
        session.close()
    assert not _inherited()
    assert len(names) <= 50
    assert len(texts) <= 16 * 8 + 1  # each patch in each place among eight, and "[]"


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
    """Also if it was, when a block was opened before: what is packed once is looked up each time."""
    wrappers = make_module("wrappers", AROUND)
    patch = hookpatch.wrap("vendor:speak", wrappers.around)
    hookpatch.active(patch, children="require").close()
    wrappers.around = lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs)
    with pytest.raises(NotCarriedError, match=r"the patch of vendor:speak: it cannot be pickled \(.*not the same obj"):
        hookpatch.active(patch, children="require")


def test_patches_that_differ_in_a_fact_are_packed_apart(make_module: Callable[[str, str], Any]) -> None:
    """Although they have one target and one function."""
    around = make_module("wrappers", AROUND).around
    patches = hookpatch.wrap("vendor:speak", around), hookpatch.wrap("vendor:speak", around, why="it whispers")
    blocks = []
    for patch in patches:
        with hookpatch.active(patch):
            blocks += json.loads(os.environ["HOOKPATCH_INHERIT"])
    assert tuple(unpacked(item) for block in blocks for item in block["what"]) == patches


def test_what_cannot_be_pickled_is_refused() -> None:
    """With what pickle says."""
    with pytest.raises(NotCarriedError, match=r"the patch of vendor:speed: it cannot be pickled \(.*generator"):
        hookpatch.active(hookpatch.replace("vendor:speed", (one for one in ())), children="require")


def test_another_word_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(SettingError) as caught:
        hookpatch.active(children="all")  # type: ignore[arg-type]
    assert str(caught.value) == "active(): children='all' is none of 'inherit', 'local' and 'require'"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_grandchildren_have_it_too(home: Environment, tmp_path: Path, method: str) -> None:
    """Whatever starts them; and a process that a child starts after the block has ended here."""
    code = """
    import concurrent.futures as futures
    def run(method, function, *args):
        with futures.ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            return pool.submit(function, *args).result()
    def nested(method):
        return [speak(), in_program(), run(method, speak), run("fork", speak)]
    """
    lines = f"""
    run("forkserver", speak)
    with hookpatch.active("loud"):
        said.append(run({method!r}, nested, {method!r}))
        pool = futures.ProcessPoolExecutor(1, multiprocessing.get_context({method!r}))
        pool.submit(speak).result()
    said.append(pool.submit(in_program).result())
    pool.shutdown()
    said.append(run({method!r}, nested, {method!r}))
    """
    noted, _ = scene(home, tmp_path, lines, code)
    assert noted == [["VENDOR!"] * 4, "VENDOR!", ["vendor"] * 4]


def test_overlapping_blocks_end_in_any_order(home: Environment, tmp_path: Path) -> None:
    """A process gets those that are open when it starts, in their order."""
    lines = """
    outer = hookpatch.active("loud").open()
    inner = hookpatch.active(hookpatch.wrap("vendor:speak", around.around)).open()
    said.append(everywhere())
    outer.close()
    said.append(everywhere())
    again = hookpatch.active("loud").open()
    inner.close()
    said.append(everywhere())
    again.close()
    """
    noted, stderr = scene(home, tmp_path, lines, "import around")
    assert stderr == ""
    assert noted == [["<VENDOR!>"] * 5, ["<vendor>"] * 5, ["VENDOR!"] * 5]


def test_block_of_a_task_is_not_handed_on_by_its_neighbours(home: Environment, tmp_path: Path) -> None:
    """What the task starts has it, whatever starts it; what another thread starts meanwhile has not."""
    lines = """
    begun, done = threading.Event(), threading.Event()
    def neighbour():
        begun.wait()
        said.append([in_program(), in_process("spawn"), in_process("forkserver")])
        done.set()
    thread = threading.Thread(target=neighbour)
    thread.start()
    with hookpatch.active("loud", scope="task"):
        begun.set()
        done.wait()
        said.append([in_program(), in_process("spawn"), in_process("forkserver")])
        said.append([in_program(env={**os.environ})])
        with hookpatch.active(hookpatch.wrap("vendor:speak", around.around), scope="task"):
            said.append([in_program(), in_process("spawn")])
    thread.join()
    """
    expected = [["vendor"] * 3, ["VENDOR!"] * 3, ["vendor"], ["<VENDOR!>"] * 2]
    assert scene(home, tmp_path, lines, "import around") == (expected, "")


def test_fork_server_that_is_started_inside_does_not_keep_it(home: Environment, tmp_path: Path) -> None:
    """It outlives the block; what it forks afterwards is not started inside."""
    lines = """
    with hookpatch.active("loud"):
        said.append(in_process("forkserver"))
    said.append(in_process("forkserver"))
    said.append(in_process("forkserver", in_program))
    """
    assert scene(home, tmp_path, lines) == (["VENDOR!", "vendor", "vendor"], "")


def test_process_that_was_made_before_and_started_inside(home: Environment, tmp_path: Path) -> None:
    """It counts where it is started."""
    code = """
    def put(queue):
        queue.put(speak())
    """
    lines = """
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        made, late = (context.Process(target=put, args=(queue,)) for _ in range(2))
        with hookpatch.active("loud"):
            made.start()
            said.append(queue.get())
            unstarted = context.Process(target=put, args=(queue,))
        late.start()
        said.append(queue.get())
        unstarted.start()
        said.append(queue.get())
        for process in (made, late, unstarted):
            process.join()
    """
    assert scene(home, tmp_path, lines, code) == (["VENDOR!", "vendor", "vendor"] * 2, "")


def test_program_that_needs_none_of_it_imports_none_of_it(home: Environment, tmp_path: Path) -> None:
    """What a patch is made of may take long to import; but what such a program starts has the patch again."""
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import vendor; print(vendor.speak())'])"
    lines = f"""
    code = "import sys; print('around' in sys.modules, flush=True)\\n" + {nested!r}
    with hookpatch.active(hookpatch.wrap("vendor:speak", around.around)):
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    said.extend(done.stdout.split())
    """
    assert scene(home, tmp_path, lines, "import around") == (["False", "<vendor>"], "")


def test_program_that_does_not_inherit_the_environment_is_plain(home: Environment, tmp_path: Path) -> None:
    """One of its own, -I, -E, and the kill switch."""
    lines = """
    plain = dict(os.environ)
    with hookpatch.active("loud"):
        said.append([in_program(env=plain), in_program("-I"), in_program("-E")])
        said.append(in_program(env={**os.environ, "HOOKPATCH_DISABLE": "1"}))
        said.append(in_program())
    """
    assert scene(home, tmp_path, lines) == ([["vendor"] * 3, "vendor", "VENDOR!"], "")


@pytest.mark.parametrize("children", ["inherit", "require"])
def test_process_that_cannot_have_it_says_so(home: Environment, tmp_path: Path, children: str) -> None:
    """It runs without it, or ends before its first line, with status 78."""
    lines = f"""
    import gone
    os.rename("gone.py", "away.py")
    with hookpatch.active("loud", hookpatch.wrap("vendor:speak", gone.around), children={children!r}):
        said.append([in_program(), in_program(check={children == "inherit"})])
        process = multiprocessing.get_context("spawn").Process(target=print)
        process.start()
        process.join()
        said.append(process.exitcode)
    """
    (home.folder / "gone.py").write_text(AROUND)
    noted, stderr = scene(home, tmp_path, lines)
    why = "the patch of vendor:speak: ModuleNotFoundError: No module named 'gone'"
    if children == "inherit":
        assert noted == [["VENDOR!", "VENDOR!"], 0]
        assert stderr.count(f"warning: this process runs without {why} [hookpatch explain NotCarriedWarning]\n") == 3
    else:
        assert noted == [["", ""], 78]
        told = f"error: cannot be carried to another process: {why} [hookpatch explain NotCarriedError]\n"
        assert stderr.count(told) == 3


def test_calls_are_counted_there_too(home: Environment, tmp_path: Path) -> None:
    """count=True is handed on: the child's session counts."""
    code = """
    def counted():
        speak()
        return [patch.calls for patch in hookpatch.report() if patch.plugin == "loud"]
    """
    lines = """
    with hookpatch.active("loud", count=True):
        said.append(in_process("spawn", counted))
        speak()
    """
    assert scene(home, tmp_path, lines, code) == ([[{"eager": 1}]], "")


def test_variable_that_cannot_be_read_is_refused(home: Environment) -> None:
    """It is not for people; the message says what to do."""
    for wrong in ({"HOOKPATCH_INHERIT": "nonsense"}, {"HOOKPATCH_INHERIT": "[]", "HOOKPATCH_INHERIT_7": "nonsense"}):
        done = home.run("-c", "print('ran')", **wrong)
        assert (done.stdout, done.returncode) == ("", 78)
        said = f"hookpatch: error: cannot be carried to another process: what {max(wrong)} holds: it cannot be read"
        assert done.stderr.startswith(said)


# --- what launchers are given


def test_environment_is_what_a_launcher_hands_over(home: Environment, tmp_path: Path) -> None:
    """Names, options, report and count, and nothing else of this process's environment."""
    lines = """
    given = hookpatch.environment("loud", options={"loud": {"mark": "?"}}, report="reports", count=True)
    said.append(given)
    said.append(in_program(env={**os.environ, **given}, stderr=subprocess.DEVNULL))
    said.append(len(os.listdir("reports")))
    """
    noted, _ = scene(home, tmp_path, lines)
    assert noted == [
        {
            "HOOKPATCH_PLUGINS": "loud",
            "HOOKPATCH_OPTIONS": '{"loud": {"mark": "?"}}',
            "HOOKPATCH_REPORT": str(home.folder / "reports"),
            "HOOKPATCH_COUNT": "1",
        },
        "VENDOR?",
        1,
    ]


def test_environment_checks_its_names_and_options(home: Environment, tmp_path: Path) -> None:
    """Where they are given: a pool of workers would start for ever."""
    with pytest.raises(UnknownPlugin, match=r"no plugin 'lout' \(asked for by environment\(\)\)"):
        hookpatch.environment("lout")
    with pytest.raises(SettingError, match="takes plugin names, not a Patch"):
        hookpatch.environment(hookpatch.remove("vendor:speak"))  # type: ignore[arg-type]
    lines = """
    for wrong in ({"mark": 3}, {"Mark": "?"}):
        try:
            hookpatch.environment("loud", options={"loud": wrong})
        except hookpatch.errors.OptionsError as error:
            said.append(str(error).partition(": ")[2])
    """
    noted, _ = scene(home, tmp_path, lines)
    assert noted == [
        "Expected 'str', got 'int' - at 'mark'; it takes mark: str",
        "no option 'Mark'; did you mean 'mark'? it takes mark: str",
    ]
