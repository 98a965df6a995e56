//! How does a workload get into the guest? As a flat file of fixed-size rows that the guest's program maps and follows.
//!
//! It is the [`Program`] that the machine executes too: real Linux in the guest and the simulation get the
//! same steps, with the same tokens for dependent wakeups. The rows are the C structures of `init/init.c`,
//! little-endian, without gaps of their own.

use crate::{Options, RealError};
use schedlab_machine::kernel::{Change, SpawnState};
use schedlab_machine::{Code, Program};
use schedlab_units::{CpuSet, TaskId};
use schedlab_workload::Cgroup;

const MAGIC: u32 = u32::from_le_bytes(*b"SGP1");
const NONE: u32 = u32::MAX;
/// `MASK_WORDS` in `init.c`.
const MASK_WORDS: usize = 16;
/// Pid of task 0 in the guest; task i has `FIRST_PID + i`. Far above the pids of the kernel's threads.
pub(crate) const FIRST_PID: u32 = 1000;
/// The kernel's `pid_max` on small machines is 32768.
pub(crate) const MAX_TASKS: usize = 30_000;

/// Whether a task of it executes new programs.
pub(crate) fn executes(program: &Program) -> bool {
    program.steps.iter().any(|step| step.code() == Code::Exec)
}

/// The bytes of `/program`; task i is to be process `first_pid + i`.
pub(crate) fn encode(program: &Program, options: &Options, first_pid: u32) -> Result<Vec<u8>, RealError> {
    if !program.objects.is_empty() {
        return Err(RealError::Unsupported {
            what: "what tasks wait at".to_string(),
            value: format!("{} objects (channels, mutexes, ...)", program.objects.len()),
            expected: "BLOCKs and WAKEUPs alone: the guest has no objects yet".to_string(),
        });
    }
    if program.steps.iter().any(|step| matches!(step.code(), Code::BlockGridSkip(_))) {
        return Err(RealError::Unsupported {
            what: "a task's timer".to_string(),
            value: "grid-skip".to_string(),
            expected: "absolute, grid or grid-restart: real threads here give up no jobs".to_string(),
        });
    }
    if program.tasks.len() > MAX_TASKS {
        return Err(RealError::Unsupported {
            what: "the number of tasks".to_string(),
            value: program.tasks.len().to_string(),
            expected: format!("at most {MAX_TASKS}"),
        });
    }
    let mut changes: Vec<(u32, &Change)> =
        program.changes.iter().map(|(target, change)| (target.map_or(NONE, |task| task.0), change)).collect();
    let mut tasks = Vec::new();
    for (index, task) in program.tasks.iter().enumerate() {
        let change = match &task.change {
            None => NONE,
            Some(change) => {
                changes.push((index as u32, change));
                changes.len() as u32 - 1
            }
        };
        text(&mut tasks, &task.name, 16);
        let state = match task.init {
            Some(SpawnState::Runnable) => 0u32,
            Some(SpawnState::Blocked) => 1,
            None => 2,
        };
        words(&mut tasks, &[state, change]);
        longs(&mut tasks, &[task.first_step as u64]);
        words(&mut tasks, &[u32::from(task.idle_forever), 0]);
    }
    let mut file = Vec::new();
    let counts = [program.tasks.len(), changes.len(), program.cgroups.len()];
    words(&mut file, &[MAGIC]);
    words(&mut file, &counts.map(|count| count as u32));
    longs(
        &mut file,
        &[
            program.steps.len() as u64,
            options.duration.as_ns(),
            options.phase.as_ns(),
            options.timer_slack.as_ns(),
        ],
    );
    words(&mut file, &[program.tokens.len() as u32, options.cpus, first_pid, options.interleave_us()]);
    words(&mut file, &[u32::from(options.poll_clock), 0]);
    file.extend(tasks);
    for (target, change) in changes {
        encode_change(&mut file, target, change, options.cpus)?;
    }
    for group in &program.cgroups {
        encode_cgroup(&mut file, group)?;
    }
    for step in &program.steps {
        longs(&mut file, &[step.after_ns, pack(step.code())]);
    }
    Ok(file)
}

