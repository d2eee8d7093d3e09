#!/bin/sh
# A part of `make test` or of a lane: some files of tests, in a process of their own. The output goes to a log file; its end is
# shown when the part is over.
# usage: sh tests/some_files.sh .venv MARKS FILE...
set -u
venv=$1 marks=$2 log=$1/$(echo "$3" | tr / -).log
shift 2
"$venv/bin/python" -m pytest -p no:cacheprovider -q -m "$marks" "$@" >"$log" 2>&1
failed=$?
[ $failed = 5 ] && failed=0 # none of these files has such a test
echo "$1 and $(($# - 1)) more, $log:"
tail -n $([ $failed = 0 ] && echo 1 || echo 200) "$log"
exit $failed
