//! Interrupts and softirqs: whose time, whose wakeups?

use super::*;
use schedlab_units::CpuSet;

/// ```text
/// us    0        10         20  22     25      30         40            50
/// cpu0  7777777777 timer ...... softirq .......7777777777 softirq(7's) 7777 S
///                  entry   exit entry    exit             raise entry exit
/// ```
fn interrupted() -> Trace {
    const NET_RX: u32 = 3;
    const TIMER: u32 = 1;
    let mut trace = Trace::default();
    let vector = schedlab_trace::Vector::LocalTimer;
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8).switch(1, 1, 8, 'S', 9).switch(2, 1, 9, 'S', 10);
    trace.switch(3, 1, 10, 'S', 0);
    trace.push(10, 0, 7, Context::HardIrq, SchedEvent::VectorEntry(vector));
    trace.waking_in(12, 0, 7, Context::HardIrq, 8); // 8's timer
    trace.push(13, 0, 7, Context::HardIrq, SchedEvent::SoftIrqRaise { vec: TIMER });
    trace.push(20, 0, 7, Context::HardIrq, SchedEvent::VectorExit(vector));
    trace.push(22, 0, 7, Context::SoftIrq, SchedEvent::SoftIrqEntry { vec: TIMER });
    trace.waking_in(23, 0, 7, Context::SoftIrq, 9); // 9's timeout
    trace.push(25, 0, 7, Context::SoftIrq, SchedEvent::SoftIrqExit { vec: TIMER });
    // 5 us after an interrupt's end, but 7 asked for it
    trace.push(28, 0, 7, Context::Task, SchedEvent::SoftIrqRaise { vec: NET_RX });
    trace.push(30, 0, 7, Context::SoftIrq, SchedEvent::SoftIrqEntry { vec: NET_RX });
    trace.waking_in(35, 0, 7, Context::SoftIrq, 10); // gets what 7 sent
    trace.push(40, 0, 7, Context::SoftIrq, SchedEvent::SoftIrqExit { vec: NET_RX });
    trace.switch(50, 0, 7, 'S', 0);
    for (us, pid) in [(60, 8), (70, 9), (80, 10)] {
        trace.switch(us, 1, 0, 'R', pid).switch(us + 5, 1, pid, 'X', 0);
    }
    trace
}

#[test]
fn interrupts_are_not_the_tasks_cpu_time_but_its_own_softirqs_are() {
    let derived = interrupted().derive();
    let workload = &derived.workload;
    // 50 less the timer's 10 and its softirq's 3; the 2 between them are the task's, as far as the trace tells
    assert_eq!(life(workload, 7), "runnable B37");
    assert_eq!(derived.summary.interrupt_ns, 13_000);
    assert_eq!(life(workload, 8), "runnable B1 W11 E5");
    assert_eq!(life(workload, 9), "runnable B1 Wwheel21 E5");
    assert_eq!(life(workload, 10), "runnable B1 W32<-7@15#0 E5");
    let wakeups = derived.summary.wakeups;
    assert_eq!((wakeups.timer, wakeups.timer_softirq), (1, 1));
    assert_eq!((wakeups.softirq_on_behalf, wakeups.softirq_raised), (1, 1));
    assert_eq!(workload.notes["interrupts that hit tasks"], "13us, taken out of the tasks' CPU time");
    assert_eq!(dropped(workload), []);

    let keep = DeriveOptions { interrupts: InterruptRule::Keep, ..DeriveOptions::default() };
    let kept = interrupted().derive_with(keep, None);
    assert_eq!(life(&kept.workload, 7), "runnable B50");
    assert_eq!(kept.summary.interrupt_ns, 0);

    let replay = DeriveOptions { interrupts: InterruptRule::Replay, ..DeriveOptions::default() };
    let replayed = interrupted().derive_with(replay, None);
    assert_eq!(life(&replayed.workload, 7), "runnable B37");
    let thief = replayed.workload.tasks.last().unwrap();
    assert_eq!((thief.name.as_str(), thief.params.unwrap().rt_priority), ("interrupts-cpu0", 99));
    assert_eq!(thief.affinity, Some(CpuSet::single(CpuId(0))));
    assert_eq!(thief.cpu_demand(), Span::from_us(13), "from 10 to 20, and from 22 to 25");
}

