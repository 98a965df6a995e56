"""A dask cluster makes the runs. Its workers die, stall, answer twice, lie; the dataset is the same."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import schedlab as sl
from schedlab._cluster import Cluster, client_of, work
from schedlab._sweep import _toml

distributed: Any = pytest.importorskip("distributed")


def some(folder: Path, seeds: str = "1-25") -> dict[str, Any]:
    """Runs of a recording, on two machines, under two schedulers."""
    shutil.copy(sl.sample("hand/figure1.txt"), folder / "w.txt")
    return {"grid": {"workload": "w.txt", "sched": ["rr", "eevdf"], "cpus": [1, 2], "seed": seeds}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers, which are processes, on this machine."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


def made_by(cluster: Any, description: Any, output: Path, **options: Any) -> tuple[dict[str, int], Cluster]:
    with client_of(cluster.scheduler.address) as client, sl.Asking(description, output) as asking:
        executor = Cluster(client, **options)
        return executor.make(asking), executor


def hash_of(path: Path) -> str:
    return str(sl.Dataset(path).status()["hash"])


def test_a_cluster_makes_the_same_dataset(cluster: Any, folder: Path) -> None:
    whole = sl.sweep(some(folder), folder / "whole")
    with distributed.Client(cluster, set_as_default=False) as client:
        data = sl.sweep(some(folder), folder / "data", dask=client)
    assert data.json["done"] == 100 and data.json["failed"] == 0
    assert data.status()["hash"] == whole.status()["hash"]
    # the command line of the package does the same, and finds all of it there
    words = ["sweep", folder / "data.toml", "-o", folder / "data", "--dask", cluster.scheduler.address]
    done = subprocess.run([sys.executable, "-m", "schedlab", *words], capture_output=True, text=True)
    assert done.returncode == 0 and "0 runs made" in done.stdout, done.stderr


def dying(orders: list[str]) -> bytes:
    """A tenth of the tasks take their worker with them."""
    if random.random() < 0.1:
        os.kill(os.getpid(), signal.SIGKILL)
    return work(orders)


def test_a_tenth_of_the_tasks_kill_their_workers(cluster: Any, folder: Path) -> None:
    whole = sl.sweep(some(folder), folder / "whole").status()["hash"]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as own:
        counts, _ = made_by(own, some(folder), folder / "data", work=dying)
    assert counts["done"] == 100
    assert hash_of(folder / "data") == whole


def stalling(orders: list[str]) -> bytes:
    """The first task of all never answers; the others do."""
    seed = json.loads(orders[0])["trial"]["seed"]
    mark = Path(os.environ["SCHEDLAB_TEST_MARK"])
    if seed == 1 and not mark.exists():
        mark.touch()
        time.sleep(15)
    return work(orders)


def lying(orders: list[str]) -> bytes:
    """Some answers are of other runs, some are no answers, some are pickles, and some come twice."""
    answer = work(orders)
    chance = random.random()
    if chance < 0.1:
        return b"cos\nsystem\n(S'touch /tmp/schedlab-unpickled'\ntR."
    if chance < 0.2:
        head, rows = answer.split(b"\n", 1)
        return head + b"\n" + rows[::-1]
    if chance < 0.3:
        raise RuntimeError("a worker of another kind")
    return answer


def test_a_worker_that_stalls_is_left_behind(cluster: Any, folder: Path) -> None:
    whole = sl.sweep(some(folder, "1-5"), folder / "whole").status()["hash"]
    mark = str(folder / "mark")

    def stalls(orders: list[str]) -> bytes:
        os.environ["SCHEDLAB_TEST_MARK"] = mark
        return stalling(orders)

    begin = time.monotonic()
    counts, _ = made_by(cluster, some(folder, "1-5"), folder / "data", work=stalls, patience_s=1.0)
    assert counts["done"] == 20 and counts["again"] >= 1 and time.monotonic() - begin < 14
    assert hash_of(folder / "data") == whole


def test_a_worker_that_lies_is_not_believed(cluster: Any, folder: Path) -> None:
    unpickled = Path("/tmp/schedlab-unpickled")
    unpickled.unlink(missing_ok=True)
    whole = sl.sweep(some(folder), folder / "whole").status()["hash"]
    counts, _ = made_by(cluster, some(folder), folder / "data", work=lying)
    assert counts["done"] == 100 and counts["again"] > 0
    assert hash_of(folder / "data") == whole
    assert not unpickled.exists()


def test_runs_that_nobody_makes_end_the_sweep_with_a_sentence(cluster: Any, folder: Path) -> None:
    def never(orders: list[str]) -> bytes:
        raise RuntimeError("broken")

    with pytest.raises(sl.InputError, match="was sent 10 times"):
        made_by(cluster, some(folder, "1-2"), folder / "data", work=never)
    assert sl.sweep(some(folder, "1-2"), folder / "data").json["done"] == 8


def test_a_wrong_address_is_refused(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for address in (f"tcp://127.0.0.1:{port}", "nonsense://"):
        with pytest.raises(sl.InputError, match="no scheduler of dask answers"):
            sl.sweep(some(folder, "1-2"), folder / "data", dask=address)


def test_nothing_listens_beyond_loopback(cluster: Any, folder: Path) -> None:
    before = listening()
    seen: set[str] = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.update(listening() - before)
            time.sleep(0.05)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        sl.sweep(some(folder, "1-5"), folder / "data", dask=cluster.scheduler.address)
    finally:
        stop.set()
        watcher.join()
    assert not seen, seen


def listening() -> set[str]:
    """Addresses, in hexadecimal, at which processes below this one listen for TCP, other than loopback's."""
    found = set()
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            address = fields[1].split(":")[0]
            if fields[3] == "0A" and address not in ("0100007F", "0" * 24 + "01000000"):
                found.add(fields[1])
    return found


