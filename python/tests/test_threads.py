"""Safe in a notebook: threads, Ctrl-C, a kernel that is killed; nothing is forked, nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import schedlab as sl

#: 200 runs from 8 threads; Ctrl-C comes in the midst, and then there is one run more.
MANY = """
import ctypes, os, signal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
import schedlab as sl

forks = 0
CALLBACK = ctypes.CFUNCTYPE(None)
def forked():
    global forks
    forks += 1
prepare = CALLBACK(forked)
assert ctypes.CDLL(None).__register_atfork(prepare, None, None, None) == 0

w = sl.load(sl.sample("gzip"))
first = sl.run(w, sched="rr", cpus=2, seed=1).json["switches"]
done = 0
def one(n):
    global done
    r = sl.run(w, sched="rr", cpus=2, seed=1 + n % 3)
    done += 1
    return r.json["switches"]
interrupted = False
with ThreadPoolExecutor(8) as pool:
    runs = [pool.submit(one, n) for n in range(200)]
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        for run in runs:
            run.result()
    except KeyboardInterrupt:
        interrupted = True
        runs_kept = [run for n, run in enumerate(runs) if n < 24 or not run.cancel()]
assert interrupted and done >= 24, (interrupted, done)
assert all(run.result() == first for n, run in enumerate(runs[:24]) if n % 3 == 0)
assert sl.run(w, sched="rr", cpus=2, seed=1).json["switches"] == first
assert forks == 0, f"{forks} forks in a process with threads"
print("ok", done)
"""

#: A long run in the main thread, ended by Ctrl-C.
LONG = """
import sys, time
import schedlab as sl
hogs = sl.generate("hogs", nice=[0, 0])
print("begin", flush=True)
begin = time.monotonic()
try:
    sl.run(hogs, sched="rr", cpus=1, params={"quantum": "100ns"}, duration="100s")
    print("it ended by itself")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begin)
assert sl.run(sl.sample("hand/figure1.txt"), sched="rr", cpus=1).json["switches"] > 0
print("ok")
"""


def workers() -> set[int]:
    """Processes that the package's program runs in."""
    program = os.stat(sl.program())
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = os.stat(entry / "exe")
            except OSError:
                continue
            if (status.st_dev, status.st_ino) == (program.st_dev, program.st_ino):
                found.add(int(entry.name))
    return found


def gone(before: set[int], patience_s: float = 10) -> bool:
    """Whether all processes are gone that were not there before."""
    end = time.monotonic() + patience_s
    while workers() - before:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_two_hundred_runs_from_eight_threads_and_ctrl_c() -> None:
    before = workers()
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.startswith("ok"), done.stderr
    assert gone(before)


def test_ctrl_c_ends_a_run_at_once() -> None:
    before = workers()
    with subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "begin\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and said.startswith("interrupted") and said.endswith("ok\n"), said
    assert gone(before)


def test_nothing_outlives_a_killed_process() -> None:
    for code in (
        LONG,
        "import schedlab as sl; print('begin', flush=True)\n"
        "sl.compare(sl.sample('compile'), ['cfs-2.6.32', 'eevdf'], cpus=2, runs=500)",
    ):
        before = workers()
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdout.readline() == "begin\n"
            end = time.monotonic() + 20
            while not workers() - before:
                assert time.monotonic() < end and process.poll() is None
                time.sleep(0.02)
            process.kill()
        assert gone(before)


def test_a_command_ends_with_ctrl_c() -> None:
    before = workers()
    code = (
        "import schedlab as sl\nprint('begin', flush=True)\ntry:\n"
        "    sl.compare(sl.sample('compile'), ['cfs-2.6.32', 'eevdf'], cpus=2, runs=500)\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "begin\n"
        end = time.monotonic() + 20
        while not workers() - before:
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
    assert said == "interrupted\n"
    assert gone(before)


def test_a_child_of_multiprocessing_has_workers_of_its_own() -> None:
    """A fork by the caller copies the pool; the child must not speak on its parent's lines."""
    code = """
import os, sys
import schedlab as sl
w = sl.load(sl.sample("gzip"))
first = sl.run(w, sched="rr", cpus=2, seed=1).json["switches"]
child = os.fork()
same = sl.run(w, sched="rr", cpus=2, seed=1).json["switches"] == first
if child == 0:
    os._exit(0 if same else 1)
_, status = os.waitpid(child, 0)
assert same and status == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)
