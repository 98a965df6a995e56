#!/bin/sh
# A structure behind the hooks of schedlab_race.h as cpudeadline.c of a real kernel: the tree of Linux 6.12 gets it by `schedlab race FILE.c
# --into-kernel NAME --tree TREE`, `make bzImage` makes a kernel for x86-64 of that tree, a guest boots it, and the simulation of the same tree
# runs the same workload.
#
#   scripts/into-kernel.sh [FILE.c [DIR]]     default: samples/race/heap.c, out/into-kernel; DIR gets the logs and their summaries
#
# Exit 0: the kernel says that it has the structure, and all tasks of the workload ran in it. 1: not so. 2: something is missing.
# Everything big is kept in the cache; the first call builds a kernel (11 minutes of CPU time), a later one compiles one file.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
file=${1:-$here/samples/race/heap.c}
out=${2:-$here/out/into-kernel}
config=$here/linux/port-back/x86.config
schedlab=${SCHEDLAB:-$here/target/release/schedlab}
cache=${SCHEDLAB_CACHE:-$HOME/.cache/schedlab}
home=$cache/into-kernel
name=$(basename "$file" .c)
export SCHEDLAB_LINUX_DIR="$here/linux"
say() { echo "into-kernel: $*" >&2; }
missing() { say "$*"; exit 2; }

for tool in gcc make flex bison bc; do
    command -v $tool >/dev/null || missing "$tool is missing; scripts/setup.sh installs it"
done
[ -x "$schedlab" ] || missing "$schedlab is missing; 'make build' makes it"
[ -f "$file" ] || missing "$file is not there; give a C file with the hooks of schedlab_race.h"

# 1. The tree, with the structure.
"$schedlab" --quiet linux add 6.12 >/dev/null
tarball=/usr/src/linux-source-6.12.tar.xz
[ -f $tarball ] || tarball=$(find "$cache/linux/downloads" -name 'linux-source-6.12_*.tar.xz' 2>/dev/null | sort | tail -n 1)
[ -f "$tarball" ] || missing "no linux-source-6.12.tar.xz; 'apt-get install linux-source-6.12' brings it"
sum=$(sha256sum "$tarball" | cut -c 1-12)
tree=$home/$sum/linux-source-6.12
mkdir -p "$home" "$out"
exec 9>"$home/lock" && flock 9
if [ ! -f "$home/$sum/complete" ]; then
    say "unpacking $tarball"
    rm -rf "${home:?}/$sum"
    mkdir -p "$home/$sum"
    top=linux-source-6.12
    nice -n 10 tar -xJf "$tarball" -C "$home/$sum" --exclude="$top/Documentation/*/*" --exclude="$top/arch/[a-wyz]*.[chS]" \
        --exclude="$top/drivers/gpu/*.[ch]" --exclude="$top/drivers/net/*.[ch]" --exclude="$top/sound/*.[ch]" --exclude="$top/tools/testing/*"
    touch "$home/$sum/complete"
fi
"$schedlab" --quiet race "$file" --into-kernel "structure-$name" --tree "$tree" | tee "$out/placed.txt"

# 2. A real kernel of it.
build=$home/$sum/build-x86
mkdir -p "$build" "$out/image"
say "building a kernel for x86-64 with $name (the first one takes minutes; log: $build/build.log)"
nice -n 10 make -s -C "$tree" O="$build" KCONFIG_ALLCONFIG="$config" allnoconfig >"$build/build.log" 2>&1 &&
    nice -n 10 make -s -C "$tree" O="$build" -j"$(nproc)" LOCALVERSION="-$name" bzImage >>"$build/build.log" 2>&1 || {
    tail -n 20 "$build/build.log" >&2
    missing "the kernel does not build; see $build/build.log"
}
cp "$build/.config" "$out/image/config"
cp "$build/arch/x86/boot/bzImage" "$out/image/bzImage"
grep -aq "cpudl: %s, behind schedlab_race.h" "$build/vmlinux" || { say "the kernel does not have the structure"; exit 1; }

# 3. A set of periodic DEADLINE tasks, in the guest and in the simulation.
cat >"$out/set.toml" <<'TOML'
kind = "periodic"
tasks = 8
utilisation = 1.2
method = "randfixedsum"
period_min = "10ms"
period_max = "100ms"
policy = "deadline"
duration = "2s"
TOML
"$schedlab" --quiet guest run "$out/set.toml" --kernel "$out/image/bzImage" --cpus 2 --duration 2s --log "$out/real.log" >"$out/real.txt"
"$schedlab" --quiet run "$out/set.toml" --sched "linux-structure-$name" --cpus 2 --duration 2s --log "$out/simulated.log" >"$out/simulated.txt"
sed -n 1,30p "$out/real.txt"
sed -n 1,30p "$out/simulated.txt"
