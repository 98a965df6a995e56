//! Which kernel events tell a schedule, and which of them does this kernel have?
//!
//! | event | tells |
//! |---|---|
//! | sched_switch | who ran until when, and why it stopped (essential) |
//! | sched_waking | who woke whom, and where the waker was (task, interrupt); older than it: sched_wakeup |
//! | sched_wakeup_new, sched_process_fork, _exec, _exit | births, names and deaths |
//! | sched_migrate_task | moves between CPUs |
//! | sched_pi_setprio | a priority lent by a mutex, which must not be taken for a change of nice |
//! | enter and exit of sched_yield, setpriority, sched_setscheduler, _setattr, _setaffinity | what a task asked for |
//! | enter of execve (optional) | a task is about to be moved for its new program |
//! | exit of setsid | a process begins a session: by CONFIG_SCHED_AUTOGROUP that is a group of the scheduler's own |
//! | cgroup_attach_task | moves between control groups, of the hierarchy that has the cpu controller |
//! | irq, softirq (optional) | time taken by interrupts, and on whose behalf |
//! | irq_vectors (optional, x86) | the CPU's own interrupts: its timer, messages of other CPUs |
//! | schedlab:object (optional) | what was sent and received, and where: no kernel has it, a program writes it |
//! | schedlab:lock (optional) | the C library's locks: programs at its functions write it, as schedlab:object |
//! | sched_stat_runtime (optional) | the kernel's own account of CPU time; up to 97 % of the volume |
//!
//! An event that is missing is reported and skipped, except sched_switch.

use crate::error::HostError;
use crate::tracefs::Instance;

/// The event without which nothing can be derived.
pub const ESSENTIAL: &str = "sched:sched_switch";

/// Who wakes whom.
pub const WAKING: &str = "sched:sched_waking";

const SCHED: &[&str] = &[
    ESSENTIAL,
    WAKING,
    "sched:sched_wakeup_new",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "sched:sched_migrate_task",
    "sched:sched_pi_setprio",
];

/// The system calls by which a task tells the scheduler something.
const SYSCALLS: &[&str] =
    &["sched_yield", "setpriority", "sched_setscheduler", "sched_setattr", "sched_setaffinity"];

/// A session begins; what the call is asked for says nothing.
const SESSION: &str = "syscalls:sys_exit_setsid";

const IRQ: &[&str] = &["irq:irq_handler_entry", "irq:irq_handler_exit"];
/// x86 alone has these; elsewhere the CPU's own interrupts go through irq_handler_entry or are not to be seen.
const VECTORS: &[&str] = &[
    "irq_vectors:local_timer_entry",
    "irq_vectors:local_timer_exit",
    "irq_vectors:reschedule_entry",
    "irq_vectors:reschedule_exit",
    "irq_vectors:call_function_entry",
    "irq_vectors:call_function_exit",
    "irq_vectors:call_function_single_entry",
    "irq_vectors:call_function_single_exit",
    "irq_vectors:irq_work_entry",
    "irq_vectors:irq_work_exit",
];
const EXEC: &str = "syscalls:sys_enter_execve";
/// Moves between control groups.
pub(crate) const CGROUP: &str = "cgroup:cgroup_attach_task";
const SOFTIRQ: &[&str] = &["irq:softirq_entry", "irq:softirq_exit", "irq:softirq_raise"];
const STAT_RUNTIME: &[&str] = &["sched:sched_stat_runtime"];

/// What happens at pipes and sockets; only programs can record it.
pub const OBJECT: &str = "schedlab:object";
/// What is done at the C library's locks: programs write it, too, as [`OBJECT`].
pub const LOCK: &str = "schedlab:lock";

/// Whether programs alone can record this event.
pub(crate) fn is_ours(name: &str) -> bool {
    name == OBJECT || name == LOCK
}

