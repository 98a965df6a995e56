//! Which runs show most of what can be asked of a machine, without privilege and in a few seconds?

use crate::plan::{Model, Plan, ThreadPlan, Timer};
use schedlab_units::{CpuId, CpuSet, Nice, SchedParams, Span};

/// Sleeps of this length lie on no grid that a timer may have.
const ODD: Span = Span::from_us(1370);

/// Those that every kernel has for everybody.
const TIMERS: [Timer; 5] = [Timer::Sleep, Timer::Absolute, Timer::Timerfd, Timer::Itimer, Timer::Posix];

/// The runs, each with what it is for; `each` is how long one lasts, `cpu` where those run that must share a CPU.
pub fn suite(each: Span, cpu: u32) -> Vec<(&'static str, Plan)> {
    let bound = |model: Model, timer: Timer| ThreadPlan {
        model,
        timer,
        cpus: Some(CpuSet::single(CpuId(cpu))),
        ..ThreadPlan::default()
    };
    let hog = || bound(Model::Cpu, Timer::default());
    let mut nicer = hog();
    nicer.class.params = SchedParams::normal(Nice::new(5).expect("it is one"));
    let plan = |threads| Plan { duration: each, threads, ..Plan::default() };
    let latency =
        |timer, period| ThreadPlan { model: Model::Latency { period }, timer, ..ThreadPlan::default() };
    // periods that meet seldom
    let timers = TIMERS.into_iter().zip(1u64..);
    let timers = timers.map(|(timer, n)| latency(timer, Span::from_ns(ODD.as_ns() + 137_000 * n)));
    let beside = bound(Model::Latency { period: ODD }, Timer::Absolute);
    let periodic = Model::Periodic { compute: Span::from_ms(2), period: Span::from_ms(10) };
    vec![
        ("a thread alone", plan(vec![ThreadPlan::default()])),
        ("two equal threads on one CPU", plan(vec![hog(), hog()])),
        ("a thread and a nicer one on one CPU", plan(vec![hog(), nicer])),
        ("a thread that sleeps by clock_nanosleep", plan(vec![latency(Timer::Absolute, ODD)])),
        ("a thread for each timer", plan(timers.collect())),
        ("a thread that sleeps beside one that computes", plan(vec![hog(), beside])),
        (
            "a thread that computes 2 ms every 10 ms",
            plan(vec![ThreadPlan { model: periodic, ..ThreadPlan::default() }]),
        ),
    ]
}
