"""A block's patches hold in the child processes started inside the block, and in no other."""

from __future__ import annotations

import os
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from child_programs import AROUND, LOUD, PLAIN, VENDOR, WORK, scene
from environments import Environment, furnished

import hookpatch
from hookpatch.errors import NotCarriedError


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Make an environment with a plugin, and a folder with the vendor's module and its callers."""
    files = {"vendor.py": VENDOR, "around.py": AROUND, "work.py": WORK}
    return furnished(tmp_path_factory.mktemp("children"), wheels, {"loud": LOUD}, files)


KEPT: dict[str, int] = {}


def test_plugin_holds_in_all_that_is_started_inside(home: Environment, tmp_path: Path) -> None:
    """The plugin holds with its options, also in an earlier fork server; the end restores the environment."""
    lines = """
    said.append(everywhere())
    with hookpatch.active("loud", options={"loud": {"mark": "?"}}):
        said.append(everywhere())
    said.append(everywhere())
    """
    assert scene(home, tmp_path, lines) == ([PLAIN, ["VENDOR?"] * 5, PLAIN], "")


def test_patch_holds_in_all_that_is_started_inside(home: Environment, tmp_path: Path) -> None:
    """A patch made of a module's function holds, even of a module beside the script."""
    lines = """
    with hookpatch.active(hookpatch.wrap("vendor:speak", around.around), hookpatch.inject("vendor:speak", word="x")):
        said.append(everywhere())
    said.append(everywhere())
    """
    assert scene(home, tmp_path, lines, "import around") == ([["<x>"] * 5, PLAIN], "")


def test_patch_of_json_changes_nothing_of_what_is_handed_on(home: Environment, tmp_path: Path) -> None:
    """A patch of json neither changes the payload for child processes nor counts hookpatch's own calls."""
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
    """Another program lacks the function of main, and says so at its start."""
    before = "def mine(wrapped, instance, args, kwargs): return 'mine'"
    lines = """
    with hookpatch.active(hookpatch.wrap("vendor:speak", mine)):
        said.append([in_process("spawn"), in_process("forkserver"), in_program()])
    """
    noted, stderr = scene(home, tmp_path, lines, before)
    assert noted == [["mine", "mine", "vendor"]]
    assert re.fullmatch(
        r"hookpatch\[\d+\]: warning: this process runs without the patch of vendor:speak: the class or function is in "
        r"__main__ of the parent program; use a module instead \[hookpatch explain NotCarriedWarning\]\n",
        stderr,
    )


def test_what_cannot_be_carried_is_said_when_a_process_starts(home: Environment, tmp_path: Path) -> None:
    """The warning and the report name a patch that cannot be carried, except in forks; the others are carried."""
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
    why = "made of a lambda, which another process does not find; define a function in a module"
    text = f"a process starts without the patch of vendor:speak: {why}"
    assert noted == [
        ["here", 0],
        ["VENDOR!", "VENDOR!", 0],
        [text] * 2,
        [why, None],
        f"          stays   in this process: {why}",
    ]


def test_local_block_holds_here_alone(home: Environment, tmp_path: Path) -> None:
    """A local block also holds in forks, which copy this process; no warning comes."""
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
            "the patch of vendor:speak: made of a lambda, which another process does not find; define a function in a "
            "module",
        ),
        (
            hookpatch.replace(hookpatch.Target.item(KEPT, "a"), 1),
            f"the patch of <dict object at {id(KEPT):#x}>['a']: its target is an object without an address, "
            "which another process does not have",
        ),
        (
            hookpatch.replace("vendor:speak", b"x" * 90_000),
            "the patch of vendor:speak: more than 60000 bytes are too many to be handed on",
        ),
    ],
    ids=["lambda", "at hand", "large"],
)
def test_block_that_requires_its_children_is_refused(patch: hookpatch.Patch, why: str) -> None:
    """children="require" refuses a block before its first patch, if an item cannot be carried."""
    with pytest.raises(NotCarriedError) as caught:
        hookpatch.active(patch, children="require")
    assert str(caught.value) == f"cannot be carried to another process: {why}"


class Model:
    """A model of some gigabytes that raises when copied."""

    nbytes = 1 << 33

    def __reduce__(self) -> Any:
        raise AssertionError


