//! Many runs, each made once: from a description to a dataset, on one machine or many, whoever is killed meanwhile.
//!
//! ```text
//!  sweep.toml ── Sweep ── Trial, Trial, ... ──┐                         ┌── DIR/runs/*.parquet    a row a run
//!                                             ├─ Bench ── Outcome ── Store           (DuckDB, polars, pandas)
//!  an optimiser, a cluster ── Trial ──────────┘  key      row           └── DIR/tasks/*.parquet   a row a task
//! ```
//!
//! * [`Sweep`]: the description: grids, zips, lists, Latin hypercubes, less what is left out.
//! * [`Trial`]: one run that is to be made, by names and values; JSON on its way to a worker.
//! * [`Bench`]: makes runs. A [`Key`] names a run by what made it: SHA-256 over contents, never paths or hosts.
//! * [`SweptRun`]: a run's rows. A run that fails has one too.
//! * [`Store`]: the folder. A result that was kept stays, whatever happens to the process from then on.
//! * [`run()`]: everything that is missing, on all cores; [`estimate()`]: what it would cost.
//! * [`Asking`]: the same one by one, for whoever makes the runs elsewhere; [`WorkOrder`]: what such a machine is sent.
//! * [`dataset`]: files, counts, the hash, [`dataset::merge`] of shards, [`dataset::retry`].
//!
//! ```
//! use schedlab_lab::Silent;
//! use schedlab_sweep::{RunOptions, Sweep, dataset, run};
//! let folder = tempfile::tempdir().unwrap();
//! let text = r#"
//!     [grid]
//!     generate = "hogs"
//!     set.nices = [[0, 0, 5]]
//!     sched = ["rr", "eevdf"]
//!     cpus = [1, 2]
//!     duration = "20ms"
//! "#;
//! let sweep = Sweep::parse("example.toml", text, folder.path())?;
//! let dir = folder.path().join("results");
//! let summary = run(&sweep, &dir, &RunOptions::default(), &Silent, &mut |_| true)?;
//! assert_eq!((summary.progress.done, summary.progress.failed), (4, 0));
//! let again = run(&sweep, &dir, &RunOptions::default(), &Silent, &mut |_| true)?;
//! assert_eq!((again.progress.done, again.progress.known), (0, 4));
//! assert_eq!(dataset::status(&dir)?.tasks, 12);
//! # Ok::<(), schedlab_sweep::SweepError>(())
//! ```

mod asking;
mod axes;
mod bench;
pub mod dataset;
mod engine;
mod error;
mod key;
mod only;
mod order;
mod row;
mod spec;
mod store;
mod table;
mod trial;
mod value;

pub use asking::{Asked, Asking};
pub use bench::{Bench, Prepared};
pub use engine::{
    CostEstimate, RunOptions, Shard, ShardError, SweepProgress, SweepSummary, check, estimate, run,
};
pub use error::SweepError;
pub use key::{Key, KeyError};
pub use order::{Depot, WorkOrder};
pub use row::{Cell, Column, ColumnType, RUNS, SweptRun, TASKS, TableRow};
pub use spec::{RUNS_MAX, Sweep};
pub use store::Store;
pub use trial::{HZ, Trial};
pub use value::Value;
