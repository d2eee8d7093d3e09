#!/bin/sh
# What `make test-all` runs while this Python runs the tests of tests/: the core's on other Pythons, then the plugins' and the examples'.
# usage: sh tests/meanwhile.sh .venv 3.12 3.13
set -u
venv=$1 failed=0
shift
sh tests/other_pythons.sh "$@" || failed=1
if "$venv/bin/python" -m pytest -p no:cacheprovider plugins docs/examples >"$venv/plugins.log" 2>&1; then
    tail=1
else
    failed=1 tail=200
fi
echo "the plugins' and the examples' tests, $venv/plugins.log:"
tail -n $tail "$venv/plugins.log"
exit $failed
