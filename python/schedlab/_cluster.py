"""Runs on other machines: trials go out to a dask cluster, rows come back, and the dataset takes each row once.

    asking.ask() ── order, 0.5 kB ──> worker: what it lacks is brought once a machine (workload, kernel object)
    asking.tell() <── rows, bytes ──          made by the program of its own wheel, as everywhere

A worker may vanish, stall, answer twice or answer wrongly. Its runs are sent again, elsewhere, and the dataset is the same.
Answers are bytes of a form of their own: nothing that a worker sends is unpickled.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _errors, _native
from ._workload import _cache

if TYPE_CHECKING:
    from ._sweep import Asking, Trial

#: A run is sent so often before the sweep gives up: workers die, and say nothing of the run by that.
_TRIES = 10
#: A task of the cluster is to take about this long, s: many short runs, or one long.
_TASK_S = 0.5
#: Most runs of a task.
_BATCH_MAX = 64

# ---- on the worker


_depots: dict[str, _native.Depot] = {}


def _depot() -> tuple[str, _native.Depot]:
    folder = str(_cache() / "delivered")
    if folder not in _depots:
        _depots[folder] = _native.Depot(folder)
    return f"{socket.gethostname()}:{folder}", _depots[folder]


def work(orders: list[str]) -> bytes:
    """Makes runs for another machine. Never raises: what went wrong is part of the answer."""
    place, depot = _depot()
    answers: list[dict[str, Any]] = []
    rows: list[bytes] = []
    for order in orders:
        answer: dict[str, Any] = {}
        try:
            missing = depot.missing(order)
            if missing:
                answer["missing"] = missing
            else:
                made = depot.fulfil(order)
                answer["bytes"] = len(made)
                rows.append(made)
        except _errors.SchedlabError as error:
            answer["error"] = error.sentence
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"
        answers.append(answer)
    head = json.dumps({"place": place, "worker": _address(), "answers": answers})
    return b"\n".join([head.encode(), b"".join(rows)])


def bring(content: str, packed: bytes) -> bytes:
    """Keeps a workload or a kernel object on the worker's machine."""
    try:
        _depot()[1].put(content, zlib.decompress(packed))
    except (_errors.SchedlabError, zlib.error) as error:
        return str(error).encode()
    return b""


def _address() -> str:
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:  # (not on a worker)
        return ""


# ---- here


@dataclass
class _Run:
    trial: Trial
    order: str
    sent: int = 0
    why: str = ""


@dataclass
class _Task:
    runs: list[_Run]
    deadline: float
    begun: float = field(default_factory=time.monotonic)