def test_what_is_large_is_not_copied() -> None:
    """A large value is measured first, and not copied."""
    with pytest.raises(NotCarriedError, match="the patch of vendor:speed: more than 60000 bytes are too many"):
        hookpatch.active(hookpatch.replace("vendor:speed", {"model": [Model()]}), children="require")


def test_environment_that_has_it_already_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ignores the variable (-E) restores the variable after a block of its own."""
    monkeypatch.setenv("HOOKPATCH_INHERIT", "of somebody else")
    before = dict(os.environ)
    with hookpatch.active(hookpatch.replace("never_imported:x", lambda: 1)):
        assert os.environ == before
        outer = hookpatch.active(hookpatch.replace("never_imported:x", 1)).open()
        assert os.environ == {**before, "HOOKPATCH_INHERIT": os.environ["HOOKPATCH_INHERIT"]} != before
        with hookpatch.active(hookpatch.replace("never_imported:x", 2)):
            assert before.items() - os.environ.items() == {("HOOKPATCH_INHERIT", "of somebody else")}
            outer.close()
            assert before.items() - os.environ.items() == {("HOOKPATCH_INHERIT", "of somebody else")}
        assert os.environ == before
    assert os.environ == before


def test_multiprocessing_and_subprocess_are_as_before(home: Environment, tmp_path: Path) -> None:
    """The patches for handing blocks on end with the last block."""
    lines = """
    import multiprocessing.popen_spawn_posix
    starting = multiprocessing.popen_spawn_posix.Popen
    config = multiprocessing.process.current_process()._config
    start = starting._launch
    with hookpatch.testing.pristine(starting, config, subprocess.Popen):
        outer = hookpatch.active(hookpatch.replace("never_imported:x", lambda: 1)).open()
        with hookpatch.active(hookpatch.replace("never_imported:y", 1)):
            said.append(starting._launch is not start)
            outer.close()
            said.append(starting._launch is not start)
        said.append(starting._launch is start)
    """
    assert scene(home, tmp_path, lines) == ([True, True, True], "")


def test_process_has_the_blocks_of_its_start(home: Environment, tmp_path: Path) -> None:
    """A process made before the block and started inside has the patch; one made inside and started later has not.

    The first start imports what pickles the process, inside a block on the fast path.
    """
    before = """
    def answer():
        sys.exit(speak())
    """
    lines = """
    session = hookpatch.active(hookpatch.replace("vendor:speak", around.seven))
    for _ in range(2):
        with session:
            pass
    make = multiprocessing.get_context("spawn").Process
    said.append([name for name in sys.modules if "popen_spawn" in name])
    early = make(target=answer)
    with session:
        said.append(session._is_fast)
        late = make(target=answer)
        early.start()
    late.start()
    for process in (early, late):
        process.join()
    said.append([early.exitcode, late.exitcode])
    """
    (home.folder / "around.py").write_text(f"{AROUND}\ndef seven(word='vendor'): return 7")
    assert scene(home, tmp_path, lines, f"import around\n{dedent(before)}")[0] == [[], True, [7, 1]]


def test_each_pickled_process_has_the_blocks_of_its_start(home: Environment, tmp_path: Path) -> None:
    """After the first start the place of the pickling is patched and restored in each block, without notes."""
    before = """
    from hookpatch._bootstrap.interrupts import unwritten

    def answer():
        sys.exit(speak())
    """
    lines = """
    session = hookpatch.active(hookpatch.replace("vendor:speak", around.seven))
    make = multiprocessing.get_context("spawn").Process
    launches = []
    for _ in range(5):
        early = make(target=answer)
        with session:
            noted = not unwritten
            late = make(target=answer)
            early.start()
        late.start()
        for process in (early, late):
            process.join()
        said.append([noted, early.exitcode, late.exitcode])
        launches.append(sys.modules["multiprocessing.popen_spawn_posix"].Popen._launch)
    said.append(len(set(launches)))
    """
    (home.folder / "around.py").write_text(f"{AROUND}\ndef seven(word='vendor'): return 7")
    expected = [*[[True, 7, 1]] * 3, *[[False, 7, 1]] * 2, 1]
    assert scene(home, tmp_path, lines, f"import around\n{dedent(before)}")[0] == expected


def test_blocks_with_too_much_for_the_environment(home: Environment, tmp_path: Path) -> None:
    """Programs start all the same: the first blocks are handed on, and what is missing is said there.

    When a block ends, the next that was left out has its room.
    """
    lines = """
    patches = [hookpatch.replace(f"vendor:word{at}", "x" * 40_000, add=True) for at in range(4)]
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


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_grandchildren_have_it_too(home: Environment, tmp_path: Path, method: str) -> None:
    """Grandchildren have the patch, started in any way, even after the end of the block in this process."""
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
    """A child process gets the blocks open at its start, in their order."""
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
    """Child processes of the task have the patch, even with a copied environment; others do not."""
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
    expected = [["vendor"] * 3, ["VENDOR!"] * 3, ["VENDOR!"], ["<VENDOR!>"] * 2]
    assert scene(home, tmp_path, lines, "import around") == (expected, "")


