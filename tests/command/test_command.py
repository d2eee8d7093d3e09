"""`hookpatch` and `hookpatch run`, as a user types them, on the installed wheels."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
from inspect import signature

import pytest
from command_plugins import COMMANDS, OPTIONS
from environments import LOUDER, ROOT, SCRIPT, Environment, hookpatch
from rich.cells import cell_len

from hookpatch import __version__
from hookpatch._bootstrap.stderr import EXIT_STATUS
from hookpatch.command import UNFORESEEN
from hookpatch.command._app import COMMANDS as OWN
from hookpatch.command._app import command
from hookpatch.command._tables import FOLD, print_table
from hookpatch.command.run import _run, _words

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("target", "name"),
    [(["script.py"], "__main__"), (["-m", "script"], "__main__"), (["-c", "import script"], "script")],
    ids=["script", "module", "code"],
)
def test_target_gets_its_own_arguments(home: Environment, target: list[str], name: str) -> None:
    """All words after the script, module or code go to the program, even options of hookpatch."""
    arguments = ["-p", "x", "--report", "--", "-m", "--help"]
    completed = hookpatch(home, "run", "-p", "loud", *target, *arguments)
    assert (completed.stdout, completed.stderr, completed.returncode) == (f"{arguments}\nVENDOR! {name}\n", "", 0)


def test_code_is_one_word(home: Environment) -> None:
    """`-c` takes the next word, or the rest of the same word."""
    assert hookpatch(home, "run", "-p", "loud", "-cprint(3)").stdout == "3\n"


@pytest.mark.parametrize("status", [0, 3, 255])
def test_exit_status_is_the_programs(home: Environment, status: int) -> None:
    """The exit status is the program's, as with plain python."""
    assert hookpatch(home, "run", "-p", "loud", "-c", f"import sys; sys.exit({status})").returncode == status


def test_signal_and_traceback_are_the_programs(home: Environment) -> None:
    """The program runs in the process of the command, so signal and traceback equal those of plain python."""
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert hookpatch(home, "run", "-p", "loud", "-c", kill).returncode == -signal.SIGTERM
    raising = hookpatch(home, "run", "-p", "loud", "-c", "raise ValueError('x')")
    plain = home.run("-c", "raise ValueError('x')")
    assert (raising.returncode, raising.stderr) == (plain.returncode, plain.stderr)


def test_main_is_the_program(home: Environment) -> None:
    """`__main__` is the script, so instances of the script's classes can be pickled, even at exit."""
    (home.folder / "pickles.py").write_text(
        "import atexit, pickle, sys\n"
        "class P: pass\n"
        "atexit.register(lambda: print(pickle.loads(pickle.dumps(P())).__class__ is P, __name__))\n"
        "print(sys.modules['__main__'].__file__, sys.path[0])\n"
    )
    completed = hookpatch(home, "run", "-p", "loud", str(home.folder / "pickles.py"))
    assert completed.stdout == f"{home.folder}/pickles.py {home.folder}\nTrue __main__\n"


def test_names_add_to_those_of_the_environment(home: Environment) -> None:
    """`-p` adds plugins to HOOKPATCH_PLUGINS, each name once."""
    home.add_plugin("mine", OPTIONS)
    completed = hookpatch(
        home,
        "run",
        "-p",
        "mine",
        "-p",
        "loud",
        "-c",
        "import os; print(os.environ['HOOKPATCH_PLUGINS'])",
        HOOKPATCH_PLUGINS="loud",
    )
    assert completed.stdout == "loud,mine\n"


