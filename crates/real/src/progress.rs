//! What is the guest doing just now?

use indicatif::{ProgressBar, ProgressStyle};
use schedlab_units::Span;
use std::time::Duration;

/// Stages of a run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStage {
    /// Finding the kernel, building the initramfs.
    Preparing,
    /// The kernel boots.
    Booting,
    /// The workload is being set up.
    Starting,
    /// The workload runs for this much of the guest's time; how far it is cannot be seen from outside.
    Running(Span),
    /// The guest hands over its trace; so many bytes have come.
    Receiving(u64),
    /// The run is over, or came from the cache.
    Done,
}

/// Shows the stages on standard error if that is a terminal.
pub fn on_stderr() -> impl FnMut(RunStage) {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} guest: {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    move |progress| match progress {
        RunStage::Preparing => bar.set_message("preparing"),
        RunStage::Booting => bar.set_message("the kernel boots"),
        RunStage::Starting => bar.set_message("setting up the workload"),
        RunStage::Running(duration) => bar.set_message(format!("runs for {duration} of its time")),
        RunStage::Receiving(bytes) => bar.set_message(format!("hands over its trace, {} kB", bytes / 1000)),
        RunStage::Done => bar.finish_and_clear(),
    }
}
