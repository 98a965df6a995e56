# Two commands: `make demo` shows everything on this machine, `make test` proves it.
# Both do all the set-up themselves (Debian packages by apt, crates by cargo); a second call builds nothing anew.

SCHEDLAB := target/release/schedlab
OUT ?= out

.PHONY: demo test test-all wheel notebooks fuzz lint bench validate port-back fidelity fidelity-guest book build setup clean

demo: build
	@$(SCHEDLAB) demo --output $(OUT)

# Formatting, lints, unit and property tests, then the whole flow on the samples with real Linux.
test: build
	@scripts/test.sh

# What takes too long for every change: long runs, every HZ, 1,024 CPUs.
test-all: test
	@scripts/test.sh --all

# The Python package, one file for Python 3.10 and later: dist/schedlab-*.whl (docs/python.md).
wheel: setup
	@scripts/wheel.sh

# Every notebook of docs/notebooks is executed; real Linux 6.12 and 6.1 are built if they are not there.
notebooks: setup
	@scripts/python.sh --notebooks

# Every reader against damaged input, FUZZ_S seconds each.
FUZZ_S ?= 180
fuzz: setup
	@FUZZ_S=$(FUZZ_S) scripts/fuzz.sh

# The whole matrix against real Linux: boots guests for what is not kept in tests/golden/guest.
validate: build
	@mkdir -p $(OUT)
	@$(SCHEDLAB) validate --html $(OUT)/validate.html --csv $(OUT)/validate.csv

# A changed scheduler as a real kernel, compared with its simulation: builds a small kernel for x86-64, boots it (docs/port-back.md).
port-back: build
	@scripts/port-back.sh $(OUT)/port-back

# Recordings and their replays side by side: the samples, and your own (RECORDINGS="a.dat b.dat"); docs/fidelity.md.
SAMPLES := $(addprefix samples/,gzip compile hackbench kv interactive dependencies/pipeline dependencies/server objects/nginx objects/nginx-1cpu objects/zstd-locks-1cpu)
fidelity: build
	@mkdir -p $(OUT)
	@$(SCHEDLAB) fidelity $(SAMPLES) $(RECORDINGS) --html $(OUT)/fidelity.html

# Twelve workloads recorded inside guests, and replayed by the port of the very same kernel (docs/fidelity.md).
fidelity-guest: build
	@scripts/fidelity-guest.sh $(OUT)/fidelity-guest

bench: build
	@scripts/bench.sh
	@scripts/python.sh --bench

# All pages as a book with a search field, and the reference that the program writes: out/book/index.html.
book: build
	@scripts/book.sh $(OUT)/book

build: setup
	@cargo build --release --quiet --package schedlab --package schedlab-py

setup:
	@scripts/setup.sh

clean:
	rm -rf target $(OUT)
