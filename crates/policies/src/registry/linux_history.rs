//! Linux's schedulers through the years, and two that were offered to it.

use super::{ParamInfo, PolicyInfo};
use crate::{Goodness, GoodnessVersion};

const HZ_100: ParamInfo = ParamInfo { name: "hz", default: "100", help: "ticks per second" };

pub(super) const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "linux-2.2",
        summary: "goodness = counter + priority over one list; epochs of 210 ms slices (nice 0, HZ 100)",
        source: "Linux 2.2 as VTRR's paper describes it, details from memory",
        params: &[HZ_100],
        make: |params| Ok(Box::new(Goodness::new(GoodnessVersion::V2_2, params.number(&HZ_100, 1, 10_000)?))),
    },
    PolicyInfo {
        name: "linux-2.4",
        summary: "goodness over one list, epochs of 10 to 110 ms slices (HZ 100), one queue for all CPUs",
        source: "Linux 2.4.16",
        params: &[HZ_100],
        make: |params| Ok(Box::new(Goodness::new(GoodnessVersion::V2_4, params.number(&HZ_100, 1, 10_000)?))),
    },
];
