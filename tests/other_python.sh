#!/bin/sh
# Run the core's tests, and those of the plugins that need no torch, on another Python, in an environment of its own; say if
# that Python is not on this machine. (The one CPU build of torch at hand is for this machine's default Python.)
# usage: sh tests/other_python.sh 3.12 [ends | third]
#   ends: also the long tests of every third file
#   third: every third file alone, other files for the next Python: 3.12, 3.13 and 3.14 have run all files then
set -eu
version=$1 what=${2-all} left_out="model or launcher or once"
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
log=$venv/pytest.log plugins="plugins/hookpatch-onnxsim plugins/hookpatch-onnx/tests/picture plugins/test_contract.py"
run() { # usage: run all|third MARKS
    find tests -name 'test_*.py' | sort | awk -v files="$1" -v version="${version#3.}" \
        'files == "all" || NR % 3 == version % 3' | xargs -n 12 sh tests/some_files.sh "$venv" "$2"
}
tests() {
    if [ "$what" = third ]; then
        run third "not ($left_out or ends)"
    else
        { [ "$what" = all ] || run third "ends and not ($left_out)"; } && run all "not ($left_out or ends)" &&
            "$venv/bin/python" -m pytest -p no:cacheprovider $plugins
    fi
}
if tests >"$log" 2>&1; then
    show='grep -E "^(=|[0-9]).* passed"' failed=0
else
    show="tail -n 200" failed=1
fi
echo "the tests of the core and of plugins on $("$venv/bin/python" --version), $log:"
eval "$show" "$log"
exit $failed
