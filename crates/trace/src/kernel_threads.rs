//! Which kernel threads does every Linux have? Their names tell nothing of a machine.

/// Names that are complete.
const WHOLE: &[&str] = &[
    "kthreadd",
    "khugepaged",
    "ksmd",
    "kdevtmpfs",
    "kauditd",
    "khungtaskd",
    "oom_reaper",
    "watchdogd",
    "hwrng",
    "pool_workqueue_",
];

/// Names followed by a number (a CPU, a node, a place in a list).
const NUMBERED: &[&str] = &[
    "ksoftirqd/",
    "migration/",
    "cpuhp/",
    "idle_inject/",
    "irq/",
    "kcompactd",
    "kswapd",
    "kdamond.",
    "rcuog/",
    "rcuos/",
    "rcuop/",
    "rcuob/",
    "rcuc/",
    "rcub/",
    "swapper/",
];

/// Names that go on with what the kernel's own source wrote.
const PREFIXES: &[&str] = &["rcu_"];

/// The standard part of a kernel thread's name, or `None` for a name that not every Linux has. What tells of devices
/// and file systems is cut off.
pub fn standard_kernel_thread(name: &str) -> Option<String> {
    if WHOLE.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return Some(name.to_owned());
    }
    if let Some(rest) = name.strip_prefix("kworker/") {
        // kworker/0:1H, kworker/u8:2, and kworker/R-NAME, a rescuer named after its queue.
        let end = rest.find(|c: char| !(c.is_ascii_digit() || "uH:R".contains(c))).unwrap_or(rest.len());
        return Some(name[.."kworker/".len() + end].to_owned());
    }
    if name.starts_with("jbd2/") {
        return Some("jbd2".to_owned());
    }
    for prefix in NUMBERED {
        if let Some(rest) = name.strip_prefix(prefix) {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            return (digits > 0).then(|| name[..prefix.len() + digits].to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_threads_keep_their_name_without_devices() {
        for (name, expected) in [
            ("kworker/0:1", Some("kworker/0:1")),
            ("kworker/u8:2-ev", Some("kworker/u8:2")),
            ("kworker/1:0H", Some("kworker/1:0H")),
            ("kworker/R-nvme-", Some("kworker/R")),
            ("irq/24-ACPI:Ged", Some("irq/24")),
            ("jbd2/vda-8", Some("jbd2")),
            ("rcu_preempt", Some("rcu_preempt")),
            ("ksoftirqd/11", Some("ksoftirqd/11")),
            ("swapper/3", Some("swapper/3")),
            ("migration/", None),
            ("nfsd", None),
            ("card0-crtc0", None),
        ] {
            assert_eq!(standard_kernel_thread(name).as_deref(), expected, "{name}");
        }
    }
}
