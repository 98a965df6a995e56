//! From a name and a path to a judged run. Everything that asks a question of a scheduler stands on this floor.
//!
//! ```text
//!   "rr:quantum=5ms" ── SubjectSpec ── resolve ──> Subject ─┐
//!                                                           ├─ on ──> RunRequest ── run ──> Finished  or  Ended
//!   "samples/compile" ──── load ─────────────────> Loaded ──┘                  (judged once, for all)
//!                                                             Ensemble: many of them
//! ```
//!
//! * [`SubjectSpec`]: the one grammar in which schedulers are written; [`Subject`]: one that is ready to be run.
//! * [`load()`]: a workload, from whatever a path leads to.
//! * [`load_recording`]: a recording, as it happened.
//! * [`run()`]: a run and its judged end; [`Ensemble`]: many.
//! * [`load_costs`]: what kernel code takes, from a file.
//! * [`Error`], [`FailureKind`]: what went wrong, and whose fault it is.
//! * [`Progress`]: who hears how far a long step is.
//!
//! ```
//! use schedlab_lab::{Silent, Standard, Subject, load, run};
//! use schedlab_topology::Topology;
//! let figure = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/hand/figure1.txt");
//! let loaded = load(figure.as_ref(), &Silent)?;
//! let subject = Subject::native("rr:quantum=5ms")?;
//! let finished = run(&subject.on(&loaded.workload, Topology::flat(1)?), Standard::NoWarning)?;
//! assert!(finished.is_done());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod costs;
mod ensemble;
mod failure;
pub mod kernels;
mod load;
mod progress;
mod recording;
mod run;
mod scx;
mod spec;
mod subject;

pub use costs::{CostsError, load_costs, parse_costs};
pub use ensemble::Ensemble;
pub use failure::{Error, Fails, FailureKind, RunFailure};
pub use load::{Loaded, NoWorkload, is_recording, load, load_all, load_as, title};
pub use progress::{Progress, ProgressStep, Silent};
pub use recording::{CONTENDED_SHARE, KnownRecording, RecordingError, load_recording};
pub use run::{Ended, Finished, NamedWait, Standard, judge_machine, run, run_here, run_while};
pub use scx::extension;
pub use spec::{ScxSpec, SpecForm, SubjectList, SubjectSpec};
pub use subject::{Real, Setting, Subject, SubjectError};
