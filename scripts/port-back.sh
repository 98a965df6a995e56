#!/bin/sh
# A change of the scheduler, from the simulation to a real kernel: WARP's point. The edit in linux/port-back/ is made in a tree of Linux 6.12;
# `schedlab linux add --source` runs it in the simulation, `make bzImage` makes a real kernel for x86-64 of the same tree, and `schedlab
# validate --kernel-image` compares each of the two simulations with each of the two real kernels: changed and unchanged.
#
#   scripts/port-back.sh [DIR]        DIR gets four JSON files, the guests' and the simulations' schedules, and the table (default: out/port-back)
#
# Exit 0: changed agrees with changed, unchanged with unchanged, and the other two pairs disagree. 1: not so. 2: something is missing.
# Everything big is kept in the cache by checksum; a second call takes two minutes. PORT_BACK_RUNS=N: guest runs of each case (2).
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$here/out/port-back}
runs=${PORT_BACK_RUNS:-2}
edit=$here/linux/port-back/privilege-pays-double.toml
config=$here/linux/port-back/x86.config

# 1. The source: the package's tarball, of which the simulation is built, too.
. "$here/scripts/x86-tree.sh"
x86_begin port-back

# 2. Real kernels of that tree, unchanged and changed: the second compiles one file.
images=$home/images/$(x86_key "$config" "$edit")
for state in unchanged changed; do
    [ -f "$images/$state/bzImage" ] && continue
    if [ $state = changed ]; then edit_tree "$edit"; else edit_tree; fi
    build_x86 "$images/$state/bzImage" $state "$config"
done

# 3. The simulation of the changed tree, by the same source: built again now, if anything in the tree has changed.
edit_tree "$edit"
"$schedlab" --quiet linux add --source "$tree" --name port-back >/dev/null

# 4. Four pairs, three cases each.
mkdir -p "$out"
: >"$out/validate.log"
status=0
for simulated in unchanged changed; do
    for real in unchanged changed; do
        say "simulation of the $simulated tree against the real kernel of the $real one"
        sched=linux-6.12
        [ $simulated = changed ] && sched=linux-port-back
        for cpus in 1 2; do
            workloads="fairbench hogs:0,5,-5,10"
            [ $cpus = 2 ] && workloads=hogs:0,0,0,0,5,5,-5,-5
            said=0
            # shellcheck disable=SC2086 # a list of words
            "$schedlab" --quiet validate $workloads --cpus $cpus --guest-runs "$runs" --sched $sched --logs "$out/$simulated-$real" \
                --kernel-image "$images/$real/bzImage" --json "$out/$simulated-$real-$cpus.json" >/dev/null 2>>"$out/validate.log" || said=$?
            [ $said -le 1 ] || {
                tail -n 5 "$out/validate.log" >&2
                missing "validate ended with $said"
            }
        done
    done
done
python3 "$here/scripts/port-back-table.py" "$out" | tee "$out/table.txt" || status=1
grep -q '^as it should be' "$out/table.txt" || status=1
exit $status
