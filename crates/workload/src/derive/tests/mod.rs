//! Drawn schedules and what must come out of them. Times in the pictures and in the tests are us unless said otherwise.

mod groups;
mod interrupts;
mod locks;
mod messages;

use super::*;
use crate::{Birth, EventKind, ExternalSource, InitState, Task, Wakeup, Workload};
use schedlab_trace::{
    CommId, Context, Pid, SchedEvent, SwitchSide, Syscall, SyscallKind, TaskState, TraceEvent, Wake,
};
use schedlab_units::{CpuId, Nice, SchedPolicy, Span};

/// A trace as a list of events. Task N is called "tN", its priority is 120 unless set.
#[derive(Default)]
struct Trace {
    events: Vec<TraceEvent>,
    prio: std::collections::BTreeMap<i32, i32>,
}

const NAMES: [&str; 30] = [
    "swapper",
    "t1",
    "t2",
    "t3",
    "t4",
    "t5",
    "t6",
    "t7",
    "t8",
    "t9",
    "t10",
    "t11",
    "t12",
    "t13",
    "t14",
    "t15",
    "migration/0",
    "ksoftirqd/0",
    "t18",
    "t19",
    "t20",
    "t21",
    "t22",
    "t23",
    "t24",
    "t25",
    "t26",
    "t27",
    "t28",
    "t29",
];
const MIGRATION: i32 = 16;
const KSOFTIRQD: i32 = 17;

fn name(comm: CommId) -> &'static str {
    NAMES[comm.0 as usize]
}

fn state(letter: char) -> TaskState {
    match letter {
        'R' => TaskState::Running,
        '+' => TaskState::RunningPreempted,
        'S' => TaskState::Interruptible,
        'D' => TaskState::Uninterruptible,
        'I' => TaskState::Idle,
        'X' => TaskState::Dead,
        'Z' => TaskState::Zombie,
        other => panic!("{other}"),
    }
}

impl Trace {
    fn push(&mut self, us: u64, cpu: u32, pid: i32, context: Context, what: SchedEvent) -> &mut Trace {
        self.events.push(TraceEvent {
            time_ns: us * 1000,
            cpu: CpuId(cpu),
            pid: Pid(pid),
            context,
            preempt_count: 0,
            what,
        });
        self
    }
    fn prio(&self, pid: i32) -> i32 {
        self.prio.get(&pid).copied().unwrap_or(120)
    }
    fn side(&self, pid: i32) -> SwitchSide {
        SwitchSide { pid: Pid(pid), comm: CommId(pid as u32), prio: self.prio(pid) }
    }
    fn switch(&mut self, us: u64, cpu: u32, prev: i32, letter: char, next: i32) -> &mut Trace {
        let (prev_side, next_side) = (self.side(prev), self.side(next));
        let what = SchedEvent::Switch { prev: prev_side, prev_state: state(letter), next: next_side };
        self.push(us, cpu, prev, Context::Task, what)
    }
    fn wake_of(&self, pid: i32) -> Wake {
        Wake { pid: Pid(pid), comm: CommId(pid as u32), prio: self.prio(pid), target_cpu: CpuId(0) }
    }
    fn waking_in(&mut self, us: u64, cpu: u32, current: i32, context: Context, pid: i32) -> &mut Trace {
        let wake = self.wake_of(pid);
        self.push(us, cpu, current, context, SchedEvent::Waking(wake))
    }
    fn waking(&mut self, us: u64, cpu: u32, waker: i32, pid: i32) -> &mut Trace {
        self.waking_in(us, cpu, waker, Context::Task, pid)
    }
    /// A timer's interrupt on a CPU where `current` runs.
    fn timer(&mut self, us: u64, cpu: u32, current: i32, pid: i32) -> &mut Trace {
        self.waking_in(us, cpu, current, Context::HardIrq, pid)
    }
    fn fork(&mut self, us: u64, cpu: u32, parent: i32, child: i32) -> &mut Trace {
        let child_comm = CommId(child as u32);
        self.push(
            us,
            cpu,
            parent,
            Context::Task,
            SchedEvent::Fork { parent: Pid(parent), child: Pid(child), child_comm },
        )
    }
    /// A task begins to die.
    fn exit(&mut self, us: u64, cpu: u32, pid: i32) -> &mut Trace {
        let what = SchedEvent::Exit { pid: Pid(pid), comm: CommId(pid as u32), prio: 120 };
        self.push(us, cpu, pid, Context::Task, what)
    }
    fn wakeup_new(&mut self, us: u64, cpu: u32, parent: i32, child: i32) -> &mut Trace {
        let wake = self.wake_of(child);
        self.push(us, cpu, parent, Context::Task, SchedEvent::WakeupNew(wake))
    }
    fn derive_with(&self, options: DeriveOptions, snapshot: Option<&ProcSnapshot>) -> Derived {
        let mut deriver = Deriver::new(options, snapshot);
        for event in &self.events {
            deriver.event(event, name);
        }
        deriver.finish(Some(2), name)
    }
    fn derive(&self) -> Derived {
        self.derive_with(DeriveOptions::default(), None)
    }
}

