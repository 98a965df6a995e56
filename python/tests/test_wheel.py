"""What is in the wheel, and where does it run?"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import schedlab as sl

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel() -> Path:
    (path,) = (ROOT / "dist").glob("schedlab-*.whl")
    return path


def glibc_of(binary: bytes) -> tuple[int, int]:
    """The newest version of glibc that the dynamic loader is to find, by the table of version needs."""
    needs = ELFFile(io.BytesIO(binary)).get_section_by_name(".gnu.version_r")
    names = [version.name for _, versions in needs.iter_versions() for version in versions]
    versions = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", name) for name in names]
    found = [(int(version[1]), int(version[2])) for version in versions if version]
    assert found, "no symbol of glibc"
    return max(found)


def test_its_name_says_where_it_runs(wheel: Path) -> None:
    tag = re.fullmatch(r"schedlab-[\d.]+-cp310-abi3-manylinux_(\d+)_(\d+)_x86_64\.whl", wheel.name)
    assert tag, wheel.name
    promised = (int(tag[1]), int(tag[2]))
    with zipfile.ZipFile(wheel) as files:
        needed = [glibc_of(files.read(name)) for name in ("schedlab/_native.abi3.so", "schedlab/data/bin/schedlab")]
    # the oldest that it runs on, and no younger one for safety
    assert promised == max(needed)
    # the Python Packaging Authority's own judge says the same: also of other libraries than glibc
    done = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True)
    said = " ".join(done.stdout.split())
    assert f'is consistent with the following platform tag: "manylinux_{tag[1]}_{tag[2]}_x86_64"' in said, done.stderr


def interpreters() -> dict[str, str]:
    """Pythons of this machine by version: what is in the PATH, and what pyenv has."""
    found = {}
    for minor in range(8, 20):
        version = f"3.{minor}"
        pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
        of_pyenv = sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
        for path in (*map(str, of_pyenv), shutil.which(f"python{version}")):
            asked = path and subprocess.run(
                [path, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
            )
            if path and asked and asked.stdout.strip() == version:
                found[version] = path
                break
    return found


#: A run, its tables through the C interface, and a sweep; nothing is installed but the wheel.
EVERYWHERE = """
import sys, tempfile
import schedlab as sl
r = sl.run(sl.sample("gzip"), sched="rr", cpus=2, seed=1)
assert r.tasks.__arrow_c_stream__() is not None and len(r.log) > 1000
with tempfile.TemporaryDirectory() as folder:
    data = sl.sweep({"grid": {"workload": str(sl.sample("gzip")), "sched": "rr", "cpus": [1, 2]}}, folder + "/data")
    assert data.json["done"] == 2
    try:
        sl.sweep({"grid": {"workload": "/nowhere", "sched": "rr", "cpus": 1}}, folder + "/other")
    except sl.InputError as error:
        assert "/nowhere" in str(error)
print(r.summary["switches"], "%d.%d" % sys.version_info[:2])
"""


@pytest.mark.long
def test_one_wheel_for_every_python_of_this_machine(wheel: Path, folder: Path) -> None:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    switches = sl.run(sl.sample("gzip"), sched="rr", cpus=2, seed=1).summary["switches"]
    found = interpreters()
    assert here in found
    for version, path in found.items():
        subprocess.run([path, "-m", "venv", folder / version], check=True, capture_output=True)
        python = folder / version / "bin" / "python"
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-index", str(wheel)]
        installed = subprocess.run(install, capture_output=True, text=True)
        if int(version.split(".")[1]) < 10:
            assert "is not a supported wheel on this platform" in installed.stderr, version
            continue
        assert installed.returncode == 0, installed.stderr
        done = subprocess.run([python, "-c", EVERYWHERE], cwd=folder, capture_output=True, text=True)
        assert done.stdout.splitlines()[-1:] == [f"{switches} {version}"], (version, done.stderr)
    print(f"tried: {', '.join(found)}")


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
