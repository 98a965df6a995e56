"""What went wrong, and whose fault is it? One class per exit status of the command line."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["Finding", "FindingWarning", "InputError", "InternalError", "Misbehaved", "SchedlabError", "of_status"]

_PLACE = re.compile(r"^(?P<path>[^\n:']+):(?P<line>\d+)(?::(?P<column>\d+))?: ")
_QUOTED = re.compile(r"'([^'\n]+)'|\"([^\"\n]+)\"")


class SchedlabError(Exception):
    """Why there is no result. `str()` is the command line's own sentence, and below it the line that it is about."""

    #: The exit status that the command line would have had.
    status: int = 4

    def __init__(self, sentence: str, command: str | None = None) -> None:
        super().__init__(sentence)
        #: What happened, what was expected, what to do.
        self.sentence = sentence
        #: The command that ends so, where there is one.
        self.command = command
        #: The file that is wrong, the number of the line from 1, and the line; `None` where no line is.
        self.path: str | None = None
        self.line: int | None = None
        self.text: str | None = None
        #: Where in the line the wrong value stands, from 1, and how long it is; `None` if it is unknown.
        self.column: int | None = None
        self.width: int = 1
        self._find_place()

    def _find_place(self) -> None:
        place = _PLACE.match(self.sentence)
        if place is None:
            return
        self.path, self.line = place["path"], int(place["line"])
        try:
            with Path(self.path).open(encoding="utf-8", errors="replace") as file:
                lines = (line.rstrip("\n") for number, line in enumerate(file, 1) if number == self.line)
                self.text = next(lines, None)
        except OSError:
            return
        if self.text is None:
            return
        if place["column"] is not None:
            self.column = int(place["column"])
        for quoted in _QUOTED.finditer(self.sentence, place.end()):
            value = quoted[1] or quoted[2]
            at = self.text.find(value, self.column - 1 if self.column else 0)
            if at >= 0:
                self.column, self.width = at + 1, len(value)
                return

    def __str__(self) -> str:
        if self.text is None or self.line is None or f"{self.line} | " in self.sentence:
            return self.sentence  # (most readers show the line themselves)
        margin = len(str(self.line))
        shown = f"{self.sentence}\n{self.line} | {self.text}"
        if self.column is not None:
            before = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
            shown += f"\n{' ' * margin} | {before}{'^' * self.width}"
        return shown


class Finding(SchedlabError):
    """Nothing went wrong, and something was found: a condition of `fail_if` is met (exit status 1)."""

    status = 1


class InputError(SchedlabError, ValueError):
    """A workload, a parameter or the host is not what is needed; a workload that deadlocks, too (exit status 2)."""

    status = 2


class Misbehaved(SchedlabError):
    """The scheduler under test misbehaved: a kernel BUG, an endless loop, a lost task, a crash (exit status 3)."""

    status = 3


class InternalError(SchedlabError):
    """A bug of schedlab (exit status 4, and all others)."""

    status = 4


class FindingWarning(UserWarning):
    """The scheduler warned during a run that has a result nevertheless (exit status 1)."""


_OF_STATUS: dict[int, type[SchedlabError]] = {1: Finding, 2: InputError, 3: Misbehaved}


def of_status(status: int, sentence: str, command: str | None = None) -> SchedlabError:
    """The exception that stands for an exit status."""
    return _OF_STATUS.get(status, InternalError)(sentence, command)
