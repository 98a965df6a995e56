"""The command line's program in this package, and how it is started."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import _errors, _native

_DATA = Path(__file__).parent / "data"

#: What an option can be: a flag, a value, a list (the option several times), or names with values (K=V each).
Value = bool | int | float | str | os.PathLike[str] | Sequence[object] | Mapping[str, object]


def program() -> str:
    """The program `schedlab`, which makes the runs and is the command line."""
    path = _DATA / "bin" / "schedlab"
    if not path.is_file():
        raise _errors.InternalError(f"{path}: the program is not there; install the package again")
    if not os.access(path, os.X_OK):
        path.chmod(0o755)
    return str(path)


_native.set_program(program() if (_DATA / "bin" / "schedlab").is_file() else None)


def samples() -> list[str]:
    """Names of the workloads that come with the package."""
    folder = _DATA / "samples"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name != "tools")


def sample(name: str) -> Path:
    """The path of a workload that comes with the package: `compile`, `gzip`, `hand/figure1.txt`, ..."""
    path = _DATA / "samples" / name
    if not path.exists():
        raise _errors.InputError(f"there is no sample '{name}'; there are {', '.join(samples())}")
    return path


def words_of(options: Mapping[str, Value | None]) -> list[str]:
    """Options as words of the command line: `fail_if=["p99>5%"]` is `--fail-if 'p99>5%'`.

    >>> words_of({"cpus": 4, "seed": None, "strict": True, "param": {"a": 1, "b": 2}})
    ['--cpus', '4', '--strict', '--param', 'a=1', '--param', 'b=2']
    """
    words: list[str] = []
    for name, value in options.items():
        option = f"--{name.rstrip('_').replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, Mapping):
            for key, one in value.items():
                words += [option, f"{key}={text_of(one)}"]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for one in value:
                words += [option, text_of(one)]
        else:
            words += [option, text_of(value)]
    return words


def text_of(value: object) -> str:
    """A value as the command line takes it: booleans are 1 and 0, lists have commas."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, range):
        return f"{value.start}-{value.stop - 1}" if value.step == 1 and len(value) > 0 else ",".join(map(str, value))
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(one) for one in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


@dataclass(frozen=True)
class Output:
    """What a command printed."""

    #: The command, as a shell takes it.
    command: str
    #: Standard output.
    text: str
    #: Exit status; one that was not tolerated has become an exception.
    status: int


def start(words: Sequence[str], tolerated: Sequence[int] = (0,)) -> Output:
    """Starts the program and waits for it. Its progress is shown on standard error. Ctrl-C ends it, and so does the end
    of this process, however that happens.

    Raises the exception of its exit status, unless that is tolerated.
    """
    command = shlex.join(["schedlab", *words])
    environment = {**os.environ, "SCHEDLAB_PARENT": str(os.getpid())}
    said: list[str] = []
    with subprocess.Popen(
        [program(), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        listener = threading.Thread(target=_listen, args=(process.stderr, said), daemon=True)
        listener.start()
        try:
            text = process.stdout.read()
            status = process.wait()
        except BaseException:  # Ctrl-C, most of all
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
        listener.join()
    if status in tolerated:
        return Output(command, text, status)
    raise _errors.of_status(status, _sentence(said, status), command)


def _listen(lines: object, said: list[str]) -> None:
    for line in lines:  # type: ignore[attr-defined]
        said.append(line.rstrip("\n"))
        if not line.startswith(("schedlab: ", "error: ")) and len(said) == sum(_is_progress(one) for one in said):
            print(line.rstrip("\n"), file=sys.stderr)


def _is_progress(line: str) -> bool:
    return not line.startswith(("schedlab: ", "error: "))


def _sentence(said: list[str], status: int) -> str:
    """What the program said last: from its own name on."""
    for place, line in enumerate(said):
        if not _is_progress(line):
            return "\n".join([line.split(": ", 1)[1], *said[place + 1 :]]).rstrip()
    return f"the program ended with status {status}" if not said else "\n".join(said)
