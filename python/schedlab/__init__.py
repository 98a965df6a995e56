"""A laboratory for CPU schedulers, from one notebook cell.

    >>> import schedlab as sl
    >>> r = sl.run(sl.sample("compile"), sched="fifo", cpus=2)
    >>> r.summary["switches"] > 0
    True

Names and values are those of the command line's JSON, units last. Every result has `command`: the same in a shell. Runs
are made by worker processes; nothing is forked here, so threads are welcome and Ctrl-C ends a run at once.
"""

from __future__ import annotations

from . import linux
from ._compare import Comparison, Difference, compare, diff
from ._errors import Finding, FindingWarning, InputError, InternalError, Misbehaved, SchedlabError
from ._native import ENGINE
from ._native import VERSION as __version__
from ._program import program, sample, samples
from ._result import Result, plot_waits
from ._run import run
from ._schedulers import schedulers
from ._sweep import Answer, Asking, Dataset, Trial, estimate, merge, query, sweep
from ._table import Log, Table, open_log
from ._workload import Workload, generate, load

__all__ = [
    "ENGINE",
    "Answer",
    "Asking",
    "Comparison",
    "Dataset",
    "Difference",
    "Finding",
    "FindingWarning",
    "InputError",
    "InternalError",
    "Log",
    "Misbehaved",
    "Result",
    "SchedlabError",
    "Table",
    "Trial",
    "Workload",
    "__version__",
    "compare",
    "diff",
    "estimate",
    "generate",
    "linux",
    "load",
    "merge",
    "open_log",
    "plot_waits",
    "program",
    "query",
    "run",
    "sample",
    "samples",
    "schedulers",
    "sweep",
]
