//! Which system calls would have changed a task's settings as the log says?

use schedlab_units::SchedPolicy;

/// System calls, their number on x86-64 and their arguments.
pub(crate) const CALLS: [(&str, u32, &[&str]); 4] = [
    ("sched_yield", 24, &[]),
    ("setpriority", 141, &["int which", "int who", "int niceval"]),
    ("sched_setscheduler", 144, &["pid_t pid", "int policy", "struct sched_param * param"]),
    ("sched_setaffinity", 203, &["pid_t pid", "unsigned int len", "unsigned long * user_mask_ptr"]),
];

/// Index into [`CALLS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedCall {
    /// `sched_yield()`.
    Yield = 0,
    /// `setpriority(2)`.
    SetPriority = 1,
    /// `sched_setscheduler(2)`.
    SetScheduler = 2,
    /// `sched_setaffinity(2)`.
    SetAffinity = 3,
}

impl RecordedCall {
    /// Its number on x86-64.
    pub fn number(self) -> u32 {
        CALLS[self as usize].1
    }
    /// Its arguments, as a format text has them.
    pub fn arguments(self) -> &'static [&'static str] {
        CALLS[self as usize].2
    }
}

/// The calls, with their arguments, that lead from the old policy, nice value and real-time priority to the
/// new ones; `who` is the number of the task, 0 for the caller itself.
pub fn calls_for(
    old: (u8, i8, u8),
    new: (u8, i8, u8),
    affinity: bool,
    who: i64,
) -> impl Iterator<Item = (RecordedCall, [i64; 3])> {
    let fair = [SchedPolicy::Normal, SchedPolicy::Batch, SchedPolicy::Idle]
        .iter()
        .any(|policy| policy.number() == new.0);
    let set = if old.0 == new.0 && fair && (old.1 != new.1 || !affinity) {
        // the argument is a C int in a 64-bit place
        Some((RecordedCall::SetPriority, [0, who, i64::from(new.1)]))
    } else {
        (old != new).then_some((RecordedCall::SetScheduler, [who, i64::from(new.0), 0]))
    };
    affinity.then_some((RecordedCall::SetAffinity, [who, 8, 0])).into_iter().chain(set)
}
