"""Workloads: loaded once for many runs, or generated."""

from __future__ import annotations

import hashlib
import os
import shlex
from os import PathLike
from pathlib import Path

from . import _errors, _native
from ._program import Value, start, text_of


class Workload:
    """What tasks want, whatever scheduler serves them. Read and checked once, for any number of runs."""

    def __init__(self, path: str, native: _native.Workload, made_by: str | None = None) -> None:
        #: Where it was loaded from, as it stands in commands.
        self.path = path
        self._native = native
        #: The command that writes its file, of a generated one.
        self.made_by = made_by
        self._stamp = _stamp(Path(path))

    @property
    def name(self) -> str:
        """What it is called in results."""
        return self._native.name

    @property
    def nr_tasks(self) -> int:
        """Number of tasks."""
        return self._native.nr_tasks

    @property
    def nr_events(self) -> int:
        """Events of all tasks."""
        return self._native.nr_events

    @property
    def notes(self) -> list[str]:
        """Remarks of the import."""
        return self._native.notes

    @property
    def dropped(self) -> dict[str, int]:
        """What the import left out or made up: reason and count."""
        return self._native.dropped

    def _unchanged(self) -> _native.Workload:
        """The workload, unless its file is another one by now: the command of a result would not repeat it."""
        if _stamp(Path(self.path)) != self._stamp:
            raise _errors.InputError(f"{self.path}: it has changed since it was loaded; load it again")
        return self._native

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<schedlab Workload {self.name}: {self.nr_tasks} tasks, {self.nr_events} events, {self.path}>"


def _stamp(path: Path) -> list[tuple[str, int, int]]:
    """Size and time of the file, or of those in a folder."""
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        return [(str(file), (status := file.stat()).st_size, status.st_mtime_ns) for file in files]
    except OSError:
        return []


def load(path: str | PathLike[str]) -> Workload:
    """Loads a workload from whatever the path leads to: text, binary, a recording, a description for rt-app, a mix
    (TOML), or a folder with one of them.

    Raises InputError: there is none, or it is damaged; with line and caret where it is text.
    """
    return Workload(os.fspath(path), _native.load(path))


def generate(kind: str, output: str | PathLike[str] | None = None, *, nice: object = None, **settings: object) -> Workload:
    """Makes a workload: `hackbench`, `hogs`, `periodic`, ...; `schedlab generate KIND` lists a kind's settings.

    It is written to `output`; if that is left out, to a file in the user's cache that has the name of its settings.

    >>> generate("hogs", nice=[0, 5]).nr_tasks
    2
    """
    words = ["generate", kind]
    if nice is not None:
        words.append(f"--nice={text_of(nice)}")
    for name, value in settings.items():
        words += ["--set", f"{name}={_toml(value)}"]
    if output is None:
        digest = hashlib.sha256("\0".join([_native.ENGINE, *words]).encode()).hexdigest()[:12]
        folder = _cache() / "generated"
        folder.mkdir(parents=True, exist_ok=True)
        output = folder / f"{kind}-{digest}.txt"
    words += ["-o", os.fspath(output)]
    command = shlex.join(["schedlab", *words])
    start(["--quiet", *words])
    return Workload(os.fspath(output), _native.load(output), command)


def _toml(value: object) -> str:
    """As `--set` takes it: lists in brackets, texts in them with quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(f'"{one}"' if isinstance(one, str) else _toml(one) for one in value) + "]"
    return str(value)


def _cache() -> Path:
    """The folder of `schedlab`'s cache, as the program finds it."""
    named = os.environ.get("SCHEDLAB_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "schedlab"


#: What a run takes as its workload.
Source = str | PathLike[str] | Workload


def path_of(workload: Source) -> str:
    """Its path, as it stands in commands."""
    return os.fspath(workload)


__all__ = ["Source", "Value", "Workload", "generate", "load", "path_of"]