def test_options_are_read_as_the_plugin_declares_them(home: Environment) -> None:
    """Options are converted to the declared types: text, number, list."""
    home.add_plugin("mine", OPTIONS)
    words = ["-o", "mine.word=7", "-o", "mine.times=2", "-o", "mine.marks=!,?"]
    assert hookpatch(home, "run", "-p", "mine", *words, "-c", SCRIPT).stdout == "7 7!? __main__\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["-p", "luod"],
            "no plugin 'luod' (asked for by -p); did you mean 'loud'? installed: loud, mine "
            "[hookpatch explain UnknownPlugin]",
        ),
        (
            ["-p", "mine", "-o", "mine.times=two"],
            "options of plugin 'mine' (mine-dist 1.0): times=two: Expected 'int', and the text 'two' is none; "
            "it takes word: str, times: int, marks: list[str] [hookpatch explain OptionsError]",
        ),
        (
            ["-p", "mine", "-o", "mine.wrod=two"],
            "options of plugin 'mine' (mine-dist 1.0): no option 'wrod'; did you mean 'word'? "
            "it takes word: str, times: int, marks: list[str] [hookpatch explain OptionsError]",
        ),
        (
            ["-p", "loud", "-o", "loud.x=1"],
            "options of plugin 'loud' (loud-dist 1.0): the plugin has no options, but 'x' was given "
            "[hookpatch explain OptionsError]",
        ),
        (
            ["-p", "mine", "-o", "times"],
            "-o: 'times' cannot be read; write it like onnxsim_skip.passes=fuse_qkv,fuse_bn_into_conv "
            "[hookpatch explain SettingError]",
        ),
        (
            ["-p", "mine", "-o", "times=2"],
            "-o: 'times=2' names no plugin; write mine.times=2 [hookpatch explain SettingError]",
        ),
        (
            ["-p", "mine,loud"],
            "no plugin 'mine,loud' (asked for by -p); give each name by itself: 'mine', 'loud'; installed: loud, mine "
            "[hookpatch explain UnknownPlugin]",
        ),
        (
            ["-p", "loud", "-o", "mine.times=2"],
            "-o: 'mine.times=2' is for a plugin that is not switched on; add -p mine [hookpatch explain SettingError]",
        ),
    ],
)
def test_mistake_is_one_line_and_the_program_is_not_run(home: Environment, words: list[str], problem: str) -> None:
    """A mistake gives a single line and status 78 before the program runs."""
    home.add_plugin("mine", OPTIONS)
    completed = hookpatch(home, "run", *words, "-c", "print('ran')")
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", f"hookpatch: error: {problem}\n", 78)


def test_report_is_left_in_the_folder(home: Environment) -> None:
    """`--report` acts like HOOKPATCH_REPORT: the report file lies in the given folder."""
    hookpatch(home, "run", "-p", "loud", "--report", "reports", "script.py")
    assert len(list((home.folder / "reports").glob("hookpatch-*.json"))) == 1


