#!/bin/bash
# All tests. `--all` adds the long ones (they are marked `#[ignore = "long: ..."]`).
set -euo pipefail
cd "$(dirname "$0")/.."
all=${1:-}

step() { printf '\n== %s\n' "$*" >&2; }

step "format and lints"
cargo fmt --all --check
cargo clippy --workspace --all-targets --release --quiet -- -D warnings
if command -v shellcheck >/dev/null; then shellcheck scripts/*.sh .ci/run; fi

step "real Linux 6.12 (built once, then cached)"
target/release/schedlab linux add 6.12
target/release/schedlab linux add 6.12 --with scx

step "tests"
if [ "$all" = --all ]; then
	cargo test --workspace --release --no-fail-fast -- --include-ignored
	step "torture"
	scripts/torture.sh
	scripts/sweep-torture.sh
	step "Python: wheel, tests, all notebooks"
	scripts/python.sh --all
else
	cargo test --workspace --release --no-fail-fast
	step "Python: wheel, tests, two notebooks"
	scripts/python.sh
fi
