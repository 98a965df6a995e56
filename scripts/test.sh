#!/bin/bash
# All tests. `--all` adds the long ones (they are marked `#[ignore = "long: ..."]`).
set -euo pipefail
cd "$(dirname "$0")/.."
all=${1:-}

step() { printf '\n== %s\n' "$*" >&2; }

step "format and lints; meanwhile real Linux 6.12 (built once, then cached)"
kernels=$(mktemp)
built='' packages=''
trap '[ -z "$built" ] || kill "$built"; [ -z "$packages" ] || kill "$packages"; rm -f "$kernels"' EXIT
{
	target/release/schedlab linux add 6.12 && target/release/schedlab linux add 6.12 --with scx &&
		target/release/schedlab race linux-6.12 --scenario wakeup --schedules 100 # (a kernel with points)
} >"$kernels" 2>&1 &
built=$!
# packages of Python come meanwhile, too; what is wrong with them, scripts/python.sh says
scripts/venv.sh test >/dev/null 2>&1 &
packages=$!
cargo fmt --all --check
cargo clippy --workspace --all-targets --release --quiet -- -D warnings
command -v shellcheck >/dev/null || scripts/setup.sh shellcheck
if command -v shellcheck >/dev/null; then shellcheck --severity=warning scripts/*.sh .ci/run; else echo 'there is no shellcheck: scripts are not checked' >&2; fi
wait "$built" || { built=; cat "$kernels" >&2; exit 1; }
built=
tail -n 1 "$kernels" >&2
wait "$packages" || true # (not beside tests that measure time; what failed, scripts/python.sh tries again)
packages=''

step "tests"
tests() { RUSTC_WRAPPER=$PWD/scripts/rustc-tests.sh cargo test --workspace --release --no-fail-fast -- "$@"; }
if [ "$all" = --all ]; then
	tests --include-ignored
	step "torture"
	scripts/torture.sh
	scripts/sweep-torture.sh
	step "Python: wheel, tests, all notebooks"
	scripts/python.sh --all
	step "a sweep by Slurm's job arrays, and by dask in Slurm"
	scripts/setup.sh slurmctld:/usr/sbin/slurmctld slurmd:/usr/sbin/slurmd slurm-client:sbatch munge:/usr/sbin/munged
	PYTHON=$(scripts/venv.sh test)/bin/python scripts/slurm.sh || [ $? = 77 ] # (77: this user cannot start a node)
else
	tests
	step "Python: wheel, tests, two notebooks"
	scripts/python.sh
fi