fn pack(code: Code) -> u64 {
    let (tag, operand) = match code {
        Code::BlockTimer(ns) => (0, ns),
        Code::BlockDevice(ns) => (1, ns),
        Code::BlockToken(token) => (2, token.into()),
        Code::BlockForever => (3, 0),
        Code::Deliver(token) => (4, token.into()),
        Code::Fork(child) => (5, child.into()),
        Code::Set(change) => (6, change.into()),
        Code::Yield => (7, 0),
        Code::Exit => (8, 0),
        Code::BlockUntil(ns) => (9, ns),
        Code::BlockGrid(ns) => (10, ns),
        Code::BlockGridRestart(ns) => (11, ns),
        Code::Exec => (12, 0),
        Code::Object(_) | Code::BlockGridSkip(_) => unreachable!("such a workload is refused before"),
    };
    tag << 56 | operand
}

fn encode_change(file: &mut Vec<u8>, target: u32, change: &Change, nr_cpus: u32) -> Result<(), RealError> {
    let params = change.params.unwrap_or_default();
    let what = u32::from(change.params.is_some())
        | u32::from(change.affinity.is_some()) << 1
        | u32::from(change.cgroup.is_some()) << 2;
    words(
        file,
        &[
            target,
            what,
            params.policy.number().into(),
            params.nice.get() as u32,
            params.rt_priority.into(),
            change.cgroup.unwrap_or(NONE),
        ],
    );
    let deadline = params.deadline.map_or([0; 3], |d| [d.runtime, d.deadline, d.period].map(|s| s.as_ns()));
    longs(file, &deadline);
    let mut mask = [0u64; MASK_WORDS];
    if let Some(affinity) = &change.affinity {
        if affinity.intersection(&CpuSet::first(nr_cpus)).is_empty() {
            let who = if target == NONE { "a task".to_string() } else { TaskId(target).to_string() };
            return Err(RealError::Unsupported {
                what: format!("the affinity of {who}"),
                value: format!("{affinity:?}"),
                expected: format!("at least one of its {nr_cpus} CPUs; give it more CPUs"),
            });
        }
        for (word, value) in mask.iter_mut().zip(affinity.words()) {
            *word = *value;
        }
    }
    longs(file, &mask);
    Ok(())
}

fn encode_cgroup(file: &mut Vec<u8>, group: &Cgroup) -> Result<(), RealError> {
    if group.path.len() >= 128 || !group.path.starts_with('/') {
        return Err(RealError::Unsupported {
            what: "the path of a control group".to_string(),
            value: group.path.clone(),
            expected: "a path from the root of at most 127 bytes".to_string(),
        });
    }
    text(file, &group.path, 128);
    let cpuset = group.cpuset.as_ref().map(|set| set.to_string()).unwrap_or_default();
    text(file, &cpuset, 128);
    let what = u32::from(group.weight.is_some())
        | u32::from(group.max.is_some()) << 1
        | u32::from(group.cpuset.is_some()) << 2;
    words(file, &[what, group.weight.unwrap_or(0)]);
    let max = group.max.map_or([0; 2], |max| [max.quota.as_ns() / 1000, max.period.as_ns() / 1000]);
    longs(file, &max);
    Ok(())
}

/// `text` in `room` bytes, the last of them 0.
fn text(file: &mut Vec<u8>, text: &str, room: usize) {
    let bytes = &text.as_bytes()[..text.len().min(room - 1)];
    file.extend_from_slice(bytes);
    file.resize(file.len() + room - bytes.len(), 0);
}

fn words(file: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| file.extend_from_slice(&value.to_le_bytes()));
}

fn longs(file: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| file.extend_from_slice(&value.to_le_bytes()));
}
