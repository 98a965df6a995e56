#!/bin/bash
# Builds the wheel: the package, the program, the samples, and linux/ as files of its own (no kernel object). It lands in
# dist/ beside no older one. Usage: scripts/wheel.sh
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(scripts/venv.sh build)
# (both at once: alone the program would be compiled with other features of shared crates, all of it a second time)
cargo build --release --quiet --package schedlab --package schedlab-py

stage=target/wheel/python
rm -rf "$stage"
mkdir -p "$stage/schedlab/data/bin"
cp python/pyproject.toml python/README.md LICENSE-MIT LICENSE-APACHE LICENSES.md "$stage/"
cp python/schedlab/*.py python/schedlab/*.pyi python/schedlab/py.typed "$stage/schedlab/"
strip -o "$stage/schedlab/data/bin/schedlab" target/release/schedlab
# what belongs to the project, not what lies about
git ls-files -z samples linux | xargs -0 cp --parents -t "$stage/schedlab/data"
find "$stage/schedlab/data" -name '*.so' -o -name '*.ko' -o -name vmlinux | grep . && {
	echo "wheel: a kernel object would be shipped" >&2
	exit 4
}

mkdir -p dist
rm -f dist/schedlab-*.whl
# (no SOURCE_DATE_EPOCH here: zstd's build script asks for it, and all above zstd would be compiled anew. The wheel's files
# are of 1980 in any case.)
(cd "$stage" && "$venv/bin/maturin" build --release --quiet --target-dir "$OLDPWD/target" --out "$OLDPWD/dist" >&2)
ls dist/schedlab-*.whl
