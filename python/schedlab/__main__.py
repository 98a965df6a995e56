"""`python -m schedlab`, and the console script `schedlab`: the command line, which is a program in this package."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from ._errors import SchedlabError
from ._program import program
from ._sweep import sweep


def main() -> NoReturn:
    """Becomes the program: its output, its signals and its exit status are this process's."""
    if "sweep" in sys.argv[1:2] and any(word.split("=")[0] == "--dask" for word in sys.argv):
        sys.exit(_sweep_on_dask(sys.argv[2:]))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program(), ["schedlab", *sys.argv[1:]])


def _sweep_on_dask(words: list[str]) -> int:
    """`schedlab sweep FILE -o DIR --dask ADDRESS`: what the program leaves to Python. Gives the exit status."""
    parser = argparse.ArgumentParser(prog="schedlab sweep", allow_abbrev=False)
    parser.add_argument("file")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--shard")
    parser.add_argument("--dask", required=True, metavar="ADDRESS")
    args = parser.parse_args(words)
    try:
        data = sweep(args.file, args.output, shard=args.shard, dask=args.dask)
    except SchedlabError as error:
        print(f"schedlab: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("schedlab: the sweep was stopped; what was made is kept, and the same command goes on", file=sys.stderr)
        return 2
    told = data.json
    print(f"{args.output}: {told['done']} runs made, {told['sent']} sent, {told['again']} of them again")
    if told["failed"]:
        print(f"schedlab: {told['failed']} runs failed; their rows say why ('schedlab sweep status DIR')", file=sys.stderr)
    return 1 if told["failed"] else 0


if __name__ == "__main__":
    main()
