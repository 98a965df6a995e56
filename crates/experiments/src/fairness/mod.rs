//! How fair are proportional share schedulers? Service time error over many random sets of shares.
//!
//! *Error* of client A at time t: e_A(0, t) = w_A(t) - t x S_A / T, what it received less what it was due, in
//! time units (tu) of one quantum; all clients are runnable throughout. The lowest and highest over all
//! clients and all quantum edges of one cycle (T quanta, after which the schedule repeats) are one
//! combination's *range*; a point (number of clients N, sum of shares S) has the mean of the ranges of its
//! combinations, as in the paper on VTRR, and the worst single one. The same over every interval [t1, t2].
//!
//! ```text
//! shares 3,2,1    order    e_A             e_B             e_C             range
//! wrr             AAABBC   +1/2 +1 +3/2 .. -1 .. 0         -1/2 ..         -1 .. +3/2
//! vtrr            ABCABA   +1/2 0 -1/2 ..  -1/3 +1/3 ..    -1/3 +1/2 ..    -1/2 .. +1/2
//! ```
//!
//! Everything is exact: errors are integers over T, sums of errors are integers, and so the result depends on
//! the seed alone, not on how many threads shared the work. [`dynamic`] has clients that come, go and change
//! their shares.

mod cases;
mod contender;
pub mod dynamic;
mod express;
mod given;
mod measure;
mod page;
mod study;

pub use cases::{ParseSpreadError, Spread, draw_shares};
pub use contender::{CONTENDERS, Contender, find};
pub use express::Expressed;
pub use given::{Execution, Given, GivenArm, GivenConfig, ShareForm, given};
pub use measure::{ClientServed, ExactRange, Served, curve, measure, settled};
pub use study::{
    Config, ConfigError, MACHINE_DENOMINATOR, Point, PointResult, Range, Study, study, study_seen,
};

/// For readers of any output.
pub(crate) const ERROR_IS: &str = "Error of a client at time t: service received less service due, t x share / sum of \
     shares, in time units (tu) of one quantum; positive is ahead. All clients are always runnable; extremes over all \
     clients and times.";

/// For readers of an output with real Linux in it.
pub(crate) const LINUX_TICKS: &str =
    "Real Linux decides at its timer ticks (4 ms at HZ=250), not at quanta of 10 ms.";