fn task(workload: &Workload, pid: u32) -> &Task {
    workload.tasks.iter().find(|task| task.pid == pid).unwrap_or_else(|| panic!("no task {pid}"))
}

/// A task's life in one line, times in us: `runnable B3 W2 E2`; dependent: `W2<-7@1.5`, the waker's pid and
/// the CPU time until its event, whose place in the waker's list follows: `#0`.
fn life(workload: &Workload, pid: u32) -> String {
    let us = |span: Span| span.as_ns() as f64 / 1000.0;
    let task = task(workload, pid);
    let mut words = vec![match task.birth {
        Birth::Init { state: InitState::Runnable, .. } => "runnable".to_string(),
        Birth::Init { state: InitState::Blocked, .. } => "blocked".to_string(),
        Birth::Fork { parent } => format!("by{}", workload.task(parent).pid),
    }];
    for event in &task.events {
        words.push(match &event.kind {
            EventKind::Fork { length, child } => format!("F{}:{}", us(*length), workload.task(*child).pid),
            EventKind::Prio { length, change } => {
                let params = change.params.unwrap();
                let target =
                    change.target.map_or(String::new(), |target| format!("->{}", workload.task(target).pid));
                format!("P{}{target}:{}/{}/{}", us(*length), params.policy, params.nice, params.rt_priority)
            }
            EventKind::Yield { length } => format!("Y{}", us(*length)),
            EventKind::Exec { .. } => panic!("no recording has EXEC"),
            EventKind::Call { .. } => continue,
            EventKind::Block { length } => format!("B{}", us(*length)),
            EventKind::Exit { length } => format!("E{}", us(*length)),
            EventKind::Object { op, .. } => panic!("no recording has {}", op.name()),
            EventKind::Wakeup(Wakeup::External { after, source }) => {
                let source = match source {
                    ExternalSource::Timer => "",
                    ExternalSource::Device => "dev",
                    ExternalSource::HardIrq => "irq",
                    ExternalSource::SoftIrq => "soft",
                    ExternalSource::TimerSoftIrq => "wheel",
                    ExternalSource::Idle => "idle",
                    ExternalSource::Unknown => "?",
                    ExternalSource::MadeUp => "!",
                    other => other.name(),
                };
                format!("W{source}{}", us(*after))
            }
            EventKind::Wakeup(Wakeup::Dependent { recorded_after, event, task: waker, distance }) => {
                let waker = workload.task(*waker);
                let place = waker.events.iter().position(|e| e.eid == *event).expect("deid is the waker's");
                format!("W{}<-{}@{}#{place}", us(*recorded_after), waker.pid, us(*distance))
            }
        });
    }
    words.join(" ")
}

fn dropped(workload: &Workload) -> Vec<(&str, u64)> {
    workload.dropped.iter().map(|(reason, count)| (reason.as_str(), *count)).collect()
}

/// The picture of the module's documentation.
///
/// ```text
/// ms    0   1   2   3   4   5   6   7
/// cpu0  7777777788887777........7777777X
/// ```
#[test]
fn the_documented_example() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7);
    trace.switch(2000, 0, 7, 'R', 8).switch(3000, 0, 8, 'S', 7).switch(4000, 0, 7, 'S', 0);
    trace.timer(6000, 0, 0, 7).switch(6000, 0, 0, 'R', 7).switch(8000, 0, 7, 'Z', 0);
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, 7), "runnable B3000 Wirq2000 E2000");
    // First seen when it got the CPU: it waited for it, and wanted 1 ms.
    assert_eq!(life(&derived.workload, 8), "runnable B1000");
    assert_eq!(dropped(&derived.workload), []);
    assert_eq!(derived.summary.cpu_ns, 6_000_000);
    assert_eq!(derived.summary.wakeups.hardirqs(), 1);
}

/// ```text
/// us    0         10        20        30        40
/// cpu0  77777777777771wake8                                7 wakes 8 at 13, forks 9 at 16, exits at 25
/// cpu1  8888S.........88888888888S                         8 blocks at 4, runs 15 to 26
/// ```
#[test]
fn dependent_wakeups_name_the_wakers_next_event_and_the_distance() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8).switch(4, 1, 8, 'S', 0);
    trace.waking(13, 0, 7, 8).switch(15, 1, 0, 'R', 8);
    trace.fork(15, 0, 7, 9).wakeup_new(16, 0, 7, 9);
    trace.switch(25, 0, 7, 'X', 9).switch(26, 1, 8, 'S', 0).switch(40, 0, 9, 'Z', 0);
    let workload = trace.derive().workload;
    assert_eq!(life(&workload, 7), "runnable F16:9 E25");
    // 7's CPU time from the wakeup (13) to its FORK (16).
    assert_eq!(life(&workload, 8), "runnable B4 W9<-7@3#0 B11");
    assert_eq!(life(&workload, 9), "by7 E15");
    assert_eq!(dropped(&workload), []);
}

