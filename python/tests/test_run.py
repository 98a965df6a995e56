"""One run: names and values are those of the command line, and so are its errors."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import schedlab as sl
from schedlab._errors import of_status


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command where `schedlab` is the package's program."""
    path = f"{Path(sl.program()).parent}:/usr/bin:/bin"
    return subprocess.run(
        command, shell=True, cwd=folder, env={"PATH": path, "HOME": str(Path.home())}, capture_output=True, text=True
    )


def host_time_hidden(line: str) -> str:
    return re.sub(r'"(wall_ns|kernel_ns)":\d+', r'"\1":0', line)


def without_host_time(result: dict[str, Any]) -> dict[str, Any]:
    return {**result, "wall_ns": 0, "kernel_ns": 0}


@pytest.mark.parametrize(
    ("sched", "options"),
    [
        ("fifo", {"cpus": 1}),
        ("rr", {"cpus": 2, "params": {"quantum": "3ms"}, "seed": 7}),
        ("eevdf", {"machine": "packages=1,cores=2,smt=2", "duration": "2s", "strict": True}),
        ("lottery:seed=5", {"cpus": 2, "ticks": "staggered", "perturb": "3,start=1ms"}),
    ],
)
def test_the_command_repeats_the_run_to_the_byte(sched: str, options: dict[str, Any], folder: Path) -> None:
    result = sl.run(sl.sample("gzip"), sched=sched, **options)
    done = shell(f"{result.command} --reproducible --json - --log run.txt", folder)
    assert done.returncode == 0, done.stderr
    # host time is 0 in reproducible files; all else is the same, byte by byte
    assert done.stdout == host_time_hidden(result._native.json())
    result.log.write(folder / "own.txt")
    assert (folder / "own.txt").read_bytes() == (folder / "run.txt").read_bytes()


def test_names_and_values_are_those_of_the_json(crowd: sl.Workload) -> None:
    result = sl.run(crowd, sched="fifo", cpus=2)
    tasks = result.json["tasks"]
    assert result.tasks.column_names == list(tasks[0])
    assert list(result.tasks) == tasks
    assert [row["idle_ns"] for row in result.json["per_cpu"]] == result.cpus["idle_ns"]
    assert result.summary["switches"] == result.json["switches"] and "tasks" not in result.summary
    # the log's own account is the summary's: who ran when adds up to the CPU time of all tasks
    runs = result.df_runs()
    nr_tasks = len(tasks)
    ran = sum(e - s for s, e, task in zip(runs["start_ns"], runs["end_ns"], runs["task"]) if task < nr_tasks)
    assert ran == result.json["cpu_ns"] == sum(result.tasks["cpu_ns"])
    waits = result.df_waits()
    waited = sum(e - s for s, e, task in zip(waits["start_ns"], waits["end_ns"], waits["task"]) if task < nr_tasks)
    assert waited == result.json["run_delay_ns"]
    assert len(result.log) == result.json["records"]


def test_equal_runs_are_equal_and_seeds_matter(crowd: sl.Workload) -> None:
    one, two, other = (sl.run(crowd, sched="fifo", cpus=2, seed=seed) for seed in (1, 1, 2))
    assert without_host_time(one.json) == without_host_time(two.json)
    assert not sl.diff(one, two).different
    difference = sl.diff(one, other)
    assert difference.different and difference.json["first"] is not None
    plain = difference.command.replace(str(sl.sample("compile")), "")
    assert "a.arrow" in plain and "/tmp" not in plain


def test_a_difference_can_be_repeated(crowd: sl.Workload, folder: Path) -> None:
    difference = sl.diff(*(sl.run(crowd, sched="fifo", cpus=2, seed=seed) for seed in (1, 2)))
    quiet = difference.command.replace("--log a.arrow", "--log a.arrow >/dev/null")
    done = shell(quiet.replace("--log b.arrow", "--log b.arrow >/dev/null"), folder)
    assert done.returncode == 1 and json.loads(done.stdout) == difference.json


def test_a_generated_workload_is_made_by_its_command(folder: Path) -> None:
    hogs = sl.generate("hogs", folder / "hogs.txt", nice=[0, 5, -5])
    assert hogs.nr_tasks == 3
    result = sl.run(hogs, sched="eevdf", cpus=1, duration="1s")
    before = (folder / "hogs.txt").read_bytes()
    (folder / "hogs.txt").unlink()
    done = shell(f"{result.command} --json -", folder)
    assert done.returncode == 0 and (folder / "hogs.txt").read_bytes() == before
    assert without_host_time(json.loads(done.stdout)) == without_host_time(result.json)
    # without a name of its own it has one by its settings
    assert sl.generate("hogs", nice=[0, 5]).path == sl.generate("hogs", nice=[0, 5]).path
    assert sl.generate("hogs", nice=[0, 5]).path != sl.generate("hogs", nice=[0, 6]).path


