#!/bin/sh
# A part of the tests: some files, in a process of their own, or the checks. The output goes to a log file; its end is shown
# when the part is over. A part that would begin after DEADLINE, in seconds since 1970, is left out, and this is said.
# usage: sh tests/part.sh VENV quick|long|models|launchers|plugins|check [FILE...]
set -u
venv=$1 kind=$2
shift 2
name="$venv $kind${1:+ $1 and $(($# - 1)) more}"
if [ -n "${DEADLINE-}" ] && [ "$(date +%s)" -ge "$DEADLINE" ]; then
    echo "left out, for lack of time: $name"
    exit
fi
once=
[ "$venv" = .venv ] || once=" or once"
case $kind in
quick) marks="not (ends or model or launcher$once)" ;;
long) marks="ends and not (model or launcher$once)" ;;
models) marks="model and not launcher" ;;
launchers) marks="launcher" ;;
*) marks="" ;;
esac
[ "$venv $kind" != ".venv long" ] || export STRESS_SECONDS=30
log=$venv/$kind${1:+-$(echo "$1" | tr / -)}.log
if [ "$kind" = check ]; then
    make check
else
    "$venv/bin/python" -m pytest -p no:cacheprovider -q --durations=10 -m "$marks" "$@"
fi >"$log" 2>&1
failed=$?
[ $failed = 5 ] && failed=0 # none of these files has such a test
echo "$name, $log:"
tail -n $([ $failed = 0 ] && echo 1 || echo 200) "$log"
exit $failed
