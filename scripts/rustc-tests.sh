#!/bin/sh
# What cargo runs in place of rustc for tests (RUSTC_WRAPPER): the tests' own code is compiled without optimisation, in
# a quarter of the time. What it links, our crates and theirs, is the program's, optimised as ever; unit tests have their
# crate within them, and that goes without, too. A wrapper, since a profile of cargo's would compile all of that anew.
# On two cores some 480 s become 160 s, and the tests take as long as before.
set -eu
for argument in "$@"; do
	[ "$argument" = --test ] && exec "$@" -C opt-level=0 -C lto=off
done
exec "$@"
