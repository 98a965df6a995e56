"""Several schedulers on one workload; two schedules side by side."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from . import _table
from ._program import Output, Value, start, text_of, words_of
from ._result import Result
from ._table import Log, Table
from ._workload import Source, Workload, path_of


class Comparison:
    """What changed between schedulers, most first, over an ensemble of perturbed replays."""

    def __init__(self, output: Output, made_by: Sequence[str], html: str) -> None:
        #: The command that gives the same in a shell.
        self.command = " && ".join([*made_by, output.command])
        #: Whether a condition of `fail_if` is met (the command's exit status 1).
        self.failed = output.status == 1
        #: The whole result, as `schedlab compare --json` has it.
        self.json: Any = json.loads(output.text)
        self._html = html

    @cached_property
    def differences(self) -> Table:
        """A row per quantity and scheduler, most telling first: means with their intervals, and the verdict."""
        return Table.of_rows(_differences(self.json))

    @cached_property
    def values(self) -> Table:
        """A row per run: `workload`, `cpus`, `contender`, `seed`, and a column per metric (units: `json["metrics"]`)."""
        return Table.of_rows(_values(self.json))

    def html(self) -> str:
        """The page of `--html`."""
        return self._html

    def __repr__(self) -> str:
        return f"<schedlab Comparison: {self.command}>"

    def _repr_html_(self) -> str:
        return _table._frame(self._html)


def _differences(whole: Any) -> list[dict[str, Any]]:
    units = {metric["name"]: metric["unit"] for metric in whole["metrics"]}
    rows: list[dict[str, Any]] = []
    for scenario in whole["scenarios"]:
        labels = [contender["label"] for contender in scenario["contenders"]]
        for comparison in scenario["comparisons"]:
            for change in [*comparison["changes"], *comparison["tasks"]]:
                rows.append(
                    {
                        "workload": scenario["workload"],
                        "cpus": scenario["cpus"],
                        "baseline": labels[comparison["baseline"]],
                        "contender": labels[comparison["contender"]],
                        "task": change.get("task"),
                        "metric": change["metric"],
                        "unit": units[change["metric"]],
                        **{
                            f"{name}_{part}": change[name][part]
                            for name in ("base", "other", "difference", "relative")
                            for part in ("mean", "low", "high")
                        },
                        **{name: change[name] for name in ("p", "p_adjusted", "same_sign", "verdict")},
                    }
                )
    return rows


def _values(whole: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for scenario in whole["scenarios"]:
        for contender in scenario["contenders"]:
            for place, seed in enumerate(scenario["seeds"]):
                values = {name: by_seed[place] for name, by_seed in contender["values"].items()}
                who = {"workload": scenario["workload"], "cpus": scenario["cpus"], "contender": contender["label"]}
                rows.append({**who, "seed": seed, **values})
    return rows


def compare(
    workload: Source | Sequence[Source],
    sched: Sequence[str],
    cpus: int | Sequence[int] | None = None,
    *,
    machine: str | Sequence[str] | None = None,
    runs: int | None = None,
    seed: str | range | Sequence[int] | None = None,
    params: Mapping[str, object] | None = None,
    fail_if: str | Sequence[str] = (),
    **options: Value | None,
) -> Comparison:
    """Compares schedulers on the same workload; the first is the baseline. Further options are those of `schedlab
    compare`: `duration="10s"`, `confidence=99`, `sweep={"quantum": ["1ms", "5ms"]}`, ...

    Raises InputError, Misbehaved, InternalError; a met condition of `fail_if` is no error, but `Comparison.failed`.
    """
    several = [workload] if isinstance(workload, (str, PathLike, Workload)) else list(workload)
    words = ["compare", *(path_of(one) for one in several)]
    words += words_of({"sched": list(sched), "machine": machine, "runs": runs})
    if cpus is not None:
        words += ["--cpus", text_of(cpus)]
    if seed is not None:
        words += ["--seed", text_of(seed)]
    words += words_of({"param": params or {}, "fail_if": [fail_if] if isinstance(fail_if, str) else fail_if, **options})
    made_by = [one.made_by for one in several if isinstance(one, Workload) and one.made_by is not None]
    with tempfile.TemporaryDirectory(prefix="schedlab-") as folder:
        page = Path(folder) / "compare.html"
        output = start([*words, "--json", "-", "--html", str(page)], tolerated=(0, 1))
        shown = Output(_command([*words, "--json", "-"]), output.text, output.status)
        return Comparison(shown, made_by, page.read_text(encoding="utf-8"))


class Difference:
    """The first decision in which two schedules differ."""

    def __init__(self, output: Output) -> None:
        #: The command that gives the same in a shell.
        self.command = output.command
        #: Whether there is a difference (the command's exit status 1).
        self.different = output.status == 1
        #: The whole result, as `schedlab diff --json` has it.
        self.json: Any = json.loads(output.text)

    def __repr__(self) -> str:
        return f"<schedlab Difference: {self.different}: {self.command}>"


def diff(a: Result | Log | str | PathLike[str], b: Result | Log | str | PathLike[str], **options: Value | None) -> Difference:
    """Compares two schedules, of runs, logs or log files; options are those of `schedlab diff`: `within="4ms"`, ...

    Of runs the command writes the logs first.
    """
    before: list[str] = []
    shown: list[str] = []
    with tempfile.TemporaryDirectory(prefix="schedlab-") as folder:
        paths: list[str] = []
        for name, one in (("a.arrow", a), ("b.arrow", b)):
            if isinstance(one, (Result, Log)):
                log = one.log if isinstance(one, Result) else one
                paths.append(str(Path(folder) / name))
                shown.append(name)
                log.write(paths[-1])
                if isinstance(one, Result):
                    before.append(f"{one.command} --log {name}")
            else:
                paths.append(str(Path(one)))
                shown.append(paths[-1])
        rest = [*words_of(options), "--json", "-"]
        output = start(["diff", *paths, *rest], tolerated=(0, 1))
        text = output.text
        for path, name in zip(paths, shown, strict=True):
            text = text.replace(json.dumps(path)[1:-1], json.dumps(name)[1:-1])
    return Difference(Output(" && ".join([*before, _command(["diff", *shown, *rest])]), text, output.status))


def _command(words: Sequence[str]) -> str:
    import shlex

    return shlex.join(["schedlab", *words])
