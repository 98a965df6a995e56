"""What the tests share. They run against the installed wheel, not against the folder beside them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedlab as sl


@pytest.fixture(scope="session")
def figure() -> sl.Workload:
    """One task that runs and sleeps, 60 s."""
    return sl.load(sl.sample("hand/figure1.txt"))


@pytest.fixture(scope="session")
def crowd() -> sl.Workload:
    """A recording: a parallel build of 1,416 tasks."""
    return sl.load(sl.sample("compile"))


@pytest.fixture(scope="session", autouse=True)
def own_cache() -> Iterator[None]:
    """Generated workloads go to a folder of their own; kernels stay where they are."""
    if "SCHEDLAB_CACHE" in os.environ or "XDG_CACHE_HOME" in os.environ:
        yield
        return
    generated = Path.home() / ".cache" / "schedlab" / "generated"
    existed = generated.exists()
    yield
    if not existed:
        shutil.rmtree(generated, ignore_errors=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, which goes."""
    with tempfile.TemporaryDirectory(prefix="schedlab-test-") as path:
        yield Path(path)
