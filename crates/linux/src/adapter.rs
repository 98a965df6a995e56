//! How does the loaded kernel look to the machine? `impl Kernel for LinuxKernel`.
//!
//! [`LinuxKernel`] implements [`schedlab_machine::kernel::Kernel`] on a [`LoadedKernel`]. The machine speaks
//! of CPUs and workload tasks only; what it does not see is done here: the boot up to a user space with
//! `/proc`, `/sys` and cgroup2 mounted, tunables, and the control task (pid 1), which carries out the
//! experimenter's requests in process context.
//!
//! ```text
//! machine: control(Spawn [t0, t1])      here: interrupt on cpu0 that wakes pid 1
//!          next_kick() -> cpu0          pid 1 (FIFO 99) preempts, forks t0, t1, sets them up in one system call, blocks
//!          resume(cpu0) -> User(t0)
//!          control_done() -> Ok
//! ```
//!
//! pid 1 has the highest real-time priority and resets it on fork, so that a request is done at one instant
//! of simulated time, and children start as `SCHED_NORMAL`, nice 0. Only a `SCHED_DEADLINE` task can delay
//! it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::CString;

use schedlab_log::{KernelThread, Record};
use schedlab_machine::kernel::{
    Boot, Carried, Change, Control, Fault, FaultKind, FileRequest, Hotplug, Kernel, Op, Point, PointSet,
    ReadOut, Refusal, Spawn, SpawnState, Stimulus, TaskCounters, Yield,
};
use schedlab_machine::sink::Sink;
use schedlab_units::{CpuId, CpuSet, SchedParams, SchedPolicy, Span, TaskId, Time};
use schedlab_workload::Cgroup;

use crate::abi::{self, Operation, Topo, irq, op};
use crate::console::Warning;
use crate::kernel::{BootOptions, KernelError, LoadedKernel, State};
use crate::params::{self, Params};
use crate::scx::{CompiledScx, Scx, Subs, sub_of};

const CONTROL: TaskId = TaskId(abi::CONTROL);
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
const MAKING_GROUP: &str = "making the control group ";
/// As much of a file is read (`sched/debug` of 64 CPUs has some 200 KB).
const FILE_MAX: usize = 4 << 20;

/// A loaded kernel as the machine sees it.
pub struct LinuxKernel<S: Sink> {
    kernel: LoadedKernel,
    sink: S,
    command_line: String,
    kicks: VecDeque<CpuId>,
    phase: Phase,
    /// The operations of pid 1 that are under way, and whether pid 1 has begun them.
    request: Option<Batch>,
    request_taken: bool,
    request_result: Option<Result<(), Fault>>,
    /// Workload tasks that must do something before they have used any CPU time: become a session's leader, block.
    to_lead: Vec<TaskId>,
    to_block: Vec<TaskId>,
    /// Of them, those to be woken when all are there; then the list that the interrupt reads.
    to_wake: Vec<TaskId>,
    woken: Vec<TaskId>,
    /// What the last request read.
    read: Vec<(String, Result<String, i32>)>,
    /// Operations of tasks that consist of several; kept until the task is back in user mode.
    batches: BTreeMap<TaskId, Batch>,
    /// How each control group is entered.
    groups: Vec<GroupFiles>,
    /// Of each, which sub-scheduler has the tasks that are forked in it.
    governed: Vec<Option<usize>>,
    /// Tasks that a sub-scheduler has.
    sub_of_task: BTreeMap<TaskId, usize>,
    params: Params,
    refused: BTreeMap<String, u64>,
    /// Of the workload, once the kernel has booted.
    nr_tasks: u32,
    fault: Option<Fault>,
    /// Where process 1 is bound to, by the last [`FileRequest::Change`].
    control_cpu: Option<CpuId>,
    /// A sched_ext scheduler to be attached, and once the kernel boots the loaded one.
    compiled: Option<CompiledScx>,
    scx: Option<Scx>,
    /// Its sub-schedulers, attached once the control groups are there.
    subs: Subs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The kernel's own boot.
    Booting,
    /// pid 1 mounts file systems and sets tunables.
    Preparing,
    Up,
}