@pytest.mark.parametrize(
    ("words", "options", "target"),
    [
        (["-p", "a", "-pb", "--plugin=c", "s.py", "-p", "d"], {"--plugin": ["a", "b", "c"]}, ["s.py", "-p", "d"]),
        (["--count", "-o", "a.x=1", "-m", "json"], {"--count": [], "--option": ["a.x=1"]}, ["-m", "json"]),
        (["--report", "r", "--", "-s.py"], {"--report": ["r"]}, ["-s.py"]),
        (["-h"], {"--help": []}, []),
        (["-"], {}, ["-"]),
        (["-cpass"], {}, ["-cpass"]),
        ([], {}, []),
    ],
    ids=" ".join,
)
def test_words_of_run_are_parsed(words: list[str], options: dict[str, list[str]], target: list[str]) -> None:
    """Options before the program are parsed in each spelling. `--` ends the options."""
    command_line = _words.parsed(words)
    assert (command_line.options, list(command_line.target), command_line.of_plugin) == (options, target, None)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["-p"], "Option '-p' requires an argument"),
        (["--report"], "Option '--report' requires an argument"),
        (["-c"], "Option '-c' requires an argument"),
        (["--count=3", "s.py"], "Option '--count' takes no value"),
        (["-Ip", "s.py"], "No such option: -I"),
        (["--plugn=x", "s.py"], "No such option: --plugn=x"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_misspelt_words_of_run_are_refused(words: list[str], problem: str) -> None:
    """A misspelt option is refused, and no program runs."""
    with pytest.raises(_words.Misspelt) as raised:
        _words.check_program(_words.parsed(words).target)
    assert str(raised.value) == problem


def test_shell_completes_the_options_of_run() -> None:
    """The shell completes every option that `run` parses."""
    completed = {name for param in command("run").params for name in param.opts}
    assert completed | {"-h", "--help"} == {name for names, _, _ in _words.OPTIONS for name in names}


@pytest.mark.parametrize("word", ["-h", "--help"])
@pytest.mark.sampled(1)
def test_help_names_words_as_they_are_written(home: Environment, word: str) -> None:
    """The help of each command names arguments as a user types the words. No Python type stands beside a name."""
    for name in OWN:
        completed = hookpatch(home, name, word)
        assert (completed.returncode, completed.stderr, "<" in completed.stdout) == (0, "", False)
        assert completed.stdout.startswith(f"Usage: hookpatch {name} [OPTIONS]")
    assert "[NAME]...\n" in hookpatch(home, "plan", word).stdout


@pytest.mark.parametrize("word", ["nope", "help", "version"])
def test_word_that_is_unknown_is_a_misspelt_command_line(home: Environment, word: str) -> None:
    """An unknown word gives status 2. The error does not list the plugins, because most plugins have no commands."""
    completed = hookpatch(home, word)
    assert (completed.stdout, completed.returncode, "loud" in completed.stderr) == ("", 2, False)


def test_plugins_are_named_without_an_option(home: Environment) -> None:
    """Only `run` and `why` take -p. The other commands take plugin names as arguments."""
    for name in ("plan", "lock", "check"):
        completed = hookpatch(home, name, "-p", "loud")
        hint = f"No such option: -p; name the plugins without it: 'hookpatch {name} NAME'"
        assert (completed.stderr, completed.returncode) == (f"hookpatch: error: {hint}\n", 2)


def test_why_takes_options(home: Environment) -> None:
    """`why` takes -o for the plugins that -p names."""
    home.add_plugin("mine", OPTIONS)
    completed = hookpatch(home, "why", "vendor:speak", "-p", "mine", "-o", "mine.word=7", PYTHONPATH=str(home.folder))
    assert "by plugin 'mine'" in completed.stdout
    wrong = hookpatch(home, "why", "vendor:speak", "-p", "mine", "-o", "mine.wrod=7")
    assert (wrong.returncode, "did you mean 'word'?" in wrong.stderr) == (78, True)


def test_table_in_a_pipe_is_not_folded(home: Environment) -> None:
    """A table in a pipe is not folded. On a terminal a long word breaks behind a separator."""
    name = "a" * 30
    home.add_plugin("mine", OPTIONS.replace('"""', f'"""{name}.{name}/{name}:{name} ', 1))
    assert f"{name}.{name}/{name}:{name} " in hookpatch(home, "list", COLUMNS="80").stdout
    shown = on_terminal(home, "list", COLUMNS="80", NO_COLOR="1")
    assert f"{name}:{name} " not in shown
    assert set(map(len, re.findall("aaa+", shown))) == {len(name)}


def test_table_on_a_terminal_has_its_columns_below_each_other(home: Environment) -> None:
    """Each line of a table fits the terminal, and each column begins at one place, also behind wide characters."""
    home.add_plugin("mine", OPTIONS.replace('"""', '"""\N{CJK UNIFIED IDEOGRAPH-6F22} wide ', 1))
    for columns in (50, 80):
        shown = on_terminal(home, "list", COLUMNS=str(columns), NO_COLOR="1")
        lines = [line for line in shown.splitlines() if line]
        assert max(map(cell_len, lines)) <= columns
        (head,) = (line for line in lines if "plugin " in line)
        verdicts = {cell_len(line.partition("there is")[0]) for line in lines if "there is" in line}
        assert verdicts == {head.index("fits")}
        assert sum("there is" in line for line in lines) == 2


@pytest.mark.ends
def test_lines_on_a_terminal_fit_and_leave_no_word_out(home: Environment) -> None:
    """`why`, `plan` and `report` fold lines at spaces or behind separators, and pipes get the same words unfolded."""
    reports = home.folder / "folded-reports"
    script = home.folder / "folded.py"
    script.write_text("import vendor")
    home.add_plugin("mine", LOUDER.replace("louder)", f"louder, why='{'many words ' * 20}')"))
    assert hookpatch(home, "run", "-p", "mine", "--report", str(reports), str(script)).returncode == 0
    try:
        for words in ["why", "vendor:speak", "-p", "mine"], ["plan", "mine"], ["report", str(reports)]:
            in_path = {"PYTHONPATH": str(home.folder)}
            shown = on_terminal(home, *words, COLUMNS="40", NO_COLOR="1", **in_path).rpartition("child process ...")[2]
            lines = [line for line in shown.splitlines() if line]
            assert max(map(cell_len, lines)) <= 40, lines
            piped = hookpatch(home, *words, **in_path).stdout
            if words[0] != "plan":  # other columns
                assert "".join(shown.split()) == "".join(piped.split())
    finally:
        shutil.rmtree(reports)


def test_nothing_to_run_is_a_usage_error(home: Environment) -> None:
    """`run` without a program is a usage error that shows the synopsis."""
    completed = hookpatch(home, "run", "-p", "loud")
    assert completed.returncode == 2
    assert "SCRIPT | -m MODULE | -c CODE [ARGUMENTS]" in completed.stderr


def test_a_long_cell_takes_no_width_from_other_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table on a terminal narrows the column whose folding costs the fewest lines."""
    for name, value in {"COLUMNS": "60", "FORCE_COLOR": "1", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    text = "a text of thirty-one characters"
    rows = [[[(text, "")], [(fits, "")]] for fits in ("yes", "yes", "yes", " ".join(["reason"] * 15))]
    print_table({"text": FOLD, "fits": FOLD}, rows)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[3:6]] == [[*text.split(), "yes"]] * 3
    assert all(len(line) <= 60 for line in lines)


ORDER = (
    "'{0}' behind '{1}' is an argument of the program, and no plugin is on; write '{0}' before it, "
    "or '--' before it if it is as you mean it"
)
PYTHON_WORD = "there is no script 'python3': this command runs python itself; leave 'python3' out"


def test_plugin_in_the_place_of_a_script_is_a_usage_error(home: Environment) -> None:
    """The error says how to switch the plugin on; a file of the plugin's name is run."""
    completed = hookpatch(home, "run", "loud", "script.py")
    hint = "'loud' is a plugin, and no file: write '-p loud'; 'hookpatch run --help' shows how it is written"
    assert (completed.stderr, completed.returncode) == (f"hookpatch: error: {hint}\n", 2)
    (home.folder / "loud").write_text("print('a file')")
    try:
        assert hookpatch(home, "run", "loud").stdout == "a file\n"
    finally:
        (home.folder / "loud").unlink()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["run", "script.py", "-p", "loud"], ORDER.format("-p loud", "script.py")),
        (["run", "-m", "script", "--plugin", "loud"], ORDER.format("--plugin loud", "-m script")),
        (["run", "-p", "loud", "nope.py"], "there is no file 'nope.py'"),
        (["audit", "nope.py"], "there is no file 'nope.py'"),
        (["audit", "json"], "there is no file 'json'; -m json runs the module"),
        (["run", "-p", "loud", "python3", "script.py"], PYTHON_WORD),
        (
            ["run", "--report", "script.py", "-p", "loud", "script.py"],
            "--report takes a folder, and 'script.py' is a file",
        ),
    ],
)
def test_program_that_cannot_be_meant_is_a_usage_error(home: Environment, words: list[str], problem: str) -> None:
    """A missing script, a module in the place of a script, a plugin named behind the program: nothing is run."""
    completed = hookpatch(home, *words)
    message = f"hookpatch: error: {problem}; 'hookpatch {words[0]} --help' shows how it is written\n"
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", message, 2)


