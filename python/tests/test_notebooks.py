"""Notebooks hold no outputs, and a live kernel is safe: threads, Ctrl-C in the midst, a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from test_threads import gone, workers

ROOT = Path(__file__).resolve().parents[2]


def test_outputs_are_stripped() -> None:
    books = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    assert len(books) >= 8
    for path in books:
        book = json.loads(path.read_text())
        assert book["nbformat"] == 4 and book["cells"][0]["source"][0].startswith("# "), path.name
        assert book["cells"][0]["source"][0].rstrip().endswith(("?", "SQL")), f"{path.name}: its title is a question"
        for cell in book["cells"]:
            if cell["cell_type"] == "code":
                assert cell["outputs"] == [] and cell["execution_count"] is None, path.name
        assert set(book["metadata"]) <= {"kernelspec", "language_info"}, path.name


class Kernel:
    """A live kernel, as a notebook has one."""

    def __init__(self) -> None:
        from jupyter_client.manager import KernelManager

        self.manager: Any = KernelManager(kernel_name="python3")
        self.manager.start_kernel()
        self.client: Any = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str, timeout_s: float = 60) -> str:
        """What the cell printed, and the name of the exception that it ended with."""
        self.client.execute(code)
        return self.heard(timeout_s)

    def heard(self, timeout_s: float) -> str:
        text = ""
        end = time.monotonic() + timeout_s
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, end - time.monotonic()))
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                text += content["text"]
            elif kind == "error":
                text += content["ename"] + ": " + content["evalue"]
            elif kind == "status" and content["execution_state"] == "idle":
                return text

    def until(self, word: str, timeout_s: float = 30) -> None:
        """Waits for a word of the running cell."""
        end = time.monotonic() + timeout_s
        text = ""
        while word not in text:
            message = self.client.get_iopub_msg(timeout=max(0.1, end - time.monotonic()))
            if message["msg_type"] == "stream":
                text += message["content"]["text"]
            assert message["msg_type"] != "error", message["content"]


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


MANY = """
from concurrent.futures import ThreadPoolExecutor
import schedlab as sl
w = sl.load(sl.sample("gzip"))
def one(n):
    return sl.run(w, sched="rr", cpus=2, seed=1 + n % 4).summary["switches"]
pool = ThreadPoolExecutor(8)
runs = [pool.submit(one, n) for n in range(200)]
print("begun", flush=True)
for run in runs:
    run.result()
print("all done")
"""

LONG = """
import schedlab as sl
hogs = sl.generate("hogs", nice=[0, 0])
print("begun", flush=True)
sl.run(hogs, sched="rr", cpus=1, params={"quantum": "100ns"}, duration="1000s")
"""


def test_a_live_kernel_with_eight_threads_ctrl_c_and_a_restart(kernel: Kernel) -> None:
    before = workers()
    kernel.client.execute(MANY)
    kernel.until("begun")
    time.sleep(0.1)
    kernel.manager.interrupt_kernel()
    said = kernel.heard(60)
    assert "KeyboardInterrupt" in said and "all done" not in said, said
    # the threads go on to the end, and the kernel answers meanwhile and afterwards
    said = kernel.run("print(sum(run.result() > 0 for run in runs))")
    assert said == "200\n", said
    assert kernel.run("print(len({run.result() for run in runs}) <= 4, one(0) == runs[0].result())") == "True True\n"
    # a long run in the main thread is ended by Ctrl-C at once
    kernel.client.execute(LONG)
    kernel.until("begun")
    time.sleep(0.3)
    begin = time.monotonic()
    kernel.manager.interrupt_kernel()
    assert "KeyboardInterrupt" in kernel.heard(30) and time.monotonic() - begin < 5
    # a restart in the midst of runs of all threads
    kernel.client.execute(MANY + LONG)
    kernel.until("begun")
    assert workers() - before
    kernel.manager.restart_kernel(now=True)
    kernel.client.wait_for_ready(timeout=60)
    assert gone(before), workers() - before
    assert kernel.run('import schedlab as sl; print(sl.run(sl.sample("gzip"), sched="rr", cpus=2).summary["switches"] > 0)') == "True\n"
    kernel.manager.shutdown_kernel(now=True)
    assert gone(before), workers() - before


def test_errors_of_a_cell_are_those_of_the_package(kernel: Kernel) -> None:
    said = kernel.run('import schedlab as sl\nsl.run(sl.sample("gzip"), sched="nosuch", cpus=1)')
    assert said.startswith("InputError: ") and "no scheduler 'nosuch'" in said
