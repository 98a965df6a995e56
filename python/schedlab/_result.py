"""What came of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native
from ._table import _DETAIL, Log, Table, _frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Lists of the JSON that are tables of their own.
_TABLES = ("tasks", "kernel_threads", "per_cpu", "longest_waits", "idle_while_waiting_longest", "jobs")

#: Colours that colour-blind readers tell apart, too (Okabe, Ito 2008).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#b8a800")
_OTHERS = "#c8c8c8"


class Result:
    """A run that ended as it should. Names and values are those of `schedlab run --json` (docs/json.md)."""

    def __init__(self, native: _native.Run, made_by: Sequence[str] = ()) -> None:
        self._native = native
        self._made_by = tuple(made_by)

    @property
    def command(self) -> str:
        """The command that gives the same run in a shell. With `--reproducible --json -` behind it it prints the bytes of
        `json`, but for `wall_ns` and `kernel_ns`, which are host time and 0 there; `--log FILE` writes those of `log`.
        Of a generated workload the file is written first."""
        return " && ".join([*self._made_by, self._native.command])

    @cached_property
    def json(self) -> dict[str, Any]:
        """The whole result, as `--json` has it."""
        whole: dict[str, Any] = json.loads(self._native.json())
        return whole

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The result without its tables."""
        return {name: value for name, value in self.json.items() if name not in _TABLES}

    @property
    def warnings(self) -> list[str]:
        """The kernel's warnings; a finding."""
        return self._native.warnings

    @cached_property
    def tasks(self) -> Table:
        """A row per task of the workload: `id`, `pid`, `name`, `nice`, `policy`, `cpu_ns`, `run_delay_ns`, ..."""
        return Table.of_rows(self.json["tasks"])

    @cached_property
    def kernel_threads(self) -> Table:
        """A row per thread of the simulated kernel."""
        return Table.of_rows(self.json["kernel_threads"])

    @cached_property
    def cpus(self) -> Table:
        """A row per CPU: `cpu`, `busy_ns`, `kernel_thread_ns`, `idle_ns`, `switches`, `waiting_task_ns`, ..."""
        return Table.of_rows(self.json["per_cpu"])

    @cached_property
    def longest_waits(self) -> Table:
        """The longest waits of all, worst first."""
        return Table.of_rows(self.json.get("longest_waits") or [])

    @cached_property
    def jobs(self) -> Table:
        """A row per task with deadlines: jobs, misses, response times, bounds; without the list of single jobs."""
        rows = self.json.get("jobs") or []
        return Table.of_rows([{name: value for name, value in row.items() if name != "list"} for row in rows])

    @cached_property
    def job_list(self) -> Table:
        """A row per job: `task`, `pid`, `name`, `job`, `release_ns`, `end_ns`, `deadline_ns`, ..."""
        rows = self.json.get("jobs") or []
        who = ("task", "pid", "name")
        return Table.of_rows([{**{name: row[name] for name in who}, **job} for row in rows for job in row["list"]])

    @cached_property
    def log(self) -> Log:
        """What happened, record by record."""
        return Log(self._native.log())

    # Tables of analysis: columns and units as documented, for any dataframe.

    def df_tasks(self) -> Table:
        """As `tasks`."""
        return self.tasks

    def df_cpus(self) -> Table:
        """As `cpus`."""
        return self.cpus

    def df_runs(self) -> Table:
        """Who ran when: `task`, `pid`, `name`, `cpu`, `start_ns`, `end_ns`, `stop`, `waited_ns`."""
        return self._runs

    def df_waits(self) -> Table:
        """Who waited for a CPU when: `task`, `pid`, `name`, `cpu`, `start_ns`, `end_ns`, `cause`."""
        return self._waits

    @cached_property
    def _runs(self) -> Table:
        return self.log.runs()

    @cached_property
    def _waits(self) -> Table:
        return self.log.waits()

    # Pictures (matplotlib).

    def plot_timeline(self, start_ns: int = 0, end_ns: int | None = None, ax: Axes | None = None) -> Axes:
        """Who ran when: a row per CPU; a colour for each of the eight names with the most CPU time, grey for the
        others. Unless told otherwise the first 400 runs or so."""
        runs = self.df_runs()
        start_ns = max(start_ns, 0)
        rows = sorted(zip(runs["start_ns"], runs["end_ns"], runs["cpu"], runs["name"], strict=True))
        if end_ns is None:
            inside = [row for row in rows if row[1] > start_ns]
            end_ns = inside[min(len(inside), 400) - 1][1] if inside else start_ns + 1
        rows = [(max(s, start_ns), min(e, end_ns), on, who) for s, e, on, who in rows if e > start_ns and s < end_ns]
        time_of: dict[str, int] = {}
        for start, end, _, name in rows:
            time_of[name] = time_of.get(name, 0) + end - start
        names = sorted(time_of, key=lambda name: (-time_of[name], name))
        colours = dict(zip(names, _COLOURS, strict=False))
        nr_cpus, nr_labels = int(self.summary["cpus"]), min(len(names), len(_COLOURS) + 1)
        ax = ax or _axes(9, max(1.2 + 0.32 * nr_cpus, 0.6 + 0.21 * nr_labels))
        unit, scale = _unit(end_ns - start_ns)
        bars: dict[tuple[int, str], list[tuple[float, float]]] = {}
        for start, end, cpu, name in rows:
            bars.setdefault((cpu, colours.get(name, _OTHERS)), []).append((start / scale, (end - start) / scale))
        for (cpu, colour), mine in bars.items():
            ax.broken_barh(mine, (cpu - 0.4, 0.8), facecolors=colour, edgecolor="white", linewidth=0.3)
        labels = [*colours.items(), ("others", _OTHERS)][:nr_labels]
        for name, colour in labels:
            ax.plot([], [], color=colour, linewidth=6, label=name)
        ax.set_yticks(range(nr_cpus), [f"cpu{cpu}" for cpu in range(nr_cpus)])
        ax.set_xlim(start_ns / scale, end_ns / scale)
        ax.set_ylim(nr_cpus - 0.4, -0.6)
        ax.set_xlabel(f"time in {unit}")
        ax.set_title(f"{self.summary['workload']} under {self.summary['sched']}", loc="left")
        if labels:
            ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
        return ax

    def plot_waits(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """How many waits for a CPU are longer than t: both axes logarithmic."""
        return plot_waits({label or str(self.summary["sched"]): self}, ax)

    def plot_tasks(self, ax: Axes | None = None, most: int = 20) -> Axes:
        """CPU time and run delay of the tasks with the most of both."""
        tasks = self.tasks
        known = [[value or 0 for value in tasks[name]] for name in ("cpu_ns", "run_delay_ns")]
        rows = sorted(zip(*known, tasks["name"], tasks["pid"], strict=True), key=lambda row: -row[0] - row[1])[:most]
        ax = ax or _axes(7, 1.2 + 0.25 * len(rows))
        unit, scale = _unit(max((row[0] + row[1] for row in rows), default=1))
        labels = [f"{name} ({pid})" for _, _, name, pid in rows]
        places = list(range(len(rows)))
        ax.barh(places, [row[0] / scale for row in rows], color=_COLOURS[0], label="on a CPU")
        ax.barh(
            places,
            [row[1] / scale for row in rows],
            left=[row[0] / scale for row in rows],
            color=_COLOURS[4],
            label="waiting for one",
        )
        ax.set_yticks(places, labels)
        ax.invert_yaxis()
        ax.set_xlabel(f"time in {unit}")
        ax.legend(frameon=False)
        return ax

    def html(self) -> str:
        """The page of `--html`: one file, opens offline."""
        return self._native.html(120_000, 150_000)

    def write_html(self, path: str | PathLike[str]) -> None:
        """Writes the page of `--html`."""
        Path(path).write_text(self.html(), encoding="utf-8")

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        return f"<schedlab Result: {self.command}>"

    def _repr_html_(self) -> str:
        return _frame(self._native.html(*_DETAIL))


def plot_waits(results: Mapping[str, Result], ax: Axes | None = None) -> Axes:
    """How many waits for a CPU are longer than t, of several runs: a curve each."""
    ax = ax or _axes(7, 4)
    for place, (label, result) in enumerate(results.items()):
        waits = result.df_waits()
        lengths = sorted(e - s for s, e in zip(waits["start_ns"], waits["end_ns"], strict=True))
        shown = [(length, 1 - n / len(lengths)) for n, length in enumerate(lengths) if length > 0]
        if shown:
            ax.step([x / 1e6 for x, _ in shown], [y for _, y in shown], color=_COLOURS[place % len(_COLOURS)], label=label)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("wait for a CPU longer than, in ms")
    ax.set_ylabel("share of waits")
    ax.legend(frameon=False)
    return ax


def _axes(width: float, height: float) -> Axes:
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes: Axes = ax
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _unit(length_ns: int) -> tuple[str, float]:
    """A unit in which numbers of this size read well, and its ns."""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if length_ns >= 2 * scale:
            return unit, scale
    return "ns", 1.0
