//! What do the same operations cost inside real Linux, through the port?
//!
//! N tasks that always want the one CPU, nice values spread over -20..19 as on the test bench, run a program
//! of two operations in turn, 1 ms of CPU time apart: give another task, drawn at random, a new nice value,
//! also drawn (`setpriority`), and yield (`sched_yield`). The brackets:
//!
//! | operation | instructions: one call, with all that it calls, of | host time: |
//! |---|---|---|
//! | select | `pick_next_task_fair()`: the previous task goes back to the queue, the next is found and taken out | the whole system call `sched_yield()`, entry and switch of stacks included |
//! | dequeue, enqueue | `dequeue_task_fair()`, `enqueue_task_fair()`, for a waiting task whose nice value changes | the whole system call `setpriority()`, which does both |
//!
//! Instructions are those of the kernel's own functions; its ticks, accounting and the rest of `schedule()`
//! are not in them. Host times are medians, and are those of the kernel's way in and out as well: 200 ns or
//! so that the test bench's policies do not have.

use super::CostError;
use schedlab_lab::{Standard, judge_machine};
use schedlab_linux::{LinuxKernel, LoadedKernel};
use schedlab_log::Record;
use schedlab_machine::kernel::{Boot, Carried, Control, Fault, Kernel, Op, ReadOut, Stimulus, Yield};
use schedlab_machine::sink::Sink;
use schedlab_machine::{Machine, Program, Setup};
use schedlab_process::contain;
use schedlab_runner::RunError;
use schedlab_stdx::Random;
use schedlab_stdx::percentile::upper_median;
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Nice, Span, TaskId, Time};
use schedlab_workload::{Builder, ParamChange, Workload};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

/// The kernel's functions that bracket select, dequeue and enqueue.
pub(super) const FUNCTIONS: [&str; 3] = ["pick_next_task_fair", "dequeue_task_fair", "enqueue_task_fair"];

/// Simulated time of a probe: about a thousand operations of each kind.
const LENGTH: Span = Span::from_s(2);
/// Operations before counting starts.
const WARM_UP: u32 = 100;

/// Host times of one probe; `None` if the operation did not occur (one client has no other to change).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// ns per `sched_yield()`.
    pub select_wall_ns: Option<f64>,
    /// ns per `setpriority()` of a waiting task.
    pub sleep_wake_wall_ns: Option<f64>,
    /// How much longer the middle one of several timings was than the least, in percent, if there were several.
    pub noise_pct: Option<f64>,
}

/// The program of the module's first paragraph.
fn workload(nr_clients: u32) -> Workload {
    let mut random = Random::new(u64::from(nr_clients));
    let rounds = 1200 / nr_clients + 4;
    let nice_of = |id: u32| (u64::from(id) * 40 / u64::from(nr_clients)) as i32 - 20;
    let mut builder = Builder::new();
    for id in 0..nr_clients {
        let own = Nice::new(nice_of(id)).expect("-20 to 19");
        let mut life = builder.task(format!("c{id}")).nice(own);
        for _ in 0..rounds {
            if nr_clients > 1 {
                let other = random.below(u64::from(nr_clients) - 1) as u32;
                let target = Some(TaskId(if other >= id { other + 1 } else { other }));
                let nice = Some(Nice::new(random.below(40) as i32 - 20).expect("-20 to 19"));
                let change = ParamChange { target, nice, ..ParamChange::default() };
                life = life.run(Span::from_ms(1)).set(change);
            }
            life = life.run(Span::from_ms(1)).yields();
        }
        life.run(LENGTH).exit();
    }
    builder.finish().expect("clients that yield and change each other keep the rules")
}

/// Runs the program in this process, which can hold one kernel in its life; under valgrind the functions'
/// instructions from [`count_from_here`] on are what counts.
pub(super) fn probe(
    object: &Path,
    params: Vec<(String, String)>,
    nr_clients: u32,
) -> Result<Times, CostError> {
    // as each run of a kernel object; what it wants to write is one line
    if let Err(why) = contain::enter_cell(std::io::stdout().as_fd()) {
        eprintln!("not contained: {why}");
    }
    let kernel = LoadedKernel::load(object)?;
    let kernel = Timed {
        inner: LinuxKernel::new(kernel, schedlab_runner::COMMAND_LINE, Nowhere),
        yields_ns: Vec::new(),
        changes_ns: Vec::new(),
        warm_up: WARM_UP,
    };
    let workload = workload(nr_clients);
    let ended = |ended| CostError::Linux { nr_clients, ended };
    let program = Program::new(&workload).map_err(|error| ended(RunError::from(error).into()))?;
    let topology = Topology::flat(1).expect("one CPU is a machine");
    let setup = Setup { topology, duration: Some(LENGTH), params };
    let mut machine = Machine::new(kernel, program, setup);
    let outcome = machine.run();
    let timed = machine.kernel();
    judge_machine(timed, outcome, "real Linux", (&workload, 1), Standard::AsAsked).map_err(ended)?;
    Ok(Times {
        select_wall_ns: median(&mut timed.yields_ns),
        sleep_wake_wall_ns: median(&mut timed.changes_ns),
        noise_pct: None,
    })
}

