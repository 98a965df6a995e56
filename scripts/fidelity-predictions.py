#!/usr/bin/env python3
"""Predictions from one CPU to two and back, as rows of docs/fidelity.md: medians over the recordings of each program.

Each PROGRAM-CPUS.RUN.dat of the folder (scripts/fidelity-recordings.sh) is replayed on the other number of CPUs, and compared with the
recording of the same run there. In brackets: with `--messages none`.

Usage: scripts/fidelity-predictions.py FOLDER
"""

import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

SCHEDLAB = pathlib.Path(__file__).parent.parent / "target/release/schedlab"
QUANTITIES = [("duration", "max"), ("cpu", "sum"), ("switches_voluntary", "sum"), ("wakeup_latency", "p99")]


def predict(source, against, cpus, messages):
    """By quantity: by how many per cent the prediction is off."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "prediction.json")
        command = [SCHEDLAB, "fidelity", source, "--against", against, "--cpus", cpus, "--messages", messages]
        # `taskset` bound the program to its one CPU
        command += ["--affinity", "none"] if cpus == "2" else []
        subprocess.run([*command, "--no-causes", "--quiet", "--json", out], check=True, stdout=subprocess.DEVNULL)
        seen = json.loads(out.read_text())
    whole = {(x["name"], x["statistic"]): x for x in seen["quantities"] if x.get("label", "all") == "all"}
    off = lambda x: 100 * (x["replayed"] / x["recorded"] - 1) if x["recorded"] else float("nan")
    return [off(whole[of]) for of in QUANTITIES]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    groups = {}
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*-1.*.dat")):
        program, run = path.name.removesuffix(".dat").rsplit("-1.", 1)
        other = path.with_name(f"{program}-2.{run}.dat")
        if other.exists():
            groups.setdefault(program, []).append((path, other))
    met, total = {"2 > 1": [0, 0], "1 > 2": [0, 0]}, 0
    for program, pairs in groups.items():
        cells = [program]
        for way in met:
            ends = [(two, one, "1") if way == "2 > 1" else (one, two, "2") for one, two in pairs]
            seen = [[predict(*end, messages) for end in ends] for messages in ("recorded", "none")]
            for number in range(len(QUANTITIES)):
                now, none = (statistics.median(row[number] for row in of) for of in seen)
                # (a task of which a wakeup is missing makes a sum unknown)
                cells.append("-" if math.isnan(now) else f"{now:+.0f} % ({none:+.0f})")
            met[way][0] += sum(abs(row[0]) <= 10 for row in seen[0])
            met[way][1] += sum(abs(row[0]) <= 10 for row in seen[1])
        total += len(pairs)
        print("|", " | ".join(cells), "|", flush=True)
    for way, (now, none) in met.items():
        print(f"{way}: of {total} durations {now} within 10 %, {none} with --messages none", file=sys.stderr)


if __name__ == "__main__":
    main()
