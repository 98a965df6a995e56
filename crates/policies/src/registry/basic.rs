//! The two schedulers that ignore who a task is.

use super::{ParamInfo, PolicyInfo};
use crate::{Fifo, RoundRobin};

const QUANTUM: ParamInfo = ParamInfo {
    name: "quantum",
    default: "10ms",
    help: "how long a task may run before the next in line has its turn",
};

pub(super) const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "fifo",
        summary: "first in, first out: a task runs until it blocks; one queue for all CPUs, no tick",
        source: "Conway, Maxwell, Miller 1967",
        params: &[],
        make: |_| Ok(Box::new(Fifo::default())),
    },
    PolicyInfo {
        name: "rr",
        summary: "round robin: a fixed quantum each; one queue for all CPUs",
        source: "Kleinrock 1964",
        params: &[QUANTUM],
        make: |params| Ok(Box::new(RoundRobin::new(params.span(&QUANTUM)?))),
    },
];
