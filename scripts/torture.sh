#!/bin/bash
# What does the program leave behind when the world is against it? Ends with a table; exit status 1 if a row has a fault.
#
#   kill     `kill -9` at random moments of each long command, KILLS of each that hit a live process: nothing is left that a
#            later run trips over (half a file under the output's name, a process, a tracing instance that the next start keeps)
#   full     outputs, temporary files and the cache on a disk with no space: exit 2 and a sentence, no half file
#   stdout   standard output on /dev/full: exit 2, no panic
#   cache    a cache that cannot be written: what needs none works, the rest ends with 2 and a sentence
#   names    hostile names of files and tasks: nothing is executed, nothing reaches the terminal raw
#
# KILLS=100 (default) kills of each command; SEED=1 repeats the same moments. Root adds recordings and a full disk (a tmpfs).
set -uo pipefail
cd "$(dirname "$0")/.."
schedlab=${SCHEDLAB:-$PWD/target/release/schedlab}
kills=${KILLS:-100}
RANDOM=${SEED:-1}
work=$(mktemp -d)
full=$work/full
table=$work/table
faults=0
mkdir "$full"
trap 'mountpoint -q "$full" && umount "$full"; rm -rf "$work"' EXIT

# row GROUP WHAT TIMES FAULTS NOTE
row() {
	printf '%-7s %-44s %6s %6s  %s\n' "$@" >>"$table"
	printf '%-7s %-44s %6s %6s  %s\n' "$@" >&2
	faults=$((faults + $4))
}

# Processes of this run that are still there, zombies apart: workers, guests, builds.
survivors() {
	local pid marked=0
	for pid in /proc/[0-9]*; do
		grep -qz "^TORTURE=$work$" "$pid/environ" 2>/dev/null || continue
		grep -q '^State:[[:space:]]*Z' "$pid/status" 2>/dev/null && continue
		marked=$((marked + 1))
	done
	echo "$marked"
}

# What lies in a folder and is not on the list of names that may be there (a pattern).
strangers() { find "$1" -mindepth 1 -maxdepth 1 ! -name "$2" | wc -l; }

# kill_at_random NAME PATTERN COMMAND...: in a folder of its own, whose entries may be called PATTERN.
kill_at_random() {
	local name=$1 pattern=$2 folder=$work/kill tmp=$work/tmp hit=0 bad=0 tries=0 length begin pid us note=""
	shift 2
	mkdir -p "$folder" "$tmp"
	begin=$(date +%s%N)
	(cd "$folder" && TORTURE=$work TMPDIR=$tmp timeout 120 "$@") >/dev/null 2>"$work/errors" || {
		row kill "$name" 0 1 "does not run: $(tail -1 "$work/errors")"
		return
	}
	length=$((($(date +%s%N) - begin) / 1000))
	local reference
	reference=$(find "$folder" -type f -exec sha256sum {} + | sort)
	while [ "$hit" -lt "$kills" ] && [ "$tries" -lt $((kills * 4)) ]; do
		tries=$((tries + 1))
		rm -rf "${folder:?}" && mkdir "$folder"
		us=$(((RANDOM * 32768 + RANDOM) % length))
		(cd "$folder" && TORTURE=$work TMPDIR=$tmp exec "$@") >/dev/null 2>&1 &
		pid=$!
		sleep "$(printf '%d.%06d' $((us / 1000000)) $((us % 1000000)))"
		kill -9 "$pid" 2>/dev/null && hit=$((hit + 1))
		wait "$pid" 2>/dev/null
		local waited=0
		while [ "$(survivors)" -gt 0 ] && [ "$waited" -lt 50 ]; do
			sleep 0.1
			waited=$((waited + 1))
		done
		if [ "$(survivors)" -gt 0 ]; then
			bad=$((bad + 1))
			note="a process outlives it by 5 s"
		fi
		# a file under the output's name is the whole file, or none is there
		local now
		now=$(find "$folder" -type f -name "$pattern" -exec sha256sum {} + | sort)
		while read -r line; do
			[ -z "$line" ] || grep -qF "$line" <<<"$reference" || {
				bad=$((bad + 1))
				note="half a file: ${line##* }"
			}
		done <<<"$now"
		if [ "$(strangers "$folder" "$pattern")" -gt 0 ]; then
			bad=$((bad + 1))
			note="it leaves $(find "$folder" -mindepth 1 -maxdepth 1 ! -name "$pattern" -printf '%f ' | head -c 60)"
		fi
	done
	# the next start cleans what a killed one could not
	(cd "$folder" && TORTURE=$work TMPDIR=$tmp "$@") >/dev/null 2>&1
	local left
	left=$(find "$tmp" -mindepth 1 | wc -l)
	[ "$left" -eq 0 ] || {
		bad=$((bad + 1))
		note="$left temporary files stay after the next start"
	}
	rm -rf "${tmp:?}"
	[ "$hit" -ge "$kills" ] || note="$note only $hit of $kills hit"
	row kill "$name" "$hit" "$bad" "$note"
}

# fails_well GROUP NAME COMMAND...: ends with 2 and a sentence, and does not panic.
fails_well() {
	local group=$1 name=$2 status errors
	shift 2
	timeout 120 "$@" 2>"$work/errors"
	status=$?
	errors=$(tr '\n' ' ' <"$work/errors")
	if [ "$status" -eq 2 ] && [ -n "$errors" ] && ! grep -qE 'panicked|internal error' <<<"$errors"; then
		row "$group" "$name" 1 0 ""
	else
		row "$group" "$name" 1 1 "status $status: ${errors:0:100}"
	fi
}

