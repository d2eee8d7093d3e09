#!/bin/sh
# One of the lanes of `make test-rest`, which runs three at a time: the tests that `make test` leaves out. The output goes to
# a log file; its end is shown when the lane is over.
# usage: sh tests/lane.sh .venv check|launchers|long|models|plugins|3.12|3.15-ends
set -u
venv=$1 lane=$2 log=$1/$2.log
echo "the lane $lane begins"
pytest="$venv/bin/python -m pytest -p no:cacheprovider"
marked() { grep -rl --include='test_*.py' "mark\.$1" tests; }
case $lane in
check)
    make check
    ;;
long)
    find tests -name 'test_*.py' | sort |
        STRESS_SECONDS=30 xargs -n 12 sh tests/some_files.sh "$venv" "ends and not (model or launcher)"
    ;;
models)
    $pytest -m "model and not launcher" $(marked model)
    ;;
launchers)
    $pytest -m launcher $(marked launcher)
    ;;
plugins)
    $pytest plugins docs/examples
    ;;
*-ends)
    sh tests/other_python.sh "${lane%-ends}" ends
    ;;
*)
    sh tests/other_python.sh "$lane" third
    ;;
esac >"$log" 2>&1
failed=$?
echo "the lane $lane, $log:"
tail -n $([ $failed = 0 ] && echo 2 || echo 200) "$log"
exit $failed
