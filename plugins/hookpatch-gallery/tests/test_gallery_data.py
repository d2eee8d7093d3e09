"""The plugins of the room data, each with the real package."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import types

import pytest

from hookpatch.testing import FreshProcess, Patched


def test_csv_without_index(patched: Patched) -> None:
    """A frame is written without the index, unless the call asks for the index; a Series keeps the index."""
    import pandas

    frame = pandas.DataFrame({"price": [3, 5]})
    assert frame.to_csv() == ",price\n0,3\n1,5\n"
    patched("csv_without_index")
    assert frame.to_csv() == "price\n3\n5\n"
    assert frame.to_csv(index=True) == ",price\n0,3\n1,5\n"
    assert frame["price"].to_csv() == ",price\n0,3\n1,5\n"


def test_json_sorted(patched: Patched) -> None:
    """By the name of the module and by a name bound before; the caller may ask for the other order."""
    from json import dumps

    data = {"b": 1, "a": 2}
    patched("json_sorted")
    file = io.StringIO()
    json.dump(data, file)
    assert {file.getvalue(), json.dumps(data), dumps(data)} == {'{"a": 2, "b": 1}'}
    assert dumps(data, sort_keys=False) == '{"b": 1, "a": 2}'


def test_sqlalchemy_echo(patched: Patched) -> None:
    """One of two engines echoes; a call with an own echo= stays unchanged."""
    import sqlalchemy

    patched("sqlalchemy_echo", options={"sqlalchemy_echo": {"url": "orders"}})
    engines = [sqlalchemy.create_engine(f"sqlite:///{name}.db") for name in ("orders", "users")]
    engines.append(sqlalchemy.create_engine(url=sqlalchemy.make_url("sqlite:///orders.db"), echo=False))
    assert [bool(engine.echo) for engine in engines] == [True, False, False]


def test_clock_stopped(patched: Patched) -> None:
    """The chosen modules see the stopped clock, by both forms of the name; this module and threads do not."""
    shop = types.ModuleType("gallery_shop")
    exec("import time\nfrom time import time as now\ndef both(): return time.time(), now()", vars(shop))
    patched("clock_stopped", options={"clock_stopped": {"at": 5.0, "modules": ["gallery_shop"]}})
    assert shop.both() == (5.0, 5.0)
    assert time.time() > 1_600_000_000
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.1)


PROGRAM = "import colour, numpy; print(numpy.array([1.0, 2.0]))"


@pytest.mark.model
def test_print_options_kept(fresh_process: FreshProcess) -> None:
    """Only the call of colour is dropped; a program of its own, because colour is imported once."""
    assert fresh_process(PROGRAM).output == "[ 1.  2.]\n"
    assert fresh_process(PROGRAM, "print_options_kept").check().output == "[1. 2.]\n"
    own = f"{PROGRAM}; numpy.set_printoptions(precision=2); print(numpy.array([0.123]))"
    assert fresh_process(own, "print_options_kept").check().output == "[1. 2.]\n[0.12]\n"