class Cluster:
    """A dask cluster that makes a sweep's runs."""

    def __init__(
        self,
        client: Any,
        *,
        patience_s: float = 300.0,
        work: Callable[[list[str]], bytes] = work,
    ) -> None:
        self.client = client
        #: After so long without an answer, a task's runs are sent once more.
        self.patience_s = patience_s
        self.work = work
        self.sent = 0
        self.again = 0
        self.refused: list[str] = []
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._tasks: dict[Any, _Task] = {}
        self._open: dict[str, _Run] = {}
        self._brought: dict[tuple[str, str], Any] = {}
        self._batch = 1
        self._longest_s = 0.0

    def make(self, asking: Asking) -> dict[str, int]:
        """All runs that are missing. Counts: `done`, `failed`, `sent` to workers, `again` of those."""
        done = failed = 0
        shown = time.monotonic()
        waiting: list[_Run] = []
        try:
            while True:
                self._fill(asking, waiting)
                # (a task may still be under way whose runs others have made: nobody waits for it)
                if not self._open and not waiting:
                    if asking.elsewhere == 0:
                        return {"done": done, "failed": failed, "sent": self.sent, "again": self.again}
                    time.sleep(0.05)  # another process makes them
                    continue
                for run, rows in self._hear(asking, waiting):
                    row = self._tell(asking, run, rows, waiting)
                    done += row is not None
                    failed += row is False
                if sys.stderr.isatty() and time.monotonic() - shown > 1:
                    shown = time.monotonic()
                    print(f"\r{done} runs done, {failed} failed, {len(self._open)} under way", end="", file=sys.stderr)
        finally:
            self.client.cancel(list(self._tasks), force=True)
            self._tasks.clear()

    def _threads(self) -> int:
        return max(1, sum(int(threads) for threads in self.client.nthreads().values()))

    def _fill(self, asking: Asking, waiting: list[_Run]) -> None:
        """Two tasks a thread are under way."""
        while len(self._tasks) < 2 * self._threads():
            runs = [run for run in waiting[: self._batch] if run.trial.key in self._open]
            del waiting[: self._batch]
            while len(runs) < self._batch and (trial := asking.ask()) is not None:
                run = _Run(trial, asking._native.order(trial._json))
                self._open[trial.key] = run
                runs.append(run)
            if not runs:
                if not waiting:
                    return
                continue
            for run in runs:
                run.sent += 1
                if run.sent > _TRIES:
                    raise _errors.InputError(
                        f"the run {run.trial.key} was sent {_TRIES} times and not made; the last time: "
                        f"{run.why or 'its worker was lost'}. What was made is kept"
                    )
            self.sent += len(runs)
            self.again += sum(run.sent > 1 for run in runs)
            future = self.client.submit(self.work, [run.order for run in runs], pure=False)
            patience = max(self.patience_s, 20 * self._longest_s)
            self._tasks[future] = _Task(runs, time.monotonic() + patience)
            future.add_done_callback(self._answers.put)

    def _hear(self, asking: Asking, waiting: list[_Run]) -> Iterator[tuple[_Run, bytes]]:
        """Rows of the next answer. What was not made is put back."""
        try:
            future = self._answers.get(timeout=0.2)
        except queue.Empty:
            self._send_late_ones_again(waiting)
            return
        task = self._tasks.pop(future, None)
        if task is None:
            return
        took = time.monotonic() - task.begun
        answer = self._result(future)
        if answer is None:
            waiting.extend(run for run in task.runs if run.trial.key in self._open)
            return
        self._longest_s = max(self._longest_s, took)
        if took < _TASK_S and len(task.runs) == self._batch:
            self._batch = min(_BATCH_MAX, self._batch * 2)
        elif took > 4 * _TASK_S:
            self._batch = max(1, self._batch // 2)
        try:
            head, rows = answer.split(b"\n", 1)
            said = json.loads(head)
            answers = list(said["answers"])
            place, worker = str(said["place"]), str(said["worker"])
        except (ValueError, KeyError, TypeError) as error:
            self._put_back(task.runs, f"no answer that can be read: {error}", waiting)
            return
        self._put_back(task.runs[len(answers) :], "no answer", waiting)
        for run, one in zip(task.runs, answers, strict=False):
            if "missing" in one:
                run.sent -= 1  # (that is no try)
                self._bring(asking, run, one["missing"], place, worker)
                self._put_back([run], "", waiting)
            elif "bytes" in one:
                length = int(one["bytes"])
                yield run, rows[:length]
                rows = rows[length:]
            else:
                self._put_back([run], f"{place}: {one.get('error', 'no reason')}", waiting)

    def _put_back(self, runs: list[_Run], why: str, waiting: list[_Run]) -> None:
        for run in runs:
            run.why = why
            if "same release" in why or "glibc" in why:
                raise _errors.InputError(why)
            if run.trial.key in self._open:
                waiting.append(run)

    def _result(self, future: Any) -> bytes | None:
        """What a task gave; nothing, if its worker was lost."""
        if future.status != "finished":
            return None
        try:
            answer = future.result(timeout=60)
        except Exception:  # it went with its worker
            return None
        return answer if isinstance(answer, bytes) else b""

    def _send_late_ones_again(self, waiting: list[_Run]) -> None:
        now = time.monotonic()
        for task in self._tasks.values():
            if now > task.deadline:
                task.deadline = now + 10 * self.patience_s
                waiting.extend(run for run in task.runs if run.trial.key in self._open)

    def _bring(self, asking: Asking, run: _Run, contents: list[str], place: str, worker: str) -> None:
        """What a machine lacks is brought to it once, by way of the worker that said so."""
        for content in contents:
            before = self._brought.get((place, content))
            if before is not None and time.monotonic() - before < 60:
                continue
            self._brought[place, content] = time.monotonic()
            packed = zlib.compress(asking._native.bytes(run.trial._json, content), 6)
            future = self.client.submit(bring, content, packed, pure=False, workers=[worker], allow_other_workers=False)
            try:
                said = future.result(timeout=60)
            except Exception:  # the worker is gone: another one will say what it lacks
                del self._brought[place, content]
                future.cancel()
                continue
            if said:
                raise _errors.InputError(f"{place}: {said.decode(errors='replace')}")

    def _tell(self, asking: Asking, run: _Run, rows: bytes, waiting: list[_Run]) -> bool | None:
        """True: it has numbers; False: the run failed; None: the answer was not taken."""
        try:
            is_new = asking._native.tell(rows)
        except _errors.InputError as error:
            if "free space" in error.sentence:
                raise
            self.refused.append(error.sentence)
            self._put_back([run], error.sentence, waiting)
            return None
        if self._open.pop(run.trial.key, None) is None or not is_new:
            return None
        return '"status":"failed"' not in _native.rows_of(rows)[0]


@contextlib.contextmanager
def client_of(cluster: Any) -> Iterator[Any]:
    """A client of our own to the same scheduler, which unpickles no result; `cluster` is an address or a Client."""
    try:
        from distributed import Client
    except ImportError as error:
        raise _errors.InputError("a cluster needs the package 'distributed': pip install 'distributed'") from error
    security = None
    if isinstance(cluster, str):
        address = cluster
    else:
        address, security = cluster.scheduler.address, cluster.security
    plain = ["dask", "msgpack"]
    try:
        client = Client(  # type: ignore[no-untyped-call]
            address, security=security, set_as_default=False, timeout=10, serializers=["dask", "msgpack", "pickle"], deserializers=plain
        )
    except (OSError, ValueError) as error:
        raise _errors.InputError(
            f"{address}: no scheduler of dask answers there ({error}); expected an address such as tcp://127.0.0.1:8786, as "
            "'dask scheduler' prints it"
        ) from error
    try:
        yield client
    finally:
        client.close()  # type: ignore[no-untyped-call]
