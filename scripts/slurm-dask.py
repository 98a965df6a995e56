"""A sweep by workers of dask that Slurm starts: FILE.toml DIR FOLDER (for the jobs' logs). Says who made it."""

from __future__ import annotations

import sys

from dask_jobqueue import SLURMCluster
from distributed import Client

import schedlab as sl

description, output, logs = sys.argv[1:]
with SLURMCluster(
    queue="all",
    cores=1,
    processes=1,
    memory="1GB",
    walltime="00:10:00",
    interface="lo",
    scheduler_options={"interface": "lo", "dashboard_address": None},
    worker_extra_args=["--no-dashboard"],
    job_directives_skip=["--mem"],
    python=sys.executable,
    local_directory=logs,
    log_directory=logs,
) as cluster:
    cluster.scale(jobs=2)
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        workers = client.ncores()
        data = sl.sweep(description, output, dask=client)
print(f"{data.json['done']} runs by {len(workers)} workers of dask")