/// The distance is CPU time: a preempted waker does not come nearer to its event.
#[test]
fn distance_leaves_out_the_time_the_waker_waits() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(1, 1, 8, 'S', 0);
    trace.waking(10, 0, 7, 8).switch(12, 0, 7, '+', 5).switch(50, 0, 5, 'R', 7).switch(53, 0, 7, 'S', 5);
    trace.switch(60, 1, 0, 'R', 8).switch(61, 1, 8, 'S', 0);
    let workload = trace.derive().workload;
    assert_eq!(life(&workload, 7), "runnable B15");
    assert_eq!(life(&workload, 8), "runnable B1 W9<-7@5#0 B1");
}

#[test]
fn preemption_is_no_event_and_yield_needs_the_call() {
    let mut trace = Trace::default();
    let enter = |trace: &mut Trace, us| {
        trace.push(us, 0, 7, Context::Task, SchedEvent::SysEnter(Syscall::SchedYield));
    };
    let exit = |trace: &mut Trace, us| {
        trace.push(us, 0, 7, Context::Task, SchedEvent::SysExit { call: SyscallKind::SchedYield, ret: 0 });
    };
    trace.switch(0, 0, 0, 'R', 7);
    trace.switch(10, 0, 7, 'R', 8).switch(20, 0, 8, '+', 7); // preempted, both
    enter(&mut trace, 25);
    trace.switch(26, 0, 7, 'R', 8).switch(30, 0, 8, 'R', 7); // yields
    exit(&mut trace, 31);
    enter(&mut trace, 35); // nobody else wants the CPU
    exit(&mut trace, 36);
    trace.switch(40, 0, 7, 'R', 8); // preempted after the call
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, 7), "runnable Y16 B26");
    assert_eq!(life(&derived.workload, 8), "runnable B14");
    let all = DeriveOptions { yields: YieldRule::All, ..DeriveOptions::default() };
    assert_eq!(life(&trace.derive_with(all, None).workload, 7), "runnable Y15 Y21 B26");
}

/// A waking before the switch-out ends that block, but not if another one comes after.
#[test]
fn wakings_before_the_switch_out() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8);
    // 40 us before: taken. 8 needs 60 us more until its BLOCK at 200.
    trace.waking(60, 1, 8, 7).switch(100, 0, 7, 'S', 0).switch(101, 0, 0, 'R', 7);
    // 60 us before, and a later one: the block ends with the timer's.
    trace.waking(140, 1, 8, 7).switch(200, 1, 8, 'S', 0).switch(200, 0, 7, 'S', 0);
    trace.timer(300, 0, 0, 7).switch(301, 0, 0, 'R', 7);
    // 10 us before, and a later one: the first found it awake.
    trace
        .timer(390, 0, 7, 7)
        .timer(391, 1, 0, 7)
        .switch(400, 0, 7, 'S', 0)
        .timer(450, 0, 0, 7)
        .switch(451, 0, 0, 'R', 7);
    trace.switch(460, 0, 7, 'X', 0);
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, 7), "runnable B100 W0<-8@140#0 B99 Wirq100 B99 Wirq50 E9");
    assert_eq!(life(&derived.workload, 8), "runnable B200");
    assert_eq!(derived.workload.notes["wakeups before the switch-out"], "1");
    assert_eq!(dropped(&derived.workload), []);
}

/// A CPU that looks for another task to run is late with the switch-out. A waking that came while the task waited for a
/// CPU found it runnable.
#[test]
fn a_waking_long_before_the_switch_out_ends_its_block_if_no_other_does() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8);
    trace.waking(10, 1, 8, 7).switch(104, 0, 7, 'S', 0).switch(110, 0, 0, 'R', 7);
    trace.switch(120, 0, 7, 'R', 9).waking(125, 1, 8, 7).switch(130, 0, 9, 'S', 7);
    trace.switch(140, 0, 7, 'S', 0).switch(150, 0, 0, 'R', 7).switch(160, 0, 7, 'X', 0);
    trace.switch(160, 1, 8, 'S', 0);
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, 7), "runnable B104 W0<-8@150#0 B20 W!10 E10");
    assert_eq!(derived.workload.notes["wakeups before the switch-out"], "1");
    assert_eq!(derived.summary.wakeups.made_up, 1);
}

/// `sched_wakeup` tells that an early waking found its task awake: the task blocks later, and nothing has woken it.
#[test]
fn a_wakeup_of_a_task_that_is_awake_is_used_up() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8).waking(80, 1, 8, 7);
    let wake = trace.wake_of(7);
    trace.push(81, 1, 8, Context::Task, SchedEvent::Wakeup(wake));
    trace.switch(100, 0, 7, 'S', 0).switch(200, 0, 0, 'R', 7).switch(210, 0, 7, 'X', 0);
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, 7), "runnable B100 W!100 E10");
    assert_eq!(
        dropped(&derived.workload),
        [("blocked task that ran again without a wakeup in the trace; one made up", 1)]
    );
    assert_eq!(derived.summary.wakeups.made_up, 1);
}