def test_program_may_have_an_option_of_the_same_name(home: Environment) -> None:
    """With a plugin on, or behind ``--``, the words of the program are its own."""
    program = ("-c", "import sys; print(sys.argv[1:])", "-p", "loud")
    assert hookpatch(home, "run", "--", *program).stdout == "['-p', 'loud']\n"
    assert hookpatch(home, "run", "-p", "loud", *program).stdout == "['-p', 'loud']\n"
    assert hookpatch(home, "run", *program, HOOKPATCH_PLUGINS="loud").stdout == "['-p', 'loud']\n"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("loud", "'loud' is a plugin, and no address; 'hookpatch plan loud' prints its targets"),
        (
            "emial.mime:text",
            "there is no module emial; did you mean 'email'? for a module beside a program's script, call "
            "hookpatch.why() in the program",
        ),
    ],
)
def test_address_of_why_that_is_a_plugin_or_misspelt_is_one_line(home: Environment, address: str, problem: str) -> None:
    """The error names the command for plugins, or the similar module."""
    completed = hookpatch(home, "why", address)
    message = f"hookpatch: error: hookpatch why: {problem} [hookpatch explain SettingError]\n"
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", message, 78)


def test_option_of_run_before_the_command_is_a_usage_error(home: Environment) -> None:
    """The error says where the option belongs."""
    completed = hookpatch(home, "-p", "loud", "run", "script.py")
    message = "No such option: -p; write -p behind the command, as in 'hookpatch run -p ...'"
    assert (completed.stderr, completed.returncode) == (f"hookpatch: error: {message}\n", 2)


