#!/usr/bin/env python3
"""Counts per task what a trace says, from `trace-cmd report -R -N -t FILE` on standard input, without schedlab.

A line per task that ran: pid, CPU time (ns) from sched_switch, blocks (prev_state S D T t P I), exits, forks. Stays on a CPU
of which one end is missing are not counted (but for the first of each CPU, since the first event of the trace, and the last).
Compare with `import_summary --tasks FILE`, with --compare TABLE for the latter's output.
"""
import re
import sys

LINE = re.compile(r"\[(\d+)\]\s+(\d+)\.(\d{9}): (\w+):\s+(.*)$")
SWITCH = re.compile(
    r"prev_comm=(.*) prev_pid=(-?\d+) prev_prio=-?\d+ prev_state=(\d+) next_comm=(.*) next_pid=(-?\d+) next_prio"
)
cpu_ns, blocks, exits, forks = {}, {}, {}, {}
on, first, last = {}, None, 0


def bump(table, key, by=1):
    table[key] = table.get(key, 0) + by


for line in sys.stdin:
    found = LINE.search(line)
    if not found:
        continue
    cpu, time = int(found[1]), int(found[2] + found[3])
    first = time if first is None else first
    last = max(last, time)
    if found[4] == "sched_process_fork":
        bump(forks, int(re.search(r"parent_pid=(\d+)", found[5])[1]))
    if found[4] != "sched_switch":
        continue
    _, prev, state, next_comm, next_ = SWITCH.match(found[5]).groups()
    prev, state, next_ = int(prev), int(state), int(next_)
    pid, since = on.get(cpu, (prev, first))
    if prev and pid == prev:
        bump(cpu_ns, prev, time - since)
    if prev:
        if state & 0x30:
            bump(exits, prev)
        elif state & 0xCF:
            bump(blocks, prev)
    on[cpu] = (next_, time)
for pid, since in on.values():
    if pid:
        bump(cpu_ns, pid, last - since)

if len(sys.argv) != 3:
    for pid in sorted(cpu_ns):
        print(pid, cpu_ns[pid], blocks.get(pid, 0), exits.get(pid, 0), forks.get(pid, 0))
    sys.exit()

worst, wrong, tasks = 0, 0, 0
for row in open(sys.argv[2]):
    pid, name, ours, our_blocks, wakeups, our_forks, *_ = row.split()
    pid, ours, our_blocks, our_forks = int(pid), int(ours), int(our_blocks), int(our_forks)
    tasks += 1
    theirs = cpu_ns.get(pid, 0)
    difference = abs(ours - theirs)
    worst = max(worst, difference)
    # A last BLOCK carries the time of a task that still runs at the end.
    if difference > 1000 or not 0 <= our_blocks - blocks.get(pid, 0) <= 1 or our_forks != forks.get(pid, 0):
        wrong += 1
        print("differs:", row.strip(), "| report:", theirs, blocks.get(pid, 0), forks.get(pid, 0))
print(f"{tasks} tasks compared, {wrong} differ; largest difference of CPU time {worst} ns")