fn median(times_ns: &mut [u64]) -> Option<f64> {
    times_ns.sort_unstable();
    upper_median(times_ns).map(|ns| ns as f64)
}

/// A log for nobody.
struct Nowhere;

impl Sink for Nowhere {
    fn push(&mut self, _record: Record) {}
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// valgrind's counters are set to zero on entry to this function.
#[inline(never)]
fn count_from_here() {
    std::hint::black_box(());
}

/// Its name for valgrind.
pub(super) const COUNT_FROM: &str = "*count_from_here*";

/// A kernel whose operations are timed.
struct Timed<K> {
    inner: K,
    yields_ns: Vec<u64>,
    changes_ns: Vec<u64>,
    warm_up: u32,
}

impl<K: Kernel> Timed<K> {
    fn timed(&mut self, cpu: CpuId, now: Time, stimulus: Stimulus<'_>, is_yield: bool) -> Yield {
        if self.warm_up > 0 {
            self.warm_up -= 1;
            if self.warm_up == 0 {
                count_from_here();
            }
            return self.inner.resume(cpu, now, stimulus);
        }
        let started = Instant::now();
        let yielded = self.inner.resume(cpu, now, stimulus);
        let elapsed_ns = started.elapsed().as_nanos() as u64;
        if is_yield { &mut self.yields_ns } else { &mut self.changes_ns }.push(elapsed_ns);
        yielded
    }
}

impl<K: Kernel> Kernel for Timed<K> {
    const OWNS_TASK_TIMERS: bool = K::OWNS_TASK_TIMERS;
    fn boot(&mut self, boot: &Boot<'_>) -> Result<(), Fault> {
        self.inner.boot(boot)
    }
    fn is_up(&self) -> bool {
        self.inner.is_up()
    }
    fn resume(&mut self, cpu: CpuId, now: Time, stimulus: Stimulus<'_>) -> Yield {
        match stimulus {
            Stimulus::Op(_, Op::Yield) => self.timed(cpu, now, stimulus, true),
            Stimulus::Op(_, Op::Set(..)) => self.timed(cpu, now, stimulus, false),
            _ => self.inner.resume(cpu, now, stimulus),
        }
    }
    fn takes_devices(&self, cpu: CpuId) -> bool {
        self.inner.takes_devices(cpu)
    }
    fn timer(&self, cpu: CpuId) -> Time {
        self.inner.timer(cpu)
    }
    fn next_kick(&mut self) -> Option<CpuId> {
        self.inner.next_kick()
    }
    fn control(&mut self, now: Time, request: Control<'_>) -> Result<(), Fault> {
        self.inner.control(now, request)
    }
    fn control_done(&mut self) -> Option<Carried> {
        self.inner.control_done()
    }
    fn start_log(&mut self, epoch: Time) {
        self.inner.start_log(epoch);
    }
    fn note(&mut self, now: Time, note: Record) {
        self.inner.note(now, note);
    }
    fn read_out(&mut self) -> ReadOut {
        self.inner.read_out()
    }
    fn check_end(&mut self, now: Time) -> Result<(), Fault> {
        self.inner.check_end(now)
    }
    fn fault(&mut self) -> Fault {
        self.inner.fault()
    }
    fn flush_log(&mut self) -> std::io::Result<()> {
        self.inner.flush_log()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_valid_workloads_that_change_others() {
        for nr_clients in [1, 2, 3, 40, 1_000] {
            let workload = workload(nr_clients);
            assert_eq!(workload.check().map_err(|error| error.to_string()), Ok(()), "{nr_clients}");
            let changes = workload.tasks.iter().enumerate().flat_map(|(id, task)| {
                let targets = task.events.iter().filter_map(|event| match &event.kind {
                    schedlab_workload::EventKind::Prio { change, .. } => change.target,
                    _ => None,
                });
                targets.map(move |target| (id, target.index()))
            });
            let changes: Vec<(usize, usize)> = changes.collect();
            assert!(changes.iter().all(|(id, target)| id != target), "the changed task waits");
            assert_eq!(changes.len() > 1_000, nr_clients > 1);
        }
    }
}
