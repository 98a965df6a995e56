#!/bin/sh
# For `git bisect run` in a kernel tree: is this commit's scheduler worse on a workload than a baseline?
#
#   cd ~/linux; git bisect start BAD GOOD
#   git bisect run ~/schedlab/scripts/bisect-run.sh ~/w.txt 'spinner:cpu>+500ms' linux-6.12 --cpus 1 --duration 10s --runs 2
#
# WORKLOAD CONDITION BASELINE OPTIONS...: what `schedlab compare WORKLOAD --sched BASELINE --sched <this tree> --fail-if CONDITION
# OPTIONS...` would say. Only what has changed since the last commit is compiled; nothing is written into the tree.
#
#   0 good   the condition is not met             1 bad   it is met, or the scheduler crashed, hung or warned
#   125      this commit does not build           255     the question is wrong (bad workload, condition, ...): the bisection stops
set -u
if [ $# -lt 4 ]; then
    echo "usage: git bisect run $0 WORKLOAD CONDITION BASELINE OPTIONS... (--cpus N at least)" >&2
    exit 255
fi
schedlab=${SCHEDLAB:-$(dirname "$0")/../target/release/schedlab}
workload=$1 condition=$2 baseline=$3
shift 3
name=bisect-$(printf %s "$PWD" | cksum | cut -d' ' -f1)

# the baseline against itself: a wrong question must not look like a bad commit
"$schedlab" --quiet compare "$workload" --sched "$baseline" --sched "$baseline" --fail-if "$condition" "$@" >/dev/null || {
    echo "$0: the question is wrong, or the baseline itself fails (above)" >&2
    exit 255
}
"$schedlab" --quiet linux add --source "$PWD" --name "$name" >/dev/null || exit 125
"$schedlab" --quiet compare "$workload" --sched "$baseline" --sched "linux-$name" --fail-if "$condition" "$@"
case $? in
    0) exit 0 ;;
    1 | 3) exit 1 ;;
    *) exit 255 ;;
esac
