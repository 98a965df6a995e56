#!/usr/bin/env python3
"""What the kernel's own race detector reported (scripts/race-kcsan.sh).

    race-kcsan-table.py --has REPORTS BUG SEED SECONDS          exit 0: the run's rows are there
    race-kcsan-table.py --read LOG REPORTS BUG SEED SECONDS     adds a run's rows: what its console says
    race-kcsan-table.py --table REPORTS TREE                    the table of docs/race-scoreboard.md

A row: the bug, the seed, the storm's seconds, its operations ("-": the kernel hung or died first), what was reported,
how often.
"""

import collections
import os
import re
import sys
import tomllib

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


# a function's definition begins in the first column, and its name stands before the first bracket
DEFINITION = re.compile(r"^(?!#|/|typedef|extern)\w[^;{}()]*?\b(\w+)\([^;{}]*\)\s*\{", re.M)


def sides(text):
    """Both functions, or the one whose opponent nobody saw, in one order, without what a compiler appends to names."""
    text = re.sub(r"\+0x[0-9a-f]+/0x[0-9a-f]+", "", text)
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
                if match := pattern.search(line):
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


def explained(path):
    """The functions whose unordered accesses `schedlab race --races` knows, with a reason for each."""
    with open(path, "rb") as file:
        return {race["function"] for race in tomllib.load(file)["race"]}


def changed(bug, seeds, tree):
    """The functions in which a bug's edits stand."""
    names = set()
    with open(os.path.join(seeds, bug + ".toml"), "rb") as file:
        edits = tomllib.load(file)["edit"]
    texts = {}
    for edit in edits:
        kept = os.path.join(tree + ".unchanged", edit["file"])
        if edit["file"] not in texts:
            with open(kept if os.path.exists(kept) else os.path.join(tree, edit["file"])) as file:
                texts[edit["file"]] = file.read()
        text = texts[edit["file"]]
        texts[edit["file"]] = text.replace(edit["old"], edit["new"])
        first = text.index(edit["old"])
        defined = list(DEFINITION.finditer(text[: first + len(edit["old"])]))
        inside = [match[1] for match in defined if match.start() >= first]
        names.update(inside or [match[1] for match in defined[-1:]])
    return names


def table(path, tree):
    here = os.path.dirname(path)
    runs = collections.defaultdict(dict)
    for bug, seed, seconds, operations, what, times in rows_of(path):
        runs[bug].setdefault((seed, seconds), {})[what] = int(times)
    unmodified = runs.pop("-", {})
    plain = {what for run in unmodified.values() for what in run} - {"nothing"}
    is_race = lambda what: what.startswith(("data-race", "assert"))
    races = [what for what in plain if is_race(what)]
    ours = explained(os.path.join(here, "..", "races.toml"))
    known = sum(any(side in ours for side in what.split(": ")[-1].split(" / ")) for what in races)
    others = "; ".join(sorted(what for what in plain if not is_race(what)))
    print(f"The unmodified kernel, {len(unmodified)} storms: {len(races)} pairs of functions race, of which {known} have a")
    print(f"function that linux/race/races.toml explains; else reported: {others or 'nothing'}.\n")
    print("| bug | storms | its functions race, as never without it | warnings, crashes, hangs | other new pairs |")
    print("|---|---|---|---|---|")
    for bug, of in sorted(runs.items()):
        new = collections.Counter(what for run in of.values() for what in run if what not in plain)
        new.pop("nothing", None)
        own = changed(bug, os.path.join(here, "..", "seeds"), tree)
        named = [what for what in new if is_race(what) and own & set(what.split(": ")[-1].split(" / "))]
        worse = [what for what in new if not is_race(what)]
        say = lambda texts: "; ".join(f"{text.removeprefix('data-race: ')} ({new[text]})" for text in sorted(texts)) or "none"
        print(f"| `{bug}` | {len(of)} | {say(named)} | {say(worse)} | {len(new) - len(named) - len(worse)} |")


if __name__ == "__main__":
    action, *rest = sys.argv[1:]
    if action == "--has":
        sys.exit(0 if any(row[:3] == rest[1:4] for row in rows_of(rest[0])) else 1)
    elif action == "--read":
        read(*rest)
    else:
        table(*rest)