def test_errors_say_where(folder: Path) -> None:
    path = folder / "bad.txt"
    path.write_text("schedlab-workload 1\n1 INIT 0 0 1 runnable\n2 BLOCK 1 8parsecs\n")
    with pytest.raises(sl.InputError) as caught:
        sl.load(path)
    error = caught.value
    assert (error.status, error.path, error.line, error.column) == (2, str(path), 3, 11)
    assert str(error).splitlines()[-2:] == ["  3 | 2 BLOCK 1 8parsecs", "    |           ^^^^^^^^"]
    assert error.text == "2 BLOCK 1 8parsecs" and error.width == 8
    # a sentence without the line gets it
    path.write_text("a\n\tb = 7\n")
    shown = str(of_status(2, f"{path}:2: 'b' is no name here"))
    assert shown.splitlines()[-2:] == ["2 | \tb = 7", "  | \t^"]
    assert isinstance(error, ValueError)


def test_each_exit_status_has_its_exception(crowd: sl.Workload) -> None:
    for wrong, word in [
        ({"sched": "nosuch", "cpus": 1}, "no scheduler 'nosuch'"),
        ({"sched": "rr", "cpus": 0}, "0"),
        ({"sched": "rr", "cpus": 1, "params": {"quantom": 1}}, "quantom"),
        ({"sched": "rr"}, "how many CPUs"),
        ({"sched": "rr", "cpus": 1, "nosuch_option": 1}, "--nosuch-option"),
        ({"sched": "rr", "cpus": 1, "seed": "1-4"}, "several runs"),
        ({"sched": "host", "cpus": 1}, "schedlab validate"),
    ]:
        with pytest.raises(sl.InputError, match=".") as caught:
            sl.run(crowd, **wrong)  # type: ignore[arg-type]
        assert word in str(caught.value), caught.value
    with pytest.raises(sl.InputError, match="deadlock"):
        sl.run(sl.sample("hand/deadlock.txt"), sched="rr", cpus=1)
    with pytest.raises(sl.InputError, match="nowhere"):
        sl.load("/nowhere")
    with pytest.raises(sl.Misbehaved, match="lost task") as misbehaved:
        sl.run(sl.sample("hand/sleepers8.txt"), sched="broken-lost", cpus=2, duration="2s")
    assert misbehaved.value.status == 3 and "repeat it with: schedlab run" in misbehaved.value.sentence


def test_a_workload_that_was_edited_is_refused(folder: Path) -> None:
    path = folder / "w.txt"
    text = sl.sample("hand/figure1.txt").read_text()
    path.write_text(text)
    workload = sl.load(path)
    assert sl.run(workload, sched="fifo", cpus=1).json["switches"] > 0
    path.write_text(text + "# edited\n")
    with pytest.raises(sl.InputError, match="changed since it was loaded"):
        sl.run(workload, sched="fifo", cpus=1)


def test_a_comparison(crowd: sl.Workload, folder: Path) -> None:
    comparison = sl.compare(crowd, ["fifo", "rr"], cpus=2, runs=3, duration="3s", fail_if="p99>1%")
    done = shell(comparison.command, folder)
    assert json.loads(done.stdout) == comparison.json
    assert comparison.failed == (done.returncode == 1) == comparison.json["gate_met"]
    assert comparison.values["seed"] == [1, 2, 3, 1, 2, 3]
    changes = comparison.json["scenarios"][0]["comparisons"][0]["changes"]
    rows = [row for row in comparison.differences if row["task"] is None]
    assert [(row["metric"], row["base_mean"], row["verdict"]) for row in rows] == [
        (change["metric"], change["base"]["mean"], change["verdict"]) for change in changes
    ]
    assert "<html" in comparison.html()


def test_results_draw_themselves_offline(figure: sl.Workload) -> None:
    result = sl.run(figure, sched="fifo", cpus=1)
    frame = result._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in frame
    for page in (result.html(), frame, result.tasks._repr_html_()):
        assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page.replace("https://ui.perfetto.dev", "")
    assert "figure-1" in result.html() and "run delay" in str(result)
    assert "figure-1" in result.tasks._repr_html_()


def test_real_linux_where_it_is_built(crowd: sl.Workload, folder: Path) -> None:
    built = {row["name"] for row in sl.schedulers() if row.get("built")}
    if "linux-6.12" not in built:
        pytest.skip("linux-6.12 is not built here; scripts/test.sh builds it before")
    result = sl.run(crowd, sched="linux-6.12", cpus=2, params={"base_slice_ns": 700000}, duration="5s")
    done = shell(f"{result.command} --reproducible --json -", folder)
    assert done.stdout == host_time_hidden(result._native.json())
    waits = [wait["explain"] for wait in result.json["longest_waits"]]
    assert waits and all(question.startswith(f"{result.command} --explain ") for question in waits)
    with pytest.raises(sl.InputError, match="base_slice_nss"):
        sl.run(crowd, sched="linux-6.12", cpus=2, params={"base_slice_nss": 1})
