//! Why is this time missing, and how sure is that?
//!
//! Two readings of a thread's counters stand around each gap. What grew between them is the evidence:
//!
//! | grew | so |
//! |---|---|
//! | throttled time of the group, by about the gap | cpu.max |
//! | switches against its will | switched out; of a real-time thread, for 1 ms or more, likely its limit |
//! | the CPU's number is another one | migration, with a switch |
//! | no switch, but page faults | page fault |
//! | steal of the machine, or in a virtual one 1 ms or more without a switch | the hypervisor |
//! | in a virtual machine a switch, and a wait for a CPU of less than half the gap | the hypervisor |
//! | no switch, CPU time as if it had run, short | interrupt |
//! | switches of its own will, and it did not wait for a CPU | stopped: a thread that computes does not sleep |
//!
//! A confidence is how often such a gap has turned out to be what is said, as `schedlab hourglass check`
//! finds it beside the kernel's own trace. Each counter that is missing lowers it.

use schedlab_log::MissedCause;

/// What is known of a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Its length.
    pub(crate) ns: u64,
    /// Switches of the thread's own will.
    pub(crate) voluntary: u32,
    /// Switches against its will.
    pub(crate) involuntary: u32,
    /// Page faults.
    pub(crate) faults: u32,
    /// Time in which the kernel says that it did not run.
    pub(crate) off_cpu_ns: u64,
    /// Time in which it was runnable without a CPU; `None`: not known.
    pub(crate) run_delay_ns: Option<u64>,
    /// Time in which its group was held back; `None`: not known.
    pub(crate) throttled_ns: Option<u64>,
    /// Time the hypervisor took from all CPUs.
    pub(crate) steal_ns: u64,
    /// Restartable sequences say that the scheduler was there; `None`: not known.
    pub(crate) preempted: Option<bool>,
    /// The CPU is another one afterwards.
    pub(crate) migrated: bool,
    /// The thread comes before all normal ones.
    pub(crate) is_real_time: bool,
    /// There is a hypervisor.
    pub(crate) is_virtual: bool,
    /// Switches and faults are not known.
    pub(crate) is_blind: bool,
}

/// Handlers take less, nearly always.
const HANDLER_NS: u64 = 50_000;
/// Beyond this nobody believes in a handler.
const LONG_HANDLER_NS: u64 = 1_000_000;
/// USER_HZ: steal is counted in steps of this.
const STEAL_GRAIN_NS: u64 = 10_000_000;
/// The kernel holds real-time tasks back for the rest of a period of a second, 50 ms by default.
const RT_HELD_NS: u64 = 5_000_000;

/// Nobody stops a process for less.
const STOPPED_NS: u64 = 1_000_000;

/// Whether two lengths agree as well as a switch's own time lets them.
fn about(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= 50_000 + a.max(b) / 5
}

/// The likely cause and the confidence in it, in per cent.
pub(crate) fn classify(of: &Evidence) -> (MissedCause, u8) {
    let switches = of.voluntary + of.involuntary;
    let lacks = [of.run_delay_ns.is_none(), of.preempted.is_none()];
    let lower = 5 * lacks.iter().filter(|lacks| **lacks).count() as u8;
    let (cause, sure) = match () {
        () if of.is_blind => blind(of),
        () if switches > 0 => switched(of),
        () => not_switched(of),
    };
    (cause, sure.saturating_sub(lower))
}

/// Without counters of switches: the scheduler was there and the thread waited, or nobody knows.
fn blind(of: &Evidence) -> (MissedCause, u8) {
    match (of.preempted, of.run_delay_ns) {
        (Some(true), Some(1..)) => (MissedCause::SwitchedOut, 80),
        (Some(false), Some(0)) if of.ns < HANDLER_NS => (MissedCause::Interrupt, 80),
        _ => (MissedCause::Unexplained, 30),
    }
}

/// Its own counters say that it was switched out.
fn switched(of: &Evidence) -> (MissedCause, u8) {
    if let Some(throttled_ns) = of.throttled_ns
        && throttled_ns > 0
        && of.ns >= LONG_HANDLER_NS
    {
        return (MissedCause::CpuMax, if about(throttled_ns, of.ns) { 95 } else { 80 });
    }
    // a loop that computes never sleeps: whoever did not wait for a CPU either was not allowed to run
    if let Some(run_delay_ns) = of.run_delay_ns
        && of.voluntary > 0
        && of.faults == 0
        && of.off_cpu_ns > run_delay_ns + run_delay_ns / 5 + STOPPED_NS
    {
        return (MissedCause::Stopped, 90);
    }
    if of.migrated {
        return (MissedCause::Migration, 99);
    }
    let explained_ns = of.run_delay_ns.unwrap_or(of.off_cpu_ns);
    // others ran for a moment only, behind a pause that the kernel takes for this thread's own running
    if of.is_virtual && of.voluntary == 0 && of.ns > 2 * explained_ns + LONG_HANDLER_NS {
        return (MissedCause::Hypervisor, if of.steal_ns >= STEAL_GRAIN_NS { 70 } else { 60 });
    }
    if of.is_real_time && of.ns >= RT_HELD_NS {
        return (MissedCause::RtLimit, 80);
    }
    (MissedCause::SwitchedOut, if about(explained_ns, of.ns) { 99 } else { 95 })
}

