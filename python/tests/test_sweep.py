"""Sweeps from Python: each run once, whoever makes it; questions in SQL."""

from __future__ import annotations

import os
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import schedlab as sl
from schedlab._sweep import _toml


def grid(seeds: str) -> dict[str, Any]:
    return {"grid": {"workload": str(sl.sample("gzip")), "sched": ["rr", "fifo"], "cpus": [1, 2], "seed": seeds}}


def test_each_run_is_made_once(folder: Path) -> None:
    first = sl.sweep(grid("1-2"), folder / "data")
    assert (first.json["done"], first.json["known"], first.json["failed"]) == (8, 0, 0)
    again = sl.sweep(grid("1-3"), folder / "data")
    assert (again.json["done"], again.json["known"]) == (4, 8)
    rows = first.query("SELECT sched, cpus, seed, switches FROM runs ORDER BY sched, cpus, seed").fetchall()
    assert len(rows) == 12
    for sched, cpus, seed, switches in rows[:3]:
        one = sl.run(sl.sample("gzip"), sched=sched, cpus=cpus, seed=seed)
        assert one.summary["switches"] == switches
    joined = sl.query(folder / "data", "SELECT count(*), sum(tasks.cpu_ns) FROM tasks JOIN runs USING (key) WHERE runs.sched = 'rr'")
    assert joined.fetchall()[0][0] > 0


def test_a_dataset_is_asked_while_it_grows_and_is_put_in_order(folder: Path) -> None:
    """Ten sweeps, each of which puts all files in order at its end. Every answer is of one moment."""
    counts: list[tuple[int, int]] = []
    sql = "SELECT count(*), count(DISTINCT key) FROM runs"
    with ThreadPoolExecutor(1) as pool:
        seeds = [f"1-{last}" for last in range(40, 401, 40)]
        sweeps = pool.submit(lambda: [sl.sweep(small(one), folder / "data", jobs=2) for one in seeds])
        while not sweeps.done():
            try:
                counts.append(sl.query(folder / "data", sql).fetchall()[0])
            except sl.InputError as error:  # nothing is there yet
                assert not counts and ("no dataset" in str(error) or "nothing is in this dataset yet" in str(error))
        sweeps.result()
    counts.append(sl.query(folder / "data", sql).fetchall()[0])
    assert counts[-1] == (1600, 1600)
    assert counts == sorted(counts) and all(runs == keys for runs, keys in counts)
    assert len(set(counts)) >= 5, "it did not grow meanwhile"


