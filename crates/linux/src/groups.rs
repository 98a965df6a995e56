//! How are a workload's control groups made, and how does a task enter one?

use std::collections::BTreeSet;
use std::ffi::CString;

use schedlab_units::Span;
use schedlab_workload::Cgroup;

use crate::batch::{Batch, IfRefused};

use IfRefused::{Count, Ignore};

/// Where the groups' file system is mounted.
pub(crate) const CGROUP_ROOT: &str = "/sys/fs/cgroup";
/// How the purpose of making one begins, for messages.
pub(crate) const MAKING_GROUP: &str = "making the control group ";

/// Files that a task's pid is written to, in this order, to bring it into a group.
pub(crate) type GroupFiles = Vec<CString>;

/// The group of process 1.
pub(crate) fn root_files() -> GroupFiles {
    vec![CString::new(format!("{CGROUP_ROOT}/cgroup.procs")).unwrap_or_default()]
}

/// What to do about a control group that the kernel does not make.
pub(crate) fn group_remedy(errno: i32) -> &'static str {
    match errno {
        libc::ENOMEM => {
            "; it has no memory left for one more group on every CPU: ask for fewer groups or fewer CPUs"
        }
        libc::EEXIST => "; the file system of control groups has a file of that name: give the group another",
        libc::ENAMETOOLONG | libc::EINVAL => {
            "; a path has at most 4,000 bytes and no line break: give the group another"
        }
        _ => "; without it the run would not be what the workload says: change or leave out the group",
    }
}

/// Add the creation of a group to the batch, and of those on the way to it that are not in `made` yet;
/// returns how it is entered.
///
/// A group that the kernel refuses to make ends the run: its tasks would run elsewhere.
///
/// Groups at the top are domains, all below them are threaded. So tasks may be in a group that has groups
/// below it, as the root's tasks are and as version 1 of control groups allows; a task enters by the domain
/// (`cgroup.procs` of /web), then goes on to its group (`cgroup.threads` of /web/log). The cpu and cpuset
/// controllers treat both kinds alike.
pub(crate) fn make_group(batch: &mut Batch, group: &Cgroup, made: &mut BTreeSet<String>) -> GroupFiles {
    let mut path = CGROUP_ROOT.to_owned();
    let mut files = Vec::new();
    let parts: Vec<&str> = group.path.split('/').filter(|part| !part.is_empty()).collect();
    for (depth, part) in parts.iter().enumerate() {
        if depth > 0 {
            // children of a group can have cpu and cpuset settings only if it delegates them
            batch.write(&format!("{path}/cgroup.subtree_control"), "+cpu +cpuset");
        }
        path = format!("{path}/{part}");
        if made.insert(path.clone()) {
            batch.mkdir(&path);
        }
        if depth == 0 {
            files.push(format!("{path}/cgroup.procs"));
        } else {
            batch.write_or(Ignore, &format!("{path}/cgroup.type"), "threaded");
        }
    }
    match parts.len() {
        0 => files.push(format!("{CGROUP_ROOT}/cgroup.procs")),
        1 => {}
        _ => files.push(format!("{path}/cgroup.threads")),
    }
    if let Some(weight) = group.weight {
        batch.write_or(Count, &format!("{path}/cpu.weight"), &weight.to_string());
    }
    if let Some(max) = group.max {
        let microseconds = |span: Span| span.as_ns() / 1000;
        let text = format!("{} {}", microseconds(max.quota), microseconds(max.period));
        batch.write_or(Count, &format!("{path}/cpu.max"), &text);
    }
    if let Some(cpus) = &group.cpuset {
        batch.write_or(Count, &format!("{path}/cpuset.cpus"), &cpus.to_string());
    }
    files.into_iter().map(|path| CString::new(path).unwrap_or_default()).collect()
}