/// Without sched_waking: the waker is known where the wakeup was in its own context.
#[test]
fn sched_wakeup_stands_in_for_sched_waking() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8).switch(10, 1, 8, 'S', 0);
    let wake = trace.wake_of(8);
    trace
        .push(20, 0, 7, Context::Task, SchedEvent::Wakeup(wake))
        .switch(21, 1, 0, 'R', 8)
        .switch(30, 1, 8, 'S', 0);
    // Taken in on 8's own CPU, by an interrupt and from its idle task: the waker may have been anybody.
    trace
        .push(40, 1, 0, Context::HardIrq, SchedEvent::Wakeup(wake))
        .switch(41, 1, 0, 'R', 8)
        .switch(50, 1, 8, 'S', 0);
    trace
        .push(60, 1, 0, Context::Task, SchedEvent::Wakeup(wake))
        .switch(61, 1, 0, 'R', 8)
        .switch(70, 1, 8, 'X', 0);
    trace.switch(80, 0, 7, 'S', 0);
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, 8), "runnable B10 W10<-7@60#0 B9 W?10 B9 W?10 E9");
    assert_eq!(derived.summary.wakeups.unknown_waker, 2);
    assert_eq!(derived.workload.notes["wakeups taken from sched_wakeup (no sched_waking)"], "3");
}

/// Client 7 and server 8 over the loopback; 9 is woken by a device while 7 happens to run.
fn loopback(trace: &mut Trace, rounds: u64) {
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8).switch(1, 1, 8, 'S', 0);
    for round in 0..rounds {
        let us = 100 * (round + 1);
        trace.waking_in(us, 0, 7, Context::SoftIrq, 8).switch(us + 1, 1, 0, 'R', 8).switch(
            us + 2,
            0,
            7,
            'S',
            0,
        );
        trace.waking_in(us + 11, 1, 8, Context::SoftIrq, 7).switch(us + 12, 0, 0, 'R', 7).switch(
            us + 13,
            1,
            8,
            'S',
            0,
        );
    }
}

#[test]
fn softirqs_are_attributed_by_evidence() {
    let mut trace = Trace::default();
    loopback(&mut trace, 3);
    trace.waking_in(500, 0, 7, Context::SoftIrq, 9).switch(510, 0, 7, 'X', 9).switch(520, 0, 9, 'X', 0);
    let derived = trace.derive();
    assert_eq!(derived.summary.wakeups.softirq_on_behalf, 6);
    assert_eq!(derived.summary.wakeups.softirq, 1);
    // 7's last stay began at 312: 7 ran 198 until 510.
    assert!(life(&derived.workload, 7).ends_with("W9<-8@2#6 E198"), "{}", life(&derived.workload, 7));
    assert!(
        life(&derived.workload, 8).starts_with("runnable B1 W99<-7@2#0 B12 W"),
        "{}",
        life(&derived.workload, 8)
    );
    assert_eq!(life(&derived.workload, 9), "blocked Wsoft500 E10");

    let never = DeriveOptions { softirq: SoftIrqRule::Never, ..DeriveOptions::default() };
    assert_eq!(trace.derive_with(never, None).summary.wakeups.softirq, 7);
    let always = DeriveOptions { softirq: SoftIrqRule::Always, ..DeriveOptions::default() };
    assert_eq!(trace.derive_with(always, None).summary.wakeups.softirq_on_behalf, 7);
}

#[test]
fn recorded_softirqs_and_interrupts_are_better_evidence() {
    const NET_RX: u32 = 3;
    const TIMER: u32 = 1;
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8);
    trace.switch(1, 1, 8, 'S', 9).switch(2, 1, 9, 'S', 10).switch(3, 1, 10, 'S', 11).switch(4, 1, 11, 'S', 0);
    let softirq = |trace: &mut Trace, us, vec, pid| {
        trace.push(us, 0, 7, Context::SoftIrq, SchedEvent::SoftIrqEntry { vec });
        trace.waking_in(us + 1, 0, 7, Context::SoftIrq, pid);
        trace.push(us + 2, 0, 7, Context::SoftIrq, SchedEvent::SoftIrqExit { vec });
    };
    trace.push(100, 0, 7, Context::HardIrq, SchedEvent::IrqEntry { irq: 30 });
    trace.waking_in(101, 0, 7, Context::HardIrq, 11); // by the device's handler
    trace.push(102, 0, 7, Context::HardIrq, SchedEvent::IrqExit { irq: 30 });
    softirq(&mut trace, 103, NET_RX, 8); // what the device brought
    softirq(&mut trace, 200, NET_RX, 9); // what 7 sent to itself
    softirq(&mut trace, 300, TIMER, 10); // the timer wheel
    trace.switch(400, 0, 7, 'S', 0);
    for (us, pid) in [(500, 8), (510, 9), (520, 10), (530, 11)] {
        trace.switch(us, 1, 0, 'R', pid).switch(us + 5, 1, pid, 'X', 0);
    }
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, 8), "runnable B1 Wsoft103 E5");
    // 7 ran 199 from there to its block, of which the timer's softirq took 2
    assert_eq!(life(&derived.workload, 9), "runnable B1 W199<-7@197#0 E5");
    assert_eq!(life(&derived.workload, 10), "runnable B1 Wwheel298 E5");
    assert_eq!(life(&derived.workload, 11), "runnable B1 Wdev97 E5");
    let wakeups = derived.summary.wakeups;
    assert_eq!((wakeups.softirq_on_behalf, wakeups.softirq, wakeups.timer_softirq), (1, 1, 1));
    assert_eq!((wakeups.device, wakeups.timer, wakeups.other_hardirq), (1, 0, 0));
    assert!((wakeups.external_percent() - 75.0).abs() < 1e-9);
}