compile=$PWD/samples/compile
gzip=$PWD/samples/gzip
hand=$PWD/samples/hand/sleepers8.txt
linux=$("$schedlab" linux list 2>/dev/null | grep -c linux-6.12)

kill_at_random "run, text log" out.txt "$schedlab" --quiet run "$compile" --sched cfs-2.6.32 --cpus 4 --log out.txt
kill_at_random "run, Arrow log" out.arrow "$schedlab" --quiet run "$compile" --sched fifo --cpus 4 --log out.arrow
kill_at_random "import" out.txt "$schedlab" --quiet import "$compile" -o out.txt
kill_at_random "compare" 'none' "$schedlab" --quiet compare "$gzip" --sched fifo --sched rr --cpus 2 --jobs 2
"$schedlab" --quiet run "$compile" --sched fifo --cpus 4 --log "$work/compile.arrow" >/dev/null
# (the tasks' settings, out.proc.csv, come first: a recording that is there is never without them)
kill_at_random "export" 'out.*' "$schedlab" --quiet export "$work/compile.arrow" -o out.dat
if [ "$linux" -gt 0 ]; then
	kill_at_random "run, real Linux" out.txt "$schedlab" --quiet run "$compile" --sched linux-6.12 --cpus 4 --log out.txt
else
	row kill "run, real Linux" 0 0 "Linux 6.12 is not built here"
fi
if [ "$(id -u)" -eq 0 ] && [ -d /sys/kernel/tracing/instances ]; then
	# a recording differs each time: what matters is what stays
	before=$(find /sys/kernel/tracing/instances -mindepth 1 -maxdepth 1 -name 'schedlab*' | wc -l)
	for _ in $(seq $((kills / 10 + 1))); do
		(cd "$work" && TORTURE=$work exec "$schedlab" --quiet record -o killed.dat -- sleep 1) >/dev/null 2>&1 &
		pid=$!
		sleep "0.$((RANDOM % 9 + 1))"
		kill -9 "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	done
	(cd "$work" && "$schedlab" --quiet record -o last.dat -- true) >/dev/null 2>&1
	after=$(find /sys/kernel/tracing/instances -mindepth 1 -maxdepth 1 -name 'schedlab*' | wc -l)
	row kill "record: tracing instances" $((kills / 10 + 1)) "$((after > before ? after - before : 0))" "after the next recording"
else
	row kill "record: tracing instances" 0 0 "needs root and tracefs"
fi

if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=64k torture "$full" 2>/dev/null; then
	head -c 60k /dev/zero >"$full/filler" 2>/dev/null
	fails_well full "run --log" "$schedlab" --quiet run "$compile" --sched fifo --cpus 2 --log "$full/out.txt"
	fails_well full "run --html" "$schedlab" --quiet run "$gzip" --sched fifo --cpus 2 --html "$full/out.html"
	fails_well full "import -o" "$schedlab" --quiet import "$compile" -o "$full/out.txt"
	fails_well full "machines --snapshot" "$schedlab" --quiet machines --snapshot "$full/snapshot"
	TMPDIR=$full fails_well full "run, full TMPDIR" "$schedlab" --quiet run "$compile" --sched fifo --cpus 2
	row full "half files on it" 5 "$(strangers "$full" filler)" ""
	umount "$full"
else
	row full "a disk with no space" 0 0 "needs root to mount a tmpfs"
fi

# (the group's own status is what counts: the command's output goes to the full device)
stdout_full() { "$@" >/dev/full; }
export -f stdout_full
for words in "run $hand --sched fifo --cpus 1" "workload show $hand" "schedulers" "schedulers --json" "machines" "linux list"; do
	fails_well stdout "${words//"$PWD/samples/hand/"/}" bash -c "stdout_full $schedlab $words"
done

cache=$work/no-cache
: >"$cache" # a file where the folder should be: not even root can write below it
for words in "schedulers fifo" "run $hand --sched fifo --cpus 1" "machines"; do
	if SCHEDLAB_CACHE=$cache timeout 60 "$schedlab" --quiet $words >/dev/null 2>"$work/errors"; then
		row cache "${words//"$PWD/samples/hand/"/}" 1 0 ""
	else
		row cache "${words//"$PWD/samples/hand/"/}" 1 1 "$(head -c 100 "$work/errors")"
	fi
done
SCHEDLAB_CACHE=$cache fails_well cache "run on linux-6.12" "$schedlab" --quiet run "$hand" --sched linux-6.12 --cpus 1

bad=$'$(touch pwned)\e[2J;`touch pwned`\n-rf.txt'
folder=$work/names
mkdir "$folder"
(
	cd "$folder" || exit 1
	printf 'schedlab-workload 1\n- INIT 0 0 1 runnable name=a\n- EXIT 1 1ms\n' >"./$bad"
	for words in "run" "workload show" "import"; do
		"$schedlab" $words -- "./$bad" --sched nothing
		"$schedlab" $words "./$bad"
		"$schedlab" run "$hand" --sched "$bad" --cpus 1
		"$schedlab" run "$hand" --sched "linux:$bad" --cpus 1
		"$schedlab" run "$hand" --sched "scx:$bad" --cpus 1
		"$schedlab" linux remove "$bad"
	done
) >"$work/said" 2>&1
raw=$(grep -c $'\e' "$work/said")
row names "control characters on the terminal" 18 "$raw" ""
row names "words that a shell would execute" 18 "$(find "$folder" -name 'pwned*' | wc -l)" ""
row names "panics" 18 "$(grep -c panicked "$work/said")" ""

printf '\n%-7s %-44s %6s %6s  %s\n' group what times faults note
cat "$table"
printf '\n%d faults\n' "$faults"
[ "$faults" -eq 0 ]
