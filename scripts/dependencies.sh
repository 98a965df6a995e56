#!/bin/sh
# What does honouring dependencies do to replayed latencies? The tables of docs/dependencies.md, from samples/dependencies.
# Usage: scripts/dependencies.sh [--record]     (after make build)
#   --record   record the samples anew first: needs root, redis and two CPUs. As SCHED_FIFO, so that other programs of a busy
#              host do not disturb; twice on two CPUs (how much do two real runs differ?) and once on one.
set -eu
cd "$(dirname "$0")/.."
schedlab=target/release/schedlab
samples=samples/dependencies
doc=docs/dependencies.md

if [ "${1:-}" = --record ]; then
	for what in pipeline server; do
		for run in $what $what-again $what-1cpu; do
			mkdir -p "$samples/$run"
			pin=""
			[ "$run" != "$what-1cpu" ] || pin="taskset -c 0"
			# shellcheck disable=SC2086 # words of a command
			$pin chrt -f 10 $schedlab --quiet record --interrupts -o "$samples/$run/trace.dat" -- "$samples/$what.sh"
		done
	done
fi

# table WHAT: as Markdown
table() {
	$schedlab --quiet dependencies "$samples/$1" --real "2=$samples/$1-again" --real "1=$samples/$1-1cpu" --markdown
}

aside=$(mktemp "$doc.XXXXXX")
trap 'rm -f "$aside" "$aside.table"' EXIT
cp "$doc" "$aside"
for what in pipeline server; do
	table $what >"$aside.table"
	# what stands between the two marks is replaced
	sed -i -e "/<!-- $what: begin -->/,/<!-- $what: end -->/{/<!-- $what: /!d}" -e "/<!-- $what: begin -->/r $aside.table" "$aside"
done
if cmp -s "$aside" "$doc"; then
	echo "$doc is as it was"
else
	chmod 644 "$aside"
	mv "$aside" "$doc"
	echo "$doc is renewed"
fi
