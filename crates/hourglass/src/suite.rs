//! Which runs show most of what can be asked of a machine, without privilege and in a few seconds?

use crate::plan::{Model, Plan, ThreadPlan, Timer};
use schedlab_units::{CpuId, CpuSet, Nice, SchedParams, Span};

/// Sleeps of this length lie on no grid that a timer may have.
const ODD: Span = Span::from_us(1370);

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
        |timer| ThreadPlan { model: Model::Latency { period: ODD }, timer, ..ThreadPlan::default() };
    let periodic = Model::Periodic { compute: Span::from_ms(2), period: Span::from_ms(10) };
    vec![
        ("a thread alone", plan(vec![ThreadPlan::default()])),
        ("two equal threads on one CPU", plan(vec![hog(), hog()])),
        ("a thread and a nicer one on one CPU", plan(vec![hog(), nicer])),
        ("a thread that sleeps by clock_nanosleep", plan(vec![latency(Timer::Absolute)])),
        (
            "a thread that computes 2 ms every 10 ms",
            plan(vec![ThreadPlan { model: periodic, ..ThreadPlan::default() }]),
        ),
    ]
}
