#!/bin/bash
# Is the machine's cost per event flat? Instructions per event of a native scheduler (FIFO: it decides in constant time), counted by
# valgrind, from 4 to 1,024 CPUs and from 8 to 100,000 tasks. Exit status 1 if the largest is more than 1.5 times the least.
# Usage: scripts/bench-flat.sh [SCHEDULER] (after make build). The two runs of each point go side by side; about ten minutes of CPU time.
set -euo pipefail
cd "$(dirname "$0")/.."
schedlab=${SCHEDLAB:-target/release/schedlab}
sched=${1:-fifo}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if ! command -v valgrind >/dev/null; then
	echo "valgrind is missing (apt-get install valgrind)" >&2
	exit 2
fi

# count LOAD CPUS TASKS LENGTH LONGEST: events and instructions of one run
count() {
	valgrind --tool=callgrind --callgrind-out-file=/dev/null "$schedlab" probe-machine "$sched" "$@" \
		2>"$out/valgrind-$4" >"$out/events-$4"
	echo "$(cat "$out/events-$4") $(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$out/valgrind-$4")"
}

# point LOAD CPUS TASKS: the difference of two runs; both do some 100,000 events more or less
least=0 most=0
point() {
	local load=$1 cpus=$2 tasks=$3 events instructions e1 i1 e2 i2 ms each
	# one event takes 2 ms of a CPU; a run of T ms has CPUS x T / 2; every task has begun within the shorter run
	ms=$((200000 / cpus < 400 ? 400 : 200000 / cpus))
	case $load in crowded) ;; *)
		local period=$((5 * tasks / cpus)) # 4 ms x tasks / (0.8 x CPUs)
		ms=$((ms > period ? ms : period))
		;;
	esac
	count "$load" "$cpus" "$tasks" "${ms}ms" "$((2 * ms))ms" >"$out/short" &
	count "$load" "$cpus" "$tasks" "$((2 * ms))ms" "$((2 * ms))ms" >"$out/long"
	wait $!
	read -r e1 i1 <"$out/short"
	read -r e2 i2 <"$out/long"
	events=$((e2 - e1)) instructions=$((i2 - i1))
	each=$((10 * instructions / events))
	printf '%-10s %6d CPUs %7d tasks %9d events %6d.%d instructions per event\n' "$load" "$cpus" "$tasks" "$events" \
		$((each / 10)) $((each % 10))
	least=$((least == 0 || each < least ? each : least))
	most=$((each > most ? each : most))
}

echo "$sched: instructions per event, log on (the difference of two runs: start and end cancel out)"
for cpus in 4 16 64 256 1024; do point steady $cpus $((2 * cpus)); done
for cpus in 4 1024; do point together $cpus $((2 * cpus)); done
for tasks in 100 1000 10000 100000; do point steady 4 $tasks; done
for tasks in 1000 100000; do point crowded 4 $tasks; done
point steady 1024 100000
ratio=$((100 * most / least))
printf 'largest / least: %d.%02d (at most 1.5)\n' $((ratio / 100)) $((ratio % 100))
[ $ratio -le 150 ]
