"""`python -m schedlab`, and the console script `schedlab`: the command line, which is a program in this package."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from ._program import program


def main() -> NoReturn:
    """Becomes the program: its output, its signals and its exit status are this process's."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program(), ["schedlab", *sys.argv[1:]])


if __name__ == "__main__":
    main()