/// Its own counters say that it was not.
fn not_switched(of: &Evidence) -> (MissedCause, u8) {
    if of.migrated {
        // the counters and the CPU's number contradict each other
        return (MissedCause::Migration, 70);
    }
    if of.faults > 0 && of.ns < STEAL_GRAIN_NS {
        return (MissedCause::PageFault, 85);
    }
    if of.preempted == Some(true) && of.ns < LONG_HANDLER_NS {
        // the scheduler was there and chose the same thread again
        return (MissedCause::Interrupt, if of.ns < HANDLER_NS { 95 } else { 75 });
    }
    if of.is_virtual && of.steal_ns >= STEAL_GRAIN_NS && of.ns >= LONG_HANDLER_NS {
        return (MissedCause::Hypervisor, 85);
    }
    match (of.ns, of.is_virtual) {
        (ns, false) if ns < HANDLER_NS => (MissedCause::Interrupt, 95),
        (ns, true) if ns < HANDLER_NS => (MissedCause::Interrupt, 80),
        (ns, _) if ns < LONG_HANDLER_NS => (MissedCause::Interrupt, 55),
        (_, true) => (MissedCause::Hypervisor, 60),
        (_, false) => (MissedCause::Unexplained, 50),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MissedCause::*;

    fn seen(ns: u64) -> Evidence {
        Evidence {
            ns,
            run_delay_ns: Some(0),
            throttled_ns: Some(0),
            preempted: Some(false),
            ..Evidence::default()
        }
    }

    /// A container that is throttled, a VM that is robbed, and a busy neighbour are distinguished.
    #[test]
    fn each_cause_has_its_evidence() {
        let out = Evidence { involuntary: 1, run_delay_ns: Some(4_000_000), ..seen(4_003_000) };
        let virt = Evidence { is_virtual: true, ..seen(0) };
        for (evidence, cause) in [
            (out, SwitchedOut),
            (Evidence { throttled_ns: Some(80_000_000), involuntary: 1, ..seen(80_000_000) }, CpuMax),
            (Evidence { ns: 30_000_000, steal_ns: 30_000_000, ..virt }, Hypervisor),
            // the scheduler was there behind the pause: it chose the same thread again, or another for a moment
            (Evidence { ns: 60_000_000, preempted: Some(true), ..virt }, Hypervisor),
            (Evidence { ns: 60_000_000, involuntary: 1, run_delay_ns: Some(900_000), ..virt }, Hypervisor),
            (
                Evidence { ns: 60_000_000, involuntary: 1, run_delay_ns: Some(59_000_000), ..virt },
                SwitchedOut,
            ),
            (Evidence { migrated: true, ..out }, Migration),
            (Evidence { is_real_time: true, ns: 50_000_000, ..out }, RtLimit),
            (Evidence { faults: 1, ..seen(2_000) }, PageFault),
            (Evidence { voluntary: 1, off_cpu_ns: 400_000_000, ..seen(400_000_000) }, Stopped),
            // it waited for a CPU behind the stop, too
            (
                Evidence {
                    voluntary: 1,
                    off_cpu_ns: 900_000_000,
                    run_delay_ns: Some(600_000_000),
                    ..seen(900_000_000)
                },
                Stopped,
            ),
            (Evidence { is_blind: true, ..seen(400_000_000) }, Unexplained),
            (Evidence { is_blind: true, preempted: Some(true), ..out }, SwitchedOut),
            (seen(3_000), Interrupt),
            (seen(30_000_000), Unexplained),
        ] {
            assert_eq!(classify(&evidence).0, cause, "{evidence:?}");
        }
    }

    #[test]
    fn what_is_missing_lowers_the_confidence() {
        let full = Evidence { involuntary: 1, run_delay_ns: Some(4_000_000), ..seen(4_003_000) };
        let less = Evidence { run_delay_ns: None, off_cpu_ns: 4_000_000, ..full };
        let least = Evidence { preempted: None, ..less };
        let sure = [full, less, least].map(|evidence| classify(&evidence).1);
        assert_eq!(sure, [99, 94, 89]);
    }
}
