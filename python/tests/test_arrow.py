"""Tables as polars, pandas, pyarrow and DuckDB take them; records become columns once, and nothing is copied after that."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pytest

import schedlab as sl


@pytest.fixture(scope="module")
def result() -> sl.Result:
    return sl.run(sl.sample("compile"), sched="fifo", cpus=2)


@pytest.fixture(scope="module")
def two_million() -> sl.Result:
    """Two tasks that take turns, every 2 us."""
    hogs = sl.generate("hogs", nice=[0, 0])
    result = sl.run(hogs, sched="rr", cpus=1, params={"quantum": "1us"}, duration="2s")
    assert len(result.log) >= 2_000_000
    return result


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]


def test_every_taker_reads_the_same(result: sl.Result) -> None:
    tasks = result.json["tasks"]
    assert polars.DataFrame(result.tasks).to_dicts() == tasks
    assert pyarrow.table(result.tasks).to_pylist() == tasks
    assert plain(result.tasks.to_pandas().to_dict("records")) == tasks
    table = result.tasks
    connection = duckdb.connect()
    connection.register("tasks", table.to_arrow())
    rows = connection.sql("SELECT sum(cpu_ns), count(*) FROM tasks").fetchall()
    assert rows == [(sum(task["cpu_ns"] for task in tasks), len(tasks))]


def test_duckdb_takes_a_table_by_its_name(result: sl.Result) -> None:
    tasks, log = result.tasks, result.log  # noqa: F841  (DuckDB looks them up)
    assert duckdb.sql("SELECT max(cpu_ns) FROM tasks").fetchall() == [(max(result.tasks["cpu_ns"]),)]
    switches = duckdb.sql("SELECT count(*) FROM log WHERE kind = 'switch'").fetchall()
    assert switches == [(sum(kind == "switch" for kind in result.log["kind"]),)]


def test_the_log_is_that_of_the_arrow_file(result: sl.Result, folder: Any) -> None:
    path = folder / "run.arrow"
    result.log.write(path)
    with pyarrow.ipc.open_file(path) as file:
        written = file.read_all()
    own = pyarrow.table(result.log)
    assert own.schema.equals(written.schema, check_metadata=True)
    assert own.equals(written)
    assert pyarrow.table(sl.open_log(path)).equals(written)
    assert polars.DataFrame(result.log).to_dicts() == written.to_pylist()
    states = set(own["prev_state"].to_pylist())
    assert "sleeping" in states and None in states


def test_nothing_is_copied(result: sl.Result) -> None:
    for table in (result.log, result.tasks):
        ours = table.addresses()
        theirs = pyarrow.table(table)
        for name in ("time_ns", "cpu", "task", "value") if table is result.log else ("cpu_ns", "wakeups"):
            chunks = [chunk.buffers()[1].address for chunk in theirs[name].chunks]
            assert chunks == ours[name], name
        # asked again, the same memory
        assert table.addresses() == ours
    frame = polars.DataFrame(result.log)
    assert frame["time_ns"].to_arrow().buffers()[1].address == result.log.addresses()["time_ns"][0]


def test_unknown_is_null_and_not_zero() -> None:
    table = sl.Table.of_rows([{"a": 1, "b": None}, {"a": None, "b": None, "c": [1, 2]}, {"a": 2**63, "d": 0.5}])
    assert table.to_dict() == {
        "a": [1, None, 2**63],
        "b": [None] * 3,
        "c": [None, "[1,2]", None],
        "d": [None, None, 0.5],
    }
    assert pyarrow.table(table).schema.field("a").type == pyarrow.uint64()
    assert sl.Table.of_rows([{"n": -1}, {"n": 2**63}])["n"] == [-1.0, float(2**63)]
    assert len(sl.Table.of_rows([])) == 0


def test_two_million_records_are_a_filtered_frame(two_million: sl.Result) -> None:
    log = two_million.log
    frame = polars.DataFrame(log).filter(polars.col("kind") == "switch", polars.col("task") == 0)
    assert 500_000 < len(frame) < len(log)


def test_records_become_columns_without_an_object_each(two_million: sl.Result) -> None:
    """What makes it fast; `make bench` prints the speed itself."""
    log = two_million._native.log()
    before = sys.getallocatedblocks()
    table = log.table()
    objects = sys.getallocatedblocks() - before
    assert len(table) == len(log) >= 2_000_000
    assert objects < 1_000


def test_no_taker_is_needed() -> None:
    code = """
import sys
for name in ("polars", "pandas", "pyarrow", "duckdb", "numpy", "matplotlib"):
    sys.modules[name] = None
import schedlab as sl
r = sl.run(sl.sample("hand/figure1.txt"), sched="fifo", cpus=1)
assert r.tasks["name"] == ["shell", "figure-1"] and len(r.log.table()["time_ns"]) == len(r.log)
assert r._repr_html_() and r.tasks._repr_html_()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pandas_without_pyarrow(result: sl.Result) -> None:
    frame = pandas.DataFrame(result.tasks.to_dict())
    assert frame["cpu_ns"].sum() == result.json["cpu_ns"]


@pytest.mark.long
def test_a_hundred_million_records_stream_in_little_memory() -> None:
    code = """
import resource
import pyarrow
import schedlab as sl
hogs = sl.generate("hogs", nice=[0, 0])
log = sl.run(hogs, sched="rr", cpus=1, params={"quantum": "100ns"}, duration="10s").log
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(log))
assert rows == len(log) >= 100_000_000, rows
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"{rows:,} records, at most {most / 1024:.0f} MiB")
assert most < 1024 * 1024
"""
    subprocess.run([sys.executable, "-c", code], check=True)
