#!/bin/sh
# Sourced, not run: a tree of Linux 6.12 of which real kernels for x86-64 are built. It is the tarball that the simulation is built of.
# The caller has set `here`, the folder of this repository.

say() { echo "$name: $*" >&2; }
missing() { say "$*"; exit 2; }

# x86_begin NAME [TOOL]...: looks whether everything is there, and unpacks the tree. Sets `schedlab` (the program), `cache` (its folder),
# `home` (ours in it, locked until the end), and what unpack_tree sets.
x86_begin() {
    name=$1
    shift
    schedlab=${SCHEDLAB:-$here/target/release/schedlab}
    cache=${SCHEDLAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/schedlab}
    home=$cache/$name
    export SCHEDLAB_LINUX_DIR="$here/linux"
    for tool in gcc make flex bison bc python3 "$@"; do
        command -v "$tool" >/dev/null || missing "$tool is missing; scripts/setup.sh installs it"
    done
    [ -x "$schedlab" ] || missing "$schedlab is missing; 'make build' makes it"
    mkdir -p "$home"
    exec 9>"$home/lock" && flock 9
    unpack_tree
}

# unpack_tree: sets `sum` (of the tarball) and `tree`. What no object of these kernels needs stays in the tarball; Kconfig files do not.
unpack_tree() {
    "$schedlab" --quiet linux add 6.12 >/dev/null
    tarball=/usr/src/linux-source-6.12.tar.xz
    [ -f $tarball ] || tarball=$(find "$cache/linux/downloads" -name 'linux-source-6.12_*.tar.xz' 2>/dev/null | sort | tail -n 1)
    [ -f "$tarball" ] || missing "no linux-source-6.12.tar.xz; 'apt-get install linux-source-6.12' brings it"
    sum=$(sha256sum "$tarball" | cut -c 1-12)
    top=linux-source-6.12
    tree=$home/$sum/$top
    [ -f "$home/$sum/complete" ] && return
    say "unpacking $tarball"
    rm -rf "${home:?}/$sum"
    mkdir -p "$home/$sum"
    nice -n 10 tar -xJf "$tarball" -C "$home/$sum" --exclude="$top/Documentation/*/*" --exclude="$top/arch/[a-wyz]*.[chS]" \
        --exclude="$top/arch/*.dts*" --exclude="$top/sound/*.[ch]" --exclude="$top/drivers/gpu/*.[ch]" --exclude="$top/drivers/net/*.[ch]" \
        --exclude="$top/drivers/media/*.[ch]" --exclude="$top/drivers/infiniband/*.[ch]" --exclude="$top/net/*.c" --exclude="$top/tools/perf/*" \
        --exclude="$top/tools/testing/*"
    touch "$home/$sum/complete"
}

# x86_key FILE...: what a kernel is kept under: the tree, the compiler, its configuration and edits.
x86_key() { { echo "$sum $(gcc --version | head -n 1)" && cat "$@"; } | sha256sum | cut -c 1-12; }

# edit_tree [EDITS.toml]...: the tree as the package has it, with these edits. A file is written only if that changes something, so
# that make compiles only what it must.
edit_tree() {
    python3 - "$tree" "$@" <<'PYTHON'
import os, sys, tomllib

tree, edits = sys.argv[1], [(path, edit) for path in sys.argv[2:] for edit in tomllib.load(open(path, "rb"))["edit"]]
originals = tree + ".unchanged"


def original(name):
    kept = os.path.join(originals, name)
    if not os.path.exists(kept):
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        with open(os.path.join(tree, name)) as there, open(kept + ".new", "w") as copy:
            copy.write(there.read())
        os.replace(kept + ".new", kept)
    return open(kept).read()


once = [os.path.relpath(os.path.join(at, name), originals) for at, _, names in os.walk(originals) for name in names]
texts = {name: original(name) for name in once + [edit["file"] for _, edit in edits] if not name.endswith(".new")}
for path, edit in edits:
    text = texts[edit["file"]]
    if text.count(edit["old"]) != 1:
        sys.exit(f"{path}: the text to replace occurs {text.count(edit['old'])} times in {edit['file']}, not once")
    texts[edit["file"]] = text.replace(edit["old"], edit["new"])
for name, text in texts.items():
    path = os.path.join(tree, name)
    if open(path).read() != text:
        with open(path + ".new", "w") as new:
            new.write(text)
        os.replace(path + ".new", path)
PYTHON
}

# build_x86 IMAGE VERSION CONFIG...: a bzImage of the tree as it is, of the same bytes each time.
build_x86() {
    image_made=$1 version=$2 build=$home/$sum/build
    shift 2
    say "building $image_made (minutes for the first one; log: $build/build.log)"
    began=$(date +%s)
    mkdir -p "$build" "$(dirname "$image_made")"
    cat "$@" >"$build/asked.config"
    if ! { nice -n 10 make -s -C "$tree" O="$build" KCONFIG_ALLCONFIG="$build/asked.config" allnoconfig &&
        nice -n 10 make -s -C "$tree" O="$build" -j"$(nproc)" KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 2026' \
            KBUILD_BUILD_USER=schedlab KBUILD_BUILD_HOST=port-back KBUILD_BUILD_VERSION=1 LOCALVERSION="-$version" bzImage; } >"$build/build.log" 2>&1; then
        tail -n 20 "$build/build.log" >&2
        missing "the kernel does not build; see $build/build.log"
    fi
    cp "$build/arch/x86/boot/bzImage" "$image_made.new"
    mv "$image_made.new" "$image_made"
    say "built in $(($(date +%s) - began)) s"
}