#[test]
fn births() {
    let mut trace = Trace::default();
    // 7 runs since before; 8 was blocked; 9's fork is not in the trace; 10 waited for a CPU; 11 is forked
    // twice with one pid.
    trace.timer(10, 0, 7, 8).wakeup_new(20, 0, 7, 9).switch(100, 0, 7, 'S', 10).switch(105, 0, 10, 'S', 8);
    trace.switch(110, 0, 8, 'S', 9).fork(115, 0, 9, 11).wakeup_new(116, 0, 9, 11);
    trace
        .switch(120, 0, 9, 'R', 11)
        .switch(125, 0, 11, 'X', 9)
        .fork(126, 0, 9, 11)
        .switch(130, 0, 9, 'S', 11);
    trace.switch(133, 0, 11, 'Z', 0);
    let derived = trace.derive();
    // The first event is at 10: time 0 of the workload.
    assert_eq!(life(&derived.workload, 7), "runnable B90");
    assert_eq!(life(&derived.workload, 8), "blocked Wirq0 B5");
    assert_eq!(life(&derived.workload, 9), "blocked W?10 F6:11 F15:4194305 B15");
    assert_eq!(life(&derived.workload, 10), "runnable B5");
    assert_eq!(life(&derived.workload, 11), "by9 E5");
    assert_eq!(life(&derived.workload, 4_194_305), "by9 E3");
    assert_eq!(dropped(&derived.workload), []);
}

#[test]
fn a_thread_that_calls_exec_takes_its_processs_number() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(10, 0, 7, 'X', 8);
    trace.push(15, 0, 7, Context::Task, SchedEvent::Exec { pid: Pid(7), old_pid: Pid(8) });
    trace.switch(20, 0, 7, 'S', 0);
    let workload = trace.derive().workload;
    assert_eq!(life(&workload, 7), "runnable E10");
    assert_eq!(life(&workload, 8), "runnable B10");
    assert_eq!(task(&workload, 8).name, "t7");
    assert_eq!(dropped(&workload), []);
}

#[test]
fn the_schedulers_own_threads_are_left_out_and_counted() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).waking(5, 0, 7, MIGRATION).switch(10, 0, 7, 'R', MIGRATION);
    trace
        .waking(11, 0, MIGRATION, 8)
        .switch(12, 0, MIGRATION, 'S', 7)
        .switch(20, 0, 7, 'S', 8)
        .switch(25, 0, 8, 'X', 0);
    let derived = trace.derive();
    assert_eq!(derived.workload.tasks.len(), 2);
    assert_eq!(life(&derived.workload, 7), "runnable B18");
    assert_eq!(life(&derived.workload, 8), "blocked W?11 E5");
    assert_eq!(derived.summary.wakeups.unknown_waker, 1);
    assert_eq!(
        dropped(&derived.workload),
        [("switch to a kernel thread that the scheduler causes (migration/N), left out", 1)]
    );
}

