//! In what 2.6.7 and 2.6.18 differ.

use crate::kit::balance::{MayLeave, Rules};

/// Which kernel's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Linux 2.6.7: linear slices from 10 to 200 ms, load = number of tasks.
    V2_6_7,
    /// Linux 2.6.18: slices from 5 to 800 ms, load in proportion to the slice.
    V2_6_18,
}

/// Scale of a task's load at nice 0 (kernel: SCHED_LOAD_SCALE).
const LOAD_UNIT: u64 = 128;

impl Version {
    /// The slice in ms at this static priority (100 to 139).
    pub(super) fn slice_ms(self, static_level: i64) -> u64 {
        let above_139 = (140 - static_level) as u64; // 1..=40
        match self {
            // 10 ms at nice 19, 200 ms at -20
            Version::V2_6_7 => 10 + 190 * (above_139 - 1) / 39,
            Version::V2_6_18 if static_level < super::NICE_0_LEVEL => (400 * above_139 / 20).max(5),
            Version::V2_6_18 => (100 * above_139 / 20).max(5),
        }
    }

    /// What a task of this static priority weighs in balancing.
    pub(super) fn load(self, static_level: i64) -> u64 {
        match self {
            Version::V2_6_7 => LOAD_UNIT,
            Version::V2_6_18 => self.slice_ms(static_level) * LOAD_UNIT / 100,
        }
    }

    /// The most that `sleep_avg` can be, in ms: ten times the average slice.
    pub(super) fn max_sleep_avg_ms(self) -> u64 {
        match self {
            Version::V2_6_7 => 1020,
            Version::V2_6_18 => 1000,
        }
    }

    /// The unit of the granules in which interactive tasks take turns.
    pub(super) fn granule_ms(self) -> u64 {
        10
    }

    pub(super) fn balancing(self) -> Rules {
        Rules {
            unit: LOAD_UNIT,
            may_leave: MayLeave::AllButOneTask,
            load_index: [2, 1, 2],
            nr_migrate: u32::MAX,
            newidle_worth: None,
            newidle_one: false,
            one_per_group: false,
            turns_around: false,
        }
    }
}
