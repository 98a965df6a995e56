"""Trials one by one: by an optimiser, by threads, by machines elsewhere that do not behave."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import schedlab as sl


def small(seeds: str = "1-6") -> dict[str, Any]:
    settings = {"tasks": 3, "run": "1ms", "sleep": "2ms", "duration": "50ms"}
    return {"grid": {"generate": "sleepers", "set": settings, "sched": ["rr", "eevdf"], "cpus": [1, 2], "seed": seeds}}


@pytest.fixture
def whole(folder: Path) -> str:
    """The hash of the undisturbed sweep."""
    return str(sl.sweep(small(), folder / "whole").status()["hash"])


def test_trials_made_by_threads_are_the_sweep(folder: Path, whole: str) -> None:
    with sl.Asking(small(), folder / "data") as asking:
        assert asking.planned == 24
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(asking.run, list(asking)))
        assert all(asking.tell(answer) for answer in answers)
        assert not asking.tell(answers[0]), "told twice"
        row = answers[0].row
        assert row["status"] == "done" and len(answers[0].tasks) == row["nr_tasks"] == 3
    data = sl.Dataset(folder / "data")
    assert data.status()["hash"] == whole
    # opened again, nothing is left to be made
    with sl.Asking(small(), folder / "data") as asking:
        assert asking.ask() is None


def test_an_optimiser_makes_no_run_twice(folder: Path) -> None:
    """Golden-section search for the quantum with the fewest switches, in whole ms."""
    made = 0
    with sl.Asking(small("1"), folder / "data") as asking:
        base = next(iter(asking)).settings

        def switches(quantum_ms: int) -> int:
            nonlocal made
            trial = asking.propose({**base, "sched": "rr", "machine": "1", "params": {"quantum": f"{quantum_ms}ms"}})
            if trial.state == "known":
                return int(asking.row(trial)["switches"])
            assert trial.state == "new"
            answer = asking.run(trial)
            asking.tell(answer)
            made += 1
            return int(answer.row["switches"])

        low, high = 1, 9
        while high - low > 2:
            third = (high - low) // 3
            one, two = low + third, high - third
            low, high = (low, two) if switches(one) <= switches(two) else (one, high)
        before = made
        assert switches(low + (high - low) // 3) >= 0 and made <= before + 1
        assert asking.propose({**base, "seed": 77}).state == "new"
        assert asking.propose({**base, "seed": 77}).state == "under way"
        with pytest.raises(sl.InputError, match="unknown field `sede`"):
            asking.propose({**base, "sede": 1})
        with pytest.raises(sl.InputError, match="nosuch"):
            asking.propose({**base, "sched": "nosuch"})


def test_answers_that_are_wrong_are_not_taken(folder: Path, whole: str) -> None:
    with sl.Asking(small(), folder / "data") as asking:
        first, second = asking.ask(), asking.ask()
        assert first is not None and second is not None
        answer, other = asking.run(first), asking.run(second)
        for wrong in (
            b"",
            b"cos\nsystem\n(S'true'\ntR.",
            answer.bytes[:-3],
            bytes.fromhex(second.key) + answer.bytes[32:],  # under another run's key
            answer.bytes.replace(answer.row["workload_sha256"].encode(), b"0" * 64),  # of another workload
            answer.bytes.replace(sl.ENGINE.encode(), b"0" * 16),  # of another engine
        ):
            with pytest.raises(sl.InputError):
                asking.tell(wrong)
        assert asking.tell(answer)
        with pytest.raises(sl.InputError, match="two results that differ"):
            asking.tell(answer.bytes.replace(b"eevdf", b"eevdg").replace(b'"rr"', b'"rs"'))
        # it vanishes: somebody else is asked
        asking.give_up(second)
        with pytest.raises(sl.InputError, match="not asked for"):
            asking.tell(other)
        for trial in asking:
            asking.tell(asking.run(trial))
    assert sl.Dataset(folder / "data").status()["hash"] == whole


def test_mistakes_are_reported_before_anything_is_begun(folder: Path) -> None:
    for wrong, word in (("cpus = 0", "line 3"), ("cpus = 1\nnosuch = 1", "nosuch"), ('cpus = 1\nhz = "x"', "hz")):
        file = folder / "bad.toml"
        file.write_text(f'[grid]\ngenerate = "hogs"\n{wrong}\nsched = "rr"\n')
        with pytest.raises(sl.InputError, match=word):
            sl.Asking(file, folder / "data")
    assert not (folder / "data").exists()
    with pytest.raises(sl.InputError, match="is no shard"):
        sl.Asking(write(folder), folder / "data", shard="5/4")


def write(folder: Path) -> Path:
    file = folder / "good.toml"
    file.write_text('[grid]\ngenerate = "hogs"\nset.nices = [[0, 0]]\ncpus = 1\nsched = "rr"\nduration = "10ms"\n')
    return file
