#!/bin/bash
# Is each run of a sweep in its dataset exactly once, whoever is killed when? Ends with a table; exit status 1 if a hash differs.
#
#   parent   `kill -9` of the whole program at random moments, until the sweep is done
#   worker   `kill -9` of a random worker process while the sweep goes on
#   two      two programs at one folder, one of which is killed
#   shards   four parts, two of which are killed, merged
#   full     a disk with no space in the midst (root only: a tmpfs); then more space
#
# KILLS=100 (default) kills of parents and of workers; RUNS=2000 runs; SEED=1 repeats the same moments as far as the host does.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/sweep-lib.sh
schedlab=${SCHEDLAB:-$PWD/target/release/schedlab}
kills=${KILLS:-100}
runs=${RUNS:-2000}
RANDOM=${SEED:-1}
work=$(mktemp -d)
faults=0
full=$work/full
mkdir "$full"
trap 'mountpoint -q "$full" && umount "$full"; rm -rf "$work"' EXIT

write_sweep "$work/sweep.toml" "$runs"

# row WHAT TIMES FAULTS NOTE
row() {
	printf '%-8s %6s %6s  %s\n' "$@" | tee -a "$work/table" >&2
	faults=$((faults + $3))
}
# (not for the background: there its number would be that of a shell)
sweep() { "$schedlab" --quiet sweep "$work/sweep.toml" "$@"; }
pause() { sleep "0.$(printf '%03d' $((RANDOM % $1)))"; }

# same WHAT TIMES DIR NOTE
same() {
	local fault=0 note=$4
	[ "$(hash_of "$3")" = "$reference" ] || { fault=1 note="another hash; $note"; }
	[ "$(bytes_of "$3")" = "$reference_bytes" ] || { fault=1 note="other files; $note"; }
	[ -z "$(find "$3/.work/journal" "$3/.work/new" -mindepth 1 2>/dev/null)" ] || { fault=1 note="something is left in .work; $note"; }
	row "$1" "$2" "$fault" "$note"
}

begin=$(date +%s%N)
sweep -o "$work/plain" >/dev/null 2>&1
length_ms=$((($(date +%s%N) - begin) / 1000000))
reference=$(hash_of "$work/plain")
reference_bytes=$(bytes_of "$work/plain")
[ -n "$reference" ] || { row plain 0 1 "does not run" && exit 1; }
echo "$runs runs in $length_ms ms, hash $reference" >&2

# parent: each life is long enough for some runs, so that the sweep comes to its end
hit=0
: >"$work/made"
while :; do
	"$schedlab" --quiet sweep "$work/sweep.toml" -o "$work/parent" --json "$work/last.json" >/dev/null 2>&1 &
	pid=$!
	if [ "$hit" -lt "$kills" ]; then
		sleep 0.05
		pause $((length_ms / 10 < 900 ? length_ms / 10 + 20 : 900))
		kill -9 "$pid" 2>/dev/null && hit=$((hit + 1))
		wait "$pid" 2>/dev/null
		[ "$hit" -lt "$kills" ] || continue
		# it may have come to its end before all kills: it goes on with a fresh folder then
	else
		wait "$pid" 2>/dev/null
		break
	fi
	if [ "$("$schedlab" --quiet sweep status "$work/parent" 2>/dev/null | sed -n 's/^\([0-9,]*\) runs .*/\1/p' | tr -d ,)" = "$runs" ]; then
		sweep -o "$work/parent" >/dev/null 2>&1
		same parent "$hit" "$work/parent" "finished under kills"
		rm -rf "$work/parent"
	fi
done
same parent "$hit" "$work/parent" "the last life made $(sed -n 's/.*"done": \([0-9]*\).*/\1/p' "$work/last.json") runs"

# worker: processes named schedlab-worker below this very sweep
hit=0
while [ "$hit" -lt "$kills" ]; do
	rm -rf "$work/worker"
	"$schedlab" --quiet sweep "$work/sweep.toml" -o "$work/worker" >/dev/null 2>&1 &
	pid=$!
	while kill -0 "$pid" 2>/dev/null && [ "$hit" -lt "$kills" ]; do
		pause 40
		mapfile -t workers < <(pgrep -P "$pid")
		[ "${#workers[@]}" -gt 0 ] || continue
		victim=${workers[RANDOM % ${#workers[@]}]}
		# half of the time the run's own process, below the worker
		if [ $((RANDOM % 2)) = 0 ]; then
			child=$(pgrep -P "$victim" | head -1)
			victim=${child:-$victim}
		fi
		kill -9 "$victim" 2>/dev/null && hit=$((hit + 1))
	done
	wait "$pid" 2>/dev/null
	same worker "$hit" "$work/worker" ""
done

# two
for round in 1 2 3; do
	rm -rf "$work/two"
	"$schedlab" --quiet sweep "$work/sweep.toml" -o "$work/two" --jobs 1 --json "$work/a.json" >/dev/null 2>&1 &
	one=$!
	"$schedlab" --quiet sweep "$work/sweep.toml" -o "$work/two" --jobs 1 --json "$work/b.json" >/dev/null 2>&1 &
	other=$!
	if [ "$round" != 1 ]; then
		sleep 0.1
		pause 400
		kill -9 "$one" 2>/dev/null
	fi
	wait "$one" 2>/dev/null
	wait "$other" 2>/dev/null
	made=""
	if [ "$round" = 1 ]; then
		made=$(cat "$work/a.json" "$work/b.json" | sed -n 's/.*"done": \([0-9]*\).*/\1/p' | paste -sd+)
		[ "$((made))" = "$runs" ] || row two 1 1 "$made runs made instead of $runs"
	fi
	same two "$round" "$work/two" "made: ${made:-one was killed}"
done

# shards
for part in 1 2 3 4; do
	"$schedlab" --quiet sweep "$work/sweep.toml" -o "$work/shard-$part" --shard "$part/4" --jobs 1 >/dev/null 2>&1 &
	pid=$!
	if [ $((part % 2)) = 0 ]; then
		pause 200
		kill -9 "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
		sweep -o "$work/shard-$part" --shard "$part/4" >/dev/null 2>&1
	else
		wait "$pid" 2>/dev/null
	fi
done
"$schedlab" --quiet sweep merge "$work"/shard-* -o "$work/merged" >/dev/null
same shards 4 "$work/merged" "two of four were killed"

# full
if mount -t tmpfs -o size=400k none "$full" 2>/dev/null; then
	sweep -o "$full/d" >/dev/null 2>"$work/errors"
	code=$?
	kept=$("$schedlab" --quiet sweep status "$full/d" 2>/dev/null | sed -n 's/^\([0-9,]*\) runs .*/\1/p')
	[ "$code" = 2 ] && grep -q 'free space' "$work/errors" || row full 1 1 "ended with $code: $(tail -1 "$work/errors")"
	mount -o remount,size=100M "$full"
	sweep -o "$full/d" >/dev/null 2>&1
	same full 1 "$full/d" "${kept:-0} runs were kept"
else
	row full 0 0 "SKIPPED: needs root for a tmpfs"
fi

[ "$faults" = 0 ] || echo "$faults faults" >&2
exit $((faults > 0))
