#!/usr/bin/env python3
"""What does recording cost the recorded command? With and without, in turn, N times each.

    record-overhead.py RECORD N [--no-syscalls]     RECORD: the built example crates/host/examples/record.rs

Prints the median of elapsed and of CPU seconds (user + system, of the command and its children; on a busy host CPU time
says more than elapsed time), the events, and the cost per event. The recorder's own draining is not in the command's CPU
time; it is shown apart, as the recorder's.
"""
import os, re, resource, statistics, subprocess, sys, tempfile, time

LIMIT = {
    "gzip": ["sh", "-c", "head -c 60000000 {data} | gzip -6 > /dev/null"],
    "hackbench": ["perf", "bench", "-f", "simple", "sched", "messaging", "-g", "2", "-l", "400"],
    "naps": ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done"],
    "fork": ["sh", "-c", "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done"],
}


def run(argv):
    """Elapsed seconds, and CPU seconds of everything below this process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    after, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ended - began, cpu, done.stderr


def main():
    record, times, extra = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        with open(data, "wb") as file:
            # Text-like and the same each time: a counter's digits.
            file.write("".join(f"{i * 2654435761 % 2**32:x} " for i in range(7_000_000)).encode())
        print(f"{'workload':10} {'events':>8} {'elapsed s':>20} {'CPU s':>20} {'us per event':>13}")
        for name, argv in LIMIT.items():
            argv = [word.format(data=data) for word in argv]
            # Time the command alone in both cases: a shell around it reports its own children.
            timed = ["bash", "-c", 'TIMEFORMAT="%R %U %S"; time "$@" >/dev/null', "timed", *argv]
            plain, traced, events = [], [], 0
            for _ in range(times):
                for recorded in (False, True):
                    out = os.path.join(folder, "t.dat")
                    _, _, said = run([record, "-o", out, *extra, "--", *timed] if recorded else timed)
                    elapsed, user, system = map(float, re.search(r"^([\d.]+) ([\d.]+) ([\d.]+)$", said, re.M).groups())
                    (traced if recorded else plain).append((elapsed, user + system))
                    if recorded:
                        events = int(re.search(r"^(\d+) events", said, re.M).group(1))
            median = lambda rows, column: statistics.median(row[column] for row in rows)
            (e0, e1), (c0, c1) = [(median(plain, column), median(traced, column)) for column in (0, 1)]
            print(f"{name:10} {events:8} {e0:8.3f} {e1:8.3f} {(e1 / e0 - 1) * 100:+.0f}% "
                  f"{c0:8.3f} {c1:8.3f} {(c1 / c0 - 1) * 100:+.0f}% {(c1 - c0) / max(events, 1) * 1e6:10.2f}")


if __name__ == "__main__":
    main()
