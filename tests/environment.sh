#!/bin/sh
# Make .venv-VERSION for the tests on another Python, without torch (the one CPU build at hand is for this machine's default
# Python), or say that this Python is not on this machine.
# usage: sh tests/environment.sh 3.12
set -eu
version=$1
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
    exit
fi
venv=.venv-$version
installed=$venv/.installed
if [ ! -e "$installed" ] || [ -n "$(find pyproject.toml constraints.txt plugins/*/pyproject.toml "$0" -newer "$installed")" ]; then
    "$python" -m venv "$venv"
    pip="$venv/bin/python -m pip --disable-pip-version-check -qq install --constraint constraints.txt"
    $pip pytest hypothesis cloudpickle build hatchling editables --editable .
    $pip --only-binary :all: numpy onnx onnxsim
    $pip --only-binary :all: onnxruntime 2>/dev/null || echo "onnxruntime has no build for Python $version: what needs it is skipped"
    set --
    for project in plugins/*/pyproject.toml; do
        set -- "$@" --editable "${project%/*}"
    done
    $pip --no-deps --no-build-isolation "$@"
    "$venv/bin/python" -m compileall -q hookpatch plugins/*/hookpatch_* # as the Makefile does
    touch "$installed"
fi