#[test]
fn calls_change_parameters_of_the_caller_and_of_others() {
    let mut trace = Trace::default();
    let call = |trace: &mut Trace, us, call, kind, ret| {
        trace.push(us, 0, 7, Context::Task, SchedEvent::SysEnter(call));
        trace.push(us + 1, 0, 7, Context::Task, SchedEvent::SysExit { call: kind, ret });
    };
    trace.prio.insert(8, 130);
    trace.switch(0, 0, 0, 'R', 8).switch(1, 0, 8, 'S', 7);
    call(&mut trace, 10, Syscall::SetPriority { which: 0, who: 0, nice: 5 }, SyscallKind::SetPriority, 0);
    trace.prio.insert(7, 125);
    // Refused: EACCES.
    call(&mut trace, 20, Syscall::SetPriority { which: 0, who: 8, nice: -5 }, SyscallKind::SetPriority, -13);
    // FIFO for 8; its priority is not in the event but in 8's next waking.
    let fifo = Syscall::SchedSetScheduler { pid: Pid(8), policy: 1 };
    call(&mut trace, 30, fifo, SyscallKind::SchedSetScheduler, 0);
    trace.prio.insert(8, 89);
    trace.timer(40, 0, 7, 8).switch(41, 0, 7, '+', 8).switch(50, 0, 8, 'S', 7);
    // An affinity whose mask nobody knows, and parameters of a task that is never seen again.
    call(&mut trace, 60, Syscall::SchedSetAffinity { pid: Pid(8) }, SyscallKind::SchedSetAffinity, 0);
    call(&mut trace, 62, Syscall::SchedSetAttr { pid: Pid(8) }, SyscallKind::SchedSetAttr, 0);
    trace.switch(70, 0, 7, 'X', 0);
    let workload = trace.derive().workload;
    assert_eq!(life(&workload, 7), "runnable P10:normal/5/0 P30->8:fifo/10/10 E60");
    assert_eq!(life(&workload, 8), "runnable B1 Wirq39 B9");
    assert_eq!(task(&workload, 8).params.unwrap().nice, Nice::new(10).unwrap());
    assert_eq!(task(&workload, 7).params.unwrap().nice, Nice::new(0).unwrap());
    assert_eq!(
        dropped(&workload),
        [
            ("change of affinity, whose mask is not in the trace, left out", 1),
            ("change of parameters whose effect is not in the trace, left out", 1)
        ]
    );
}

/// `record --objects` reads the mask when the call returns; a call without one is counted.
#[test]
fn a_recorded_mask_is_set_where_the_call_was() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8);
    for (us, pid, mask) in [(10, 0, 0b10), (20, 8, 0b01), (30, 8, 0b11), (40, 0, 0)] {
        let set = Syscall::SchedSetAffinity { pid: Pid(pid) };
        let exit = SchedEvent::SysExit { call: SyscallKind::SchedSetAffinity, ret: 0 };
        trace.push(us, 0, 7, Context::Task, SchedEvent::SysEnter(set)).push(
            us + 1,
            0,
            7,
            Context::Task,
            exit,
        );
        trace.push(us + 1, 0, 7, Context::Task, SchedEvent::Affinity { pid: Pid(pid), mask });
    }
    trace.switch(50, 0, 7, 'X', 0).switch(50, 1, 8, 'X', 0);
    let workload = trace.derive().workload;
    let sets: Vec<_> = task(&workload, 7)
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Prio { length, change } => Some((
                length.as_ns() / 1000,
                change.target.map(|target| workload.tasks[target.index()].pid),
                change.affinity.as_ref()?.to_string(),
            )),
            _ => None,
        })
        .collect();
    let set = |us, pid, cpus: &str| (us, pid, cpus.to_string());
    // both CPUs that were recorded: no bond on a larger machine either
    assert_eq!(sets, [set(11, None, "1"), set(21, Some(8), "0"), set(31, Some(8), "0-63")]);
    assert_eq!(dropped(&workload), [("change of affinity, whose mask is not in the trace, left out", 1)]);
}

#[test]
fn lent_priorities_are_never_changes() {
    let mut trace = Trace::default();
    let lend = |trace: &mut Trace, us, by, old_prio, new_prio| {
        trace.push(us, 0, by, Context::Task, SchedEvent::PiSetPrio { pid: Pid(7), old_prio, new_prio });
    };
    trace.switch(0, 0, 0, 'R', 7).switch(10, 0, 7, 'R', 8);
    lend(&mut trace, 12, 8, 120, 80);
    trace.prio.insert(7, 80);
    trace.switch(13, 0, 8, 'D', 7).switch(20, 0, 7, '+', 9).switch(25, 0, 9, 'S', 7);
    lend(&mut trace, 30, 7, 80, 120);
    trace.prio.insert(7, 120);
    trace.waking(30, 0, 7, 8).switch(40, 0, 7, 'R', 8).switch(45, 0, 8, 'S', 7).switch(50, 0, 7, 'S', 0);
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, 7), "runnable B37");
    assert_eq!(dropped(&derived.workload), []);

    // The same without the events that tell of the loan: there and back, where first seen.
    trace.events.retain(|event| !matches!(event.what, SchedEvent::PiSetPrio { .. }));
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, 7), "runnable P10:fifo/0/19 P32:normal/0/0 B37");
    assert_eq!(
        dropped(&derived.workload),
        [("change of priority without a call in the trace, placed where it was first seen", 2)]
    );
}