@pytest.mark.long
def test_a_hundred_thousand_runs_cost_the_coordinator_little(folder: Path) -> None:
    """At most 2 ms of CPU a run, reading and judging the run's log included, and 500 MB."""
    description = write(folder / "s.toml", small("1-25000"))
    command = [sl.program(), "--quiet", "sweep", str(description), "-o", str(folder / "data")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    ticks, peak_kb = 0, 0
    while process.poll() is None:
        try:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            continue
        if found := re.search(r"VmHWM:\s+(\d+) kB", status):
            ticks, peak_kb = max(ticks, int(fields[11]) + int(fields[12])), int(found[1])
        time.sleep(0.02)
    assert process.returncode == 0
    runs = sl.Dataset(folder / "data").status()["runs"]
    cpu_ms = 1000 * ticks / os.sysconf("SC_CLK_TCK") / runs
    print(f"{runs:,} runs: {cpu_ms:.2f} ms of CPU a run, at most {peak_kb / 1000:.0f} MB")
    assert runs == 100_000 and 0 < cpu_ms <= 2 and 0 < peak_kb < 500_000


@pytest.mark.long
def test_a_million_rows_are_grouped_in_a_second(folder: Path) -> None:
    """100,000 runs of ten tasks, while another sweep adds to them."""
    sl.sweep(small("1-25000", tasks=10), folder / "data")
    whole = sl.Dataset(folder / "data").status()
    assert whole["runs"] == 100_000 and whole["tasks"] >= 1_000_000 and whole["files"] == 10
    values = "sched, cpus, name, count(*), avg(t.cpu_ns), max(t.run_delay_max_ns)"
    sql = f"SELECT {values} FROM tasks t JOIN runs USING (key) GROUP BY ALL"
    with ThreadPoolExecutor(1) as pool:
        sweep = pool.submit(sl.sweep, small("24001-28000", tasks=10), folder / "data")
        took: list[float] = []
        while len(took) < 5 or not sweep.done():
            begin = time.perf_counter()
            rows = sl.query(folder / "data", sql).fetchall()
            took.append(time.perf_counter() - begin)
            assert sum(row[3] for row in rows) >= whole["tasks"]
        sweep.result()
    print(f"{whole['tasks']:,} rows, {len(took)} questions while it grew: {min(took):.2f} to {max(took):.2f} s")
    # the best: other programs, the growing sweep among them, take the CPUs
    assert min(took) < 1.0
    after = sl.Dataset(folder / "data").status()
    assert after["runs"] == 112_000 and after["files"] == 12


def small(seeds: str, tasks: int = 4) -> dict[str, Any]:
    settings = {"tasks": tasks, "run": "1ms", "sleep": "2ms", "duration": "50ms"}
    return {"grid": {"generate": "sleepers", "set": settings, "sched": ["rr", "eevdf"], "cpus": [1, 2], "seed": seeds}}


def test_shards_are_the_whole(folder: Path) -> None:
    whole = sl.sweep(grid("1-2"), folder / "whole")
    parts = [sl.sweep(grid("1-2"), folder / f"part{n}", shard=f"{n}/3") for n in (1, 2, 3)]
    joined = sl.merge(*parts, output=folder / "joined")
    assert sum(part.json["done"] for part in parts) == 8
    assert joined.status()["hash"] == whole.status()["hash"]
    assert joined.status()["hash"] != parts[0].status()["hash"]


def test_failures_are_rows(folder: Path) -> None:
    description = {
        "grid": {"workload": str(sl.sample("hand/sleepers8.txt")), "sched": ["broken-lost", "rr"], "cpus": 2, "duration": "2s"}
    }
    data = sl.sweep(description, folder / "data")
    assert (data.json["done"], data.json["failed"]) == (2, 1)
    rows = data.query("SELECT sched, status, exit_status FROM runs ORDER BY sched").fetchall()
    assert rows[0][:3] == ("broken-lost", "failed", 3) and rows[1][1] == "done"


def test_mistakes_are_reported(folder: Path) -> None:
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"grid": {"workload": "/nowhere", "sched": "rr", "cpus": 1}}, "/nowhere"),
        ({"grid": {"workload": str(sl.sample("gzip")), "sched": "rr", "cpuss": 1}}, "cpuss"),
        ({"grid": {"workload": str(sl.sample("gzip")), "sched": "rr", "cpus": []}}, "cpus"),
    ]
    for wrong, word in mistakes:
        with pytest.raises(sl.InputError) as caught:
            sl.sweep(wrong, folder / "data")
        assert word in str(caught.value)
    with pytest.raises(sl.InputError, match="no dataset"):
        sl.query(folder, "SELECT 1")
    estimate = sl.estimate(write(folder / "sweep.toml", grid("1-50")))
    assert estimate["planned"] == 200 and estimate["bytes"] > 0


def write(path: Path, description: dict[str, Any]) -> Path:
    path.write_text(_toml(description))
    return path


def test_dictionaries_are_toml() -> None:
    tomllib: Any = pytest.importorskip("tomllib")  # from 3.11 on
    for description in (
        grid("1-3"),
        {"grid": {"param": {"a b": [0.5, 1e-9, 3], "x": 'quote " and \\ line\nend'}, "on": True}, "list": [{"cpus": 1}, {"cpus": 2}]},
        {"except": [{"cpus": {"min": 8}}], "empty": {"list": []}},
    ):
        assert tomllib.loads(_toml(description)) == description
