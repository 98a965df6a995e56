"""Many runs from one description, each made once, into a dataset of Parquet files; and questions to it in SQL."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from . import _errors, _native
from ._cluster import Cluster, client_of
from ._program import Output, Value, start, words_of


#: So often a question is asked again whose files were put in order meanwhile.
_QUERY_TRIES = 10


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


Description = str | PathLike[str] | Mapping[str, object]


def _file_of(description: Description, output: str | PathLike[str]) -> Path:
    """The description's file; a dictionary is written to `OUTPUT.toml`."""
    if not isinstance(description, Mapping):
        return Path(description)
    file = Path(f"{os.fspath(output).rstrip('/')}.toml")
    file.write_text(_toml(description), encoding="utf-8")
    return file


def sweep(
    description: Description,
    output: str | PathLike[str],
    *,
    jobs: int | None = None,
    shard: str | None = None,
    dask: Any = None,
    **options: Value | None,
) -> Dataset:
    """Makes the runs of a description (docs/sweeps.md) that are not in the dataset `output` yet.

    The description is a TOML file, or a dictionary of the same form, which is written to `OUTPUT.toml`; paths in it
    begin there. `shard="2/8"` makes a part; `merge` joins parts. `dask` is the address of a dask scheduler or a
    `distributed.Client`: its workers make the runs. Runs that fail are rows, not exceptions.
    """
    file = _file_of(description, output)
    words = ["sweep", os.fspath(file), "-o", os.fspath(output), *words_of({"jobs": jobs, "shard": shard, **options})]
    if dask is not None:
        if jobs is not None or options:
            raise _errors.InputError("on a cluster there is no other option than shard; its workers have threads of their own")
        return _on_dask(file, output, shard, dask)
    done = start(["--quiet", *words, "--json", "-"], tolerated=(0, 1))
    return Dataset(output, Output(shlex.join(["schedlab", *words]), done.text, done.status))


def _on_dask(file: Path, output: str | PathLike[str], shard: str | None, dask: Any) -> Dataset:
    address = dask if isinstance(dask, str) else dask.scheduler.address
    words = ["sweep", os.fspath(file), "-o", os.fspath(output), *words_of({"shard": shard}), "--dask", address]
    with client_of(dask) as client, Asking(file, output, shard=shard) as asking:
        planned = asking.planned
        counts = Cluster(client).make(asking)
        compact = asking.finish()
    told = {"schema": 1, "planned": planned, **counts, "compact": compact}
    return Dataset(output, Output(shlex.join(["python", "-m", "schedlab", *words]), json.dumps(told), 0))


@dataclass(frozen=True)
class Trial:
    """One run that is to be made."""

    #: Names the run by what makes it.
    key: str
    #: `new`: it is the caller's to make; `known`: it is in the dataset; `under way`: somebody makes it.
    state: str
    _json: str

    @property
    def settings(self) -> dict[str, Any]:
        """What is asked for: `workload` or `generate` and `set`, `sched`, `params`, `machine`, `seed`, ..."""
        found: dict[str, Any] = json.loads(self._json)
        return found


class Answer:
    """What came of a trial: rows of the dataset."""

    def __init__(self, rows: bytes) -> None:
        #: As it travels between machines of one release.
        self.bytes = rows

    @cached_property
    def row(self) -> dict[str, Any]:
        """The row of the table `runs`."""
        found: dict[str, Any] = json.loads(_native.rows_of(self.bytes)[0])
        return found

    @cached_property
    def tasks(self) -> list[dict[str, Any]]:
        """Rows of the table `tasks`."""
        found: list[dict[str, Any]] = json.loads(_native.rows_of(self.bytes)[1])
        return found


class Asking:
    """A dataset that is filled trial by trial: by an optimiser that chooses them, or by machines of your own.

    >>> import tempfile
    >>> grid = {"generate": "hogs", "set": {"nices": [[0, 5]]}, "sched": ["rr", "eevdf"], "cpus": 1, "duration": "20ms"}
    >>> with tempfile.TemporaryDirectory() as folder, Asking({"grid": grid}, f"{folder}/data") as asking:
    ...     [asking.tell(asking.run(trial)) for trial in asking]
    [True, True]
    """

    def __init__(self, description: Description, output: str | PathLike[str], *, shard: str | None = None) -> None:
        file = _file_of(description, output)
        # everything that it names is looked up, and kernels are built, by a process without threads
        start(["--quiet", "sweep", os.fspath(file), "--check"])
        self._native = _native.Asking(file, output, shard)
        #: The dataset's folder.
        self.path = Path(output)

    def ask(self) -> Trial | None:
        """The next run of the description that is neither in the dataset nor under way; `None`: there is none now."""
        asked = self._native.ask()
        return None if asked is None else Trial(asked[0], "new", asked[1])

    def __iter__(self) -> Iterator[Trial]:
        while (trial := self.ask()) is not None:
            yield trial

    def propose(self, settings: Mapping[str, object]) -> Trial:
        """A run of the caller's choice, in the form of `Trial.settings`. One whose `state` is not `new` need not be made:
        `row` has what is known."""
        text = json.dumps(settings)
        state, key = self._native.propose(text)
        return Trial(key, state, text)

    def run(self, trial: Trial) -> Answer:
        """Makes it here. May be called from any thread."""
        return Answer(self._native.run(trial._json))

    def tell(self, answer: Answer | bytes) -> bool:
        """Keeps it. False: it was there before.

        Raises InputError: nobody asked for it, or it is the result of something else.
        """
        return self._native.tell(answer.bytes if isinstance(answer, Answer) else answer)

    def give_up(self, trial: Trial) -> None:
        """Nobody will tell it: it can be asked again."""
        self._native.give_up(trial.key)

    def row(self, trial: Trial) -> dict[str, Any]:
        """The row of a run that is in the dataset."""
        found: dict[str, Any] = json.loads(start(["sweep", "show", os.fspath(self.path), trial.key, "--json", "-"]).text)
        return found

    @property
    def planned(self) -> int:
        """Runs of the description, of all shards."""
        return self._native.planned()

    @property
    def elsewhere(self) -> int:
        """Runs that another process makes, as far as is known."""
        return self._native.elsewhere()

    def finish(self) -> bool:
        """All results become Parquet. True: in order, as nobody else is at work."""
        return self._native.finish()

    def __enter__(self) -> Asking:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()


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
    """Asks a dataset in SQL: the tables are `runs` and `tasks`. Gives DuckDB's relation (`.pl()`, `.df()`,
    `.fetchall()`).

    The dataset may grow meanwhile, and its files may be put in order: the answer has each row once that was in a file
    at one moment."""
    import duckdb

    folder = Path(dataset.path if isinstance(dataset, Dataset) else dataset)
    tries = 0
    while True:
        connection = duckdb.connect()
        try:
            for table, files in zip(("runs", "tasks"), _native.dataset_files(folder), strict=True):
                if not files:
                    raise _errors.InputError(f"{folder}: nothing is in this dataset yet ({table}/*.parquet)")
                connection.read_parquet([str(path) for path in files]).create_view(table)
            relation = connection.sql(sql)
            if relation is None:
                return None
            # asked now, while the files are there (DuckDB 1 and 2 have other words for it)
            return relation.materialize() if hasattr(relation, "materialize") else relation.execute()
        except duckdb.IOException:  # files were put in order under its feet
            tries += 1
            if tries == _QUERY_TRIES:
                raise


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
