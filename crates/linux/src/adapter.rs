//! How does the loaded kernel look to the machine? `impl Kernel for LinuxMachine`.
//!
//! Most of it is translation: a stimulus becomes an interrupt or an operation in a task's mailbox. What is more than that:
//!
//! * **The control task.** The kernel's process 1 carries out the experimenter's requests (create tasks, write files). It is
//!   woken by a device interrupt, is handed one operation after the other while it is in user mode, and blocks when there are none.
//!   The machine never sees it compute: it uses no time.
//! * **Follow-up operations.** A forked task that is to have settings of its own, or to be blocked at the start, gets the
//!   operations for that before the machine sees it.

use crate::abi::{self, Topo, irq, op};
use crate::kernel::{BootOptions, KernelError, LinuxKernel, State};
use schedlab_log::{KernelThread, Record};
use schedlab_machine::kernel::{
    Boot, Change, Control, Fault, FaultKind, Kernel, Op, Spawn, SpawnState, Stimulus, TaskCounters, Yield,
};
use schedlab_machine::sink::Sink;
use schedlab_units::{CpuId, CpuSet, Policy, SchedParams, Span, TaskId, Time};
use schedlab_workload::Cgroup;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::rc::Rc;

const CONTROL: TaskId = TaskId(abi::CONTROL);
const FOREVER: u64 = u64::MAX;
/// Where the control task mounts cgroup v2 in the simulated kernel's own (empty) file system.
const CGROUP_ROOT: &str = "/cgroup";

/// Real Linux behind the machine's contract; records go to `sink`.
pub struct LinuxMachine<S: Sink + 'static> {
    kernel: LinuxKernel,
    sink: Rc<RefCell<S>>,
    command_line: String,
    /// CPUs with interrupts that have arrived, in order.
    kicked: VecDeque<CpuId>,
    scratch: Vec<(CpuId, u8)>,
    control: ControlState,
    /// Operations that a task is to carry out before the machine sees it; the control task's are requests.
    queues: BTreeMap<TaskId, Queue>,
    /// Of the tasks created as blocked, those that have not blocked yet.
    births: u32,
    cgroups: Vec<String>,
    refused: BTreeMap<String, u64>,
    fault: Option<Fault>,
}

/// Operations of one task, in order.
#[derive(Default)]
struct Queue {
    /// Handed to the kernel; over when the task is in user mode again.
    in_flight: Option<Operation>,
    waiting: VecDeque<Operation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControlState {
    /// The kernel has not reached user mode yet.
    Booting,
    /// Waiting for requests.
    Blocked,
    /// Woken, or carrying out requests.
    Busy,
}

/// An operation with what it points to.
#[derive(Debug)]
struct Operation {
    op: u32,
    arg: [u64; 5],
    /// Whether a refusal ends the run (a request of the experimenter) or is counted (a request of the workload).
    fatal: bool,
    what: String,
    /// Texts and masks that `arg` points into.
    _keep: Keep,
}

#[derive(Debug, Default)]
#[allow(dead_code)] // only kept alive, never read from this side
struct Keep(Vec<CString>, Vec<u64>);

impl Operation {
    fn plain(op: u32, arg: [u64; 5], what: impl Into<String>) -> Operation {
        Operation { op, arg, fatal: true, what: what.into(), _keep: Keep::default() }
    }

    /// An operation on files: path and up to one more text.
    fn file(op: u32, path: &str, text: Option<&str>, what: impl Into<String>) -> Operation {
        let text_of = |s: &str| CString::new(s.replace('\0', "")).expect("NULs are gone");
        let keep: Vec<CString> = std::iter::once(path).chain(text).map(text_of).collect();
        let mut arg = [0; 5];
        for (slot, text) in arg.iter_mut().zip(&keep) {
            *slot = text.as_ptr() as u64;
        }
        if op == op::WRITE {
            arg[2] = keep[1].as_bytes().len() as u64;
        } else if op == op::MKDIR {
            arg[1] = 0o755;
        }
        Operation { op, arg, fatal: true, what: what.into(), _keep: Keep(keep, Vec::new()) }
    }

