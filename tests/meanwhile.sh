#!/bin/sh
# What `make test` runs beside this Python's tests: the core's on other Pythons, then those of some plugins.
# usage: sh tests/meanwhile.sh .venv "3.12 3.13" plugins/hookpatch-onnx ...
set -u
venv=$1 others=$2 failed=0
shift 2
sh tests/other_pythons.sh $others || failed=1
if "$venv/bin/python" -m pytest -p no:cacheprovider "$@" >"$venv/plugins.log" 2>&1; then
    tail=1
else
    failed=1 tail=200
fi
echo "the tests of $*, $venv/plugins.log:"
tail -n $tail "$venv/plugins.log"
exit $failed
