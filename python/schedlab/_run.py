"""One run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from os import PathLike

from . import _errors, _native
from ._program import Value, start, text_of, words_of
from ._result import Result
from ._workload import Source, Workload, path_of


def run(
    workload: Source | Sequence[Source],
    sched: str,
    cpus: int | None = None,
    *,
    machine: str | PathLike[str] | None = None,
    seed: int | None = None,
    params: Mapping[str, object] | None = None,
    duration: str | None = None,
    hz: int | None = None,
    **options: Value | None,
) -> Result:
    """Runs a workload under a scheduler, on a simulated machine of `cpus` CPUs (or `machine="packages=2,cores=4"`).

    `sched` is what `--sched` takes: `linux-6.12`, `eevdf`, `rr:quantum=5ms`, `scx:FILE.bpf.c`, ... `params` are its
    tunables. Further options are those of `schedlab run`, with underscores: `ticks="staggered"`, `costs=FILE`,
    `perturb="start=1ms"`, `strict=True`. Several workloads run side by side on one machine. Real Linux is built first if
    it is not there yet; that takes minutes, once.

    A scheduler that warned has a result; its warnings are in `Result.warnings`, and a FindingWarning tells of them.

    Raises InputError, Misbehaved, InternalError. Ctrl-C ends the run (in the main thread, as Python has it).
    """
    several = [workload] if isinstance(workload, (str, PathLike, Workload)) else list(workload)
    words = ["run", *(path_of(one) for one in several)]
    if len(several) > 1:
        words.append("--together")
    words += ["--sched", sched]
    words += words_of({"cpus": cpus, "machine": machine, "seed": seed, "duration": duration, "hz": hz})
    for name, value in (params or {}).items():
        words += ["--param", f"{name}={text_of(value)}"]
    words += words_of(options)
    first = several[0]
    loaded = first._unchanged() if len(several) == 1 and isinstance(first, Workload) else None
    object_ = None if _native.is_ready(words) else start(["resolve", *words[1:]]).text
    done = _native.run(words, loaded, object_)
    made_by = [one.made_by for one in several if isinstance(one, Workload) and one.made_by is not None]
    result = Result(done, made_by)
    if result.warnings:
        first_line = result.warnings[0].splitlines()[0]
        text = f"{sched} warned {len(result.warnings)} times during the run; the first: {first_line}"
        warnings.warn(text, _errors.FindingWarning, stacklevel=2)
    return result
