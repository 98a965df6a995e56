"""Many runs from one description, each made once, into a dataset of Parquet files; and questions to it in SQL."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from . import _errors
from ._program import Output, Value, start, words_of


class Dataset:
    """A folder of runs: `runs/*.parquet` has a row a run, `tasks/*.parquet` a row a task (`key` joins them)."""

    def __init__(self, path: str | PathLike[str], output: Output | None = None) -> None:
        #: The folder.
        self.path = Path(path)
        #: The command that made it, or made what was missing.
        self.command = None if output is None else output.command
        #: What the sweep came to, as `schedlab sweep --json` has it: `planned`, `known`, `done`, `failed`, `warned`.
        self.json: dict[str, Any] = {} if output is None or not output.text else json.loads(output.text)

    def status(self) -> dict[str, Any]:
        """What is there: runs, failures, files, and one `hash` that equal datasets have in common."""
        found: dict[str, Any] = json.loads(start(["sweep", "status", os.fspath(self.path), "--json", "-"]).text)
        return found

    def query(self, sql: str) -> Any:
        """Asks it in SQL; the tables are `runs` and `tasks`. It may grow meanwhile. (DuckDB)"""
        return query(self.path, sql)

    def retry(self, **options: Value | None) -> Dataset:
        """Makes the runs again that failed."""
        words = ["--quiet", "sweep", "retry", os.fspath(self.path), *words_of(options), "--json", "-"]
        return Dataset(self.path, start(words, tolerated=(0, 1)))

    def __repr__(self) -> str:
        return f"<schedlab Dataset {self.path}>"


def sweep(
    description: str | PathLike[str] | Mapping[str, object],
    output: str | PathLike[str],
    *,
    jobs: int | None = None,
    shard: str | None = None,
    **options: Value | None,
) -> Dataset:
    """Makes the runs of a description (docs/sweeps.md) that are not in the dataset `output` yet.

    The description is a TOML file, or a dictionary of the same form, which is written to `OUTPUT.toml`; paths in it
    begin there. `shard="2/8"` makes a part; `merge` joins parts. Runs that fail are rows, not exceptions.
    """
    if isinstance(description, Mapping):
        file = Path(f"{os.fspath(output).rstrip('/')}.toml")
        file.write_text(_toml(description), encoding="utf-8")
    else:
        file = Path(description)
    words = ["sweep", os.fspath(file), "-o", os.fspath(output), *words_of({"jobs": jobs, "shard": shard, **options})]
    done = start(["--quiet", *words, "--json", "-"], tolerated=(0, 1))
    return Dataset(output, Output(shlex.join(["schedlab", *words]), done.text, done.status))


def estimate(description: str | PathLike[str], **options: Value | None) -> dict[str, Any]:
    """What the sweep would cost, from trial runs: `planned`, `run_wall_s`, `total_wall_s`, `bytes`."""
    words = ["--quiet", "sweep", os.fspath(description), "--dry-run", *words_of(options), "--json", "-"]
    told: dict[str, Any] = json.loads(start(words).text)
    return told


def merge(*datasets: str | PathLike[str] | Dataset, output: str | PathLike[str]) -> Dataset:
    """Joins datasets, such as shards; what several hold is there once."""
    folders = [os.fspath(one.path if isinstance(one, Dataset) else one) for one in datasets]
    words = ["sweep", "merge", *folders, "-o", os.fspath(output)]
    done = start(["--quiet", *words])
    return Dataset(output, Output(shlex.join(["schedlab", *words]), "", done.status))


def query(dataset: str | PathLike[str] | Dataset, sql: str) -> Any:
    """Asks a dataset in SQL: the tables are `runs` and `tasks`. Gives DuckDB's relation (`.pl()`, `.df()`, `.fetchall()`)."""
    import duckdb

    folder = Path(dataset.path if isinstance(dataset, Dataset) else dataset)
    connection = duckdb.connect()
    for table in ("runs", "tasks"):
        files = sorted(str(path) for path in (folder / table).glob("*.parquet"))
        if not files:
            raise _errors.InputError(f"{folder}: no dataset of a sweep, or nothing in it yet ({table}/*.parquet)")
        connection.read_parquet(files).create_view(table)
    return connection.sql(sql)


def _toml(value: Mapping[str, object], path: str = "") -> str:
    """A dictionary as TOML: values first, then tables, then lists of tables."""
    text = "".join(f"{_key(name)} = {_value(one)}\n" for name, one in value.items() if not _is_table(one))
    for name, one in value.items():
        inner = f"{path}{_key(name)}"
        if isinstance(one, Mapping):
            text += f"\n[{inner}]\n{_toml(one, inner + '.')}"
        elif _is_table(one):
            assert isinstance(one, (list, tuple))
            text += "".join(f"\n[[{inner}]]\n{_toml(each, inner + '.')}" for each in one)
    return text


def _is_table(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) > 0 and all(isinstance(one, Mapping) for one in value)
    return isinstance(value, Mapping)


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, range):
        return json.dumps(list(value))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    if isinstance(value, (int, float)):
        return repr(value)
    return json.dumps(os.fspath(value) if isinstance(value, os.PathLike) else str(value), ensure_ascii=False)