#[test]
fn the_snapshot_refines_what_priorities_do_not_tell() {
    let text = "pid,tid,comm,policy,nice,rt_priority,affinity,cgroup,cpu_weight,cpu_max,cpuset,ppid\n\
                1,1,init,normal,0,0,0-1,/,,,0-1,0\n\
                7,7,a,batch,0,0,1,/a/b,200,50000 100000,0-1,1\n\
                8,8,b,rr,0,10,0-1,/a,,max 100000,0,7\n\
                9,9,c,idle,0,0,0-1,/,,,,2\n";
    let snapshot = ProcSnapshot::parse(text, "x.proc.csv").unwrap();
    let mut trace = Trace::default();
    trace.prio.insert(8, 89);
    trace.prio.insert(9, 125); // not what the snapshot says: changed meanwhile
    trace.switch(0, 0, 0, 'R', 7).switch(10, 0, 7, 'S', 8).switch(20, 0, 8, 'S', 9).switch(30, 0, 9, 'S', 10);
    trace.switch(40, 0, 10, 'S', 0);
    let workload = trace.derive_with(DeriveOptions::default(), Some(&snapshot)).workload;
    let params = |pid| task(&workload, pid).params.unwrap();
    assert_eq!(
        (params(7).policy, params(8).policy, params(8).rt_priority),
        (SchedPolicy::Batch, SchedPolicy::RoundRobin, 10)
    );
    assert_eq!((params(9).policy, params(9).nice), (SchedPolicy::Idle, Nice::new(5).unwrap()));
    assert_eq!(params(10).policy, SchedPolicy::Normal);
    let affinity = task(&workload, 7).affinity.as_ref().unwrap();
    assert_eq!(affinity.iter().collect::<Vec<_>>(), [CpuId(1)]);
    assert_eq!(task(&workload, 8).affinity, None, "all CPUs there are");
    assert!(task(&workload, 9).kernel_thread && !task(&workload, 7).kernel_thread);
    let paths: Vec<&str> = workload.cgroups.iter().map(|group| group.path.as_str()).collect();
    assert_eq!(paths, ["/a", "/a/b"]);
    let group = &workload.cgroups[task(&workload, 7).cgroup.unwrap().0 as usize];
    assert_eq!(
        (group.weight, group.max.unwrap().quota, &group.cpuset),
        (Some(200), Span::from_ms(50), &None)
    );
    assert_eq!(workload.cgroups[0].cpuset.as_ref().unwrap().len(), 1);
    let Birth::Init { parent: Some(parent), .. } = task(&workload, 8).birth else { panic!() };
    assert_eq!(workload.task(parent).pid, 7);
    assert_eq!(workload.notes["tasks of the snapshot that did nothing, left out"], "1");
    assert_eq!(
        dropped(&workload),
        [("task whose first priority in the trace is not the snapshot's; the trace's taken", 1)]
    );
}

/// Events are lost on cpu0 from 20 on; the page after the gap begins at 100.
#[test]
fn lost_events_are_counted_and_time_in_the_gap_is_not_invented() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).timer(20, 0, 7, 9);
    trace.push(100, 0, 0, Context::Task, SchedEvent::Lost { count: Some(33) });
    trace.switch(110, 0, 8, 'S', 7).switch(130, 0, 7, 'X', 0);
    let workload = trace.derive().workload;
    // 7: until its CPU's last event (20), and 110 to 130; 8: since the gap's end.
    assert_eq!(life(&workload, 7), "runnable E40");
    assert_eq!(life(&workload, 8), "runnable B10");
    assert_eq!(dropped(&workload), [("event lost by the recording (buffer full)", 33)]);
}

/// A recording that follows 7 alone (set_event_pid): others are glimpsed when they hand it a CPU or take one.
#[test]
fn tasks_that_are_only_glimpsed_are_left_out() {
    let mut trace = Trace::default();
    for round in 0..20 {
        let us = round * 100;
        let (before, after) = (8 + (round % 3) as i32, 8 + ((round / 3 + round) % 3) as i32);
        trace.switch(us, 0, before, 'R', 7).waking(us + 5, 0, 7, 20).switch(us + 10, 0, 7, 'S', after);
        trace.timer(us + 60, 0, after, 7);
    }
    let derived = trace.derive();
    // 20 was woken once for all it is known; it never ran.
    let pids: Vec<u32> = derived.workload.tasks.iter().map(|task| task.pid).collect();
    assert_eq!(pids, [7, 20]);
    assert_eq!(task(&derived.workload, 7).cpu_demand(), Span::from_us(200));
    assert_eq!(
        derived.workload.dropped["task of which the trace has only a part (the recording followed others), left out"],
        3
    );
    assert_eq!(life(&derived.workload, 20), "blocked W5<-7@5#0");
}

/// 20 hides: nothing that happens in its context is recorded, its departures neither. 7 gets the CPU back
/// from it each time.
#[test]
fn successors_of_a_hidden_task_are_charged_from_its_arrival() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7);
    for round in 1..=20 {
        let us = round * 100;
        trace.switch(us, 0, 7, '+', 20); // and back within 5 us, which nobody tells
        trace.switch(us + 90, 0, 7, 'R', 8).switch(us + 95, 0, 8, 'R', 7);
    }
    trace.switch(2100, 0, 7, 'X', 0);
    let workload = trace.derive().workload;
    // The first two of 20 arrivals are not yet told from a recording of others: 90 us each are not charged.
    assert_eq!(life(&workload, 7), "runnable E1820");
    assert_eq!(workload.tasks.len(), 2);
    assert_eq!(
        dropped(&workload),
        [
            ("stay on a CPU whose begin is not in the trace, not charged", 2),
            ("stay on a CPU whose end is not in the trace, not charged", 20),
            ("switch away from a task that the recording hides; its successor charged from its arrival", 18),
            ("task of which the trace has only a part (the recording followed others), left out", 1)
        ]
    );
}

