#!/usr/bin/env python3
"""The rows of docs/fidelity.md: each program's medians before and now, of two files of `schedlab fidelity --json`.

Usage: scripts/fidelity-table.py BEFORE.json NOW.json     (recordings are called PROGRAM-CPUS.RUN)
"""

import json
import statistics
import sys


def quantities(path):
    """By recording: its quantities over all tasks, by name and statistic."""
    with open(path) as file:
        recordings = json.load(file)["recordings"]
    whole = lambda of: {(x["name"], x["statistic"]): x for x in of["quantities"] if x["task"] is None}
    return {of["workload"]: whole(of) for of in recordings}


def percent(value):
    return f"{value:+.1f} %" if abs(value) < 100 else f"{value:+.0f} %"


def change(x):
    return 100 * (x["replayed"] - x["recorded"]) / x["recorded"] if x["recorded"] else float("nan")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    before, now = map(quantities, sys.argv[1:])
    groups = {}
    for name in sorted(now.keys() & before.keys()):
        groups.setdefault(name.split(".")[0], []).append(name)
    met = {id(before): [0, 0, 0], id(now): [0, 0, 0]}
    delay, sleeps, forced = ((name, "sum") for name in ("run_delay", "switches_voluntary", "switches_preempted"))
    for group, names in groups.items():
        program, cpus = group.rsplit("-", 1)
        median = lambda of, key: statistics.median(change(of[name][key]) for name in names)
        ks = lambda of: statistics.median(of[name][delay]["ks"] or 0 for name in names)
        both = lambda key: f"{percent(median(before, key))}, now {percent(median(now, key))}"
        recorded = lambda key: [now[name][key]["recorded"] for name in names]
        delays, counts = [ns / 1e6 for ns in recorded(delay)], recorded(sleeps)
        cells = [program, cpus, percent(median(now, ("duration", "max"))), f"{min(delays):.0f}..{max(delays):.0f}"]
        cells += [both(delay), f"{ks(before):.3f}, now {ks(now):.3f}", f"{min(counts):,}..{max(counts):,}"]
        print("|", " | ".join([*cells, both(sleeps), both(forced)]), "|")
        for of in (before, now):
            for name in names:
                met[id(of)][0] += abs(change(of[name][delay])) <= 10
                met[id(of)][1] += abs(change(of[name][sleeps])) <= 10
                met[id(of)][2] += (of[name][delay]["ks"] or 0) <= 0.1
    total = sum(map(len, groups.values()))
    for of, word in ((before, "before"), (now, "now")):
        print("{}: of {} replays {} within 10 % in run delay, {} in sleeps, {} within .1 in K-S".format(
            word, total, *met[id(of)]), file=sys.stderr)


if __name__ == "__main__":
    main()
