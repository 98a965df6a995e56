# shellcheck shell=bash
# What the scripts that make one sweep in several ways share; they source it. Needs $schedlab.

# write_sweep FILE RUNS: a description of so many short runs, a quarter of which fail
write_sweep() {
	cat >"$1" <<TOML
[grid]
generate = "sleepers"
set.tasks = 4
set.run = "1ms"
set.sleep = "2ms"
set.duration = "100ms"
sched = ["rr", "eevdf", "broken-lost", "lottery"]
cpus = [1, 2]
seed = { from = 1, to = $(($2 / 8)) }
TOML
}
# shellcheck disable=SC2154 # whoever sources this sets it
hash_of() { "$schedlab" --quiet sweep status "$1" | sed -n 's/^hash //p'; }
# The bytes of the files themselves: equal datasets are equal files.
bytes_of() { (cd "$1" && sha256sum runs/* tasks/*) | sha256sum; }
