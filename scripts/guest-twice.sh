#!/bin/sh
# Is the guest deterministic? Boots the same run twice, neither from the cache, and compares schedule logs and traces byte by byte.
#
#   scripts/guest-twice.sh [WORKLOAD] [KERNEL] [CPUS] [DURATION]       (default: hackbench 6.12 1 2s)
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
schedlab=${SCHEDLAB:-$here/target/release/schedlab}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for run in 1 2; do
    "$schedlab" --quiet guest run "${1:-hackbench}" --kernel "${2:-6.12}" --cpus "${3:-1}" --duration "${4:-2s}" --fresh \
        --log "$dir/$run.log" --trace "$dir/$run.dat" >/dev/null
done
for kind in log dat; do
    cmp "$dir/1.$kind" "$dir/2.$kind" || { echo "two runs of the same differ"; exit 1; }
    echo "$(sha256sum <"$dir/1.$kind" | cut -c 1-16) twice: $(wc -c <"$dir/1.$kind") bytes of $kind"
done