/// Several operations in one system call, with the memory they point to.
#[derive(Default)]
struct Batch {
    ops: Vec<Operation>,
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
enum IfRefused {
    /// A request of the experimenter: the run cannot go on.
    Stop,
    /// A request of the workload, like a system call's error to a program: counted, and the run goes on.
    Count,
    /// Expected, or among the results.
    Ignore,
}
use IfRefused::{Count, Ignore, Stop};

impl Batch {
    fn push(&mut self, what: String, if_refused: IfRefused, op: u32, flags: u32, arg: [u64; 5]) {
        self.ops.push(Operation { op, flags, arg, result: 0 });
        self.what.push(what);
        self.if_refused.push(if_refused);
    }

    /// Address of a copy of the text that lives as long as the batch.
    fn text(&mut self, text: &str) -> u64 {
        // a NUL cannot be part of a path or name that the kernel accepts: cut there
        let text = text.split('\0').next().unwrap_or_default();
        self.text.push(CString::new(text).unwrap_or_default());
        self.text.last().map_or(0, |t| t.as_ptr() as u64)
    }

    /// Address of a page that begins with the text: mount(2) takes its options as one, and the kernel ends it
    /// with a NUL.
    fn page(&mut self, text: &str) -> u64 {
        const PAGE: usize = 4096;
        let mut words = vec![0u64; PAGE / 8];
        for (at, byte) in text.bytes().take(PAGE - 1).enumerate() {
            words[at / 8] |= u64::from(byte) << (at % 8 * 8);
        }
        self.words.push(words);
        self.words.last().map_or(0, |w| w.as_ptr() as u64)
    }

    fn write(&mut self, path: &str, data: &str) {
        self.write_or(Stop, path, data);
    }

    fn write_or(&mut self, if_refused: IfRefused, path: &str, data: &str) {
        let arg = [self.text(path), self.text(data), data.len() as u64, 0, 0];
        self.push(format!("writing '{data}' to {path}"), if_refused, op::WRITE, 0, arg);
    }

    /// Read or write what a name of `--param` stands for.
    fn file(&mut self, request: &FileRequest, version: (u32, u32)) {
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
            FileRequest::Read { name } => self.read(name, &params::path_of(name, version), op::READ),
            // handed to the kernel object before the run: LoadedKernel::ask
            FileRequest::Explain { .. } => {}
            FileRequest::List { path } => self.read(path, path, op::LIST),
            // LinuxKernel::control; the machine itself
            FileRequest::Change { .. } | FileRequest::Cut { .. } => {}
        }
    }

    /// A write of the experimenter's, by the name that it was asked for with.
    fn write_refusable(&mut self, refusal: Refusal, name: &str, path: &str, value: &str) {
        if refusal == Refusal::Noted {
            self.wanted.push((self.ops.len(), name.to_owned(), None));
            self.write_or(Ignore, path, value);
        } else {
            self.write_or(Stop, path, value);
        }
    }

    fn read(&mut self, name: &str, path: &str, op: u32) {
        let mut buffer = vec![0u8; FILE_MAX];
        let arg = [self.text(path), buffer.as_mut_ptr() as u64, FILE_MAX as u64, 0, 0];
        self.wanted.push((self.ops.len(), name.to_owned(), Some(buffer)));
        self.push(format!("reading {name}"), Ignore, op, 0, arg);
    }

