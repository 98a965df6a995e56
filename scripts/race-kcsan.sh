#!/bin/sh
# Beside `schedlab race`: the kernel's own race detector (KCSAN), told to look at kernel/sched, too, where Linux leaves it out. Each bug of
# linux/race/seeds is put into a real kernel for x86-64, and linux/race/kcsan/storm.c does there at random, in QEMU, what our scenarios do.
#
#   scripts/race-kcsan.sh [BUG]...     (default: those of linux/race/kcsan/bugs; the unmodified kernel is always run first)
#
# linux/race/kcsan/reports.tsv gets a row for all that a run reported; runs that stand there are not done again. The table is printed.
# KCSAN_SECONDS=60: how long a storm lasts. KCSAN_SEEDS=2, KCSAN_PLAIN=10: how many for each bug, and for the unmodified kernel.
# On two cores the first kernel takes 5 minutes, and each bug's half a minute to some minutes, beside the storms.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
of=$here/linux/race/kcsan
seconds=${KCSAN_SECONDS:-60}
. "$here/scripts/x86-tree.sh"
x86_begin kcsan cpio qemu-system-x86_64
# shellcheck disable=SC2046 # a list of names
[ $# -gt 0 ] || set -- $(grep -v "^#" "$of/bugs")
for bug in "$@"; do
    [ -f "$here/linux/race/seeds/$bug.toml" ] || missing "there is no linux/race/seeds/$bug.toml"
done
config=$here/linux/port-back/x86.config
mkdir -p "$home/logs"
gcc -O2 -Wall -static -o "$home/init" "$of/storm.c"
(cd "$home" && echo init | cpio --quiet -o -H newc >storm.cpio)

# image BUG: sets `image`, a kernel with this bug ("-": with none)
image() {
    edits=$of/detector.toml
    [ "$1" = - ] || edits="$edits $here/linux/race/seeds/$1.toml"
    # shellcheck disable=SC2086 # a list of files
    image=$home/images/$(x86_key "$config" "$of/kcsan.config" $edits)
    [ -f "$image" ] && return
    # shellcheck disable=SC2086
    edit_tree $edits
    build_x86 "$image" kcsan "$config" "$of/kcsan.config"
}

# storm BUG SEED: one run, if its row is not there
storm() {
    python3 "$here/scripts/race-kcsan-table.py" --has "$of/reports.tsv" "$1" "$2" "$seconds" && return
    image "$1"
    say "$1: a storm of $seconds s, seed $2"
    log=$home/logs/$1-$2.log
    # a kernel that hangs is given up; several threads, so that CPUs do run at the same time
    timeout $((seconds * 3 + 120)) qemu-system-x86_64 -machine pc -accel tcg,thread=multi -cpu max -smp 4 -m 512 -nodefaults -no-user-config \
        -display none -serial stdio -no-reboot -kernel "$image" -initrd "$home/storm.cpio" \
        -append "console=ttyS0 panic=-1 storm=$seconds seed=$2 rdinit=/init" >"$log" 2>&1 </dev/null || :
    python3 "$here/scripts/race-kcsan-table.py" --read "$log" "$of/reports.tsv" "$1" "$2" "$seconds"
}

for bug in - "$@"; do
    if [ "$bug" = - ]; then seeds=${KCSAN_PLAIN:-10}; else seeds=${KCSAN_SEEDS:-2}; fi
    for seed in $(seq "$seeds"); do storm "$bug" "$seed"; done
done
python3 "$here/scripts/race-kcsan-table.py" --table "$of/reports.tsv" "$tree"