@pytest.mark.long
def test_twenty_thousand_runs_have_one_hash_whoever_makes_them(cluster: Any, folder: Path) -> None:
    """Here, on dask, and as four shards that are joined in another order. The figures of docs/sweeps.md."""
    settings = {"tasks": 4, "run": "1ms", "sleep": "2ms", "duration": "50ms"}
    grid = {"generate": "sleepers", "set": settings, "sched": ["rr", "eevdf"], "cpus": [1, 2], "seed": "1-5000"}
    description = folder / "s.toml"
    description.write_text(_toml({"grid": grid}))

    def timed(what: str, make: Callable[[], object]) -> None:
        begin, cpu = time.monotonic(), os.times()
        make()
        after = os.times()
        own = after.user + after.system - cpu.user - cpu.system
        print(f"{what}: {time.monotonic() - begin:.1f} s, {own:.1f} s of CPU in this process")

    timed("local", lambda: sl.sweep(description, folder / "local"))
    timed("dask", lambda: sl.sweep(description, folder / "dask", dask=cluster.scheduler.address))
    timed("shards", lambda: [sl.sweep(description, folder / f"part{n}", shard=f"{n}/4") for n in (1, 2, 3, 4)])
    timed("merge", lambda: sl.merge(*(folder / f"part{n}" for n in (3, 1, 4, 2)), output=folder / "shards"))
    whole = sl.Dataset(folder / "local").status()
    assert whole["runs"] == 20_000 and whole["files"] == 2
    assert [hash_of(folder / name) for name in ("dask", "shards")] == [whole["hash"]] * 2
    print(f"hash {whole['hash']}, {whole['bytes'] / 1e6:.1f} MB")


@pytest.mark.long
def test_three_workers_in_network_namespaces_with_caches_of_their_own(folder: Path) -> None:
    """What a worker lacks travels once to each; they share neither files (of the cache) nor a network but the bridge."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and ip (package iproute2)")
    whole = sl.sweep(some(folder), folder / "whole").status()["hash"]
    names = [f"schedlab{n}" for n in (1, 2, 3)]
    workers: list[subprocess.Popen[bytes]] = []

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        try:
            ip("link", "add", "schedlabbr", "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no bridge can be made here: {error.stderr.decode().strip()}")
        ip("addr", "add", "10.213.7.1/24", "dev", "schedlabbr")
        ip("link", "set", "schedlabbr", "up")
        for n, name in enumerate(names, 2):
            ip("netns", "add", name)
            ip("link", "add", f"schedlabv{n}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", f"schedlabv{n}", "master", "schedlabbr", "up")
            ip("-n", name, "addr", "add", f"10.213.7.{n}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        # the test asks for an address beyond loopback
        with distributed.LocalCluster(
            n_workers=0, host="10.213.7.1", scheduler_port=0, dashboard_address=None, silence_logs=50
        ) as own:
            for name in names:
                environment = {**os.environ, "SCHEDLAB_CACHE": str(folder / name)}
                command = ["ip", "netns", "exec", name, sys.executable, "-m", "distributed.cli.dask_worker", own.scheduler_address]
                options = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(folder / f"{name}-work")]
                workers.append(
                    subprocess.Popen([*command, *options], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                )
            with client_of(own.scheduler_address) as client, sl.Asking(some(folder), folder / "data") as asking:
                client.wait_for_workers(3, timeout=60)
                counts = Cluster(client).make(asking)
        assert counts["done"] == 100
        assert hash_of(folder / "data") == whole
        delivered = [sorted(path.name for path in (folder / name / "delivered").iterdir()) for name in names]
        assert delivered[0] and delivered == [delivered[0]] * 3
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(timeout=20)
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        subprocess.run(["ip", "link", "del", "schedlabbr"], capture_output=True)
