//! What does process 1, or a task, do in one system call? Several operations, with the memory that they point to.
//!
//! ```text
//! batch.mkdir("/proc"); batch.mount("proc", "/proc"); batch.write("/proc/sys/kernel/pid_max", "32768")
//!     one system call of process 1, three results; the first that the kernel refuses ends the run
//! ```

use std::ffi::CString;

use schedlab_machine::kernel::{Change, Fault, FaultKind, FileRequest, Hotplug, Refusal, Spawn};
use schedlab_units::{CpuSet, SchedParams, SchedPolicy, Span};

use crate::abi::{Operation, op};
use crate::extension::InitCall;
use crate::groups::{CGROUP_ROOT, GroupFiles, MAKING_GROUP, group_remedy};
use crate::params;

/// As much of a file is read (`sched/debug` of 64 CPUs has some 200 KB).
const FILE_MAX: usize = 4 << 20;

/// Several operations in one system call, with the memory they point to.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) ops: Vec<Operation>,
    /// What each operation is for, for messages.
    what: Vec<String>,
    /// What a refusal means.
    if_refused: Vec<IfRefused>,
    text: Vec<CString>,
    words: Vec<Vec<u64>>,
    /// Operations whose result is wanted: index, name; and for a read the buffer.
    wanted: Vec<(usize, String, Option<Vec<u8>>)>,
}

/// What it means that the kernel refuses an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfRefused {
    /// A request of the experimenter: the run cannot go on.
    Stop,
    /// A request of the workload, like a system call's error to a program: counted, and the run goes on.
    Count,
    /// Expected, or among the results.
    Ignore,
}
use IfRefused::{Count, Ignore, Stop};

impl Batch {
    pub(crate) fn push(&mut self, what: String, if_refused: IfRefused, op: u32, flags: u32, arg: [u64; 5]) {
        self.ops.push(Operation { op, flags, arg, result: 0 });
        self.what.push(what);
        self.if_refused.push(if_refused);
    }

    /// Address of a copy of the text that lives as long as the batch.
    pub(crate) fn text(&mut self, text: &str) -> u64 {
        // a NUL cannot be part of a path or name that the kernel accepts: cut there
        let text = text.split('\0').next().unwrap_or_default();
        self.text.push(CString::new(text).unwrap_or_default());
        self.text.last().map_or(0, |t| t.as_ptr() as u64)
    }

    /// Address of a page that begins with the text: mount(2) takes its options as one, and the kernel ends it
    /// with a NUL.
    pub(crate) fn page(&mut self, text: &str) -> u64 {
        const PAGE: usize = 4096;
        let mut words = vec![0u64; PAGE / 8];
        for (at, byte) in text.bytes().take(PAGE - 1).enumerate() {
            words[at / 8] |= u64::from(byte) << (at % 8 * 8);
        }
        self.words.push(words);
        self.words.last().map_or(0, |w| w.as_ptr() as u64)
    }

    pub(crate) fn write(&mut self, path: &str, data: &str) {
        self.write_or(Stop, path, data);
    }

    pub(crate) fn write_or(&mut self, if_refused: IfRefused, path: &str, data: &str) {
        let arg = [self.text(path), self.text(data), data.len() as u64, 0, 0];
        self.push(format!("writing '{data}' to {path}"), if_refused, op::WRITE, 0, arg);
    }

    /// Read or write what a name of `--param` stands for.
    pub(crate) fn file(&mut self, request: &FileRequest, version: (u32, u32)) {
        match request {
            FileRequest::Write { name, value, refusal } => {
                for (path, value) in params::writes(name, value, version) {
                    self.write_refusable(*refusal, name, &path, &value);
                }
            }
            FileRequest::Hotplug { cpu, to, refusal } => {
                let value = match to {
                    Hotplug::On => "1",
                    Hotplug::Off => "0",
                };
                self.write_refusable(*refusal, &format!("cpu{}", cpu.0), &params::online_file(cpu.0), value);
            }
            FileRequest::Remove { path, refusal } => {
                let if_refused = match refusal {
                    Refusal::Noted => {
                        self.wanted.push((self.ops.len(), path.clone(), None));
                        Ignore
                    }
                    Refusal::Ends => Stop,
                };
                let arg = [self.text(path), 0, 0, 0, 0];
                self.push(format!("removing {path}"), if_refused, op::RMDIR, 0, arg);
            }
            FileRequest::Read { name } => self.read(name, &params::path_of(name, version), op::READ),
            // handed to the kernel object before the run: LoadedKernel::ask
            FileRequest::Explain { .. } => {}
            FileRequest::List { path } => self.read(path, path, op::LIST),
            // LinuxKernel::control; the machine itself
            FileRequest::Change { .. } | FileRequest::Cut { .. } => {}
        }
    }

    /// A write of the experimenter's, by the name that it was asked for with.
    pub(crate) fn write_refusable(&mut self, refusal: Refusal, name: &str, path: &str, value: &str) {
        if refusal == Refusal::Noted {
            self.wanted.push((self.ops.len(), name.to_owned(), None));
            self.write_or(Ignore, path, value);
        } else {
            self.write_or(Stop, path, value);
        }
    }

    pub(crate) fn read(&mut self, name: &str, path: &str, op: u32) {
        let mut buffer = vec![0u8; FILE_MAX];
        let arg = [self.text(path), buffer.as_mut_ptr() as u64, FILE_MAX as u64, 0, 0];
        self.wanted.push((self.ops.len(), name.to_owned(), Some(buffer)));
        self.push(format!("reading {name}"), Ignore, op, 0, arg);
    }