    fn write(path: &str, text: &str) -> Operation {
        Operation::file(op::WRITE, path, Some(text), format!("writing '{text}' to {path}"))
    }
    fn mkdir(path: &str) -> Operation {
        Operation::file(op::MKDIR, path, None, format!("making the folder {path}"))
    }
    fn mount(kind: &str, folder: &str) -> Operation {
        Operation::file(op::MOUNT, kind, Some(folder), format!("mounting {kind} on {folder}"))
    }

    fn params(target: u64, params: &SchedParams) -> Operation {
        let policy = u64::from(params.policy.number());
        let second = match params.policy {
            Policy::Fifo | Policy::RoundRobin => u64::from(params.rt_priority),
            _ => u64::from(params.nice.get() as u32),
        };
        let deadline = params.deadline.map_or([0; 3], |d| [d.runtime, d.deadline, d.period].map(Span::as_ns));
        let arg = [target, policy | second << 32, deadline[0], deadline[1], deadline[2]];
        Operation::plain(op::SCHED, arg, format!("policy {}, nice {}", params.policy, params.nice))
    }

    fn affinity(target: u64, cpus: &CpuSet) -> Operation {
        let words = cpus.words().to_vec();
        let arg = [target, words.as_ptr() as u64, words.len() as u64, 0, 0];
        let what = format!("affinity {cpus}");
        Operation { op: op::AFFINITY, arg, fatal: true, what, _keep: Keep(Vec::new(), words) }
    }

    fn attach(target: u64, group: &str) -> Operation {
        let mut operation =
            Operation::file(op::ATTACH, &format!("{group}/cgroup.procs"), None, format!("moving to the group {group}"));
        operation.arg = [target, operation.arg[0], 0, 0, 0];
        operation
    }

    fn counted(mut self) -> Operation {
        self.fatal = false;
        self
    }
}

impl<S: Sink + 'static> LinuxMachine<S> {
    /// Around a loaded kernel. `command_line` is the kernel's; parameters `boot.NAME` are added to it.
    pub fn new(kernel: LinuxKernel, command_line: &str, sink: S) -> LinuxMachine<S> {
        LinuxMachine {
            kernel,
            sink: Rc::new(RefCell::new(sink)),
            command_line: command_line.to_string(),
            kicked: VecDeque::new(),
            scratch: Vec::new(),
            control: ControlState::Booting,
            queues: BTreeMap::new(),
            births: 0,
            cgroups: Vec::new(),
            refused: BTreeMap::new(),
            fault: None,
        }
    }

    /// The kernel underneath.
    pub fn kernel(&self) -> &LinuxKernel {
        &self.kernel
    }

    /// The interrupts that CPUs have sent each other arrive, in the order in which the first was sent to each.
    fn collect_kicks(&mut self) {
        while let Some(kick) = self.kernel.take_kick() {
            self.scratch.push(kick);
        }
        while let Some((cpu, irqs)) = self.scratch.pop() {
            self.kernel.raise(cpu, irqs);
            self.kicked.push_back(cpu);
        }
    }

    /// Lets the CPU run until the machine has to know.
    #[inline]
    fn advance(&mut self, cpu: CpuId) -> Yield {
        loop {
            match self.kernel.resume(cpu) {
                Ok(State::User(task)) if self.queues.is_empty() && task.is_workload() => return Yield::User(task),
                Ok(State::Idle) => return Yield::Idle,
                Ok(State::Relax) => return Yield::Spin,
                Ok(State::User(task)) => {
                    let handed = self.next_operation(task);
                    if self.fault.is_some() {
                        return Yield::Fault;
                    }
                    if !handed {
                        return Yield::User(task);
                    }
                }
                Err(error) => return self.dead(error),
            }
        }
    }

    #[cold]
    fn dead(&mut self, error: KernelError) -> Yield {
        const SHOWN: usize = 30;
        let mut reason = match error {
            KernelError::Dead { reason, .. } => reason,
            other => other.to_string(),
        };
        let lines: Vec<&str> = self.kernel.console().lines().collect();
        for line in &lines[lines.len().saturating_sub(SHOWN)..] {
            reason.push_str("\n    ");
            reason.push_str(line);
        }
        self.fault.get_or_insert(Fault { kind: FaultKind::Panic, reason });
        Yield::Fault
    }

