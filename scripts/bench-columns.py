"""How fast a log's records become columns, and these a filtered frame: CPU time, the best of five, with a hash of the columns.

`make bench` runs it. Budgets: 20 million records a second and core; two million of them filtered within a second.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import polars

import schedlab as sl


def best_cpu_s(work: Callable[[], object]) -> float:
    took: list[float] = []
    for _ in range(5):
        begin = time.process_time()
        work()
        took.append(time.process_time() - begin)
    return min(took)


def main() -> None:
    # two tasks that take turns, every 2 us
    result = sl.run(sl.generate("hogs", nice=[0, 0]), sched="rr", cpus=1, params={"quantum": "1us"}, duration="2s")
    records = len(result.log)
    columns_s = best_cpu_s(lambda: result._native.log().table())
    log = result.log

    def few() -> polars.DataFrame:
        return polars.DataFrame(log).filter(polars.col("kind") == "switch", polars.col("task") == 0)

    frame_s = best_cpu_s(few)
    digest = hashlib.sha256(few().hash_rows().to_numpy().tobytes()).hexdigest()[:12]
    print(f"records to columns, {records:,} records: {records / columns_s / 1e6:.0f} million a second (budget 20)")
    print(f"the rows of one task as a frame of polars: {frame_s:.3f} s (budget 1)   {digest}")


if __name__ == "__main__":
    main()
