//! How does the loaded kernel look to the machine? `impl Kernel for LinuxKernel`.
//!
//! [`LinuxKernel`] implements [`schedlab_machine::kernel::Kernel`] on a [`LoadedKernel`]. The machine speaks
//! of CPUs and workload tasks only; what it does not see is done here: the boot up to a user space with
//! `/proc`, `/sys` and cgroup2 mounted, tunables, and the control task (pid 1), which carries out the
//! experimenter's requests in process context.
//!
//! ```text
//! machine: control(Spawn [t0, t1])     here: interrupt on cpu0 that wakes pid 1
//!          next_kick() -> cpu0         pid 1 (FIFO 99) preempts, forks t0, t1, sets them up in one system call, blocks
//!          resume(cpu0) -> User(t0)
//!          control_done() -> Ok
//! ```
//!
//! pid 1 has the highest real-time priority and resets it on fork, so that a request is done at one instant
//! of simulated time, and children start as `SCHED_NORMAL`, nice 0. Only a `SCHED_DEADLINE` task can delay
//! it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use schedlab_log::{KernelThread, Record};
use schedlab_machine::kernel::{
    Boot, Carried, Change, Control, Fault, FaultKind, FileRequest, Kernel, Op, Point, PointSet, ReadOut,
    Spawn, SpawnState, Stimulus, TaskCounters, Yield,
};
use schedlab_machine::sink::Sink;
use schedlab_units::{CpuId, CpuSet, SchedParams, SchedPolicy, Span, TaskId, Time};

use crate::abi::{self, Topo, irq, op};
use crate::batch::Batch;
use crate::batch::IfRefused::{Ignore, Stop};
use crate::console::Warning;
use crate::extension::Extension;
use crate::groups::{CGROUP_ROOT, GroupFiles, make_group, root_files};
use crate::kernel::{BootOptions, KernelError, LoadedKernel, State};
use crate::params::Params;

