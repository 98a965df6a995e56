#!/bin/sh
# Sourced, not run: a tree of Linux 6.12 of which real kernels for x86-64 are built. It is the tarball that the simulation is built of.
# The caller has set `schedlab` (the program) and `cache` (its folder), and has `say` and `missing` (which says what is missing, and ends).
: "${schedlab:?}" "${cache:?}"

# x86_tree HOME: sets `sum` (of the tarball) and `tree`. What no object of these kernels needs stays in the tarball; Kconfig files do not.
x86_tree() {
    "$schedlab" --quiet linux add 6.12 >/dev/null
    tarball=/usr/src/linux-source-6.12.tar.xz
    [ -f $tarball ] || tarball=$(find "$cache/linux/downloads" -name 'linux-source-6.12_*.tar.xz' 2>/dev/null | sort | tail -n 1)
    [ -f "$tarball" ] || missing "no linux-source-6.12.tar.xz; 'apt-get install linux-source-6.12' brings it"
    sum=$(sha256sum "$tarball" | cut -c 1-12)
    top=linux-source-6.12
    tree=$1/$sum/$top
    [ -f "$1/$sum/complete" ] && return
    say "unpacking $tarball"
    rm -rf "${1:?}/$sum"
    mkdir -p "$1/$sum"
    nice -n 10 tar -xJf "$tarball" -C "$1/$sum" --exclude="$top/Documentation/*/*" --exclude="$top/arch/[a-wyz]*.[chS]" \
        --exclude="$top/arch/*.dts*" --exclude="$top/sound/*.[ch]" --exclude="$top/drivers/gpu/*.[ch]" --exclude="$top/drivers/net/*.[ch]" \
        --exclude="$top/drivers/media/*.[ch]" --exclude="$top/drivers/infiniband/*.[ch]" --exclude="$top/net/*.c" --exclude="$top/tools/perf/*" \
        --exclude="$top/tools/testing/*"
    touch "$1/$sum/complete"
}

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

# build_x86 BUILD VERSION CONFIG...: a bzImage of the tree, of the same bytes each time; the log is BUILD/build.log.
build_x86() {
    build=$1 version=$2
    shift 2
    mkdir -p "$build"
    cat "$@" >"$build/asked.config"
    nice -n 10 make -s -C "$tree" O="$build" KCONFIG_ALLCONFIG="$build/asked.config" allnoconfig >"$build/build.log" 2>&1 &&
        nice -n 10 make -s -C "$tree" O="$build" -j"$(nproc)" KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 2026' \
            KBUILD_BUILD_USER=schedlab KBUILD_BUILD_HOST=port-back KBUILD_BUILD_VERSION=1 LOCALVERSION="-$version" bzImage >>"$build/build.log" 2>&1 && return
    tail -n 20 "$build/build.log" >&2
    missing "the kernel does not build; see $build/build.log"
}
