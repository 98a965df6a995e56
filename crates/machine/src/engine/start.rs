//! How does a machine come up, and how do its tasks come into being?

use super::{BOOT_MAX, CONTROL_MAX, Machine, Sent};
use crate::kernel::{Boot, Control, Fault, FaultKind, Kernel, Spawn, SpawnState, Stimulus};
use crate::order::Order;
use crate::program::Code;
use crate::queue::Key;
use schedlab_units::{CpuId, Span, TaskId, Time};
use std::sync::Arc;

impl<K: Kernel, O: Order> Machine<K, O> {
    pub(super) fn boot(&mut self) -> Result<(), Box<Fault>> {
        let boot = Boot {
            topology: &self.setup.topology,
            nr_tasks: self.program.nr_tasks(),
            nr_initial: self.program.tasks.iter().filter(|task| task.init.is_some()).count() as u32,
            nr_groups: self.program.cgroups.len() as u32,
            now: Time::from_ns(self.now_ns),
            entropy: self.program.phase.as_ns(),
            params: &self.setup.params,
        };
        self.kernel.boot(&boot)?;
        let deadline = Key::after(self.now_ns + BOOT_MAX.as_ns());
        if !self.kernel.is_up() {
            self.step(CpuId(0), Stimulus::Continue)?;
        }
        while !self.kernel.is_up() {
            if !self.next_event(deadline)? {
                return Err(Box::new(Fault {
                    kind: FaultKind::Livelock,
                    reason: format!("the kernel was not up after {BOOT_MAX} of simulated time"),
                }));
            }
        }
        if !self.program.cgroups.is_empty() {
            let program = Arc::clone(&self.program);
            self.control(Control::Cgroups(&program.cgroups))?;
        }
        let tasks = &self.program.tasks;
        let blocked = tasks.iter().enumerate().filter(|(_, task)| task.init == Some(SpawnState::Blocked));
        let blocked: Vec<u32> = blocked.map(|(index, _)| index as u32).collect();
        self.spawn_initial(&blocked)?;
        // start the workload on a full second of the kernel's clock, at least 100 ms from now: boot's own
        // work is over then, and ticks have the same phase in every run (a perturbed program asks for
        // another)
        let second_ns = Span::from_s(1).as_ns();
        let epoch_ns =
            (self.now_ns + second_ns / 10).next_multiple_of(second_ns) + self.program.phase.as_ns();
        while self.next_event(Key::after(epoch_ns - 1))? {}
        self.now_ns = epoch_ns;
        Ok(())
    }

    /// Time 0 of the workload: the log starts, runnable tasks come into being, first sleeps are armed.
    pub(super) fn start(&mut self, epoch_ns: u64) -> Result<(), Box<Fault>> {
        self.kernel.start_log(Time::from_ns(epoch_ns));
        self.objects.start(epoch_ns);
        if O::STEERS {
            self.kernel.set_points(self.order.points());
            self.order.start();
        }
        let mut now = Vec::new();
        for index in 0..self.program.tasks.len() {
            let id = TaskId(index as u32);
            let (init, idle_forever) =
                (self.program.tasks[index].init, self.program.tasks[index].idle_forever);
            match init {
                Some(SpawnState::Blocked) if !idle_forever => {
                    self.born(id);
                    self.runs[index].remaining_ns = 0;
                    let code = self.program.steps[self.runs[index].step].code();
                    self.runs[index].step += 1;
                    self.load_step(id);
                    match code {
                        Code::BlockTimer(after_ns) | Code::BlockDevice(after_ns) => {
                            self.wheel.insert(id.0, epoch_ns + after_ns);
                        }
                        Code::BlockUntil(after_ns)
                        | Code::BlockGrid(after_ns)
                        | Code::BlockGridRestart(after_ns)
                        | Code::BlockGridSkip(after_ns) => {
                            let until_ns = self.until_ns(id, after_ns);
                            self.wheel.insert(id.0, until_ns);
                        }
                        Code::BlockToken(token) => {
                            self.sent[token as usize] = Sent::Awaited;
                            self.runs[index].token = token;
                            self.waiting += 1;
                        }
                        other => {
                            unreachable!("a task blocked at the start begins with a block, not {other:?}")
                        }
                    }
                }
                Some(SpawnState::Runnable) => {
                    self.born(id);
                    match self.program.tasks[index].start_after {
                        Span::ZERO => now.push(id.0),
                        after => self.late.push((epoch_ns.saturating_add(after.as_ns()), id.0)),
                    }
                }
                _ => {}
            }
        }
        self.late.sort_unstable_by(|a, b| b.cmp(a));
        self.spawn_initial(&now)
    }

    /// Creates the tasks that start late and whose time has come.
    #[cold]
    pub(super) fn spawn_late(&mut self, time_ns: u64) -> Result<(), Box<Fault>> {
        // creating the last ones may have taken time beyond this
        self.now_ns = self.now_ns.max(time_ns);
        let mut due = Vec::new();
        while let Some((_, id)) = self.late.pop_if(|(at_ns, _)| *at_ns <= time_ns) {
            self.runs[id as usize].until_ns = self.now_ns; // its timers' instants count from here
            due.push(id);
        }
        self.spawn_initial(&due)
    }

    /// Has the kernel create tasks that no other task forks, and waits until it has.
    ///
    /// In the order given (of their ids), but deadline tasks last: under Linux nothing runs above them, the
    /// one who creates them included.
    fn spawn_initial(&mut self, ids: &[u32]) -> Result<(), Box<Fault>> {
        let program = Arc::clone(&self.program);
        let mut spawns: Vec<Spawn<'_>> = ids
            .iter()
            .map(|&id| {
                let task = &program.tasks[id as usize];
                let state = task.init.expect("a task that no other forks has a state at the start");
                let (change, kernel_thread) = (task.change.as_ref(), task.kernel_thread);
                Spawn { id: TaskId(id), name: &task.name, kernel_thread, change, state, cpu: task.start_cpu }
            })
            .collect();
        spawns.sort_by_key(Spawn::is_deadline);
        if spawns.is_empty() { Ok(()) } else { self.control(Control::Spawn(&spawns)) }
    }

    /// Hands a request in and goes on until it is carried out: at this instant, unless a task that was just
    /// created keeps the kernel from it (a deadline task on the only CPU), in which case time goes on.
    fn control(&mut self, request: Control<'_>) -> Result<(), Box<Fault>> {
        self.order.may_hold(false);
        let done = self.control_at_once(request);
        self.order.may_hold(true);
        done
    }

    fn control_at_once(&mut self, request: Control<'_>) -> Result<(), Box<Fault>> {
        self.kernel.control(Time::from_ns(self.now_ns), request)?;
        let limit = Key::after(self.now_ns + CONTROL_MAX.as_ns());
        loop {
            if let Some(turn) = self.next_turn() {
                self.go_on(turn.cpu)?;
            } else if let Some(carried) = self.kernel.control_done() {
                return carried.result.map_err(Box::new);
            } else if !self.next_event(limit)? {
                let reason =
                    format!("a control request was not carried out within {CONTROL_MAX} of simulated time");
                return Err(Box::new(Fault { kind: FaultKind::LostTask, reason }));
            }
        }
    }

    pub(super) fn born(&mut self, id: TaskId) {
        let run = &mut self.runs[id.index()];
        run.live = true;
        run.until_ns = self.now_ns;
        self.live += 1;
        self.load_step(id);
    }
}
