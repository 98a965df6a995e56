//! What do real-time tasks ask of this machine's scheduler? Threads of this process, each with a policy of its own,
//! that compute and sleep in turn.
//!
//! ```text
//! task   runtime 3 ms, period 10 ms, SCHED_DEADLINE     computes 3 ms of CPU time, sleeps until its next 10 ms begin
//! ```
//!
//! Nothing is recorded: it is the load under which something else is measured.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::drain::thread_cpu_time;
use crate::error::HostError;
use schedlab_units::{SchedParams, Span};

/// Additions between two looks at the clock: some 10 us.
const STEPS: u64 = 20_000;
/// A thread's stack: it calls nothing.
const STACK_BYTES: usize = 64 << 10;

/// One task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeriodicTask {
    /// Its policy and priority, or its reservation.
    pub params: SchedParams,
    /// CPU time of each job.
    pub runtime: Span,
    /// From one job to the next.
    pub period: Span,
}

/// The running threads; they end when it is dropped.
pub struct PeriodicLoad {
    over: Arc<AtomicBool>,
    jobs: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl PeriodicLoad {
    /// Starts all tasks, within a millisecond.
    ///
    /// # Errors
    /// The kernel refuses a thread, or a task's policy: real-time policies need root, and the tasks of SCHED_DEADLINE
    /// together no more than the kernel reserves.
    pub fn start(tasks: &[PeriodicTask]) -> Result<PeriodicLoad, HostError> {
        let mut load = PeriodicLoad {
            over: Arc::new(AtomicBool::new(false)),
            jobs: Arc::new(AtomicU64::new(0)),
            threads: Vec::new(),
        };
        let begun = Arc::new(AtomicBool::new(false));
        let (ready, came) = channel();
        for (number, task) in tasks.iter().enumerate() {
            let (over, jobs, begun) = (load.over.clone(), load.jobs.clone(), begun.clone());
            let (task, ready) = (*task, ready.clone());
            let thread =
                std::thread::Builder::new().name(format!("periodic-{number}")).stack_size(STACK_BYTES);
            let body = move || run(task, [&begun, &over], &ready, &jobs);
            let spawned = thread.spawn(body);
            load.threads.push(spawned.map_err(refused("cannot start a thread"))?);
        }
        drop(ready);
        begun.store(true, Ordering::Release);
        let answers: io::Result<()> = came.iter().take(tasks.len()).collect();
        answers
            .map_err(refused("the kernel refuses a task its policy (root, and room for its reservation)"))?;
        Ok(load)
    }

    /// Jobs done so far.
    pub fn jobs(&self) -> u64 {
        self.jobs.load(Ordering::Relaxed)
    }
}

impl Drop for PeriodicLoad {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn refused(doing: &'static str) -> impl Fn(io::Error) -> HostError {
    move |source| HostError::System { doing, source }
}

fn run(
    task: PeriodicTask,
    [begun, over]: [&AtomicBool; 2],
    ready: &Sender<io::Result<()>>,
    jobs: &AtomicU64,
) {
    // all are there before the first of them is a real-time task: that one would not let the others come
    while !begun.load(Ordering::Acquire) {
        if over.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let set = set_params(&task.params);
    let is_refused = set.is_err();
    if ready.send(set).is_err() || is_refused {
        return;
    }
    let mut next = now();
    while !over.load(Ordering::Relaxed) {
        let until = thread_cpu_time() + Duration::from_nanos(task.runtime.as_ns());
        while thread_cpu_time() < until && !over.load(Ordering::Relaxed) {
            std::hint::black_box((0..STEPS).fold(0u64, |sum, n| std::hint::black_box(sum ^ n)));
        }
        jobs.fetch_add(1, Ordering::Relaxed);
        next += Duration::from_nanos(task.period.as_ns());
        sleep_until(next);
    }
}

fn set_params(params: &SchedParams) -> io::Result<()> {
    let times = params.deadline.map(|d| [d.runtime, d.deadline, d.period].map(|span| span.as_ns()));
    let [sched_runtime, sched_deadline, sched_period] = times.unwrap_or_default();
    let attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: params.policy.number().into(),
        sched_flags: 0,
        sched_nice: params.nice.get(),
        sched_priority: params.rt_priority.into(),
        sched_runtime,
        sched_deadline,
        sched_period,
    };
    // SAFETY: the kernel reads `size` bytes of a local.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills a local; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn sleep_until(instant: Duration) {
    let time =
        libc::timespec { tv_sec: instant.as_secs() as libc::time_t, tv_nsec: instant.subsec_nanos().into() };
    // SAFETY: reads a local; what is left is not asked for with an absolute time.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Three normal tasks of 2 ms in 20: ten jobs each in 200 ms, as many as periods have begun.
    #[test]
    fn jobs_come_once_a_period() {
        let task = PeriodicTask {
            params: SchedParams::default(),
            runtime: Span::from_ms(2),
            period: Span::from_ms(20),
        };
        let begin = Instant::now();
        let load = PeriodicLoad::start(&[task; 3]).unwrap();
        std::thread::sleep(Duration::from_millis(210));
        let (jobs, took) = (load.jobs(), begin.elapsed());
        drop(load);
        let most = 3 * (took.as_millis() as u64 / 20 + 1);
        assert!((15..=most).contains(&jobs), "{jobs} jobs in {took:?}");
    }

    /// Two CPUs' worth and more in each period of one task is no reservation; nobody may have a negative period.
    #[test]
    fn what_the_kernel_refuses_is_an_error() {
        let deadline = Some(schedlab_units::DeadlineParams {
            runtime: Span::from_ms(30),
            deadline: Span::from_ms(10),
            period: Span::from_ms(10),
        });
        let policy = schedlab_units::SchedPolicy::Deadline;
        let params = SchedParams { policy, deadline, ..SchedParams::default() };
        let task = PeriodicTask { params, runtime: Span::from_ms(1), period: Span::from_ms(10) };
        let error = PeriodicLoad::start(&[task]).err().expect("more than its period").to_string();
        assert!(error.contains("refuses a task its policy"), "{error}");
    }
}
