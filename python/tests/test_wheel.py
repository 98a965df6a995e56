"""What is in the wheel, and where does it run?"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

import pytest

import schedlab as sl

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel() -> Path:
    (path,) = (ROOT / "dist").glob("schedlab-*.whl")
    return path


def glibc_of(binary: bytes) -> tuple[int, int]:
    """The newest version of glibc whose symbols it asks for."""
    versions = re.findall(rb"GLIBC_(\d+)\.(\d+)", binary)
    assert versions, "no symbol of glibc"
    return max((int(major), int(minor)) for major, minor in versions)


def test_its_name_says_where_it_runs(wheel: Path) -> None:
    tag = re.fullmatch(r"schedlab-[\d.]+-cp310-abi3-manylinux_(\d+)_(\d+)_x86_64\.whl", wheel.name)
    assert tag, wheel.name
    promised = (int(tag[1]), int(tag[2]))
    with zipfile.ZipFile(wheel) as files:
        needed = [glibc_of(files.read(name)) for name in ("schedlab/_native.abi3.so", "schedlab/data/bin/schedlab")]
    # the oldest that it runs on, and no younger one for safety
    assert promised == max(needed)


def test_it_holds_what_it_should_and_no_kernel(wheel: Path) -> None:
    assert wheel.stat().st_size <= 30e6
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        binaries = {name for name in names if not name.endswith("/") and files.open(name).read(4) == b"\x7fELF"}
        metadata = next(files.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
        program = files.getinfo("schedlab/data/bin/schedlab")
        for name in (name for name in names if name.startswith("schedlab/data/linux/")):
            own = ROOT / name.removeprefix("schedlab/data/")
            assert files.read(name) == own.read_bytes(), name
    assert binaries == {"schedlab/_native.abi3.so", "schedlab/data/bin/schedlab"}
    assert program.external_attr >> 16 & 0o111 == 0o111
    for needed in (
        "schedlab/py.typed",
        "schedlab/_native.pyi",
        "schedlab/data/linux/COPYING",
        "schedlab/data/linux/arch-warp/include/warp_abi.h",
        "schedlab/data/samples/compile/trace.dat",
    ):
        assert needed in names
    assert not [name for name in names if name.endswith((".pyc", ".ko", "vmlinux"))]
    tracked = subprocess.run(["git", "ls-files", "linux"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert sorted(name.removeprefix("schedlab/data/") for name in names if name.startswith("schedlab/data/linux/")) == sorted(tracked)
    assert "GPL-2.0-only" in metadata and "Requires-Python: >=3.10" in metadata


def test_an_empty_environment_has_a_picture_in_ten_seconds(wheel: Path, folder: Path) -> None:
    """No compiler, no package, no checkout, no cache: native schedulers need nothing."""
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    begin = time.monotonic()
    installer = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*installer, str(wheel)], check=True)
    environment = {"PATH": str(python.parent), "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    installed = time.monotonic()
    done = subprocess.run(
        [python, "-m", "schedlab", "demo", "--output", folder / "out"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    took = time.monotonic() - installed
    assert done.returncode == 0, done.stderr
    assert "real Linux is left out" in done.stderr and "a first picture" in done.stderr
    assert "parallel" not in done.stderr and (folder / "out" / "demo.html").stat().st_size > 100_000
    print(f"installed in {installed - begin:.1f} s, demo in {took:.1f} s")
    assert took < 10
    script = subprocess.run([python.parent / "schedlab", "--version"], env=environment, capture_output=True, text=True)
    assert script.stdout == f"schedlab {sl.__version__}\n"
    status = subprocess.run([python, "-m", "schedlab", "run", "/nowhere", "--sched", "rr", "--cpus", "1"], env=environment)
    assert status.returncode == 2


def test_the_port_is_found_in_the_package(folder: Path) -> None:
    """With the checkout hidden. `linux list` needs the folder linux/."""
    hidden = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*hidden, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine gives no user namespaces")
    installed = Path(sl.program())
    if ROOT in installed.parents:
        # the environment lies below the checkout: look at a copy elsewhere
        copy = folder / "data"
        subprocess.run(["cp", "-r", installed.parents[1], copy], check=True)
        installed = copy / "bin" / "schedlab"
    command = f"mount -t tmpfs none {ROOT}/crates && mount -t tmpfs none {ROOT}/linux && cd / && {installed} schedulers --json"
    environment = {**os.environ, "SCHEDLAB_CACHE": str(folder / "cache")}
    done = subprocess.run([*hidden, command], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "linux-6.12" in {row["name"] for row in json.loads(done.stdout)}


def test_types_are_whole() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"], cwd=ROOT / "python", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    stubs = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "schedlab._native", "--ignore-missing-stub"],
        cwd=ROOT / "target",
        capture_output=True,
        text=True,
    )
    assert stubs.returncode == 0, stubs.stdout
