#!/bin/bash
# `schedlab report` on a generated recording of so many million events (100): its speed by CPU time, and the most memory of its own (what
# it maps of the file is not its own). Budget: 2 million events a second, 1 GiB. Usage: scripts/bench-report.sh [MILLIONS] [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
millions=${1:-100}
folder=${2:-$(mktemp -d)}
mkdir -p "$folder"
file=$folder/compact.perfetto
trap 'rm -f "$file" "$folder/report.json"' EXIT
cargo run -q --release -p schedlab-workload --example import_speed -- "$millions" "$folder" only
echo "$millions million events, $(($(stat -c %s "$file") / 1000000)) MB"
target/release/schedlab --quiet report "$file" --json "$folder/report.json" >/dev/null &
pid=$!
most=0 cpu=0
while own=$(awk '/^RssAnon/ { print $2 }' "/proc/$pid/status" 2>/dev/null) && [ -n "$own" ]; do
	most=$((own > most ? own : most))
	cpu=$(awk '{ print $14 + $15 }' "/proc/$pid/stat" 2>/dev/null || echo "$cpu")
	sleep 0.2
done
wait "$pid"
events=$(sed -n 's/.*"trace_events": *\([0-9]*\).*/\1/p;s/.*"events": *\([0-9]*\).*/\1/p' "$folder/report.json" | sort -n | tail -1)
echo "$events events reported, $((cpu * 10)) ms of CPU time: $((events / (cpu * 10 + 1))) thousand events/s, at most $((most / 1024)) MiB"