    /// Results that are wanted: the text read, or the error.
    pub(crate) fn results(&mut self) -> Vec<(String, Result<String, i32>)> {
        let wanted = std::mem::take(&mut self.wanted);
        let result = |(at, name, buffer): (usize, String, Option<Vec<u8>>)| {
            let result = self.ops[at].result;
            let outcome = match buffer {
                _ if result < 0 => Err(i32::try_from(-result).unwrap_or(i32::MAX)),
                None => Ok(String::new()),
                // a folder's names end in NUL each
                Some(bytes) => Ok(String::from_utf8_lossy(&bytes[..result as usize]).replace('\0', "\n")),
            };
            (name, outcome)
        };
        wanted.into_iter().map(result).collect()
    }

    /// A call that a loaded scheduler asks for.
    pub(crate) fn call(&mut self, call: InitCall) {
        self.push(call.what, Stop, op::CALL, 0, [call.function, call.argument, 0, 0, 0]);
    }

    pub(crate) fn mkdir(&mut self, path: &str) {
        let arg = [self.text(path), 0o755, 0, 0, 0];
        let what = match path.strip_prefix(CGROUP_ROOT) {
            Some(group) => format!("{MAKING_GROUP}{group}"),
            None => format!("creating {path}"),
        };
        self.push(what, Stop, op::MKDIR, 0, arg);
    }

    pub(crate) fn mount(&mut self, kind: &str, dir: &str) {
        self.mount_with(kind, dir, "");
    }

    pub(crate) fn mount_with(&mut self, kind: &str, dir: &str, options: &str) {
        let options = if options.is_empty() { 0 } else { self.page(options) };
        let arg = [self.text(kind), self.text(dir), options, 0, 0];
        self.push(format!("mounting {kind} on {dir}"), Stop, op::MOUNT, 0, arg);
    }

    pub(crate) fn sched(&mut self, if_refused: IfRefused, target: u64, params: &SchedParams, flags: u32) {
        let number = match params.policy {
            SchedPolicy::Fifo | SchedPolicy::RoundRobin => u32::from(params.rt_priority),
            _ => params.nice.get() as u32,
        };
        let span = params.deadline.map_or([0; 3], |d| [d.runtime, d.deadline, d.period].map(Span::as_ns));
        let arg =
            [target, u64::from(params.policy.number()) | u64::from(number) << 32, span[0], span[1], span[2]];
        self.push(
            format!("policy {}, nice {}", params.policy, params.nice),
            if_refused,
            op::SCHED,
            flags,
            arg,
        );
    }

    pub(crate) fn affinity(&mut self, target: u64, cpus: &CpuSet, nr_cpus: u32) {
        let mut words = vec![0u64; nr_cpus.div_ceil(64) as usize];
        for cpu in cpus.iter().filter(|cpu| cpu.0 < nr_cpus) {
            words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
        }
        let arg = [target, words.as_ptr() as u64, words.len() as u64, 0, 0];
        self.words.push(words);
        self.push(format!("affinity {cpus}"), Count, op::AFFINITY, 0, arg);
    }

    pub(crate) fn change(&mut self, target: u64, change: &Change, groups: &[GroupFiles], nr_cpus: u32) {
        if let Some(group) = change.cgroup.and_then(|g| groups.get(g as usize)) {
            for file in group {
                let arg = [target, file.as_ptr() as u64, 0, 0, 0];
                self.push(format!("moving to {}", file.to_string_lossy()), Count, op::ATTACH, 0, arg);
            }
        }
        if let Some(cpus) = &change.affinity {
            self.affinity(target, cpus, nr_cpus);
        }
        if let Some(params) = &change.params {
            self.sched(Count, target, params, 0);
        }
        if let Some(nice) = change.nice {
            self.push(format!("nice {nice}"), Count, op::NICE, 0, [target, nice.get() as u64, 0, 0, 0]);
        }
    }

    /// Process 1 goes into a group.
    pub(crate) fn enter(&mut self, group: &[CString]) {
        for file in group {
            let path = file.to_string_lossy();
            let arg = [op::SELF, self.text(&path), 0, 0, 0];
            self.push(format!("process 1 moving to {path}"), Stop, op::ATTACH, 0, arg);
        }
    }

    pub(crate) fn fork(&mut self, spawn: &Spawn<'_>, groups: &[GroupFiles], nr_cpus: u32) {
        let arg = [u64::from(spawn.id.0), self.text(spawn.name), 0, 0, 0];
        self.push(format!("forking {} ({})", spawn.id, spawn.name), Stop, op::FORK, 0, arg);
        if let Some(change) = spawn.change {
            self.change(u64::from(spawn.id.0), change, groups, nr_cpus);
        }
    }

    /// What the kernel refused: the first that stops the run, and what is to be counted.
    pub(crate) fn refusals(&self) -> (Option<Fault>, Vec<String>) {
        let (mut stop, mut counted) = (None, Vec::new());
        for (i, op) in self.ops.iter().enumerate().filter(|(_, op)| op.result < 0) {
            let number = i32::try_from(-op.result).unwrap_or(0);
            let errno = std::io::Error::from_raw_os_error(number);
            let remedy = if self.what[i].starts_with(MAKING_GROUP) { group_remedy(number) } else { "" };
            let reason = format!("{}: refused by the kernel ({errno}){remedy}", self.what[i]);
            match self.if_refused[i] {
                Stop => {
                    stop.get_or_insert(Fault { kind: FaultKind::Refused, reason });
                }
                Count => counted.push(reason),
                Ignore => {}
            }
        }
        (stop, counted)
    }
}
