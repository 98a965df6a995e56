//! Workloads of which no study may make a result, for tests.

use schedlab_policies::lab::{Step, TaskSpec, workload};
use schedlab_units::Span;
use schedlab_workload::Workload;

/// Two tasks that wait for each other for ever.
pub(crate) fn circle() -> Workload {
    let text = include_bytes!("../../../samples/hand/deadlock.txt");
    schedlab_workload::text::parse_text("deadlock.txt", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Three reservations of 40 %: native CBS has no room for the third on one CPU, and warns of that.
pub(crate) fn overfull() -> Workload {
    let task = TaskSpec::deadline(4, 10, 10, &[Step::Run(10)]);
    workload(&[task.clone(), task.clone(), task])
}

/// Long enough for both.
pub(crate) const LENGTH: Span = Span::from_ms(200);
