//! What does a poller say of time that it missed, of its sleeps, and of its jobs? Notes in a log, one record each.
//!
//! ```text
//!     4,000,103 ns cpu0 note t0 note=2147483696 ... value=   cause interrupt, 96 %, 3,120 ns long, no switch
//!    10,000,000 ns cpu0 note t0 note=2147483697 ... value=   asks to be woken at 15,000,000 ns
//! ```
//!
//! ```
//! use schedlab_log::{Missed, MissedCause};
//! use schedlab_units::{CpuId, TaskId};
//! let missed = Missed { ns: 3120, cause: MissedCause::Interrupt, confidence_pct: 96, switches: 0 };
//! assert_eq!(Missed::of(&missed.record(4_000_103, CpuId(0), TaskId(0))), Some(missed));
//! ```

use crate::{Kind, Record, note};
use schedlab_units::{CpuId, TaskId};

/// Why a thread that polls the clock did not see some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MissedCause {
    /// Nothing that could be read explains it.
    #[default]
    Unexplained = 0,
    /// Another thread had the CPU.
    SwitchedOut = 1,
    /// The kernel or the firmware worked, and came back to the same thread.
    Interrupt = 2,
    /// The hypervisor took the CPU.
    Hypervisor = 3,
    /// The group's cpu.max was used up.
    CpuMax = 4,
    /// The limit of all real-time tasks was used up, or the fair server came before them.
    RtLimit = 5,
    /// The thread went on on another CPU.
    Migration = 6,
    /// A page had to be found.
    PageFault = 7,
    /// The thread could not run: its process was stopped (a signal, a debugger, the freezer).
    Stopped = 8,
}

impl MissedCause {
    /// All, in numeric order.
    pub const ALL: [MissedCause; 9] = {
        use MissedCause::*;
        [Unexplained, SwitchedOut, Interrupt, Hypervisor, CpuMax, RtLimit, Migration, PageFault, Stopped]
    };

    /// The name for people and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            MissedCause::Unexplained => "unexplained",
            MissedCause::SwitchedOut => "switched out",
            MissedCause::Interrupt => "interrupt",
            MissedCause::Hypervisor => "hypervisor",
            MissedCause::CpuMax => "cpu.max",
            MissedCause::RtLimit => "RT limit",
            MissedCause::Migration => "migration",
            MissedCause::PageFault => "page fault",
            MissedCause::Stopped => "stopped",
        }
    }

    /// Whether the thread was off its CPU as far as the scheduler is concerned.
    pub fn is_off_cpu(self) -> bool {
        use MissedCause::*;
        matches!(self, SwitchedOut | CpuMax | RtLimit | Migration | Stopped)
    }
}

/// A stretch of time that a poller did not see, with the likely cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// How long, below 2^48.
    pub ns: u64,
    /// Why, most likely.
    pub cause: MissedCause,
    /// How sure that is, in per cent.
    pub confidence_pct: u8,
    /// Times the thread was switched out in it, as its own counters say; 255 is that many or more.
    pub switches: u8,
}

const LENGTH_BITS: u32 = 48;

impl Missed {
    /// The note at its beginning.
    pub fn record(&self, time_ns: u64, cpu: CpuId, task: TaskId) -> Record {
        let length = self.ns.min((1 << LENGTH_BITS) - 1);
        Record {
            time_ns,
            kind: Kind::Note as u8,
            flags: self.cause as u8,
            cpu: cpu.0 as u16,
            task: task.0,
            other: TaskId::IDLE.0,
            arg: note::MISSED,
            value: length | u64::from(self.confidence_pct) << LENGTH_BITS | u64::from(self.switches) << 56,
        }
    }

    /// From a note; `None` if the record is another.
    pub fn of(record: &Record) -> Option<Missed> {
        if record.kind() != Some(Kind::Note) || record.arg != note::MISSED {
            return None;
        }
        Some(Missed {
            ns: record.value & ((1 << LENGTH_BITS) - 1),
            cause: *MissedCause::ALL.get(usize::from(record.flags))?,
            confidence_pct: (record.value >> LENGTH_BITS) as u8,
            switches: (record.value >> 56) as u8,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_comes_back() {
        for cause in MissedCause::ALL {
            let missed = Missed { ns: (1 << 48) - 1, cause, confidence_pct: 100, switches: 255 };
            assert_eq!(Missed::of(&missed.record(7, CpuId(3), TaskId(2))), Some(missed));
        }
        let record = Missed::default().record(7, CpuId(3), TaskId(2));
        assert_eq!(Missed::of(&Record { flags: 9, ..record }), None);
        assert_eq!(Missed::of(&Record { arg: note::CPU, ..record }), None);
    }
}
