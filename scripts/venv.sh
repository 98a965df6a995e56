#!/bin/bash
# Prints the folder of a virtual environment under target/ with the Python packages that a step needs; makes it at need.
# Usage: scripts/venv.sh build | test     (build: maturin; test: what the tests and notebooks of python/ import)
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1
list=python/requirements-$kind.txt
python=$(command -v python3) || {
	echo "venv: python3 is missing; on Debian: apt-get install python3 python3-venv" >&2
	exit 2
}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
	echo "venv: $("$python" --version) is too old; Python 3.10 or later is needed" >&2
	exit 2
}
# another list or another Python: another environment
key=$(cat "$list" <("$python" -c 'import sys; print(sys.version, sys.prefix)') | sha256sum | cut -c1-12)
folder=$PWD/target/python/$kind-$key
if ! [ -e "$folder/complete" ]; then
	rm -rf "$folder"
	"$python" -m venv "$folder"
	"$folder/bin/pip" install --quiet --disable-pip-version-check -r "$list" >&2
	touch "$folder/complete"
fi
echo "$folder"