/// Which events to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventChoice {
    /// Enter and exit of the system calls that change how a task is scheduled.
    pub syscalls: bool,
    /// Enter of `execve`, where the kernel may move the caller; `sched_process_exec` comes after that.
    pub execs: bool,
    /// Moves between control groups.
    pub cgroups: bool,
    /// Enter and exit of hardware interrupt handlers, of devices and of the CPU's own.
    pub irq: bool,
    /// Raise, enter and exit of softirqs.
    pub softirq: bool,
    /// The kernel's own account of CPU time: many events.
    pub stat_runtime: bool,
    /// What is sent and received, at which pipe or socket; who waits at which futex.
    pub objects: bool,
    /// Locks of the C library, taken and let go.
    pub locks: bool,
}

impl Default for EventChoice {
    fn default() -> Self {
        EventChoice {
            syscalls: true,
            execs: false,
            cgroups: true,
            irq: false,
            softirq: false,
            stat_runtime: false,
            objects: false,
            locks: false,
        }
    }
}

impl EventChoice {
    /// The same, with all that tells the time of interrupts and on whose behalf they work.
    pub fn with_interrupts(self) -> EventChoice {
        EventChoice { irq: true, softirq: true, ..self }
    }

    /// The events, as system:name, in the order of the table above.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = SCHED.iter().map(|&name| name.to_owned()).collect();
        if self.syscalls {
            for call in SYSCALLS {
                names.push(format!("syscalls:sys_enter_{call}"));
                names.push(format!("syscalls:sys_exit_{call}"));
            }
            names.push(SESSION.to_owned());
        }
        let vectors = if cfg!(target_arch = "x86_64") { VECTORS } else { &[] };
        for (wanted, list) in [
            (self.execs, &[EXEC][..]),
            (self.cgroups, &[CGROUP][..]),
            (self.irq, IRQ),
            (self.irq, vectors),
            (self.softirq, SOFTIRQ),
            (self.stat_runtime, STAT_RUNTIME),
            (self.objects, &[OBJECT][..]),
            (self.locks, &[LOCK][..]),
        ] {
            if wanted {
                names.extend(list.iter().map(|&name| name.to_owned()));
            }
        }
        names
    }
}

/// What this kernel gave of what was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnabledEvents {
    /// Enabled, as system:name.
    pub enabled: Vec<String>,
    /// Not there or refused, with the reason.
    pub missing: Vec<(String, String)>,
}

/// Enables the events in an instance.
///
/// # Errors
/// [`HostError::NoEssentialEvent`] when sched_switch is not there; a missing other event is reported in the result.
pub fn enable(instance: &Instance, choice: EventChoice) -> Result<EnabledEvents, HostError> {
    enable_these(instance, choice.names())
}

/// As [`enable`], for these events.
pub(crate) fn enable_these(instance: &Instance, names: Vec<String>) -> Result<EnabledEvents, HostError> {
    let mut result = EnabledEvents::default();
    for name in names {
        let (system, event) = split(&name);
        let folder = format!("events/{system}/{event}");
        let problem = if is_ours(&name) {
            "only programs in the kernel can record it (--backend bpf)".to_owned()
        } else if !instance.has(&folder) {
            "this kernel does not have it".to_owned()
        } else if let Err(e) = instance.set(&format!("{folder}/enable"), "1", "") {
            match e {
                HostError::Setting { source, .. } => source.to_string(),
                other => other.to_string(),
            }
        } else {
            result.enabled.push(name);
            continue;
        };
        if name == ESSENTIAL {
            return Err(HostError::NoEssentialEvent { event: name, path: instance.path().join(folder) });
        }
        result.missing.push((name, problem));
    }
    Ok(result)
}

/// "system:name" in its two parts.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_choice_is_the_one_of_the_table() {
        let names = EventChoice::default().names();
        assert_eq!(names.len(), 8 + 2 * 5 + 1 + 1);
        assert!(names.contains(&"syscalls:sys_exit_sched_setaffinity".to_owned()));
        assert!(!names.iter().any(|name| name.contains("stat_runtime") || name.starts_with("irq:")));
        let none = EventChoice { syscalls: false, cgroups: false, ..EventChoice::default() };
        assert_eq!(none.names().len(), 8);
        let all = EventChoice { stat_runtime: true, ..EventChoice::default().with_interrupts() };
        let vectors = if cfg!(target_arch = "x86_64") { 10 } else { 0 };
        assert_eq!(all.names().len(), 20 + 2 + vectors + 3 + 1);
    }
}
