#!/bin/sh
# What `make test` runs while this Python runs all other tests: the core's tests on other Pythons, then the launchers'.
# usage: sh tests/meanwhile.sh .venv 3.12 3.13
set -u
venv=$1 failed=0
shift
sh tests/other_pythons.sh "$@" || failed=1
if "$venv/bin/python" -m pytest -p no:cacheprovider -m launcher >"$venv/launchers.log" 2>&1; then
    tail=1
else
    failed=1 tail=200
fi
echo "the tests with real launchers, $venv/launchers.log:"
tail -n $tail "$venv/launchers.log"
exit $failed
