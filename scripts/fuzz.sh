#!/bin/bash
# Fuzzing of every reader: builds all targets of fuzz/ with stable Rust (libFuzzer's counters are LLVM's, debug assertions and overflow
# checks are on), then runs each from the samples. What a run learns stays in fuzz/corpus, what breaks a target in fuzz/artifacts.
#
#   scripts/fuzz.sh                        every target for FUZZ_S seconds (180)
#   FUZZ_S=10 scripts/fuzz.sh rtapp        one of them
#   scripts/fuzz.sh rtapp FILE             repeats one input
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${FUZZ_S:-180}
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4\
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
cargo build --release --quiet --target "$host"

# Where a target's inputs begin; small ones, since most mutations are to matter.
seeds() {
	case $1 in
	trace_reader) echo ../crates/trace/tests/data ;;
	recording) echo ../samples/tools ;;
	workload_text) echo ../samples/hand ;;
	rtapp) echo ../samples/rtapp ;;
	mix_toml) echo ../samples/mix seeds/mix_toml ;;
	*) echo "seeds/$1" ;;
	esac
}

run() {
	local target=$1 program=target/$host/release/$1
	shift
	mkdir -p "corpus/$target" artifacts
	if [ $# -gt 0 ]; then
		exec "$program" "$@"
	fi
	# shellcheck disable=SC2046
	"$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=131072 -print_final_stats=1 \
		-artifact_prefix="artifacts/$target-" "corpus/$target" $(seeds "$target") 2>"artifacts/$target.log" || {
		tail -n 40 "artifacts/$target.log" >&2
		echo "$target: broken; repeat it with scripts/fuzz.sh $target fuzz/artifacts/..." >&2
		return 1
	}
	awk -v t="$target" '/number_of_executed_units/{n=$2} /cov: /{for(i=1;i<NF;i++)if($i=="cov:")c=$(i+1)}
		END{printf "%-16s %12d executions, %6d places reached\n", t, n, c}' "artifacts/$target.log"
}

targets=${1:-$(find fuzz_targets -name "*.rs" -printf "%f\n" | sed "s|\.rs$||" | sort)}
status=0
for target in $targets; do
	run "$target" "${@:2}" || status=1
done
exit $status
