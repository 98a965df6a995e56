//! Who ran on what: the part of a log that is not an event.

use crate::{Fact, Hidden, LogError, ObservedBy};
use schedlab_units::{CpuId, CpuSet, SchedParams, Span, TaskId};

/// A record's CPU has 16 bits. A header that tells of more CPUs asks its readers for memory that no log fills.
const CPUS_MAX: u32 = 1 << 16;

/// The number of CPUs of a file's header, if a machine can have so many.
pub(crate) fn checked_cpus(nr_cpus: u32) -> Result<u32, String> {
    match nr_cpus {
        0..=CPUS_MAX => Ok(nr_cpus),
        _ => Err(format!(
            "{nr_cpus} CPUs; a log has at most {CPUS_MAX}: it is damaged, or no log of schedlab's"
        )),
    }
}

/// What a log is about. Everything here is known when the run has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogHeader {
    /// The scheduler's name as given to `--sched`, e.g. `linux-6.12` or `fifo`.
    pub sched: String,
    /// The scheduler's exact version, e.g. `6.12.117-1~deb12u1, HZ=250` or the crate's version.
    pub sched_version: String,
    /// Number of CPUs.
    pub nr_cpus: u32,
    /// Timer ticks per second; 0 for a policy without a tick.
    pub hz: u32,
    /// Length of the run: records lie in 0..=duration.
    pub duration: Span,
    /// The workload's tasks; row i is `TaskId(i)`.
    pub tasks: Vec<LogTask>,
    /// The scheduler's own threads that occur in the log, in order of pid.
    pub kernel_threads: Vec<KernelThread>,
    /// Parameters that differ from the scheduler's default, in order of name.
    pub params: Vec<(String, String)>,
    /// The workload's control groups, parents before children, if the scheduler has any.
    pub groups: Vec<LogGroup>,
    /// Who observed.
    pub observer: ObservedBy,
    /// What is hidden from the observer.
    pub hidden: Hidden,
}

impl LogHeader {
    /// Of each row ([`Slots`](crate::Slots): the tasks, then the kernel's threads) whether it stands for strangers
    /// ([`KernelThread::strangers`]).
    pub fn strangers(&self) -> Vec<bool> {
        let threads = self.kernel_threads.iter().map(KernelThread::are_strangers);
        self.tasks.iter().map(|_| false).chain(threads).collect()
    }

    /// Fails if one of these facts is hidden from the log's observer: for an instrument that has no way to
    /// answer "unknown".
    ///
    /// # Errors
    /// [`LogError::Hidden`] with the first of them, and `what` was asked for.
    pub fn needs(&self, what: &'static str, facts: &[Fact]) -> Result<(), LogError> {
        match facts.iter().find(|fact| self.hidden.has(**fact)) {
            Some(&fact) => Err(LogError::Hidden { what, fact, observer: self.observer }),
            None => Ok(()),
        }
    }

    /// Fails if anything is hidden from the log's observer, as [`LogHeader::needs`] does.
    ///
    /// # Errors
    /// [`LogError::Hidden`].
    pub fn needs_everything(&self, what: &'static str) -> Result<(), LogError> {
        self.needs(what, &Fact::ALL)
    }

    /// The lowest version of the forms that has what this header says: 2 if anything is hidden, so that a
    /// reader that does not know of that refuses the log; else 1.
    pub(crate) fn version(&self) -> u32 {
        if self.hidden.is_nothing() { 1 } else { 2 }
    }
}

/// A task of the workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogTask {
    /// Its pid in the trace or workload file.
    pub pid: u32,
    /// Its name (comm).
    pub name: String,
    /// Parameters at its start.
    pub params: SchedParams,
    /// Allowed CPUs; `None` = all.
    pub affinity: Option<CpuSet>,
    /// The task that forked it, if that is in the workload.
    pub parent: Option<TaskId>,
    /// Its control group at its start: the place in [`LogHeader::groups`]. `None`: the root.
    pub group: Option<u32>,
}

/// A control group: what holds its tasks back, and where they may run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogGroup {
    /// Path from the root, e.g. `/system.slice/redis`.
    pub path: String,
    /// cpu.max: CPU time in each period, over all CPUs; `None`: no limit.
    pub max: Option<(Span, Span)>,
    /// cpuset.cpus; `None`: the parent's.
    pub cpuset: Option<CpuSet>,
}

/// A thread of the simulated kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelThread {
    /// Pid in the simulated kernel; its id is `TaskId::kernel_thread(pid)`.
    pub pid: u32,
    /// Its name, e.g. `migration/0`.
    pub name: String,
}

/// What [`KernelThread::strangers`] are called, before the CPU.
const STRANGERS: &str = "strangers/";

impl KernelThread {
    /// All of whom a recording says only that they had this CPU: their stays are this row's.
    pub fn strangers(cpu: CpuId, pid: u32) -> KernelThread {
        KernelThread { pid, name: format!("{STRANGERS}{}", cpu.0) }
    }

    /// Whether it is such a row.
    pub fn are_strangers(&self) -> bool {
        self.name.starts_with(STRANGERS)
    }
}