NOISY = """
    import hookpatch
    print("imported")

    @hookpatch.hookimpl
    def hookpatch_commands(app):
        raise OSError("no")
"""


def test_plugins_own_commands_are_under_its_name(home: Environment) -> None:
    """Arguments, options and help come from the plugin's function.

    `name@distribution` also works as the plugin's name.
    """
    home.add_plugin("rule", COMMANDS)
    for name in ("rule", "Rule", "rule@rule-dist"):
        completed = hookpatch(home, name, "measure", "four", "--twice")
        assert (completed.stdout, completed.stderr, completed.returncode) == ("8\n", "", 0)
    help_text = hookpatch(home, "rule", "--help").stdout
    assert "Measure and compare." in help_text
    assert "Say how long it is." in help_text
    wrong = hookpatch(home, "rule", "mesure", "four")
    assert wrong.returncode == 2
    assert "No such command 'mesure'" in wrong.stderr


def test_command_of_its_plugins_name_is_the_plugins_word(home: Environment) -> None:
    """A command with the plugin's own name is typed once: `hookpatch measure four`."""
    home.add_plugin("measure", COMMANDS)
    completed = hookpatch(home, "measure", "four", "--twice")
    assert (completed.stdout, completed.stderr, completed.returncode) == ("8\n", "", 0)
    assert "Say how long it is." in hookpatch(home, "measure", "--help").stdout


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        (
            "lits",
            "no command and no plugin 'lits'; did you mean 'list'? commands: list, plan, lock, check, doctor, report, "
            "why, explain, run, new, audit, adopt; a plugin's own commands are under its name, and 'hookpatch list' "
            "has the names [hookpatch explain UnknownCommand]",
        ),
        (
            "ruler",
            "no command and no plugin 'ruler'; did you mean 'rule'? commands: list, plan, lock, check, doctor, "
            "report, why, explain, run, new, audit, adopt; a plugin's own commands are under its name, and 'hookpatch "
            "list' has the names [hookpatch explain UnknownCommand]",
        ),
        (
            "script.py",
            "no command and no plugin 'script.py'; 'hookpatch run script.py' runs a program; commands: list, plan, "
            "lock, check, doctor, report, why, explain, run, new, audit, adopt; a plugin's own commands are under its "
            "name, and 'hookpatch list' has the names [hookpatch explain UnknownCommand]",
        ),
        (
            "loud",
            "plugin 'loud' (loud-dist 1.0) has no commands; hookpatch run -p loud SCRIPT applies its patches "
            "[hookpatch explain PluginError]",
        ),
    ],
)
def test_word_that_is_no_command_is_one_line(home: Environment, word: str, problem: str) -> None:
    """An unknown word gives a single line with the known commands and the nearest name."""
    home.add_plugin("rule", COMMANDS)
    completed = hookpatch(home, word, "x")
    status = 78 if word == "loud" else 2
    assert (completed.stdout, completed.stderr, completed.returncode) == ("", f"hookpatch: error: {problem}\n", status)


def test_plugin_is_loaded_for_its_commands_only_when_it_is_named(home: Environment) -> None:
    """Only the named plugin is imported for commands.

    A plugin that is not allowed is not imported, and a plugin that raises is named.
    """
    home.add_plugin("rule", COMMANDS)
    home.add_plugin("noisy", NOISY)
    assert hookpatch(home, "rule", "measure", "x").stdout == "1\n"
    assert "imported" not in hookpatch(home, "--help").stdout
    completed = hookpatch(home, "noisy", "measure")
    assert completed.stdout == ""  # text printed at import is no output of the command
    assert completed.stderr == (
        "imported\n"
        "hookpatch: error: plugin 'noisy' (noisy-dist 1.0) raised OSError when asked for its commands: no "
        "(noisy_dist_noisy.py, line 7) "
        "[hookpatch explain PluginError]\n"
    )
    allow = home.python.parents[1] / "hookpatch.allow"
    allow.write_text("rule\n")
    completed = hookpatch(home, "noisy", "measure")
    assert (completed.stdout, completed.stderr) == (
        "",
        "hookpatch: error: plugin 'noisy' of noisy-dist 1.0 (asked for by hookpatch noisy) is not allowed here: "
        f"{allow} does not name it [hookpatch explain NotAllowed]\n",
    )


def test_version_is_printed(home: Environment) -> None:
    """`hookpatch --version` prints the version."""
    assert hookpatch(home, "--version").stdout == f"hookpatch {__version__}\n"