def test_fork_server_that_is_started_inside_does_not_keep_it(home: Environment, tmp_path: Path) -> None:
    """A fork server outlives the block; its later forks are plain."""
    lines = """
    with hookpatch.active("loud"):
        said.append(in_process("forkserver"))
    said.append(in_process("forkserver"))
    said.append(in_process("forkserver", in_program))
    """
    assert scene(home, tmp_path, lines) == (["VENDOR!", "vendor", "vendor"], "")


def test_process_that_was_made_before_and_started_inside(home: Environment, tmp_path: Path) -> None:
    """The start of a process decides, not the making of the object."""
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
    """A program without the target imports no wrapper; its child processes have the patch again."""
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import vendor; print(vendor.speak())'])"
    lines = f"""
    code = "import sys; print('around' in sys.modules, flush=True)\\n" + {nested!r}
    with hookpatch.active(hookpatch.wrap("vendor:speak", around.around)):
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    said.extend(done.stdout.split())
    """
    assert scene(home, tmp_path, lines, "import around") == (["False", "<vendor>"], "")


def test_program_that_does_not_inherit_the_environment_is_plain(home: Environment, tmp_path: Path) -> None:
    """A program with another environment, -I, -E or the kill switch is plain."""
    lines = """
    plain = dict(os.environ)
    with hookpatch.active("loud"):
        said.append([in_program(env=plain), in_program("-I"), in_program("-E")])
        said.append(in_program(env={**os.environ, "HOOKPATCH_DISABLE": "1"}))
        said.append(in_program())
    """
    assert scene(home, tmp_path, lines) == ([["vendor"] * 3, "vendor", "VENDOR!"], "")


def test_program_that_loses_the_block_is_refused(home: Environment, tmp_path: Path) -> None:
    """By a flag of Python, or by words before Python; a program with the block is started."""
    lines = """
    from hookpatch.errors import NotCarriedError
    python = [sys.executable, "-c", "pass"]
    losing = [[sys.executable, *flags, "-c", "pass"] for flags in (["-S"], ["-X", "utf8", "-E"], ["-W", "error", "-I"])]
    losing += [[*words, *python] for words in (["env", "-i"], ["env", "-u", "HOOKPATCH_INHERIT"], ["sudo", "-n"])]
    losing += [["sh", "-c", f"unset HOOKPATCH_INHERIT; {sys.executable} -c pass"]]
    with hookpatch.active("loud", children="require"):
        for command in losing:
            try:
                subprocess.run(command)
            except NotCarriedError as error:
                said.append(str(error).rpartition(": ")[2])
        for command in (python, ["env", "-u", "HOME", *python], ["sh", "-c", f"cd . && {sys.executable} -c pass"]):
            subprocess.run(command, check=True)
    """
    noted, _ = scene(home, tmp_path, lines)
    assert noted == [
        *["-I and -E make Python ignore the environment, and -S the start-up file"] * 3,
        *["the command takes HOOKPATCH_INHERIT out of the environment"] * 4,
    ]


@pytest.mark.parametrize("children", ["inherit", "require"])
def test_process_that_cannot_have_it_says_so(home: Environment, tmp_path: Path, children: str) -> None:
    """A process that cannot have the patch runs without, or ends before its first line with status 78."""
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
        message = f"error: cannot be carried to another process: {why} [hookpatch explain NotCarriedError]\n"
        assert stderr.count(message) == 3


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
    """The message about a damaged variable says what to do."""
    completed = home.run("-c", "print('ran')", HOOKPATCH_INHERIT="nonsense")
    assert (completed.stdout, completed.returncode) == ("", 78)
    message = "hookpatch: error: cannot be carried to another process: the variable HOOKPATCH_INHERIT cannot be read"
    assert completed.stderr.startswith(message)
