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
schedlab=${SCHEDLAB:-$here/target/release/schedlab}
cache=${SCHEDLAB_CACHE:-$HOME/.cache/schedlab}
home=$cache/port-back
export SCHEDLAB_LINUX_DIR="$here/linux"
say() { echo "port-back: $*" >&2; }
missing() { say "$*"; exit 2; }

for tool in gcc make flex bison bc python3; do
    command -v $tool >/dev/null || missing "$tool is missing; scripts/setup.sh installs it"
done
[ -x "$schedlab" ] || missing "$schedlab is missing; 'make build' makes it"

# 1. The source: the package's tarball, of which the simulation is built, too.
"$schedlab" --quiet linux add 6.12 >/dev/null
tarball=/usr/src/linux-source-6.12.tar.xz
[ -f $tarball ] || tarball=$(find "$cache/linux/downloads" -name 'linux-source-6.12_*.tar.xz' 2>/dev/null | sort | tail -n 1)
[ -f "$tarball" ] || missing "no linux-source-6.12.tar.xz; 'apt-get install linux-source-6.12' brings it"
sum=$(sha256sum "$tarball" | cut -c 1-12)
tree=$home/$sum/linux-source-6.12
mkdir -p "$home"
exec 9>"$home/lock" && flock 9
if [ ! -f "$home/$sum/complete" ]; then
    say "unpacking $tarball"
    rm -rf "${home:?}/$sum"
    mkdir -p "$home/$sum"
    # what no object of this kernel needs stays in the tarball; Kconfig files do not
    top=linux-source-6.12
    nice -n 10 tar -xJf "$tarball" -C "$home/$sum" --exclude="$top/Documentation/*/*" --exclude="$top/arch/[a-wyz]*.[chS]" \
        --exclude="$top/arch/*.dts*" --exclude="$top/sound/*.[ch]" --exclude="$top/drivers/gpu/*.[ch]" --exclude="$top/drivers/net/*.[ch]" \
        --exclude="$top/drivers/media/*.[ch]" --exclude="$top/drivers/infiniband/*.[ch]" --exclude="$top/net/*.c" --exclude="$top/tools/perf/*" \
        --exclude="$top/tools/testing/*"
    cp "$tree/kernel/sched/fair.c" "$home/$sum/fair.c.unchanged"
    touch "$home/$sum/complete"
fi

# The tree's fair.c, as it is to be: written only if that changes something, so that make compiles only what it must.
edit_tree() { # unchanged | changed
    python3 - "$edit" "$home/$sum/fair.c.unchanged" "$tree" "$1" <<'PYTHON'
import os, sys, tomllib
edits, unchanged, tree, state = sys.argv[1:]
text = open(unchanged).read()
path = os.path.join(tree, "kernel/sched/fair.c")
for edit in tomllib.load(open(edits, "rb"))["edit"] if state == "changed" else []:
    if edit["file"] != "kernel/sched/fair.c" or text.count(edit["old"]) != 1:
        sys.exit(f"port-back: {edits}: the text to replace occurs {text.count(edit['old'])} times in {edit['file']}, not once")
    text = text.replace(edit["old"], edit["new"])
if open(path).read() != text:
    open(path + ".new", "w").write(text)
    os.replace(path + ".new", path)
PYTHON
}

# 2. Real kernels of that tree, unchanged and changed: the second compiles one file.
compiler=$(gcc --version | head -n 1)
build=$home/$sum/build-x86
build_kernel() { # unchanged | changed
    nice -n 10 make -s -C "$tree" O="$build" KCONFIG_ALLCONFIG="$config" allnoconfig >"$build/build.log" 2>&1 || return
    nice -n 10 make -s -C "$tree" O="$build" -j"$(nproc)" KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 2026' KBUILD_BUILD_USER=schedlab \
        KBUILD_BUILD_HOST=port-back LOCALVERSION="-$1" bzImage >>"$build/build.log" 2>&1
}
key=$({ echo "$sum $compiler"; cat "$config" "$edit"; } | sha256sum | cut -c 1-12)
for state in unchanged changed; do
    image=$home/images/$key/$state
    [ -f "$image/bzImage" ] && continue
    edit_tree $state
    mkdir -p "$build" "$image"
    began=$(date +%s)
    say "building the $state kernel for x86-64 (minutes; log: $build/build.log)"
    if ! build_kernel $state; then
        tail -n 20 "$build/build.log" >&2
        missing "the kernel does not build; see $build/build.log"
    fi
    cp "$build/.config" "$image/config"
    cp "$build/arch/x86/boot/bzImage" "$image/bzImage.new"
    mv "$image/bzImage.new" "$image/bzImage"
    say "built in $(($(date +%s) - began)) s"
done

# 3. The simulation of the changed tree, by the same source: built again now, if anything in the tree has changed.
edit_tree changed
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
                --kernel-image "$home/images/$key/$real/bzImage" --json "$out/$simulated-$real-$cpus.json" >/dev/null 2>>"$out/validate.log" || said=$?
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
