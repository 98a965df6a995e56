"""Which schedulers are there?"""

from __future__ import annotations

import json
from typing import Any

from ._program import start
from ._table import Table


def schedulers(name: str | None = None) -> Any:
    """All that `sched` takes, as a table; of one, all that is known, as `schedlab schedulers NAME --json` has it."""
    if name is not None:
        return json.loads(start(["schedulers", name, "--json"]).text)
    return Table.of_rows(json.loads(start(["schedulers", "--json"]).text))
