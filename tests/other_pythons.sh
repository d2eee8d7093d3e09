#!/bin/sh
# Run the core's tests on other Pythons, in environments of their own; say which are not on this machine.
# usage: sh tests/other_pythons.sh 3.12 3.13
set -eu
for version in "$@"; do
    python=$(command -v "python$version" || ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python 2>/dev/null | tail -n 1 || true)
    if [ -z "$python" ]; then
        echo "Python $version is not on this machine: its tests are left out"
        continue
    fi
    venv=.venv-$version
    if [ ! -e "$venv/.installed" ] || [ pyproject.toml -nt "$venv/.installed" ] || [ constraints.txt -nt "$venv/.installed" ]; then
        "$python" -m venv "$venv"
        pip="$venv/bin/python -m pip --disable-pip-version-check -qq"
        $pip install --constraint constraints.txt pytest hypothesis build hatchling editables --editable .
        touch "$venv/.installed"
    fi
    echo "the core's tests on $("$venv/bin/python" --version)"
    "$venv/bin/python" -m pytest -m "not model" tests
done
