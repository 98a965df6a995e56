#!/usr/bin/env python3
"""The rows of docs/fidelity.md: each program's medians, of files of `schedlab fidelity --json`.

Usage: scripts/fidelity-table.py [BEFORE.json] NOW.json     (recordings are called PROGRAM-CPUS.RUN)

With BEFORE both stand beside each other. In brackets: from the least to the most that seeds give (`--seeds N`), medians, too.
"""

import json
import math
import statistics
import sys

DURATION, DELAY = ("duration", "max"), ("run_delay", "sum")
SLEEPS, FORCED = ("switches_voluntary", "sum"), ("switches_preempted", "sum")


def quantities(path):
    """By recording: its quantities over all tasks, by name and statistic. Without those of which no task was seen as a whole."""
    with open(path) as file:
        found = json.load(file)
    whole = lambda of: {(x["name"], x["statistic"]): x for x in of["quantities"] if x.get("label", "all") == "all"}
    all_of_them = {of["workload"]: whole(of) for of in found.get("recordings", [found])}
    known = {name: of for name, of in all_of_them.items() if of[DELAY]["recorded"] is not None}
    for name in sorted(set(all_of_them) - set(known)):
        print(f"{name}: no task was seen as a whole, left out", file=sys.stderr)
    return known


def percent(value):
    if math.isnan(value):
        return "-"
    return f"{value:+.1f} %" if abs(value) < 100 else f"{value:+.0f} %"


def change(x, replayed):
    return 100 * (replayed - x["recorded"]) / x["recorded"] if x["recorded"] else float("nan")


def ks(of, name):
    """Without waits on one side the two are as far apart as can be."""
    found = of[name][DELAY]["ks"]
    return found if found is not None else float(of[name][DELAY]["recorded"] != of[name][DELAY]["replayed"])


def cell(of, names, key):
    """The median change of a quantity, and from where to where seeds take it."""
    rows = [of[name][key] for name in names]
    text = percent(statistics.median(change(x, x["replayed"]) for x in rows))
    if all(x.get("seeds") for x in rows):
        ends = [statistics.median(change(x, x["seeds"][end]) for x in rows) for end in ("least", "most")]
        text += " ({:+.0f} .. {:+.0f})".format(*ends)
    return text


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    files = [quantities(path) for path in sys.argv[1:]]
    now = files[-1]
    groups = {}
    for name in sorted(set.intersection(*(set(of) for of in files))):
        groups.setdefault(name.split(".")[0], []).append(name)
    met = [[0, 0, 0] for _ in files]
    for group, names in groups.items():
        program, cpus = group.rsplit("-", 1)
        both = lambda text: ", now ".join(text(of) for of in files)
        recorded = lambda key: [now[name][key]["recorded"] for name in names]
        delays, counts = [ns / 1e6 for ns in recorded(DELAY)], recorded(SLEEPS)
        cells = [program, cpus, cell(now, names, DURATION).split(" (")[0], f"{min(delays):.0f}..{max(delays):.0f}"]
        cells.append(both(lambda of: cell(of, names, DELAY)))
        cells.append(both(lambda of: "{:.3f}".format(statistics.median(ks(of, name) for name in names))))
        cells.append(f"{min(counts):,}..{max(counts):,}")
        cells += [both(lambda of: cell(of, names, key)) for key in (SLEEPS, FORCED)]
        print("|", " | ".join(cells), "|")
        for of, found in zip(files, met):
            for name in names:
                off = lambda key: abs(change(of[name][key], of[name][key]["replayed"]))
                found[0] += off(DELAY) <= 10
                found[1] += off(SLEEPS) <= 10
                found[2] += ks(of, name) <= 0.1
    total = sum(map(len, groups.values()))
    for found in met:
        print("of {} replays {} within 10 % in run delay, {} in sleeps, {} within .1 in K-S".format(total, *found),
              file=sys.stderr)


if __name__ == "__main__":
    main()
