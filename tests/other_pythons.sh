#!/bin/sh
# Run the core's tests on other Pythons, the newest last, in environments of their own; say which are not on this machine.
# usage: sh tests/other_pythons.sh 3.12 3.13
set -eu
failed=0
for newest in "$@"; do :; done
for version in "$@"; do
    python=
    for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python; do
        # Run, not only looked up: pyenv has a shim for every version, installed or not in use.
        if "$candidate" -c 'import venv' 2>/dev/null; then
            python=$candidate
            break
        fi
    done
    if [ -z "$python" ]; then
        echo "Python $version is not on this machine: its tests are left out"
        continue
    fi
    venv=.venv-$version
    installed=$venv/.installed
    if [ ! -e "$installed" ] || [ pyproject.toml -nt "$installed" ] || [ constraints.txt -nt "$installed" ]; then
        "$python" -m venv "$venv"
        "$venv/bin/python" -m pip --disable-pip-version-check -qq install --constraint constraints.txt \
            pytest hypothesis cloudpickle build hatchling editables --editable .
        touch "$installed"
    fi
    left_out="model or launcher or once"
    [ "$version" = "$newest" ] || left_out="$left_out or ends"
    if MACHINE_EXAMPLES=150 "$venv/bin/python" -m pytest -p no:cacheprovider -m "not ($left_out)" tests >"$venv/pytest.log" 2>&1; then
        tail=1
    else
        failed=1 tail=200
    fi
    echo "the core's tests on $("$venv/bin/python" --version), $venv/pytest.log:"
    tail -n $tail "$venv/pytest.log"
done
exit $failed
