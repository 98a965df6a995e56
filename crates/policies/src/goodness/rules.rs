//! In what 2.2 and 2.4 differ.

use schedlab_units::Nice;

/// Which kernel's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Linux 2.2.
    V2_2,
    /// Linux 2.4.16.
    V2_4,
}

impl Version {
    /// Ticks that a task gets in each epoch.
    pub(super) fn ticks(self, nice: Nice, hz: u64) -> u64 {
        let over_19 = (20 - nice.get()) as u64; // 1..=40
        match self {
            Version::V2_4 => {
                let scaled = match hz {
                    0..200 => over_19 >> 2,
                    200..400 => over_19 >> 1,
                    400..800 => over_19,
                    800..1600 => over_19 << 1,
                    _ => over_19 << 2,
                };
                scaled + 1
            }
            // the priority: 200 ms at nice 0, 400 ms at -20, at least a tick
            Version::V2_2 => {
                let default = (20 * hz / 100).max(1);
                let above = (u64::from(nice.get().unsigned_abs()) * default + 10) / 20;
                if nice.get() < 0 { default + above } else { default.saturating_sub(above).max(1) }
            }
        }
    }

    /// What goodness adds to the counter.
    pub(super) fn priority(self, nice: Nice, hz: u64) -> i64 {
        match self {
            Version::V2_4 => i64::from(20 - nice.get()),
            Version::V2_2 => self.ticks(nice, hz) as i64,
        }
    }

    /// The counter, divided between child and parent.
    pub(super) fn fork(self, counter: u64) -> (u64, u64) {
        match self {
            Version::V2_4 => (counter.div_ceil(2), counter / 2),
            Version::V2_2 => (counter / 2, counter / 2),
        }
    }

    /// Takes a tick; true if the counter is used up.
    pub(super) fn tick(self, counter: &mut u64) -> bool {
        match self {
            Version::V2_4 => {
                *counter = counter.saturating_sub(1);
                *counter == 0
            }
            // 2.2 notices only when the counter would become negative: one tick more than the counter
            Version::V2_2 => match counter.checked_sub(1) {
                Some(rest) => {
                    *counter = rest;
                    false
                }
                None => true,
            },
        }
    }
}
