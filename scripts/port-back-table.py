#!/usr/bin/env python3
"""The tables of scripts/port-back.sh: four pairs of simulation and real kernel, and the shares beside what the formula says.

    port-back-table.py DIR      DIR holds SIMULATED-REAL-CPUS.json, each from `schedlab validate --kernel-image`

Exit 0 if the pairs of the same state agree in every quantity and those of different states disagree in every case.
"""
import json, os, re, sys

STATES = ["unchanged", "changed"]
# kernel/sched/core.c, sched_prio_to_weight
WEIGHT = {-20: 88761, -10: 9548, -5: 3121, 0: 1024, 5: 335, 10: 110, 19: 15}
# CPU time of the class in the whole run; nothing else runs
PER_CLASS = {"fairbench": {nice: 5 for nice in (-20, -10, 0, 10, 19)}, "hogs:0,5,-5,10": {0: 1, 5: 1, -5: 1, 10: 1}}

found = {}
for simulated in STATES:
    for real in STATES:
        for cpus in (1, 2):
            with open(os.path.join(sys.argv[1], f"{simulated}-{real}-{cpus}.json")) as file:
                for case in json.load(file)["cases"]:
                    found[simulated, real, case["workload"], cpus] = case

def count(case, *verdicts):
    return sum(row["verdict"] in verdicts for row in case["rows"])

names = sorted({(cpus, workload) for _, _, workload, cpus in found})
good = True
print("quantities beyond tolerance without a known cause, of all judged:\n")
print(f"{'':<36}{'real: unchanged':>18}{'real: changed':>18}")
for simulated in STATES:
    for cpus, workload in names:
        line = f"{'simulated: ' + simulated:<22}" if (cpus, workload) == names[0] else " " * 22
        cells = ""
        for real in STATES:
            case = found[simulated, real, workload, cpus]
            beyond = count(case, "fail")
            cells += f"{beyond:>11} of {count(case, 'pass', 'fail', 'known'):>3}"
            good &= (beyond == 0) == (simulated == real)
        print(f"{line}{workload[:24]:<24} {cpus} CPU{'s' if cpus > 1 else ' '}{cells}")

print("\nshare of CPU time on one CPU, in per cent:\n")
print(f"{'':<28}{'unchanged':^30}   {'changed':^30}")
print(f"{'':<28}" + "   ".join(f"{'formula':>10}{'real':>10}{'simulated':>10}" for _ in STATES))
for workload, tasks in PER_CLASS.items():
    for nice in sorted(tasks):
        cells = []
        for state in STATES:
            case = found[state, state, workload, 1]
            paid = {n: WEIGHT[n] * k / (2 if state == "changed" and n < 0 else 1) for n, k in tasks.items()}
            cpu = {}
            for row in case["rows"]:
                if match := re.fullmatch(r"CPU time of \D*?([-+]\d+)", row["what"]):
                    cpu[int(match[1])] = (row["real"], row["simulated"])
            share = [100 * cpu[nice][side] / sum(both[side] for both in cpu.values()) for side in (0, 1)]
            cells.append(f"{100 * paid[nice] / sum(paid.values()):>10.2f}{share[0]:>10.2f}{share[1]:>10.2f}")
        print(f"{workload:<20}nice {nice:>3}" + "   ".join(cells))

print("\nwhat tells the two kernels apart, real Linux beside real Linux:\n")
for cpus, workload in names:
    both = [found[state, state, workload, cpus]["rows"] for state in STATES]
    for a, b in zip(*both):
        if a["what"].startswith("CPU time of") or a["what"] in ("switches", "run delay p90"):
            print(f"{workload[:24]:<24} {cpus} CPU{'s' if cpus > 1 else ' '}  {a['what']:<24}{a['real']:>10.0f} {a['unit']:<3} -> {b['real']:>8.0f} {b['unit']}")
known = {(row["what"], row["cause"]) for case in found.values() for row in case["rows"] if row["verdict"] == "known"}
for what, cause in sorted(known):
    print(f"\nknown: {what}: {cause}")
print("\nas it should be: each real kernel agrees with its own simulation, and with the other's in no case" if good
      else "\nNOT as it should be: see above")
sys.exit(0 if good else 1)
