#!/bin/sh
# A structure behind the hooks of schedlab_race.h in a real kernel (docs/race.md, "Into a kernel"): `race FILE.c --into-kernel` puts it in place of
# cpudeadline.c, `make bzImage` builds Linux 6.12 with and without it for x86-64, and a set of deadline tasks runs in a guest of each and in the port.
#
#   scripts/race-guest.sh [FILE.c [WORKLOAD]]      (default: samples/race/skiplist.c, and the 16 tasks of docs/race.md for 10 s)
#
# Prints a table of both. RACE_GUEST_CPUS=4. Kernels are kept in the cache by checksum; the first call takes a quarter of an hour on two cores.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
structure=${1:-$here/samples/race/skiplist.c}
workload=${2:-}
cpus=${RACE_GUEST_CPUS:-4}
config=$here/linux/port-back/x86.config
schedlab=${SCHEDLAB:-$here/target/release/schedlab}
cache=${SCHEDLAB_CACHE:-$HOME/.cache/schedlab}
home=$cache/race-guest
export SCHEDLAB_LINUX_DIR="$here/linux"
say() { echo "race-guest: $*" >&2; }
missing() { say "$*"; exit 2; }

for tool in gcc make flex bison bc python3; do
    command -v $tool >/dev/null || missing "$tool is missing; scripts/setup.sh installs it"
done
[ -x "$schedlab" ] || missing "$schedlab is missing; 'make build' makes it"
[ -f "$structure" ] || missing "there is no $structure"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$workload" ]; then
    workload=$work/set.txt
    "$schedlab" --quiet generate periodic --set tasks=16 --set utilisation=3.7 --set duration=10s --set seed=3 -o "$workload" >/dev/null
fi

. "$here/scripts/x86-tree.sh"
mkdir -p "$home"
exec 9>"$home/lock" && flock 9
x86_tree "$home"
# the structure's own files are named by what stands in them, so the tree's sum says which one it has
key=$({ echo "$sum $(gcc --version | head -n 1)"; cat "$config" "$here"/linux/race/into/*; } | sha256sum | cut -c 1-12)
image=$home/images/$key
mkdir -p "$image"
if [ ! -f "$image/without" ]; then
    if grep -q -- --into-kernel "$tree/kernel/sched/Makefile"; then rm -rf "${home:?}/$sum" && x86_tree "$home"; fi # (a structure is in it)
    say "building the kernel without it (minutes; log: $home/$sum/build/build.log)"
    build_x86 "$home/$sum/build" without "$config"
    cp "$build/arch/x86/boot/bzImage" "$image/without.new" && mv "$image/without.new" "$image/without"
fi
say "building the kernel with it"
"$schedlab" --quiet race "$structure" --into-kernel with --tree "$tree" >/dev/null
build_x86 "$home/$sum/build" with "$config"
cp "$build/arch/x86/boot/bzImage" "$image/with"

# the same structure in the port, by the same tree
"$schedlab" --quiet race "$structure" --into-kernel race-guest >/dev/null
for what in without with; do
    sched=linux-6.12
    [ $what = with ] && sched=linux-race-guest
    say "the workload $what it"
    "$schedlab" --quiet run "$workload" --sched $sched --cpus "$cpus" --json "$work/port-$what.json" >/dev/null
    "$schedlab" --quiet guest run "$workload" --kernel "$image/$what" --cpus "$cpus" --json "$work/guest-$what.json" >/dev/null
done
python3 - "$work" <<'PYTHON'
import json, sys

runs = {f"{where}, {what}": json.load(open(f"{sys.argv[1]}/{where}-{what}.json")) for what in ("without", "with") for where in ("port", "guest")}
rows = [
    ("switches", lambda run: run["switches"]),
    ("migrations", lambda run: run["migrations"]),
    ("while a CPU is idle a task waits, ms", lambda run: round(run["idle_while_waiting_ns"] / 1e6)),
]
print(f"| | {' | '.join(runs)} |\n|---|{'---|' * len(runs)}")
for name, of in rows:
    print(f"| {name} | {' | '.join(format(of(run), ',') for run in runs.values())} |")
PYTHON