/// ```text
/// us    0         10        20        30    an agent hides 7's switches out; the kernel has booked 6 and 3 us for it
/// cpu0  777777????????????? 888       777
/// ```
#[test]
fn what_the_kernel_has_booked_settles_stays_whose_end_is_not_seen() {
    let trace = |booked: bool| {
        let mut trace = Trace::default();
        trace.switch(0, 0, 0, 'R', 7);
        if booked {
            let what = SchedEvent::StatRuntime { pid: Pid(7), runtime_ns: 6_000 };
            trace.push(6, 0, 7, Context::Task, what);
        }
        // 8 is found there: nobody saw 7 leave
        trace.waking(20, 0, 8, 9).switch(23, 0, 8, '+', 7);
        if booked {
            let what = SchedEvent::StatRuntime { pid: Pid(7), runtime_ns: 7_000 };
            trace.push(30, 0, 7, Context::Task, what);
        }
        // and more, so that 7 is not left out
        for us in [30, 32, 34, 36] {
            trace.switch(us, 0, 7, '+', 8).switch(us + 1, 0, 8, '+', 7);
        }
        trace.switch(38, 0, 7, 'X', 0);
        trace.derive()
    };
    let (inferred, settled) = (trace(false), trace(true));
    assert!(life(&inferred.workload, 7).ends_with("E11"), "nothing of the first stay");
    assert!(life(&settled.workload, 7).ends_with("E17"), "6 us of it: {}", life(&settled.workload, 7));
    assert_eq!(settled.workload.notes["stays whose length sched_stat_runtime tells"], "1");
}

#[test]
fn a_switch_ends_an_interrupt_whose_end_was_lost() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7);
    trace.push(10, 0, 7, Context::HardIrq, SchedEvent::IrqEntry { irq: 30 });
    trace.switch(50, 0, 7, 'S', 8).switch(60, 0, 8, 'X', 0);
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, 7), "runnable B10");
    assert_eq!(life(&derived.workload, 8), "runnable E10");
    let lost = "interrupt whose end is not in the trace, taken as over at the next switch";
    assert_eq!(dropped(&derived.workload), [(lost, 1)]);
}

#[test]
fn what_ksoftirqd_does_is_its_own_work() {
    const NET_RX: u32 = 3;
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 7).switch(0, 1, 0, 'R', 8).switch(1, 1, 8, 'S', 0);
    trace.push(10, 0, 7, Context::HardIrq, SchedEvent::IrqEntry { irq: 30 });
    trace.push(11, 0, 7, Context::HardIrq, SchedEvent::SoftIrqRaise { vec: NET_RX });
    trace.push(12, 0, 7, Context::HardIrq, SchedEvent::IrqExit { irq: 30 });
    trace.switch(20, 0, 7, '+', KSOFTIRQD);
    trace.push(22, 0, KSOFTIRQD, Context::SoftIrq, SchedEvent::SoftIrqEntry { vec: NET_RX });
    trace.waking_in(25, 0, KSOFTIRQD, Context::SoftIrq, 8);
    trace.push(30, 0, KSOFTIRQD, Context::SoftIrq, SchedEvent::SoftIrqExit { vec: NET_RX });
    trace.switch(32, 0, KSOFTIRQD, 'S', 7).switch(40, 0, 7, 'X', 0);
    trace.switch(41, 1, 0, 'R', 8).switch(45, 1, 8, 'X', 0);
    let derived = trace.derive();
    assert_eq!(life(&derived.workload, KSOFTIRQD as u32), "runnable B12");
    assert_eq!(life(&derived.workload, 8), format!("runnable B1 W24<-{KSOFTIRQD}@7#0 E4"));
    assert_eq!(life(&derived.workload, 7), "runnable E26");
}