    /// The task is in user mode: closes its operation under way, and hands it the next. False if there is none, and the machine
    /// may see the task.
    #[cold]
    fn next_operation(&mut self, task: TaskId) -> bool {
        if let Some(done) = self.queues.get_mut(&task).and_then(|queue| queue.in_flight.take()) {
            self.close(task, &done);
        }
        let next = self.queues.get_mut(&task).and_then(|queue| queue.waiting.pop_front());
        match next {
            Some(operation) => {
                if task == CONTROL {
                    self.control = ControlState::Busy;
                }
                if operation.op == op::BLOCK {
                    self.births -= 1;
                }
                self.kernel.operate(task, operation.op, 0, operation.arg);
                if let Some(queue) = self.queues.get_mut(&task) {
                    queue.in_flight = Some(operation);
                }
                true
            }
            None => {
                self.queues.remove(&task);
                if task == CONTROL {
                    self.control = ControlState::Blocked;
                    self.kernel.operate(CONTROL, op::BLOCK, 0, [FOREVER, 0, 0, 0, 0]);
                }
                task == CONTROL
            }
        }
    }

    /// What came of an operation.
    fn close(&mut self, task: TaskId, operation: &Operation) {
        let (result, _) = self.kernel.result(task);
        if result < 0 {
            let why = std::io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(0));
            let reason = format!("{}: refused by the kernel ({why})", operation.what);
            if operation.fatal {
                self.fault.get_or_insert(Fault { kind: FaultKind::Refused, reason });
            } else {
                *self.refused.entry(reason).or_default() += 1;
            }
        }
    }

    fn queue(&mut self, task: TaskId, operations: impl IntoIterator<Item = Operation>) {
        self.queues.entry(task).or_default().waiting.extend(operations);
    }

    /// The operations that give `target` these settings.
    fn settings(&self, target: TaskId, change: &Change) -> Vec<Operation> {
        let id = u64::from(target.0);
        let mut operations = Vec::new();
        if let Some(group) = change.cgroup.and_then(|index| self.cgroups.get(index as usize)) {
            operations.push(Operation::attach(id, group));
        }
        if let Some(params) = &change.params {
            operations.push(Operation::params(id, params));
        }
        if let Some(nice) = change.nice {
            let arg = [id, nice.get() as u64, 0, 0, 0];
            operations.push(Operation::plain(op::NICE, arg, format!("nice {nice}")));
        }
        if let Some(cpus) = &change.affinity {
            operations.push(Operation::affinity(id, cpus));
        }
        operations.into_iter().map(Operation::counted).collect()
    }

    fn fork(id: TaskId) -> Operation {
        Operation::plain(op::FORK, [u64::from(id.0), 0, 0, 0, 0], format!("fork of task {id}"))
    }

    /// Wakes the control task, which finds its requests in its queue.
    fn call_control(&mut self) {
        if self.control == ControlState::Blocked {
            self.control = ControlState::Busy;
            let cpu = CpuId(0);
            // SAFETY: the list is a constant.
            unsafe { self.kernel.raise_device(cpu, &[CONTROL]) };
            self.kicked.push_back(cpu);
        }
    }

    /// Requests that make a tunable known to the kernel before the workload starts.
    fn param_requests(&mut self, params: &[(String, String)]) -> Vec<Operation> {
        let mut requests = Vec::new();
        let files: Vec<(String, &str)> = params
            .iter()
            .filter(|(name, _)| !name.starts_with("boot."))
            .map(|(name, value)| (param_path(name), value.as_str()))
            .collect();
        if !files.is_empty() {
            requests.push(Operation::mkdir("/proc"));
            requests.push(Operation::mount("proc", "/proc"));
            requests.push(Operation::mkdir("/debug"));
            requests.push(Operation::mount("debugfs", "/debug"));
        }
        for (path, value) in files {
            // `features` takes one name at a time
            for word in value.split(',') {
                requests.push(Operation::write(&path, word));
            }
        }
        requests
    }

    fn cgroup_requests(&mut self, cgroups: &[Cgroup]) -> Vec<Operation> {
        let mut requests =
            vec![Operation::mkdir(CGROUP_ROOT), Operation::mount("cgroup2", CGROUP_ROOT)];
        let mut made: Vec<String> = vec![CGROUP_ROOT.to_string()];
        let mut controllers: Vec<String> = Vec::new();
        for group in cgroups {
            let mut path = CGROUP_ROOT.to_string();
            for part in group.path.split('/').filter(|part| !part.is_empty()) {
                if !controllers.contains(&path) {
                    requests.push(Operation::write(&format!("{path}/cgroup.subtree_control"), "+cpu +cpuset"));
                    controllers.push(path.clone());
                }
                path = format!("{path}/{part}");
                if !made.contains(&path) {
                    requests.push(Operation::mkdir(&path));
                    made.push(path.clone());
                }
            }
            if path != CGROUP_ROOT {
                let settings = [
                    ("cpu.weight", group.weight.map(|weight| weight.to_string())),
                    ("cpu.max", group.max.map(|m| format!("{} {}", m.quota.as_ns() / 1000, m.period.as_ns() / 1000))),
                    ("cpuset.cpus", group.cpuset.as_ref().map(ToString::to_string)),
                ];
                for (file, value) in settings {
                    if let Some(value) = value {
                        requests.push(Operation::write(&format!("{path}/{file}"), &value).counted());
                    }
                }
            }
            self.cgroups.push(path);
        }
        requests
    }
}

