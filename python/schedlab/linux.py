"""Real Linux: which kernels are there, and how does one come by another?"""

from __future__ import annotations

from os import PathLike

from ._program import Value, start, words_of

__all__ = ["add", "list"]


def add(version: str | None = None, *, source: str | PathLike[str] | None = None, **options: Value | None) -> str:
    """Builds a kernel once, for all later runs: a version (`"6.12"`), or a tree of your own (`source=DIR, name="mine"`).
    Takes minutes; needs a C compiler, make, flex, bison and bc. Options are those of `schedlab linux add`: `hz=1000`,
    `with_="scx"`. Gives what the command says.

    Raises InputError: it cannot be fetched or built, with what is missing and what to do.
    """
    words = ["linux", "add"] if version is None else ["linux", "add", version]
    return start([*words, *words_of({"source": source, **options})]).text


def list() -> str:
    """The kernels that are there, as the command line shows them."""
    return start(["linux", "list"]).text
