#!/bin/sh
# What `make test` runs while this Python runs the tests of tests/ and docs/: the core's tests on other Pythons, then the
# plugins' tests and those with real launchers.
# usage: sh tests/meanwhile.sh .venv 3.12 3.13
set -u
venv=$1 failed=0
shift
sh tests/other_pythons.sh "$@" || failed=1

# usage: run NAME PYTEST-ARGUMENTS
run() {
    log=$venv/$1.log
    shift
    if "$venv/bin/python" -m pytest -p no:cacheprovider "$@" >"$log" 2>&1; then
        tail=1
    else
        failed=1 tail=200
    fi
    echo "pytest $*, $log:"
    tail -n $tail "$log"
}

run plugins plugins
run launchers -m launcher tests
exit $failed
