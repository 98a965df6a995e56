#!/bin/bash
# Does `schedlab hourglass whatif` predict this machine? Ten stated cases, each of 2,000 periods or more; ends with a table.
#
# A case is right if every thread of it misses as many deadlines as predicted: within 3 points of a hundred, or inside the
# interval of the drawings where that is 6 points wide at most. Exit status 1 if fewer than 8 cases are.
#
# BESIDE=PROGRAM runs each measurement through a program of yours, e.g. one that keeps the machine quiet; ONLY="3 5" does
# these cases alone; SCHED=linux-6.12 (default) is the scheduler that predicts. Real-time cases need root.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
schedlab=${SCHEDLAB:-$PWD/target/release/schedlab}
sched=${SCHED:-linux-6.12}
only=${ONLY:-1 2 3 4 5 6 7 8 9 10}
read -ra beside <<<"${BESIDE:-}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
right=0 asked=0

# try NUMBER WHAT OPTION...
try() {
	local number=$1 what=$2
	shift 2
	[[ " $only " == *" $number "* ]] || return
	asked=$((asked + 1))
	if ! "${beside[@]}" "$schedlab" --quiet hourglass whatif -d 10100ms --sched "$sched" "$@" --json "$work/$number.json" >"$work/said" 2>&1; then
		printf '%2d  %-62s %s\n' "$number" "$what" "not run: $(tail -n 1 "$work/said")"
		return
	fi
	# a row for each thread: predicted, least, most, measured, verdict
	local rows
	rows=$(jq -r '.rows[] | [.predicted_pct, .least_pct, .most_pct, .again_pct, .verdict] | @tsv' "$work/$number.json")
	if grep -q 'off$' <<<"$rows"; then
		verdict=off
	else
		verdict=right right=$((right + 1))
	fi
	while IFS=$'\t' read -r predicted least most measured _; do
		printf '%2d  %-62s %7s (%s to %s) %9s  %s\n' "$number" "$what" "$predicted" "$least" "$most" "$measured" "$verdict"
		what='' verdict=''
	done <<<"$rows"
}

echo 'case                                                           predicted (least to most)  measured %'
try 1 "4 ms every 5 ms, alone" -w PERIODIC 4ms 5ms
try 2 "4 ms every 5 ms, alone, real-time" -w PERIODIC 4ms 5ms -p RTHIGH
try 3 "4 ms every 5 ms, 15 % less compute" -w PERIODIC 4ms 5ms --compute 85%
try 4 "4 ms every 5 ms on a CPU with one that computes" -n 2 -a 0 -w CPU -t 0 -w PERIODIC 4ms 5ms
try 5 "1.5 ms every 5 ms on a CPU with one that computes" -n 2 -a 0 -w CPU -t 0 -w PERIODIC 1500us 5ms
try 6 "three of 1 ms every 5 ms on one CPU" -n 3 -a 0 -w PERIODIC 1ms 5ms
try 7 "two of 3 ms every 5 ms on one CPU: more than it has" -n 2 -a 0 -w PERIODIC 3ms 5ms
try 8 "three of 2 ms every 5 ms on all CPUs" -n 3 -w PERIODIC 2ms 5ms
try 9 "2 ms every 5 ms or more, sporadic, half as much more compute" -w SPORADIC 2ms 5ms -d 22s --compute 150%
try 10 "real-time 2 ms above 2 ms, every 5 ms, on one CPU" -n 2 -a 0 -w PERIODIC 2ms 5ms -t 0 -p RTHIGH
echo "$right of $asked cases are right"
[ "$right" -ge $((asked * 8 / 10)) ]