def test_command_works_whatever_the_variable_says(home: Environment) -> None:
    """`hookpatch list` runs even with a bad HOOKPATCH_PLUGINS, because the command helps to fix the variable."""
    completed = hookpatch(home, "list", HOOKPATCH_PLUGINS="nonsense")
    assert (completed.stderr, completed.returncode) == ("", 0)


def test_module_is_the_command_too(home: Environment) -> None:
    """`python -m hookpatch` works like the command."""
    assert home.run("-m", "hookpatch", "run", "-p", "loud", "-c", SCRIPT).stdout == "VENDOR! __main__\n"


ALL_COMMANDS = sorted(OWN)
FUNCTIONS = {name: _run.run if name == "run" else command(name).callback for name in OWN}


def test_help_fits_a_screen(home: Environment) -> None:
    """The help fits 24 lines of 80 columns with the prompt.

    Each command has one line, and the help is also printed without any arguments.
    """
    overview = hookpatch(home, "--help", COLUMNS="80").stdout
    assert "A plugin's own commands are under its name: hookpatch onnx diff." in overview
    lines = overview.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert (
        sorted(line.split()[0] for line in lines[lines.index("Commands:") + 1 :][: len(ALL_COMMANDS)]) == ALL_COMMANDS
    )
    assert not [line for line in lines if line.endswith("...") and "Usage" not in line]
    assert hookpatch(home, COLUMNS="80").stderr == overview


@pytest.mark.repository
def test_every_command_has_an_example() -> None:
    """Every command has an example as a user types the command, including the plugins of the repository."""
    for name, function in FUNCTIONS.items():
        _, _, example = (function.__doc__ or "").partition("Example: ")
        assert f"hookpatch {name} " in f"{example.strip()} ", name
        assert (function.__doc__ or "").partition("\n")[0] == OWN[name][1]
    sources = [path.read_text() for path in (ROOT / "plugins").glob("*/hookpatch_*/**/*.py")]
    of_plugins = [source for source in sources if "typer.Argument(" in source]
    examples = [
        re.search(r"^    Example: hookpatch (onnx diff|runtimes|scan) ", source, re.MULTILINE) for source in of_plugins
    ]
    assert sorted(example[1] for example in examples if example) == ["onnx diff", "runtimes", "scan"]
    assert all(examples)


def test_every_table_can_be_had_as_json() -> None:
    """Every command that prints a table has --json. Only `run` and `new` print no table."""
    without = [name for name, function in FUNCTIONS.items() if "json" not in signature(function).parameters]
    assert without == ["run", "new"]


def test_nothing_is_coloured_but_a_terminal(home: Environment) -> None:
    """A pipe gets no escape codes. A terminal gets colours, unless NO_COLOR or TERM=dumb is set."""
    home.add_plugin("old", LOUDER.replace("louder)", "louder, requires='pluggy<1')"))
    for words in (["list"], ["--help"], ["doctor"], ["lits"]):
        completed = hookpatch(home, *words, TERM="xterm-256color")
        assert "\x1b" not in completed.stdout + completed.stderr
    for variables, coloured in [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]:
        shown = on_terminal(home, "list", **variables)
        assert ("\x1b[3" in shown, "\x1b[1m" in shown) == (coloured, coloured), variables


def on_terminal(home: Environment, *words: str, **variables: str) -> str:
    """Return the output of a command on a terminal."""
    screen, end = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOOKPATCH_", "NO_COLOR"))}
    command = [home.python.parent / "hookpatch", *words]
    environment = {**clean, "TERM": "xterm-256color", **variables}
    with subprocess.Popen([home.python, *command], stdout=end, cwd=home.folder, env=environment):
        os.close(end)
        output = b""
        with contextlib.suppress(OSError):  # reading past the end raises OSError
            while part := os.read(screen, 65536):
                output += part
    os.close(screen)
    return output.decode()


RAISING = COMMANDS.replace("print(len(what) * (1 + twice))", "raise KeyError('what\\nis more')")