/// The file behind a tunable: a path as it is, a sysctl (`kernel.NAME` or `sched_...`), else scheduler debugfs.
fn param_path(name: &str) -> String {
    if name.starts_with('/') {
        name.to_string()
    } else if let Some(sysctl) = name.strip_prefix("kernel.") {
        format!("/proc/sys/kernel/{sysctl}")
    } else if name.starts_with("sched_") {
        format!("/proc/sys/kernel/{name}")
    } else {
        format!("/debug/sched/{name}")
    }
}

impl<S: Sink + 'static> Kernel for LinuxMachine<S> {
    const OWNS_TASK_TIMERS: bool = true;

    fn boot(&mut self, boot: &Boot<'_>) -> Result<(), Fault> {
        let mut command_line = self.command_line.clone();
        for (name, value) in boot.params {
            if let Some(name) = name.strip_prefix("boot.") {
                command_line.push_str(&format!(" {name}={value}"));
            }
        }
        let topology: Vec<Topo> = boot
            .topology
            .cpus()
            .iter()
            .map(|cpu| Topo {
                core: cpu.core,
                cluster: cpu.core,
                llc: cpu.llc,
                package: cpu.package,
                node: 0,
                capacity: cpu.capacity,
            })
            .collect();
        let options = BootOptions {
            topology: &topology,
            max_tasks: boot.nr_tasks,
            live_tasks: boot.nr_tasks,
            command_line: &command_line,
            now: boot.now,
        };
        self.kernel
            .boot(&options)
            .map_err(|error| Fault { kind: FaultKind::Refused, reason: error.to_string() })?;
        let requests = self.param_requests(boot.params);
        self.queue(CONTROL, requests);
        Ok(())
    }

    fn is_up(&self) -> bool {
        self.control == ControlState::Blocked
    }

    #[inline]
    fn resume(&mut self, cpu: CpuId, now: Time, stimulus: Stimulus<'_>) -> Yield {
        self.kernel.set_now(now);
        match stimulus {
            Stimulus::Continue => {}
            Stimulus::Timer => self.kernel.raise(cpu, irq::TIMER),
            // SAFETY: the list outlives this call, which resumes the CPU.
            Stimulus::Device(tasks) => unsafe { self.kernel.raise_device(cpu, tasks) },
            Stimulus::Op(task, operation) => match operation {
                Op::Block => self.kernel.operate(task, op::BLOCK, 0, [FOREVER, 0, 0, 0, 0]),
                Op::BlockUntil(time) => self.kernel.operate(task, op::BLOCK, 0, [time.as_ns(), 0, 0, 0, 0]),
                Op::Wake(target) => self.kernel.operate(task, op::WAKE, 0, [u64::from(target.0), 0, 0, 0, 0]),
                Op::Yield => self.kernel.operate(task, op::YIELD, 0, [0; 5]),
                Op::Exit => self.kernel.operate(task, op::EXIT, 0, [0; 5]),
                Op::Fork(spawn) => {
                    self.queue(task, [Self::fork(spawn.id)]);
                    if let Some(change) = spawn.change {
                        let settings = self.settings(spawn.id, change);
                        self.queue(task, settings);
                    }
                    self.next_operation(task);
                }
                Op::Set(target, change) => {
                    let settings = self.settings(target, change);
                    self.queue(task, settings);
                    self.next_operation(task);
                }
            },
        }
        self.advance(cpu)
    }

    #[inline]
    fn timer(&self, cpu: CpuId) -> Time {
        self.kernel.deadline(cpu).unwrap_or(Time::NEVER)
    }

    #[inline]
    fn next_kick(&mut self) -> Option<CpuId> {
        self.collect_kicks();
        self.kicked.pop_front()
    }

    fn control(&mut self, now: Time, request: Control<'_>) -> Result<(), Fault> {
        self.kernel.set_now(now);
        match request {
            Control::Cgroups(cgroups) => {
                let requests = self.cgroup_requests(cgroups);
                self.queue(CONTROL, requests);
            }
            Control::Spawn(spawns) => {
                for Spawn { id, change, state, .. } in spawns {
                    self.queue(CONTROL, [Self::fork(*id)]);
                    if let Some(change) = change {
                        let settings = self.settings(*id, change);
                        self.queue(CONTROL, settings);
                    }
                    if *state == SpawnState::Blocked {
                        self.births += 1;
                        let block = Operation::plain(op::BLOCK, [FOREVER, 0, 0, 0, 0], "the first sleep");
                        self.queue(*id, [block]);
                    }
                }
            }
        }
        self.call_control();
        Ok(())
    }

    fn control_done(&mut self) -> Option<Result<(), Fault>> {
        if let Some(fault) = self.fault.take() {
            return Some(Err(fault));
        }
        (self.control == ControlState::Blocked && self.births == 0).then_some(Ok(()))
    }

    fn start_log(&mut self, epoch: Time) {
        let sink = Rc::clone(&self.sink);
        let epoch_ns = epoch.as_ns();
        self.kernel.log_to(Box::new(move |records| {
            let mut sink = sink.borrow_mut();
            for record in records {
                sink.push(Record { time_ns: record.time_ns - epoch_ns, ..*record });
            }
        }));
    }

    fn kernel_threads(&mut self) -> Vec<KernelThread> {
        self.kernel.threads().into_iter().map(|t| KernelThread { pid: t.pid, name: t.name }).collect()
    }

    fn task_counters(&mut self, task: TaskId) -> Option<TaskCounters> {
        let stats = self.kernel.stats(task);
        Some(TaskCounters {
            cpu: Span::from_ns(stats.cpu_ns),
            voluntary: stats.nvcsw,
            involuntary: stats.nivcsw,
            migrations: stats.migrations,
        })
    }

    fn warnings(&mut self) -> Vec<String> {
        let warnings = self.kernel.console().warnings();
        warnings.iter().map(|w| std::iter::once(&w.head).chain(&w.text).cloned().collect::<Vec<_>>().join("\n")).collect()
    }

    fn refused(&mut self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.refused)
    }

    fn fault(&mut self) -> Fault {
        let unknown = Fault { kind: FaultKind::Panic, reason: "the kernel gave no reason".into() };
        self.fault.take().unwrap_or(unknown)
    }

    fn flush_log(&mut self) -> std::io::Result<()> {
        self.kernel.flush_log();
        self.sink.borrow_mut().flush()
    }
}
