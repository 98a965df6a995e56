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
. "$here/scripts/x86-tree.sh"
x86_begin race-guest
[ -f "$structure" ] || missing "there is no $structure"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$workload" ]; then
    workload=$work/set.txt
    "$schedlab" --quiet generate periodic --set tasks=16 --set utilisation=3.7 --set duration=10s --set seed=3 -o "$workload" >/dev/null
fi

images=$home/images/$(x86_key "$config")
if [ ! -f "$images/without" ]; then
    if grep -q -- --into-kernel "$tree/kernel/sched/Makefile"; then rm -rf "${home:?}/$sum" && unpack_tree; fi # (a structure is in it)
    build_x86 "$images/without" without "$config"
fi
"$schedlab" --quiet race "$structure" --into-kernel with --tree "$tree" >/dev/null
build_x86 "$images/with" with "$config"

# the same structure in the port
"$schedlab" --quiet race "$structure" --into-kernel race-guest >/dev/null
for what in without with; do
    sched=linux-6.12
    [ $what = with ] && sched=linux-race-guest
    say "the workload $what it"
    "$schedlab" --quiet run "$workload" --sched $sched --cpus "$cpus" --json "$work/port-$what.json" >/dev/null
    "$schedlab" --quiet guest run "$workload" --kernel "$images/$what" --cpus "$cpus" --json "$work/guest-$what.json" >/dev/null
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
