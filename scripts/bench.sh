#!/bin/bash
# Speed, as ratios: simulated time against host time, and instructions by object where valgrind is there. Prints a hash of each
# result, so that two revisions that compute different things are not compared. Usage: scripts/bench.sh (after make build)
set -euo pipefail
cd "$(dirname "$0")/.."
schedlab=target/release/schedlab
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# field FILE NAME: a number of the JSON, the first of this name
field() { awk -v name="\"$2\":" 'at = match($0, name "[0-9]+") { print substr($0, at + length(name), RLENGTH - length(name)); exit }' "$1"; }

# fastest ARGS...: of three runs, since the host is shared. Sets tenths (of simulated s per s), per_switch (ns), inside (% in the scheduler)
fastest() {
	local rate
	tenths=0
	for _ in 1 2 3; do
		"$schedlab" --quiet run "$@" --json "$out/r.json" --log "$out/r.log" >/dev/null
		rate=$((10 * $(field "$out/r.json" duration_ns) / $(field "$out/r.json" wall_ns)))
		if [ "$rate" -gt "$tenths" ]; then
			tenths=$rate
			per_switch=$(($(field "$out/r.json" wall_ns) / ($(field "$out/r.json" switches) + 1)))
			inside=$((100 * $(field "$out/r.json" kernel_ns) / $(field "$out/r.json" wall_ns)))
		fi
	done
}

# run LABEL ARGS...: a line with the hash of the log, the scheduler's name left out
run() {
	local label=$1
	shift
	fastest "$@"
	printf '%-44s %8d x real time %6d ns a switch   %3d %% in the scheduler   %s\n' "$label" $((tenths / 10)) "$per_switch" "$inside" \
		"$(grep -v '^# sched ' "$out/r.log" | sha256sum | cut -c1-12)"
}

echo "simulated time against host time (event loop, log on; best of 3; budget of the first, real Linux: 1,500 times real time)"
# linux-6.12+pgo is the same kernel compiled for what a run of it does most (the same log)
for sched in linux-6.12 linux-6.12+pgo fifo; do
	run "8 x (4 ms + 6 ms), 4 CPUs, 600 s, $sched" samples/hand/sleepers8.txt --sched $sched --cpus 4 --duration 600s
done
for sample in gzip compile hackbench kv interactive; do
	run "$sample, 4 CPUs, linux-6.12" samples/$sample --sched linux-6.12 --cpus 4
done

echo
echo "simulated seconds per second of the event loop, 4 to 1,024 CPUs (best of 3; kernels for more than 64 CPUs are built at the first call)"
echo "other tools, on two shared cores, per second of CPU time: scx_simulator's 'simple' (a model of the kernel around one scheduler) and, in"
echo "brackets, an early experiment that drove the same kernel code without log, statistics and ends of bursts"
# sleepers COUNT ROUNDS: tasks that run 4 ms and sleep 6 ms; hogs COUNT SECONDS: tasks that compute
sleepers() {
	printf 'schedlab-workload 1\n- INIT 0 0 1..%d runnable name=sleeper\nREPEAT %d {\n  - BLOCK  1..%d 4ms\n  - WAKEUP 1..%d 6ms\n}\n- EXIT 1..%d 0\n' \
		"$1" "$2" "$1" "$1" "$1"
}
hogs() { printf 'schedlab-workload 1\n- INIT 0 0 1..%d runnable name=hog\n- EXIT 1..%d %ds\n' "$1" "$1" "$2"; }
printf '%-44s %12s %12s   %s\n' "" "linux-6.12" "linux-6.1" "other tools"
# scale LABEL WORKLOAD CPUS DURATION OTHERS
scale() {
	local label=$1 workload=$2 cpus=$3 duration=$4 others=$5 sched cells=()
	for sched in linux-6.12 linux-6.1; do
		fastest "$workload" --sched "$sched" --cpus "$cpus" --duration "$duration"
		cells+=("$((tenths / 10)).$((tenths % 10))")
	done
	printf '%-44s %12s %12s   %s\n' "$label" "${cells[@]}" "$others"
}
hogs 8 6000 >"$out/hogs8.txt"
scale "8 hogs, 4 CPUs, 600 s" "$out/hogs8.txt" 4 600s "2,500 to 2,600 [3,200]"
scale "8 x (4 ms + 6 ms), 4 CPUs, 600 s" samples/hand/sleepers8.txt 4 600s "667 to 984 [1,055 to 1,337]"
for size in 16:32 64:512 256:2048 1024:8192; do
	cpus=${size%:*} tasks=${size#*:} others=
	case $cpus in
	64) others="4.5 with 'lavd'" ;;
	256) others="2.2" ;;
	esac
	sleepers "$tasks" 1000 >"$out/many.txt"
	scale "$tasks x (4 ms + 6 ms), $cpus CPUs, 10 s" "$out/many.txt" "$cpus" 10s "$others"
done

echo
echo "native FIFO's event loop by its own CPU time: 8 x (4 ms + 6 ms), 4 CPUs, 600 s (budget 7,000, goal 10,000 simulated s per CPU s;"
echo "scx_simulator's 'simple' on two shared cores: 667 to 984)"
cargo build -q --release -p schedlab-policies --example speed
for _ in 1 2 3; do target/release/examples/speed fifo 4 8 600; done

