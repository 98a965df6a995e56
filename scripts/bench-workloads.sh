#!/bin/bash
# Memory and speed of the tools for workloads on a big file: every one streams. Prints, for each, events per second of CPU time, seconds, and the
# most memory it had; ends with 1 if one had more than 1 GiB. Usage: scripts/bench-workloads.sh [EVENTS, default 100000000] (after make build)
set -euo pipefail
cd "$(dirname "$0")/.."
events=${1:-100000000}
limit_kib=$((1 << 20))
schedlab=target/release/schedlab
work=$(mktemp -d "${TMPDIR:-/tmp}/bench-workloads.XXXXXX")
trap 'rm -rf "$work"' EXIT
cargo build -q --release -p schedlab-workload --example huge
target/release/examples/huge "$events" "$work/big.wlb" >/dev/null
printf '%s events, binary: %s MB\n' "$events" "$(($(stat -c %s "$work/big.wlb") / 1000000))"
printf '%-34s %10s %12s %12s\n' tool 'elapsed s' 'CPU s' 'peak MiB'
failed=0

# measure LABEL COMMAND...
measure() {
	local label=$1 elapsed cpu peak
	shift
	/usr/bin/time -f '%e %U %S %M' -o "$work/time" "$@" >/dev/null
	read -r elapsed user sys peak <"$work/time"
	cpu=$(awk "BEGIN { printf \"%.1f\", $user + $sys }")
	printf '%-34s %10s %12s %12s\n' "$label" "$elapsed" "$cpu" "$((peak / 1024))"
	[ "$peak" -le "$limit_kib" ] || failed=1
}

measure 'show (binary)' "$schedlab" --quiet workload show "$work/big.wlb"
measure 'show one task, with its picture' "$schedlab" --quiet workload show "$work/big.wlb" --pid 1 --svg "$work/life.svg"
for tool in "filter --kernel no" "cut --from 10s --to 20s" "scale --cpu 0.5" "anonymise"; do
	read -ra words <<<"$tool"
	measure "${words[0]} (binary to binary)" "$schedlab" --quiet workload "${words[0]}" "$work/big.wlb" "${words[@]:1}" -o "$work/out.wlb"
	rm -f "$work/out.wlb"
done
measure 'convert (binary to text)' "$schedlab" --quiet workload convert "$work/big.wlb" -o "$work/big.txt"
measure 'show (text)' "$schedlab" --quiet workload show "$work/big.txt"
measure 'convert (text to binary)' "$schedlab" --quiet workload convert "$work/big.txt" -o "$work/back.wlb"
if cmp -s "$work/big.wlb" "$work/back.wlb"; then
	echo 'binary, text, binary: the same bytes'
else
	echo 'binary, text, binary: OTHER BYTES'
	failed=1
fi
exit $failed
