#!/bin/sh
# Run the core's tests, and those of the plugins that need no torch, on other Pythons, the newest last, in environments of
# their own; say which are not on this machine. (The one CPU build of torch at hand is for this machine's default Python.)
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
    if [ ! -e "$installed" ] || [ -n "$(find pyproject.toml constraints.txt plugins/*/pyproject.toml "$0" -newer "$installed")" ]; then
        "$python" -m venv "$venv"
        pip="$venv/bin/python -m pip --disable-pip-version-check -qq install --constraint constraints.txt"
        $pip pytest hypothesis cloudpickle build hatchling editables --editable .
        $pip --only-binary :all: numpy onnx onnxsim
        $pip --only-binary :all: onnxruntime 2>/dev/null || echo "onnxruntime has no build for Python $version: what needs it is skipped"
        for project in plugins/*/pyproject.toml; do
            $pip --no-deps --no-build-isolation --editable "${project%/*}"
        done
        touch "$installed"
    fi
    left_out="model or launcher or once"
    [ "$version" = "$newest" ] || left_out="$left_out or ends"
    log=$venv/pytest.log plugins="plugins/hookpatch-onnxsim plugins/hookpatch-onnx/tests/picture plugins/test_contract.py"
    if MACHINE_EXAMPLES=150 "$venv/bin/python" -m pytest -p no:cacheprovider -m "not ($left_out)" tests >"$log" 2>&1 &&
        "$venv/bin/python" -m pytest -p no:cacheprovider $plugins >>"$log" 2>&1; then
        show='grep -E "^(=|[0-9]).* passed"'
    else
        failed=1 show="tail -n 200"
    fi
    echo "the tests of the core and of plugins on $("$venv/bin/python" --version), $log:"
    eval "$show" "$log"
done
exit $failed
