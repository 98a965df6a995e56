//! What does a policy do, at a glance? Small workloads in milliseconds, and who ran in each, one letter per ms.
//!
//! ```
//! use schedlab_machine::drawn::{Life::*, schedule};
//! # use schedlab_machine::policy::*; use schedlab_units::*;
//! # #[derive(Default)] struct Fifo(std::collections::VecDeque<TaskId>);
//! # impl Policy for Fifo {
//! #     fn task_new(&mut self, _: &View, _: TaskId) {}
//! #     fn select_cpu(&mut self, v: &View, t: TaskId, _: Arrival) -> CpuId {
//! #         v.idle_cpu_for(t).unwrap_or(v.home_cpu(t))
//! #     }
//! #     fn enqueue(&mut self, _: &View, _: CpuId, t: TaskId, _: Arrival) { self.0.push_back(t) }
//! #     fn dequeue(&mut self, _: &View, _: CpuId, t: TaskId) { self.0.retain(|&x| x != t) }
//! #     fn pick_next(&mut self, _: &View, _: CpuId) -> Option<TaskId> { self.0.pop_front() }
//! #     fn put_prev(&mut self, _: &View, _: CpuId, t: TaskId, _: Span, s: Stop) {
//! #         if s.is_runnable() { self.0.push_back(t) }
//! #     }
//! # }
//! // A runs 3 ms, sleeps 2, runs 1; B runs 4
//! let drawing = schedule(Box::new(Fifo::default()), 1, 20, &[&[Run(3), Sleep(2), Run(1)], &[Run(4)]]);
//! assert_eq!(drawing, ["AAABBBBA"]);
//! ```
//!
//! A burst that ends together with its slice: the timer comes first (see [`crate::engine`]), so the task
//! blocks when it is next picked.

use crate::native::Native;
use crate::order::{FirstPosted, Order};
use crate::policy::Policy;
use crate::{End, Machine, Program, Setup};
use schedlab_log::{Kind, Record};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::{Builder, Workload};

/// What a task does next, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Compute for so much CPU time.
    Run(u64),
    /// Block for so long.
    Sleep(u64),
}

/// Tasks A, B, ... (at most 26) that are all there at the start, and exit after their last step.
pub fn workload(lives: &[&[Life]]) -> Workload {
    assert!(lives.len() <= 26, "there are 26 letters");
    let mut builder = Builder::new();
    for (letter, life) in ('A'..='Z').zip(lives) {
        let mut task = builder.task(letter).inherits();
        for step in *life {
            task = match step {
                Life::Run(ms) => task.run(Span::from_ms(*ms)),
                Life::Sleep(ms) => task.sleep(Span::from_ms(*ms)),
            };
        }
        task.exit();
    }
    builder.finish().expect("drawn tasks keep the rules")
}

/// Runs the tasks and draws one line per CPU, one letter per ms, `.` = idle; the idle end is left out. Panics
/// if the run does not end by itself within `limit_ms`, or if something happens between two milliseconds.
pub fn schedule(policy: Box<dyn Policy>, nr_cpus: u32, limit_ms: u64, lives: &[&[Life]]) -> Vec<String> {
    draw(policy, nr_cpus, limit_ms, &workload(lives))
}

/// The same for a workload of one's own (parameters, affinities), whose tasks are drawn as A, B, ...
pub fn draw(policy: Box<dyn Policy>, nr_cpus: u32, limit_ms: u64, workload: &Workload) -> Vec<String> {
    draw_in_order(policy, nr_cpus, limit_ms, workload, FirstPosted::default())
}

/// The same, with CPUs that are ready at one instant going on in another order.
pub fn draw_in_order(
    policy: Box<dyn Policy>,
    nr_cpus: u32,
    limit_ms: u64,
    workload: &Workload,
    order: impl Order,
) -> Vec<String> {
    let mut records: Vec<Record> = Vec::new();
    let setup = Setup {
        topology: Topology::flat(nr_cpus).expect("a drawing has a few CPUs"),
        duration: Some(Span::from_ms(limit_ms)),
        params: Vec::new(),
    };
    let program = Program::new(workload).expect("a drawn workload is valid");
    let outcome = Machine::with_order(Native::new(policy, &mut records), program, setup, order).run();
    assert_eq!(outcome.end, End::AllDone, "the run should end by itself within {limit_ms} ms");
    let ms = 1_000_000;
    let mut lines = vec![vec![b'.'; limit_ms as usize]; nr_cpus as usize];
    let mut current = vec![(0u64, None::<u32>); nr_cpus as usize];
    for record in records.iter().filter(|r| r.kind() == Some(Kind::Switch)) {
        let (since, task) = current[record.cpu().index()];
        assert_eq!(record.time_ns % ms, 0, "a drawn schedule has whole milliseconds");
        if let Some(task) = task {
            lines[record.cpu().index()][(since / ms) as usize..(record.time_ns / ms) as usize]
                .fill(b'A' + task as u8);
        }
        current[record.cpu().index()] =
            (record.time_ns, record.other().is_workload().then_some(record.other));
    }
    let text =
        |line: Vec<u8>| String::from_utf8(line).expect("letters and dots").trim_end_matches('.').to_string();
    lines.into_iter().map(text).collect()
}
