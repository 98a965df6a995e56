#!/bin/sh
# Shows scripts/bisect-run.sh: a history of twelve commits made from the packaged source of Linux 6.12, one of which undoes a fix
# (linux/bugs/yield-again.toml); git finds it. The first build of the tree takes minutes, each step of the bisection seconds.
#
#   scripts/bisect-demo.sh [DIR]      the tree is made in DIR (default: a temporary folder)
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:-$(mktemp -d)}
cache=${SCHEDLAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/schedlab}
source=$(find "$cache/linux/sources" -maxdepth 2 -name linux-source-6.12 | sort | tail -n 1)

# kernel/sched and the Makefile are the tree's own; the rest is linked
mkdir -p "$dir/kernel"
for file in "$source"/*; do
    [ "$(basename "$file")" = kernel ] || ln -sfn "$file" "$dir/$(basename "$file")"
done
for file in "$source"/kernel/*; do
    [ "$(basename "$file")" = sched ] || ln -sfn "$file" "$dir/kernel/$(basename "$file")"
done
rm -f "$dir/Makefile"
cp -rp "$source/Makefile" "$dir/"
cp -rp "$source/kernel/sched" "$dir/kernel/"

cd "$dir"
git init -q -b main .
git config user.name demo
git config user.email demo@example.org
git add -f Makefile kernel/sched
git commit -qm "Linux 6.12"
for number in 1 2 3 4 5 6 7 8 9 10 11 12; do
    if [ $number -eq 7 ]; then
        python3 - "$here/linux/bugs/yield-again.toml" <<'PYTHON'
import sys, tomllib
for edit in tomllib.load(open(sys.argv[1], "rb"))["edit"]:
    text = open(edit["file"]).read()
    assert text.count(edit["old"]) == 1, edit["file"]
    open(edit["file"], "w").write(text.replace(edit["old"], edit["new"]))
PYTHON
        git commit -qam "commit $number: sched/fair: simplify yield"
    else
        # commits that change nothing, but have to be compiled
        echo "/* commit $number */" >> kernel/sched/fair.c
        git commit -qam "commit $number: a comment"
    fi
done
git bisect start HEAD HEAD~12
time=$(date +%s)
git bisect run "$here/scripts/bisect-run.sh" "$here/linux/bugs/yield-again.txt" 'spinner:cpu>+500ms' linux-6.12 \
    --cpus 1 --duration 10s --runs 2
echo "$(($(date +%s) - time)) s; $(git bisect log | grep -c '^git bisect [gb]') steps asked, in $dir"
