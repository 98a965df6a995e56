#!/bin/sh
# Records the workloads of `schedlab validate` inside a guest, with the guest's own tracing, and replays each under the port
# of the very same kernel: what differs is the model's, not the version's. Deterministic. The first time each run takes some
# 25 s; later ones come from the cache. Writes a page and prints the table of docs/fidelity.md, for each kernel; those whose
# tasks wake each other once more with their messages. CPUS=2: guests of two CPUs instead of one.
# hackbench runs for 20 s: within 5 s its counts differ by 3 % from one phase of the tick to another.
# Usage: [CPUS=N] scripts/fidelity-guest.sh [FOLDER] [SERIES...]
set -eu
schedlab=${SCHEDLAB:-$(pwd)/target/release/schedlab}
cpus=${CPUS:-1}
out=${1:-out/fidelity-guest}
[ $# -gt 0 ] && shift
mkdir -p "$out"
for series in "${@:-6.12 6.1}"; do for kernel in $series; do
    recordings='' with_messages=''
    while read -r name workload duration; do
        file=$out/$name-$cpus-$kernel
        "$schedlab" guest run "$workload" --kernel "$kernel" --cpus "$cpus" --duration "$duration" \
            --recording "$file.dat" --json "$file.json"
        recordings="$recordings $file.dat"
        case $name in ping-pong | hackbench) with_messages="$with_messages $file.dat" ;; esac
    done <<W
fairbench fairbench 20s
responsebench responsebench 20s
hogs hogs:0,5,-5,10 10s
eight-hogs hogs:0,0,0,0,5,5,-5,-5 10s
sleepers sleepers:8,3ms,7ms 10s
tick-sleepers sleepers 10s
periodic-rt periodic-rt 10s
deadline deadline 10s
cgroup cgroup 10s
ping-pong ping-pong 10s
hackbench hackbench 20s
yielders yielders 5s
W
    replay() {
        choice=$1
        shift
        echo "kernel $kernel, $cpus CPUs, --messages $choice"
        "$schedlab" fidelity "$@" --no-causes --messages "$choice" --costs none --sched "linux-$kernel" \
            --html "$out/$kernel-$cpus-$choice.html" --json "$out/$kernel-$cpus-$choice.json"
    }
    # shellcheck disable=SC2086 # lists of files
    replay none $recordings
    # shellcheck disable=SC2086
    replay recorded $with_messages
done; done