echo
echo "import (whole program, opening included)"
for sample in gzip compile kv; do
	"$schedlab" --quiet import samples/$sample --json "$out/i.json" >/dev/null
	sed 's/: /:/' "$out/i.json" >"$out/j.json"
	events=$(field "$out/j.json" trace_events) wall_ns=$(field "$out/j.json" wall_ns)
	printf '%-44s %8d thousand events/s\n' "$sample" "$((events * 1000000 / wall_ns))"
done

echo
echo "import of big recordings, by form (CPU time of one thread; goal 3 M events/s)"
cargo run -q --release -p schedlab-workload --example import_speed -- 2

if ! command -v valgrind >/dev/null; then
	echo "instruction counts are left out: valgrind is missing (apt-get install valgrind)"
	exit 0
fi
echo
echo "instructions of the event loop, by object (the difference between two durations: boot and import cancel out; budget: engine at most 15 %;"
echo "WARP: all of it about twice the scheduler's own)"
# count DURATION WORKLOAD ARGS...: program, kernel object, elsewhere (text that the kernel patches counts as elsewhere)
count() {
	local duration=$1 workload=$2 file
	shift 2
	# the kernel rewrites its own text (static keys): valgrind must look for that
	valgrind -q --tool=callgrind --trace-children=yes --smc-check=all --callgrind-out-file="$out/cg.$duration.%p" \
		"$schedlab" --quiet run "$workload" "$@" --duration "$duration" --json /dev/null >/dev/null 2>&1
	# the child is the one that executed the kernel object
	for file in "$out/cg.$duration".*; do awk -f scripts/instructions.awk "$file"; done | sort -k2,2n | tail -1
	rm -f "$out/cg.$duration".*
}
# profile SAMPLE SCHED DURATION: millions of instructions of the kernel object, and of them of kernel/sched, by the addresses of its functions
profile() {
	"$schedlab" --quiet run "$1" --sched "$2" --cpus 4 --duration "$3" --profile | tr -d , |
		sed -n 's/^instructions in the kernel object.*: \([0-9.]*\) M of them \([0-9.]*\) M .*/\1 \2/p'
}
# scheduling SAMPLE SCHED: kernel/sched's share of the kernel object's instructions, over the same difference
scheduling() {
	echo "$(profile "$1" "$2" 10s) $(profile "$1" "$2" 60s)" | awk '{ print ($4 - $2) / ($3 - $1) }'
}
for sched in linux-6.12 linux-6.12+pgo linux-6.1; do
	for sample in samples/hand/sleepers8.txt samples/gzip samples/compile; do
		count 10s $sample --sched $sched --cpus 4 >"$out/short" &
		count 60s $sample --sched $sched --cpus 4 >"$out/long"
		wait $!
		read -r e1 k1 _ o1 <"$out/short"
		read -r e2 k2 _ o2 <"$out/long"
		engine=$((e2 - e1)) kernel=$((k2 - k1 + o2 - o1))
		printf '%-44s engine %5.1f %% of %d M; all of it %4.2f times what kernel/sched executes\n' "$(basename $sample), $sched, 50 s more" \
			"$(awk "BEGIN { print 100 * $engine / ($engine + $kernel) }")" $(((engine + kernel) / 1000000)) \
			"$(awk "BEGIN { print ($engine + $kernel) / ($kernel * $(scheduling $sample $sched)) }")"
	done
done

echo
echo "instructions for each turn of two tasks that send each other a message, 1 CPU, linux-6.12 (the difference between 60,000 and 20,000"
echo "turns, loading included; budget: an object costs the engine at most 10 % more than recorded wakeups do)"
# turns KIND COUNT: two tasks that take turns, by recorded wakeups or by two objects of a kind
turns() {
	if [ "$1" = wakeups ]; then
		printf 'schedlab-workload 1\n- INIT 0 0 1 runnable name=one\n- INIT 0 0 2 blocked name=two\nREPEAT %d {\n  @ping BLOCK 1 10us\n' "$2"
		printf '  - WAKEUP 2 0 @ping 1 0\n  @pong BLOCK 2 10us\n  - WAKEUP 1 0 @pong 2 0\n}\n@end EXIT 1 +10us\n'
		printf -- '- WAKEUP 2 0 @end 1 0\n- EXIT 2 +10us\n'
	else
		printf 'schedlab-workload 4\nOBJECT a %s\nOBJECT b %s\n- INIT 0 0 1..2 runnable\nREPEAT %d {\n  - SEND 1 +10us a\n' "$1" "$1" "$2"
		printf '  - RECV 1 +0 b\n  - RECV 2 +0 a\n  - SEND 2 +10us b\n}\n- EXIT 1..2 +10us\n'
	fi
}
base=0
for kind in wakeups channel semaphore stream; do
	for nr in 20000 60000; do
		turns $kind $nr >"$out/turns.$nr.txt"
		count 1000s "$out/turns.$nr.txt" --sched linux-6.12 --cpus 1 >"$out/turns.$nr"
	done
	read -r e1 _ <"$out/turns.20000"
	read -r e2 _ <"$out/turns.60000"
	[ "$base" -gt 0 ] || base=$((e2 - e1))
	awk -v kind=$kind -v engine=$((e2 - e1)) -v base="$base" \
		'BEGIN { printf "%-44s engine %6.0f instructions a turn, %+.1f %%\n", kind, engine / 40000, 100 * (engine / base - 1) }'
done
