#!/bin/bash
# The Python package: its wheel in an environment of its own, types, tests, notebooks.
# Usage: scripts/python.sh [--all | --notebooks | --bench]
# (--all: every notebook; --notebooks: those, and nothing else; --bench: the speed of columns, and nothing else)
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-}
scripts/venv.sh test >/dev/null & # it downloads, while the wheel is built
packages=$!
scripts/wheel.sh >&2
wait "$packages"
venv=$(scripts/venv.sh test)
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall dist/schedlab-*.whl

# matplotlib and Jupyter keep their things where nobody misses them
export MPLCONFIGDIR=$PWD/target/python/matplotlib IPYTHONDIR=$PWD/target/python/ipython
export JUPYTER_PLATFORM_DIRS=1 PATH=$venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# with another backend a notebook draws nothing, and no error in a drawing is seen
export MPLBACKEND=module://matplotlib_inline.backend_inline
few="docs/notebooks/who-ran-when.ipynb docs/notebooks/nice-to-share.ipynb"
all=(docs/notebooks/*.ipynb)
# shellcheck disable=SC2086 # lists of files
case $what in
--bench) python scripts/bench-columns.py ;;
--notebooks) pytest -q -p no:cacheprovider --nbmake "${all[@]}" ;;
--all)
	pytest -q -p no:cacheprovider -c python/pyproject.toml -m '' python/tests
	pytest -q -p no:cacheprovider --nbmake "${all[@]}"
	;;
*)
	pytest -q -p no:cacheprovider -c python/pyproject.toml python/tests
	pytest -q -p no:cacheprovider --nbmake $few
	;;
esac
