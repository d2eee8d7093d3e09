#!/bin/sh
# Print parts of the tests, a line each, for `xargs -r -L 1 -P 3 sh tests/part.sh`.
# usage: sh tests/parts.sh rest VERSION...
#   the checks, and what `make test` leaves out on this Python; then a fourth of the files on each of the other Pythons, with
#   the long tests of a third of these. TURN, a number, chooses other files for a Python, and another part to begin with.
# Long tests go by three files: beside the 8,078 of test_exact.py a look at all objects takes four times as long.
# usage: sh tests/parts.sh all VERSION
#   all tests of the core on another Python, and those of the plugins that need no torch
set -eu
kind=$1 turn=${TURN-0}
shift
files() { find tests -name 'test_*.py' | sort; }
marked() { grep -rl --include='test_*.py' "mark\.$1" tests | sort; }
every() { awk -v turn="$turn" "(NR + turn) % $1 == $2"; }
parts() { xargs -n "$1" echo "$2" "$3"; } # usage: parts FILES VENV KIND, with the files as input
plugins="plugins/hookpatch-onnxsim plugins/hookpatch-onnx/tests/picture plugins/test_contract.py"
if [ "$kind" = all ]; then
    [ -e ".venv-$1" ] || exit 0
    files | parts 12 ".venv-$1" quick
    marked '\(ends\|sampled\)' | parts 3 ".venv-$1" long
    echo ".venv-$1" plugins "$plugins"
    exit
fi
echo .venv check
echo .venv plugins plugins docs/examples # half an hour; in one process, as some import what others must not be seen to import
marked launcher | parts 1 .venv launchers # one takes minutes
{
    marked '\(ends\|sampled\)' | parts 3 .venv long
    marked model | parts 3 .venv models
    place=0
    for version in "$@"; do
        if [ -e ".venv-$version" ]; then # made by tests/environment.sh, if that Python is on this machine
            files | every $# $place | parts 12 ".venv-$version" quick
            files | every $(($# * 3)) $place | parts 3 ".venv-$version" long
            [ $(((place + turn) % $#)) != 0 ] || echo ".venv-$version" plugins "$plugins"
        fi
        place=$((place + 1))
    done
} | awk -v turn="$turn" '{ lines[NR - 1] = $0 } END { for (n = 0; n < NR; n++) print lines[(n + turn) % NR] }'
