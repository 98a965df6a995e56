//! Where do a case's tasks begin, and what do the CPUs do just before?
//!
//! A guest brings its tasks into being while real-time tasks hold all its CPUs, so that they begin together
//! when these sleep. Where each one is then is a matter of that set-up: of CPUs that are all busy none is
//! better than another. It is part of the question, not of the answer; the simulation therefore begins with
//! the same tasks on each CPU, which are held until the start, too:
//!
//! ```text
//! guest, 6.1, 4 CPUs, cgroup    cpu0 t1 t2 t4   cpu1 -    cpu2 t0 t3   cpu3 t5   kept as `start`: 2 0 0 2 0 3
//!                 held until    131 us          206 us    27 us        25 us     (by init, the holders, kworkers, RCU)
//! simulation                    the same; a FIFO task on each CPU sleeps then
//! first decision to be judged   cpu1, with nothing to do, pulls t2 from cpu0
//! ```
//!
//! A guest's kernel has threads, too, of which the machine knows nothing (memory's compaction, the watchdog).
//! What they cost is nothing, but each may start a round of migrations: eight sleepers on two CPUs move 35
//! times in 10 s without them, 98 times with, 105 to 148 in a guest.

use schedlab_machine::Costs;
use schedlab_units::{CpuId, CpuSet, SchedParams, SchedPolicy, Span};
use schedlab_workload::{
    Birth, Event, EventId, EventKind, ExternalSource, InitState, Task, Wakeup, Workload,
};

/// A thread of the guest's kernel for which the machine has no part.
struct Thread {
    name: &'static str,
    /// Where it stays; `None`: wherever the scheduler puts it.
    cpu: Option<u32>,
    first: Span,
    period: Span,
}

/// They do next to nothing, but a CPU that has nothing else falls idle after them and pulls a task, and who
/// wakes up meanwhile goes elsewhere. Periods as in the logs of guests of both kernels; `kcompactd0`'s is
/// `HPAGE_FRAG_CHECK_INTERVAL_MSEC` (mm/compaction.c) in the steps of the timer wheel.
const THREADS: [Thread; 3] = [
    Thread { name: "kcompactd0", cpu: None, first: Span::from_ms(440), period: Span::from_ms(512) },
    Thread { name: "kworker/u", cpu: None, first: Span::from_ms(472), period: Span::from_ms(2_032) },
    Thread { name: "kworker/0", cpu: Some(0), first: Span::from_ms(1_944), period: Span::from_ms(2_000) },
];

/// The soft lockup watchdog (kernel/watchdog.c) has each CPU's stopper (not only CPU 0's) run at two fifths
/// of its 10 s limit.
const WATCHDOG: Thread =
    Thread { name: "watchdog", cpu: Some(0), first: Span::from_ms(2_800), period: Span::from_s(4) };

/// From a tick that asks for another task to the choice of it, in a guest.
const RESCHED: Span = Span::from_us(2);

/// Costs of kernel code, with that which decides whether a turn that begins behind a tick is over at the next one.
pub fn of_guest(costs: Option<Costs>) -> Costs {
    let costs = costs.unwrap_or_default();
    if costs.resched > Span::ZERO { costs } else { Costs { resched: RESCHED, ..costs } }
}

/// What a thread does at a time.
const WORK: Span = Span::from_us(12);

/// A workload that threads of a set-up are added to.
struct Setup {
    workload: Workload,
    next_pid: u32,
    next_eid: u64,
}

impl Setup {
    fn of(workload: Workload) -> Setup {
        Setup { next_pid: workload.free_pid(), next_eid: workload.free_eid().0, workload }
    }

    fn eid(&mut self) -> EventId {
        self.next_eid += 1;
        EventId(self.next_eid - 1)
    }

    fn event(&mut self, kind: EventKind) -> Event {
        Event { eid: self.eid(), kind }
    }

    fn sleep(&mut self, after: Span) -> Event {
        self.event(EventKind::Wakeup(Wakeup::External { after, source: ExternalSource::Timer }))
    }

    fn add(
        &mut self,
        name: &str,
        cpu: Option<u32>,
        policy: SchedPolicy,
        state: InitState,
        events: Vec<Event>,
    ) {
        let rt_priority = if policy == SchedPolicy::Fifo { 99 } else { 0 };
        let birth = Birth::Init { eid: self.eid(), parent: None, state };
        self.workload.tasks.push(Task {
            pid: self.next_pid,
            name: name.to_owned(),
            birth,
            params: Some(SchedParams { policy, rt_priority, ..SchedParams::default() }),
            affinity: cpu.map(|cpu| CpuSet::single(CpuId(cpu))),
            cgroup: None,
            kernel_thread: true,
            events,
        });
        self.next_pid += 1;
    }