    /// Results that are wanted: the text read, or the error.
    fn results(&mut self) -> Vec<(String, Result<String, i32>)> {
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

    fn mkdir(&mut self, path: &str) {
        let arg = [self.text(path), 0o755, 0, 0, 0];
        let what = match path.strip_prefix(CGROUP_ROOT) {
            Some(group) => format!("{MAKING_GROUP}{group}"),
            None => format!("creating {path}"),
        };
        self.push(what, Stop, op::MKDIR, 0, arg);
    }

    fn mount(&mut self, kind: &str, dir: &str) {
        self.mount_with(kind, dir, "");
    }

    fn mount_with(&mut self, kind: &str, dir: &str, options: &str) {
        let options = if options.is_empty() { 0 } else { self.page(options) };
        let arg = [self.text(kind), self.text(dir), options, 0, 0];
        self.push(format!("mounting {kind} on {dir}"), Stop, op::MOUNT, 0, arg);
    }

    fn sched(&mut self, if_refused: IfRefused, target: u64, params: &SchedParams, flags: u32) {
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

    fn affinity(&mut self, target: u64, cpus: &CpuSet, nr_cpus: u32) {
        let mut words = vec![0u64; nr_cpus.div_ceil(64) as usize];
        for cpu in cpus.iter().filter(|cpu| cpu.0 < nr_cpus) {
            words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
        }
        let arg = [target, words.as_ptr() as u64, words.len() as u64, 0, 0];
        self.words.push(words);
        self.push(format!("affinity {cpus}"), Count, op::AFFINITY, 0, arg);
    }

    fn change(&mut self, target: u64, change: &Change, groups: &[GroupFiles], nr_cpus: u32) {
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
    fn enter(&mut self, group: &[CString]) {
        for file in group {
            let path = file.to_string_lossy();
            let arg = [op::SELF, self.text(&path), 0, 0, 0];
            self.push(format!("process 1 moving to {path}"), Stop, op::ATTACH, 0, arg);
        }
    }

    fn fork(&mut self, spawn: &Spawn<'_>, groups: &[GroupFiles], nr_cpus: u32) {
        let arg = [u64::from(spawn.id.0), self.text(spawn.name), 0, 0, 0];
        self.push(format!("forking {} ({})", spawn.id, spawn.name), Stop, op::FORK, 0, arg);
        if let Some(change) = spawn.change {
            self.change(u64::from(spawn.id.0), change, groups, nr_cpus);
        }
    }

    /// What the kernel refused: the first that stops the run, and what is to be counted.
    fn refusals(&self) -> (Option<Fault>, Vec<String>) {
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

impl<S: Sink> LinuxKernel<S> {
    /// Around a loaded kernel; its log goes to `sink`. `command_line` is the kernel's; parameters `boot.NAME`
    /// are added to it.
    pub fn new(kernel: LoadedKernel, command_line: &str, sink: S) -> LinuxKernel<S> {
        LinuxKernel {
            kernel,
            sink,
            command_line: command_line.to_string(),
            kicks: VecDeque::new(),
            phase: Phase::Booting,
            request: None,
            request_taken: false,
            request_result: None,
            to_lead: Vec::new(),
            to_block: Vec::new(),
            to_wake: Vec::new(),
            woken: Vec::new(),
            read: Vec::new(),
            batches: BTreeMap::new(),
            groups: Vec::new(),
            governed: Vec::new(),
            sub_of_task: BTreeMap::new(),
            params: Params::default(),
            refused: BTreeMap::new(),
            nr_tasks: 0,
            fault: None,
            control_cpu: None,
            compiled: None,
            scx: None,
            subs: Subs::default(),
        }
    }

    /// With this sched_ext scheduler, attached as the last step of the boot.
    pub fn with_scx(mut self, compiled: Option<CompiledScx>) -> LinuxKernel<S> {
        self.compiled = compiled;
        self
    }

    /// The kernel underneath: banner, HZ, console.
    pub fn kernel(&self) -> &LoadedKernel {
        &self.kernel
    }

    /// The decisions that were asked about ([`LoadedKernel::ask`]) and have come.
    pub fn decisions(&mut self) -> Vec<crate::decision::Decision> {
        self.kernel.decisions()
    }

    /// What pid 1 does before the kernel counts as up.
    fn preparations(&mut self) -> Batch {
        let mut b = Batch::default();
        b.mkdir("/proc");
        b.mount("proc", "/proc");
        b.mkdir("/sys");
        b.mount("sysfs", "/sys");
        b.mount("debugfs", "/sys/kernel/debug");
        // the first of several moves between groups would wait 13 ms for RCU; until 6.0 none did, and there
        // was no such option
        let options = if self.kernel.version() >= (6, 0) { "favordynmods" } else { "" };
        b.mount_with("cgroup2", CGROUP_ROOT, options);
        b.write(&format!("{CGROUP_ROOT}/cgroup.subtree_control"), "+cpu +cpuset");
        // refused before 6.10 by this configuration (BASE_SMALL): there are 32,768 pids then
        b.write("/proc/sys/kernel/pid_max", "32768");
        b.write_or(Ignore, "/proc/sys/kernel/pid_max", "4194304");
        b.write("/proc/sys/kernel/threads-max", "4000000");
        for (path, value) in self.params.writes() {
            b.write(path, value);
        }
        // from an ordinary task, as a loader in user space is one
        for (what, function, argument) in self.scx.iter_mut().flat_map(Scx::preparations) {
            b.push(what, Stop, op::CALL, 0, [function, argument, 0, 0, 0]);
        }
        let highest = SchedParams { policy: SchedPolicy::Fifo, rt_priority: 99, ..SchedParams::default() };
        b.sched(Stop, op::SELF, &highest, op::F_RESET_ON_FORK);
        b
    }

    /// pid 1 is in user mode on this CPU: give it something to do. Returns false when it shall sleep.
    #[cold]
    fn direct_control(&mut self) {
        if self.request_taken
            && let Some(batch) = self.request.take()
        {
            self.request_taken = false;
            let mut batch = batch;
            let (stop, counted) = batch.refusals();
            self.read = batch.results();
            self.count(counted);
            let preparing = self.phase == Phase::Preparing;
            let of_scx = preparing || self.subs.refused().is_some();
            let explain = |fault| {
                let fault = self.params.explain(fault);
                if of_scx { self.explain_scx(fault) } else { fault }
            };
            self.request_result = Some(stop.map_or(Ok(()), |fault| Err(explain(fault))));
            if preparing {
                self.phase = Phase::Up;
                if let Some(Err(fault)) = self.request_result.take() {
                    self.fault = Some(fault);
                }
            }
        }
        if self.phase == Phase::Booting {
            self.request = Some(self.preparations());
            self.phase = Phase::Preparing;
        }
        match &mut self.request {
            Some(batch) => {
                self.request_taken = true;
                let arg = [batch.ops.as_mut_ptr() as u64, batch.ops.len() as u64, 0, 0, 0];
                self.kernel.operate(CONTROL, op::BATCH, 0, arg);
            }
            None => self.kernel.operate(CONTROL, op::BLOCK, 0, [u64::MAX, 0, 0, 0, 0]),
        }
    }

    /// The kernel did not take the sched_ext scheduler: say what it said.
    #[cold]
    fn explain_scx(&self, mut fault: Fault) -> Fault {
        let Some(scx) = &self.scx else { return fault };
        if let Some(fault) = self.exit_of_scx() {
            return fault;
        }
        let failed = self.subs.refused().unwrap_or_else(|| scx.refused());
        if !failed.is_empty() {
            fault.reason.push_str(&format!("; {failed}"));
        }
        let lines: Vec<&str> =
            self.kernel.console().lines().filter(|l| l.contains("sched_ext") || l.contains("bpf")).collect();
        for line in &lines[lines.len().saturating_sub(5)..] {
            fault.reason.push_str(&format!("\n    {line}"));
        }
        fault
    }

    /// Which sched_ext scheduler has been thrown out or has left, if one has, and why.
    #[cold]
    fn exit_of_scx(&self) -> Option<Fault> {
        let reason = match self.scx.as_ref()?.exit() {
            Some(exit) => exit.to_string(),
            None => {
                let (group, exit) = self.subs.exit()?;
                format!("the sub-scheduler of {group}: {exit}")
            }
        };
        Some(Fault { kind: FaultKind::Scheduler, reason })
    }

    /// A sched_ext scheduler has been thrown out, or has left: the run is not its any more.
    #[cold]
    fn scx_gone(&mut self) -> Yield {
        if let Some(fault) = self.exit_of_scx() {
            self.fault.get_or_insert(fault);
        }
        Yield::Fault
    }

    #[inline(always)]
    fn stimulate(&mut self, cpu: CpuId, stimulus: Stimulus<'_>) {
        match stimulus {
            Stimulus::Continue => {}
            Stimulus::Timer(_) => self.kernel.raise(cpu, irq::TIMER),
            // SAFETY: the machine's list outlives the call of resume(), in which the handler runs.
            Stimulus::Device(tasks) => unsafe { self.kernel.raise_device(cpu, tasks) },
            Stimulus::Op(task, operation) => self.operate(task, operation),
        }
    }

    /// The next CPU that an interrupt was posted to.
    fn kicked(&mut self) -> Option<CpuId> {
        self.kernel.drain_kicks(&mut self.kicks);
        while let Some(cpu) = self.kicks.pop_front() {
            if self.kernel.kicked(cpu) {
                return Some(cpu);
            }
        }
        None
    }

    /// A task in user mode is there because it computes, whoever it is: no request of ours is under way.
    #[inline]
    fn nothing_asked(&self) -> bool {
        self.batches.is_empty() && self.to_lead.is_empty() && self.to_block.is_empty() && self.scx.is_none()
    }

    /// What a CPU's state means to the machine; a task that is in user mode for a request of ours goes on with it.
    #[inline(never)]
    fn after_run(&mut self, cpu: CpuId, mut state: Option<State>) -> Yield {
        loop {
            let sink = &mut self.sink;
            let came = match state {
                Some(state) => Ok(state),
                None => self.kernel.serve_on(cpu, &mut |window| sink.push_all(window)),
            };
            let gone = |scx: &Scx| scx.has_exited() || self.subs.have_exited();
            if self.scx.as_ref().is_some_and(gone) && came.is_ok() {
                return self.scx_gone();
            }
            match came {
                Ok(State::Idle) => return Yield::Idle,
                Ok(State::Relax) => return Yield::Spin,
                Ok(State::Paused) => return Yield::Paused,
                Ok(State::Point) => return Yield::Point,
                Ok(State::User(CONTROL)) => {
                    self.direct_control();
                    if self.fault.is_some() {
                        return Yield::Fault;
                    }
                }
                Ok(State::User(task)) => {
                    if !self.batches.is_empty() {
                        self.batch_done(task);
                        if self.fault.is_some() {
                            return Yield::Fault;
                        }
                    }
                    if let Some(at) = self.to_lead.iter().position(|&t| t == task) {
                        self.to_lead.swap_remove(at);
                        self.kernel.operate(task, op::SETSID, 0, [0; 5]);
                    } else if let Some(at) = self.to_block.iter().position(|&t| t == task) {
                        self.to_block.swap_remove(at);
                        self.kernel.operate(task, op::BLOCK, 0, [u64::MAX, 0, 0, 0, 0]);
                    } else {
                        return Yield::User(task);
                    }
                }
                Err(error) => return self.fail(&error),
            }
            state = self.kernel.run(cpu);
        }
    }

    #[inline(always)]
    fn operate(&mut self, task: TaskId, operation: Op<'_>) {
        let one = |op, a0| (op, [a0, 0, 0, 0, 0]);
        let mut flags = 0;
        let (op, arg) = match operation {
            Op::Block => one(op::BLOCK, u64::MAX),
            Op::BlockUntil(time) => one(op::BLOCK, time.as_ns()),
            Op::Wake(target) => one(op::WAKE, u64::from(target.0)),
            Op::WakeSync(target) => {
                flags = op::F_SYNC;
                one(op::WAKE, u64::from(target.0))
            }
            Op::Yield => one(op::YIELD, 0),
            Op::Exit => one(op::EXIT, 0),
            Op::Fork(_) | Op::Set(..) => return self.operate_batch(task, operation),
        };
        self.kernel.operate(task, op, flags, arg);
    }

    /// The sub-scheduler of the group that a change moves a task to, if it moves one.
    fn sub_of_change(&self, change: &Change) -> Option<Option<usize>> {
        self.governed.get(change.cgroup? as usize).copied()
    }

    /// A task that moves to another group keeps its scheduler (as of Linux 7.2: ext.c sets it at fork alone):
    /// count those that are not where their group's scheduler has them.
    #[cold]
    fn count_strangers(&mut self, task: TaskId, operation: &Op<'_>) {
        let (target, change) = match operation {
            Op::Fork(spawn) => {
                if let Some(&sub) = self.sub_of_task.get(&task) {
                    self.sub_of_task.insert(spawn.id, sub);
                }
                (spawn.id, spawn.change)
            }
            Op::Set(target, change) => (*target, Some(*change)),
            _ => return,
        };
        if let Some(sub) = change.and_then(|change| self.sub_of_change(change))
            && sub.as_ref() != self.sub_of_task.get(&target)
        {
            const WHAT: &str = "a task moved to a group of another sched_ext scheduler, and stayed with the one it \
                was forked under, as in Linux";
            self.count(vec![WHAT.to_owned()]);
        }
    }

    #[cold]
    fn operate_batch(&mut self, task: TaskId, operation: Op<'_>) {
        if self.subs.len() > 0 {
            self.count_strangers(task, &operation);
        }
        let mut batch = Batch::default();
        match operation {
            Op::Fork(spawn) => batch.fork(spawn, &self.groups, self.kernel.nr_cpus()),
            Op::Set(target, change) => {
                batch.change(u64::from(target.0), change, &self.groups, self.kernel.nr_cpus());
            }
            _ => {}
        }
        let arg = [batch.ops.as_mut_ptr() as u64, batch.ops.len() as u64, 0, 0, 0];
        self.kernel.operate(task, op::BATCH, 0, arg);
        self.batches.insert(task, batch);
    }

    /// The batch's task is in user mode again, so the batch is done.
    #[cold]
    fn batch_done(&mut self, task: TaskId) {
        if let Some(batch) = self.batches.remove(&task) {
            let (stop, counted) = batch.refusals();
            self.count(counted);
            if let Some(fault) = stop {
                self.fault.get_or_insert(fault);
            }
        }
    }

    fn count(&mut self, refusals: Vec<String>) {
        for reason in refusals {
            *self.refused.entry(reason).or_default() += 1;
        }
    }

    /// What a sched_ext scheduler printed, as rows of its account: how many lines, and the last of them.
    fn printed(&self) -> Vec<(String, String, String)> {
        let (lines, count) = self.kernel.console().printed();
        let row = |name: &str, value: String| ("printed".to_owned(), name.to_owned(), value);
        let epoch_ns = self.kernel.log_epoch().map_or(0, |epoch| epoch.as_ns());
        let stamped = |(now_ns, line): (u64, &str)| match now_ns.checked_sub(epoch_ns) {
            Some(ns) => format!("{}.{:06} s  {line}", ns / 1_000_000_000, ns / 1000 % 1_000_000),
            None => format!("before 0 s  {line}"), // the boot
        };
        let mut rows: Vec<_> = lines.map(|line| row("line", stamped(line))).collect();
        if count > 0 {
            rows.push(row("lines", count.to_string()));
        }
        rows
    }

    #[cold]
    fn fail(&mut self, error: &KernelError) -> Yield {
        const SHOWN: usize = 30;
        let mut fault = fault_of(error);
        let lines: Vec<&str> = self.kernel.console().lines().collect();
        for line in &lines[lines.len().saturating_sub(SHOWN)..] {
            fault.reason.push_str("\n    ");
            fault.reason.push_str(line);
        }
        self.fault.get_or_insert(fault);
        Yield::Fault
    }
}

fn fault_of(error: &KernelError) -> Fault {
    match error {
        KernelError::Dead { reason, .. } => Fault { kind: FaultKind::Panic, reason: reason.clone() },
        KernelError::Endless { .. } => Fault { kind: FaultKind::Livelock, reason: error.to_string() },
        other => Fault { kind: FaultKind::Refused, reason: other.to_string() },
    }
}

impl<S: Sink> Kernel for LinuxKernel<S> {
    const OWNS_TASK_TIMERS: bool = true;

    fn boot(&mut self, boot: &Boot<'_>) -> Result<(), Fault> {
        let topology: Vec<Topo> = boot
            .topology
            .cpus()
            .iter()
            .map(|cpu| Topo {
                core: cpu.core,
                cluster: cpu.cluster,
                llc: cpu.llc,
                package: cpu.package,
                node: cpu.node,
                capacity: cpu.capacity,
            })
            .collect();
        let mut refusal = None;
        if let Some(compiled) = self.compiled.take() {
            let object = self.kernel.console().object().to_owned();
            match Scx::load(&compiled, &self.kernel, &object, &topology, boot.params) {
                Ok(scx) => self.scx = Some(scx),
                Err(reason) => refusal = Some(Fault { kind: FaultKind::Refused, reason }),
            }
            match Subs::load(&compiled, &self.kernel, &object, &topology, boot.params) {
                Ok(subs) => self.subs = subs,
                Err(reason) => {
                    refusal.get_or_insert(Fault { kind: FaultKind::Refused, reason });
                }
            }
        }
        let scx = &self.scx;
        let is_theirs = |name: &str| {
            scx.as_ref().is_some_and(|scx| scx.has(name)) || self.subs.len() > 0 && sub_of(name).is_some()
        };
        let params: Vec<_> = boot.params.iter().filter(|(name, _)| !is_theirs(name)).cloned().collect();
        self.params = Params::new(&params, self.kernel.version());
        // hash tables of fixed size: their default follows from the size of memory, and so from the number of tasks
        let mut command_line = format!(
            "{} dhash_entries=4096 ihash_entries=4096 mhash_entries=256 mphash_entries=256 {}",
            self.command_line,
            self.params.command_line()
        );
        if boot.entropy != 0 {
            // the kernel stirs its command line into its random numbers (random_init_early()); a parameter of a module
            // that is not there has no other effect
            command_line.push_str(&format!(" schedlab.entropy={}", boot.entropy));
        }
        let options = BootOptions {
            topology: &topology,
            distances: boot.topology.distances(),
            max_tasks: boot.nr_tasks,
            // maps, and what BPF's allocator keeps in store: 128 MiB
            live_tasks: boot.nr_tasks
                + if self.scx.is_some() { 2048 * (1 + self.subs.len() as u32) } else { 0 },
            nr_groups: boot.nr_groups,
            nr_sessions: if self.params.sessions() { boot.nr_initial } else { 0 },
            command_line: command_line.trim_end(),
            now: boot.now,
        };
        self.kernel.boot(&options).map_err(|e| fault_of(&e))?;
        self.nr_tasks = boot.nr_tasks;
        refusal.map_or(Ok(()), Err)
    }

    fn is_up(&self) -> bool {
        self.phase == Phase::Up
    }

    #[inline(always)]
    fn resume(&mut self, cpu: CpuId, now: Time, stimulus: Stimulus<'_>) -> Yield {
        self.kernel.set_now(now);
        self.stimulate(cpu, stimulus);
        match self.kernel.run(cpu) {
            Some(State::User(task)) if task != CONTROL && self.nothing_asked() => Yield::User(task),
            Some(State::Idle) if self.scx.is_none() => Yield::Idle,
            state => self.after_run(cpu, state),
        }
    }

    fn set_resched(&mut self, span: Span) {
        self.kernel.set_resched(span);
    }

    fn set_points(&mut self, kinds: PointSet) {
        self.kernel.set_points(kinds);
    }

    fn point(&self, cpu: CpuId) -> Point {
        self.kernel.point(cpu)
    }

    #[inline]
    fn takes_devices(&self, cpu: CpuId) -> bool {
        self.kernel.is_online(cpu)
    }

    #[inline]
    fn timer(&self, cpu: CpuId) -> Time {
        self.kernel.deadline(cpu).unwrap_or(Time::NEVER)
    }

    #[inline(always)]
    fn next_kick(&mut self) -> Option<CpuId> {
        if self.kernel.has_kicks() || !self.kicks.is_empty() { self.kicked() } else { None }
    }

    fn control(&mut self, now: Time, request: Control<'_>) -> Result<(), Fault> {
        self.kernel.set_now(now);
        let mut batch = Batch::default();
        let nr_cpus = self.kernel.nr_cpus();
        match request {
            Control::Spawn(spawns) => {
                if self.control_cpu.take().is_some() {
                    // its children inherit where it may be
                    batch.affinity(op::SELF, &CpuSet::first(nr_cpus), nr_cpus);
                }
                // the first of several deadline tasks would keep process 1 from creating the others: they
                // sleep until all are there
                let together = spawns.iter().filter(|spawn| spawn.is_deadline()).count() > 1;
                for spawn in spawns {
                    // a task belongs to the scheduler of the group in which it was forked
                    let sub = spawn.change.and_then(|change| self.sub_of_change(change));
                    match (sub, spawn.change.and_then(|change| change.cgroup)) {
                        (Some(Some(sub)), Some(group)) => {
                            self.sub_of_task.insert(spawn.id, sub);
                            batch.enter(&self.groups[group as usize]);
                            batch.fork(spawn, &self.groups, nr_cpus);
                            batch.enter(&root_files());
                        }
                        _ => batch.fork(spawn, &self.groups, nr_cpus),
                    }
                    if let Some(cpu) = start_cpu(spawn) {
                        batch.affinity(u64::from(spawn.id.0), &CpuSet::single(cpu), nr_cpus);
                    }
                    if self.params.sessions() {
                        self.to_lead.push(spawn.id);
                    }
                    if spawn.state == SpawnState::Blocked {
                        self.to_block.push(spawn.id);
                    } else if together && spawn.is_deadline() {
                        self.to_block.push(spawn.id);
                        self.to_wake.push(spawn.id);
                    }
                }
                // all are where they begin: from now on they may go where they are allowed to
                for spawn in spawns.iter().filter(|spawn| start_cpu(spawn).is_some()) {
                    let allowed = spawn.affinity().cloned().unwrap_or_else(|| CpuSet::first(nr_cpus));
                    batch.affinity(u64::from(spawn.id.0), &allowed, nr_cpus);
                }
            }
            Control::Cgroups(groups) => {
                let mut made = BTreeSet::new();
                for group in groups {
                    self.groups.push(make_group(&mut batch, group, &mut made));
                    self.governed.push(self.subs.of(&group.path));
                }
                for (what, function, argument) in self.subs.preparations() {
                    batch.push(what, Stop, op::CALL, 0, [function, argument, 0, 0, 0]);
                }
            }
            Control::Files(files) => {
                let version = self.kernel.version();
                for file in files {
                    if let FileRequest::Change { tasks, change, by } = file {
                        // it stays there: woken anywhere else, it would leave a CPU idle when it goes back to sleep
                        batch.affinity(op::SELF, &CpuSet::single(*by), nr_cpus);
                        self.control_cpu = Some(*by);
                        tasks.iter().for_each(|task| {
                            batch.change(u64::from(task.0), change, &self.groups, nr_cpus);
                        });
                    } else {
                        batch.file(file, version);
                    }
                }
            }
        }
        self.request = Some(batch);
        self.request_result = None;
        // pid 1 sleeps: wake it by an interrupt, where it is bound to or on CPU 0
        let cpu = self.control_cpu.unwrap_or(CpuId(0));
        static WAKE: [TaskId; 1] = [CONTROL];
        // SAFETY: the list is static.
        unsafe { self.kernel.raise_device(cpu, &WAKE) };
        self.kernel.kick(cpu);
        self.kicks.push_back(cpu);
        Ok(())
    }

    fn control_done(&mut self) -> Option<Carried> {
        if !(self.to_block.is_empty() && self.to_lead.is_empty()) {
            return None;
        }
        let result = self.request_result.take()?;
        if !self.to_wake.is_empty() {
            self.woken = std::mem::take(&mut self.to_wake);
            // SAFETY: the list stays in `woken` until the next control request, before which CPU 0 has been resumed.
            unsafe { self.kernel.raise_device(CpuId(0), &self.woken) };
            self.kernel.kick(CpuId(0));
            self.kicks.push_back(CpuId(0));
        }
        Some(Carried { result, readings: std::mem::take(&mut self.read) })
    }

    fn start_log(&mut self, epoch: Time) {
        self.kernel.start_log(epoch);
        self.kernel.reset_coverage();
    }

    #[inline(always)]
    fn note(&mut self, now: Time, note: Record) {
        let Some(epoch) = self.kernel.log_epoch() else { return };
        let sink = &mut self.sink;
        let record = Record { time_ns: (now - epoch).as_ns(), ..note };
        self.kernel.append(record, &mut |window| sink.push_all(window));
    }

    fn read_out(&mut self) -> ReadOut {
        let counters = |id: u32| {
            let s = self.kernel.stats(TaskId(id));
            let cpu = Span::from_ns(s.cpu_ns);
            TaskCounters { cpu, voluntary: s.nvcsw, involuntary: s.nivcsw, migrations: s.migrations }
        };
        let text =
            |w: &Warning| std::iter::once(&w.head).chain(&w.text).cloned().collect::<Vec<_>>().join("\n");
        let mut loaded_scheduler = self.scx.as_ref().map(Scx::account).unwrap_or_default();
        loaded_scheduler.extend(self.subs.account());
        loaded_scheduler.extend(self.printed());
        let threads = self.kernel.threads().into_iter();
        ReadOut {
            kernel_threads: threads.map(|t| KernelThread { pid: t.pid, name: t.name }).collect(),
            tasks: (0..self.nr_tasks).map(counters).collect(),
            warnings: self.kernel.console().warnings().iter().map(text).collect(),
            refused: self.refused.clone(),
            loaded_scheduler,
            coverage: self.kernel.coverage(),
        }
    }

    fn fault(&mut self) -> Fault {
        self.fault.clone().unwrap_or(Fault { kind: FaultKind::Panic, reason: "unknown".into() })
    }

    fn flush_log(&mut self) -> std::io::Result<()> {
        let sink = &mut self.sink;
        self.kernel.flush_log(&mut |window| sink.push_all(window));
        self.sink.flush()
    }
}

/// The CPU that a task is bound to until all are there. Admission control lets no deadline task be bound.
fn start_cpu(spawn: &Spawn<'_>) -> Option<CpuId> {
    spawn.cpu.filter(|_| !spawn.is_deadline())
}

/// Files that a task's pid is written to, in this order, to bring it into a group.
type GroupFiles = Vec<CString>;

/// The group of process 1.
fn root_files() -> GroupFiles {
    vec![CString::new(format!("{CGROUP_ROOT}/cgroup.procs")).unwrap_or_default()]
}

/// What to do about a control group that the kernel does not make.
fn group_remedy(errno: i32) -> &'static str {
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
fn make_group(batch: &mut Batch, group: &Cgroup, made: &mut BTreeSet<String>) -> GroupFiles {
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
