//! `--from TIME --to TIME`: a part of a recording, in its own time.

use clap::Args;
use schedlab_workload::derive::{TraceTime, Window};

#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct WindowArgs {
    /// Take a recording from this time on, as if it had been begun then: seconds of its own clock, as tools print
    /// them (12345.678901).
    #[arg(long, value_name = "TIME")]
    pub from: Option<TraceTime>,
    /// Take a recording up to this time, as if it had been ended then.
    #[arg(long, value_name = "TIME")]
    pub to: Option<TraceTime>,
}

impl WindowArgs {
    pub(crate) fn window(self) -> Window {
        Window { from: self.from, to: self.to }
    }
}