    fn add_thread(&mut self, thread: &Thread, policy: SchedPolicy, duration: Span) {
        let rounds = (duration.as_ns().saturating_sub(thread.first.as_ns()) / thread.period.as_ns()) as usize;
        let mut events = Vec::with_capacity(2 * rounds + 2);
        for round in 0..=rounds {
            events.push(self.sleep(if round == 0 { thread.first } else { thread.period }));
            events.push(self.event(EventKind::Block { length: WORK }));
        }
        self.add(thread.name, thread.cpu, policy, InitState::Blocked, events);
    }
}

/// The workload as a guest runs it: each CPU held by one task more until its time, and with the threads of
/// the guest's kernel that the machine does not have. All these come after the workload's own tasks. Deadline
/// tasks, which no other can hold back, sleep until the guest's own program lets go of CPU 0, as they do
/// there.
pub fn as_in_guest(workload: Workload, held_until_ns: &[u64], duration: Span) -> Workload {
    let mut setup = Setup::of(workload);
    let let_go = Span::from_ns(held_until_ns.first().copied().unwrap_or(0));
    for index in 0..setup.workload.tasks.len() {
        let task = &setup.workload.tasks[index];
        let is_deadline = task.params.is_some_and(|params| params.policy == SchedPolicy::Deadline);
        if is_deadline && matches!(task.birth, Birth::Init { state: InitState::Runnable, .. }) {
            let wakeup = setup.sleep(let_go);
            let task = &mut setup.workload.tasks[index];
            task.events.insert(0, wakeup);
            if let Birth::Init { state, .. } = &mut task.birth {
                *state = InitState::Blocked;
            }
        }
    }
    for (cpu, until_ns) in (0..).zip(held_until_ns) {
        let held = setup.event(EventKind::Block { length: Span::from_ns(*until_ns) });
        setup.add("holder", Some(cpu), SchedPolicy::Fifo, InitState::Runnable, vec![held]);
        setup.add_thread(&Thread { cpu: Some(cpu), ..WATCHDOG }, SchedPolicy::Fifo, duration);
    }
    for thread in &THREADS {
        setup.add_thread(thread, SchedPolicy::Normal, duration);
    }
    setup.workload
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::generate::Spec;

    #[test]
    fn the_set_up_comes_after_the_workload_which_stays_valid() {
        let spec = Spec::from_toml("t", "kind = \"sleepers\"\nduration = \"1s\"").unwrap();
        let workload = spec.build().unwrap();
        let guest = as_in_guest(workload.clone(), &[131_074, 206_220], Span::from_s(10));
        guest.check().unwrap();
        assert_eq!(guest.tasks[..workload.tasks.len()], workload.tasks);
        let added = &guest.tasks[workload.tasks.len()..];
        let names: Vec<&str> = added.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(
            names,
            ["holder", "watchdog", "holder", "watchdog", "kcompactd0", "kworker/u", "kworker/0"]
        );
        // 440 ms, then each 512 ms: 19 times in 10 s, as in the guest
        let wakeups =
            added[4].events.iter().filter(|event| matches!(event.kind, EventKind::Wakeup(_))).count();
        assert_eq!(wakeups, 19);
    }

    #[test]
    fn a_guest_needs_time_to_choose_and_a_file_may_say_how_long() {
        assert_eq!(of_guest(None), Costs { resched: RESCHED, ..Costs::default() });
        let measured = Costs { resched: Span::from_us(20), switch: Span::from_us(5), ..Costs::default() };
        assert_eq!(of_guest(Some(measured)), measured);
        let without = Costs { switch: Span::from_us(5), ..Costs::default() };
        assert_eq!(of_guest(Some(without)), Costs { resched: RESCHED, ..without });
    }

    #[test]
    fn deadline_tasks_wait_until_cpu_0_is_free() {
        let text = "schedlab-workload 1
- INIT 0 0 1 runnable policy=deadline runtime=30ms deadline=100ms period=100ms
- EXIT 1 1s
";
        let workload = schedlab_workload::parse_text("t", text.as_bytes()).unwrap();
        let guest = as_in_guest(workload, &[109_000, 0], Span::from_s(1));
        guest.check().unwrap();
        assert!(matches!(guest.tasks[0].birth, Birth::Init { state: InitState::Blocked, .. }));
        let first =
            EventKind::Wakeup(Wakeup::External { after: Span::from_us(109), source: ExternalSource::Timer });
        assert_eq!(guest.tasks[0].events[0].kind, first);
    }
}
