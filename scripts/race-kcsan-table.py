#!/usr/bin/env python3
"""What the kernel's own race detector reported (scripts/race-kcsan.sh).

    race-kcsan-table.py --has REPORTS BUG SEED SECONDS          exit 0: the run's rows are there
    race-kcsan-table.py --read LOG REPORTS BUG SEED SECONDS     adds a run's rows: what its console says
    race-kcsan-table.py --table REPORTS                         the table of docs/race-scoreboard.md

A row: the bug, the seed, the storm's seconds, its operations ("-": the kernel hung or died first), what was reported,
how often.
"""

import collections
import os
import re
import sys

# what a kernel says of itself: a race of two places, a broken assertion, a warning, or its end
KINDS = [
    (re.compile(r"BUG: KCSAN: (data-race|assert: race) in (.+)"), lambda m: f"{m[1].split(':')[0]}: {sides(m[2])}"),
    (re.compile(r"WARNING: CPU: \d+ PID: \d+ at (\S+?):\d+ (\w+)"), lambda m: f"warning: {m[1]} {m[2]}"),
    (re.compile(r"(list_(?:add|del) corruption)"), lambda m: m[1]),
    (re.compile(r"(kernel BUG at \S+?):\d+"), lambda m: m[1]),
    (re.compile(r"(BUG: kernel NULL pointer dereference|BUG: unable to handle page fault)"), lambda m: m[1]),
    (re.compile(r"(general protection fault|soft lockup|detected stalls on CPUs)"), lambda m: m[1]),
    (re.compile(r"(BUG: scheduling while atomic|bad: scheduling from the idle thread)"), lambda m: m[1]),
]


def sides(text):
    """Both functions, in one order, without what a compiler appends to their names."""
    names = [re.sub(r"\.(isra|part|constprop|cold)[.\d]*", "", name.strip()) for name in text.split("/")]
    return " / ".join(sorted(names))


def rows_of(path):
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        return [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]


def read(log, path, bug, seed, seconds):
    found, operations = collections.Counter(), "-"
    with open(log, errors="replace") as lines:
        for line in lines:
            for pattern, said in KINDS:
                if (match := pattern.search(line)) and said(match):
                    found[said(match)] += 1
                    break
            if match := re.search(r"storm: (\d+) operations", line):
                operations = match[1]
    if operations == "-":
        found["the storm did not end"] += 1
    if not found:
        found["nothing"] += 1
    with open(path, "a") as out:
        for what, times in sorted(found.items()):
            out.write("\t".join([bug, seed, seconds, operations, what, str(times)]) + "\n")


def table(path):
    runs = collections.defaultdict(dict)
    for bug, seed, seconds, operations, what, times in rows_of(path):
        runs[bug].setdefault((seed, seconds), {})[what] = int(times)
    plain = collections.Counter(what for run in runs.pop("-", {}).values() for what in run)
    races = sum(what.startswith(("data-race", "assert")) for what in plain)
    print(f"The unmodified kernel: {races} pairs of functions, {len(plain) - races} other things said.\n")
    print("| bug | storms | reported in them, and never by the unmodified kernel |")
    print("|---|---|---|")
    for bug, of in sorted(runs.items()):
        new = collections.Counter(what for run in of.values() for what in run if what not in plain)
        new.pop("nothing", None)
        said = "; ".join(f"{what} ({times})" for what, times in new.most_common())
        print(f"| `{bug}` | {len(of)} | {said or 'nothing'} |")


if __name__ == "__main__":
    action, *rest = sys.argv[1:]
    if action == "--has":
        sys.exit(0 if any(row[:3] == rest[1:4] for row in rows_of(rest[0])) else 1)
    elif action == "--read":
        read(*rest)
    else:
        table(*rest)