def test_error_is_one_line_and_its_traceback_only_on_demand(home: Environment) -> None:
    """A hookpatch error, an unforeseen error and a misspelt option give a single line.

    Each has a status and a hint, and `--traceback` shows the traceback.
    """
    home.add_plugin("rule", RAISING)
    for words, status, line in [
        (["check", "luod"], 78, "no plugin 'luod' (asked for by hookpatch check); did you mean 'loud'? installed: "),
        (
            ["rule", "measure", "x"],
            70,
            "KeyError: 'what\\nis more'; 'hookpatch --traceback ...' shows where that comes",
        ),
        (["list", "--jsn"], 2, "No such option: --jsn"),
        (
            ["check", "--lock"],
            2,
            "Option '--lock' requires an argument; 'hookpatch check --help' shows how it is written",
        ),
    ]:
        completed = hookpatch(home, *words)
        assert (completed.stdout, completed.returncode, completed.stderr.count("\n")) == ("", status, 1)
        assert completed.stderr.startswith(f"hookpatch: error: {line}")
        traced = hookpatch(home, "--traceback", *words)
        assert traced.stderr.startswith("Traceback (most recent call last):\n")
        assert traced.stderr.endswith(completed.stderr)
        assert traced.returncode == status


def test_interrupted_command_says_nothing(home: Environment) -> None:
    """After Ctrl-C a command prints no message and ends with status 130, as shells do."""
    home.add_plugin("rule", COMMANDS.replace("print(len(what) * (1 + twice))", "raise KeyboardInterrupt"))
    completed = hookpatch(home, "rule", "measure", "x")
    assert (completed.stdout, completed.stderr.strip(), completed.returncode) == ("", "", 130)


def test_commands_and_statuses_are_documented() -> None:
    """docs/command.md lists all commands and all exit statuses."""
    text = (ROOT / "docs" / "command.md").read_text()
    rows = re.findall(r"^\| (?:`(\w+)`|(\w[^|]*?)) \|", text, re.MULTILINE)
    assert sorted(name for name, _ in rows if name) == ALL_COMMANDS
    statuses = re.findall(r"^\| (\d+) \|", text, re.MULTILINE)
    assert sorted(set(map(int, statuses))) == [0, 1, 2, UNFORESEEN, EXIT_STATUS, 130]


def test_error_of_the_program_is_the_programs(home: Environment) -> None:
    """With `--traceback` or without, an error of the program is printed as python prints the error."""
    plain = home.run("-c", "raise ValueError('x')")
    for words in (["run"], ["--traceback", "run"]):
        completed = hookpatch(home, *words, "-p", "loud", "-c", "raise ValueError('x')")
        assert (completed.stderr, completed.returncode) == (plain.stderr, 1)


TYPES = """
eval "$(hookpatch --show-completion bash 2>/dev/null || _HOOKPATCH_COMPLETE=source_bash hookpatch)"
typed() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _hookpatch_completion hookpatch "${@: -1}" "${@: -2:1}"; echo "${COMPREPLY[@]}"
}
typed hookpatch exp; typed hookpatch run -p l; typed hookpatch check no; typed hookpatch noisy ''
typed hookpatch run --cou
"""


def test_bash_completes_commands_and_names(home: Environment) -> None:
    """Plugin names are completed from the installed metadata.

    No plugin is loaded, not even to complete the words after the plugin's name.
    """
    home.add_plugin("noisy", NOISY)
    path = f"{home.python.parent}:{os.environ['PATH']}"
    completed = subprocess.run(
        ["bash", "--norc", "-c", TYPES], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=120
    )
    assert (completed.stdout.splitlines(), completed.stderr) == (["explain", "loud", "noisy", "", "--count"], "")


@pytest.mark.parametrize("option", ["-I", "-q", "--plugn"])
def test_option_that_is_none_of_ours_is_refused(home: Environment, option: str) -> None:
    """An unknown option is refused and not passed to python: -I would switch the patches off silently."""
    completed = hookpatch(home, "run", "-p", "loud", option, "script.py")
    assert (completed.stdout, completed.returncode) == ("", 2)
    assert f"No such option: {option}" in completed.stderr


@pytest.mark.parametrize("flag", ["-I", "-E"])
def test_python_that_ignores_the_environment_is_refused(home: Environment, flag: str) -> None:
    """A python with -I or -E is refused, because the program would run unpatched."""
    completed = home.run(flag, "-m", "hookpatch", "run", "-p", "loud", "script.py")
    assert (completed.stdout, completed.returncode) == ("", 78)
    assert completed.stderr == (
        "hookpatch: error: hookpatch run: this python ignores the environment (-I or -E), and the program "
        "would "
        "run unpatched; leave the flag out [hookpatch explain "
        "SettingError]\n"
    )