/// cpu0's idle task hides: nothing tells when 7 gets the CPU from it. 7 was woken at 50 past, and at 60 past it runs.
#[test]
fn a_stay_that_begins_unseen_on_an_idle_cpu_is_charged_from_the_wakeup() {
    let mut trace = Trace::default();
    trace.switch(0, 1, 0, 'R', 8);
    for round in 1..=20 {
        let us = 100 * round;
        trace.switch(us, 0, 7, 'S', 0).waking(us + 50, 1, 8, 7).timer(us + 60, 0, 7, 9);
    }
    trace.switch(2100, 1, 8, 'X', 0);
    let derived = trace.derive();
    let life = life(&derived.workload, 7);
    assert!(life.starts_with("runnable B100 W50<-8@1950#0 B50 W50"), "{life}");
    assert!(life.ends_with("W50<-8@50#0 B50"), "{life}");
    assert_eq!(
        dropped(&derived.workload),
        [("stay whose begin on an idle CPU is not in the trace, charged from the task's wakeup", 20)]
    );
}

/// Nobody goes idle while a task wants the CPU: 7 was displaced at 100 by one that is shown as idle, and is back.
#[test]
fn a_runnable_task_that_leaves_its_cpu_to_idle_is_charged_on() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(100, 0, 7, 'R', 0).switch(300, 0, 7, 'X', 0);
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, 7), "runnable E300");
    assert_eq!(
        dropped(&derived.workload),
        [("runnable task that gave its CPU to idle (to a task that the recording hides); charged on", 1)]
    );
}

/// What goes in comes out, for schedules drawn at random: each task's CPU time and the alternation of BLOCK and WAKEUP.
#[test]
fn random_schedules_keep_cpu_time_and_order() {
    let mut seed = 12345u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..200 {
        let mut trace = Trace::default();
        let mut on = [1, 2];
        let mut since = [0, 0];
        let mut blocked = Vec::new();
        let mut waiting: Vec<i32> = (3..9).collect();
        let mut cpu_us = [0u64; 30];
        trace.switch(0, 0, 0, 'R', 1).switch(0, 1, 0, 'R', 2);
        for us in 1..300 {
            let cpu = random(2) as usize;
            let current = on[cpu];
            match random(3) {
                0 if !blocked.is_empty() => {
                    let pid = blocked.swap_remove(random(blocked.len() as u64) as usize);
                    match (current, random(2)) {
                        (0, _) | (_, 0) => trace.timer(us, cpu as u32, current, pid),
                        _ => trace.waking(us, cpu as u32, current, pid),
                    };
                    waiting.push(pid);
                }
                _ => {
                    let next = if waiting.is_empty() {
                        0
                    } else {
                        waiting.remove(random(waiting.len() as u64) as usize)
                    };
                    if current == next {
                        continue;
                    }
                    let sleeps = current != 0 && random(2) == 0;
                    trace.switch(us, cpu as u32, current, if sleeps { 'S' } else { 'R' }, next);
                    cpu_us[current as usize] += us - since[cpu];
                    match current {
                        0 => {}
                        _ if sleeps => blocked.push(current),
                        _ => waiting.push(current),
                    }
                    (on[cpu], since[cpu]) = (next, us);
                }
            }
        }
        let end = trace.events.last().unwrap().time_ns / 1000;
        for cpu in 0..2 {
            cpu_us[on[cpu] as usize] += end - since[cpu];
        }
        let derived = trace.derive();
        assert_eq!(dropped(&derived.workload), []);
        assert_eq!(derived.summary.wakeups.made_up, 0);
        for task in &derived.workload.tasks {
            assert_eq!(task.cpu_demand(), Span::from_us(cpu_us[task.pid as usize]), "task {}", task.pid);
            life(&derived.workload, task.pid); // every deid is an event of its waker
            let mut blocked = matches!(task.birth, Birth::Init { state: InitState::Blocked, .. });
            let mut last = Span::ZERO;
            for event in &task.events {
                match event.kind.length() {
                    None => {
                        assert!(blocked, "WAKEUP without BLOCK");
                        (blocked, last) = (false, Span::ZERO);
                    }
                    Some(length) => {
                        assert!(!blocked && length >= last, "{}", life(&derived.workload, task.pid));
                        last = length;
                        blocked = matches!(event.kind, EventKind::Block { .. });
                    }
                }
            }
        }
    }
}