const CONTROL: TaskId = TaskId(abi::CONTROL);

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
    /// Whether a request of ours to a task is under way, or a scheduler is loaded.
    asked: bool,
    /// Workload tasks that must do something before they have used any CPU time: become a session's leader, block.
    to_lead: Vec<TaskId>,
    to_block: Vec<TaskId>,
    /// Of them, those to be woken when all are there.
    to_wake: Vec<TaskId>,
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
    /// A scheduler to be loaded beside the kernel (sched_ext), and once the kernel boots the loaded one.
    extension: Option<Box<dyn Extension>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The kernel's own boot.
    Booting,
    /// pid 1 mounts file systems and sets tunables.
    Preparing,
    Up,
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
            asked: false,
            to_lead: Vec::new(),
            to_block: Vec::new(),
            to_wake: Vec::new(),
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
            extension: None,
        }
    }

    /// With this scheduler, attached as the last step of the boot.
    pub fn with_extension(mut self, extension: Option<Box<dyn Extension>>) -> LinuxKernel<S> {
        self.extension = extension;
        self.note_asked();
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
        self.extension.iter_mut().flat_map(|e| e.first_calls()).for_each(|call| b.call(call));
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
            let of_extension =
                preparing || self.extension.as_ref().is_some_and(|e| e.refused_later().is_some());
            let explain = |fault| {
                let fault = self.params.explain(fault);
                if of_extension { self.explain_extension(fault) } else { fault }
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
    fn explain_extension(&self, mut fault: Fault) -> Fault {
        let Some(extension) = &self.extension else { return fault };
        if let Some(fault) = self.exit_of_extension() {
            return fault;
        }
        let failed = extension.refused();
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
    fn exit_of_extension(&self) -> Option<Fault> {
        let reason = self.extension.as_ref()?.exit()?;
        Some(Fault { kind: FaultKind::Scheduler, reason })
    }

    /// A sched_ext scheduler has been thrown out, or has left: the run is not its any more.
    #[cold]
    fn extension_gone(&mut self) -> Yield {
        if let Some(fault) = self.exit_of_extension() {
            self.fault.get_or_insert(fault);
        }
        Yield::Fault
    }

    #[inline(always)]
    fn stimulate(&mut self, cpu: CpuId, stimulus: Stimulus<'_>) {
        match stimulus {
            Stimulus::Continue => {}
            Stimulus::Timer(_) => self.kernel.raise(cpu, irq::TIMER),
            Stimulus::Device(tasks) => self.kernel.raise_device(cpu, tasks),
            Stimulus::Op(task, operation) => self.operate(task, operation, 0),
            Stimulus::Call(task, operation) => self.operate(task, operation, op::F_STAYS),
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
        !self.asked
    }

    /// To be called where a request of ours begins or ends: whether there is one is looked at in each event.
    fn note_asked(&mut self) {
        let nr = self.batches.len() + self.to_lead.len() + self.to_block.len();
        self.asked = nr > 0 || self.extension.is_some();
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
            if self.extension.as_ref().is_some_and(|e| e.has_exited()) && came.is_ok() {
                return self.extension_gone();
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
                        self.note_asked();
                        self.kernel.operate(task, op::SETSID, 0, [0; 5]);
                    } else if let Some(at) = self.to_block.iter().position(|&t| t == task) {
                        self.to_block.swap_remove(at);
                        self.note_asked();
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
    fn operate(&mut self, task: TaskId, operation: Op<'_>, mut flags: u32) {
        let (op, arg) = match operation {
            Op::Block => (op::BLOCK, u64::MAX),
            Op::BlockUntil(time) => (op::BLOCK, time.as_ns()),
            Op::Wake(target) => (op::WAKE, u64::from(target.0)),
            Op::WakeSync(target) => {
                flags |= op::F_SYNC;
                (op::WAKE, u64::from(target.0))
            }
            Op::Yield => (op::YIELD, 0),
            Op::Exec => (op::EXEC, 0),
            Op::Exit => (op::EXIT, 0),
            Op::Return => (op::RETURN, 0),
            Op::Fork(_) | Op::Set(..) => return self.operate_batch(task, operation, flags),
        };
        self.kernel.operate_one(task, op, flags, arg);
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
    fn operate_batch(&mut self, task: TaskId, operation: Op<'_>, flags: u32) {
        if self.extension.as_ref().is_some_and(|e| e.nr_schedulers() > 1) {
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
        self.kernel.operate(task, op::BATCH, flags, arg);
        self.batches.insert(task, batch);
        self.note_asked();
    }

    /// The batch's task is in user mode again, so the batch is done.
    #[cold]
    fn batch_done(&mut self, task: TaskId) {
        if let Some(batch) = self.batches.remove(&task) {
            self.note_asked();
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

    /// The log's window is full, or it is off.
    #[cold]
    fn append_behind(&mut self, now: Time, note: Record) {
        let sink = &mut self.sink;
        self.kernel.flush_log(&mut |window| sink.push_all(window));
        self.kernel.append(now, || note);
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
        if let Some(extension) = &mut self.extension {
            let object = self.kernel.console().object().to_owned();
            if let Err(reason) = extension.load(&self.kernel, &object, &topology, boot.params) {
                refusal = Some(Fault { kind: FaultKind::Refused, reason });
                self.extension = None;
                self.note_asked();
            }
        }
        let is_theirs = |name: &str| self.extension.as_ref().is_some_and(|e| e.takes(name));
        let nr_schedulers = self.extension.as_ref().map_or(0, |e| e.nr_schedulers());
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
            live_tasks: boot.nr_tasks + 2048 * nr_schedulers,
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
            Some(State::Idle) if self.extension.is_none() => Yield::Idle,
            state => self.after_run(cpu, state),
        }
    }

    fn set_resched(&mut self, span: Span) {
        self.kernel.set_resched(span);
    }

    fn set_idle_resched(&mut self, cpu: CpuId, span: Span) {
        self.kernel.set_idle_resched(cpu, span);
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
        match (self.kernel.nr_kicks(), self.kicks.is_empty()) {
            (0, true) => None,
            (1, true) => Some(self.kernel.only_kick()).filter(|cpu| self.kernel.kicked(*cpu)),
            _ => self.kicked(),
        }
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
                    self.governed.push(self.extension.as_ref().and_then(|e| e.of_group(&group.path)));
                }
                self.extension.iter_mut().flat_map(|e| e.later_calls()).for_each(|call| batch.call(call));
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
        self.note_asked();
        // pid 1 sleeps: wake it by an interrupt, where it is bound to or on CPU 0
        let cpu = self.control_cpu.unwrap_or(CpuId(0));
        self.kernel.raise_device(cpu, &[CONTROL]);
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
            let woken = std::mem::take(&mut self.to_wake);
            self.kernel.raise_device(CpuId(0), &woken);
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
        self.note_by(now, || note);
    }

    #[inline(always)]
    fn note_by(&mut self, now: Time, note: impl Fn() -> Record) {
        if !self.kernel.append(now, &note) {
            self.append_behind(now, note());
        }
    }

    fn read_out(&mut self) -> ReadOut {
        let counters = |id: u32| {
            let s = self.kernel.stats(TaskId(id));
            let cpu = Span::from_ns(s.cpu_ns);
            TaskCounters { cpu, voluntary: s.nvcsw, involuntary: s.nivcsw, migrations: s.migrations }
        };
        let text =
            |w: &Warning| std::iter::once(&w.head).chain(&w.text).cloned().collect::<Vec<_>>().join("\n");
        let mut loaded_scheduler = self.extension.as_ref().map(|e| e.account()).unwrap_or_default();
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
