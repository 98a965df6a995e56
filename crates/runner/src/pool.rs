//! How do many runs use all cores? Threads take them one by one; results come back in order.
//!
//! ```text
//!   thread 1 ── takes 0, 2, ... ──┐
//!   thread 2 ── takes 1, 3, ... ──┴─> results 0, 1, 2, 3, ... whatever the number of threads
//! ```
//!
//! A thread only waits where its job is a [`run`](crate::run()): that is made by a worker process of its own.
//! A job that panics is lost, and the others go on.
//!
//! ```
//! let squares = schedlab_runner::pool::map(5, 2, |index| index * index, |_| {}).unwrap();
//! assert_eq!(squares.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), [0, 1, 4, 9, 16]);
//! ```

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// The threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {source}; {remedy}")]
pub struct PoolError {
    /// What was being done.
    pub doing: &'static str,
    /// The system's answer.
    pub source: std::io::Error,
    /// What to do.
    pub remedy: &'static str,
}

/// A job without a result: it panicked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("internal error: job {index} {reason}")]
pub struct JobLost {
    /// Which job.
    pub index: usize,
    /// How.
    pub reason: String,
}

/// Cores that may be used (affinity and cgroup respected); at least 1.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Does jobs `0..count`, at most `jobs` at once, and returns their results in order. `done` hears, on the
/// calling thread, how many are finished. With one job at a time everything happens on the calling thread.
///
/// # Errors
/// No thread can be started.
pub fn map<T: Send>(
    count: usize,
    jobs: usize,
    work: impl Fn(usize) -> T + Sync,
    mut done: impl FnMut(usize),
) -> Result<Vec<Result<T, JobLost>>, PoolError> {
    let jobs = jobs.clamp(1, count.max(1));
    let one = |index| {
        catch_unwind(AssertUnwindSafe(|| work(index)))
            .map_err(|panic| JobLost { index, reason: format!("panicked: {}", text_of(&*panic)) })
    };
    if jobs == 1 {
        let one = |index| {
            let result = one(index);
            done(index + 1);
            result
        };
        return Ok((0..count).map(one).collect());
    }
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<Result<T, JobLost>>> = (0..count).map(|_| None).collect();
    let (to, from) = mpsc::channel();
    let take_turns = |to: mpsc::Sender<_>| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count || to.send((index, one(index))).is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..jobs {
            let to = to.clone();
            let thread = std::thread::Builder::new().name(format!("job {number}"));
            if let Err(source) = thread.spawn_scoped(scope, || take_turns(to)) {
                next.store(count, Ordering::Relaxed); // those that have started find nothing more to do
                let remedy = "raise the process limit (ulimit -u) or lower --jobs";
                return Err(PoolError { doing: "start a thread", source, remedy });
            }
        }
        drop(to);
        for (nr_done, (index, result)) in from.iter().enumerate() {
            results[index] = Some(result);
            done(nr_done + 1);
        }
        Ok(())
    })?;
    let all = results.into_iter();
    Ok(all.map(|result| result.expect("every job is taken, and every thread has ended")).collect())
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(count: usize, jobs: usize) -> Vec<String> {
        let work = |index: usize| "x".repeat(index * 1000) + &index.to_string();
        let mut heard = 0;
        let results = map(count, jobs, work, |done| heard = done).unwrap();
        assert_eq!(heard, count);
        results.into_iter().map(Result::unwrap).collect()
    }

    #[test]
    fn results_come_in_order_whatever_the_number_of_threads() {
        let alone = texts(90, 1);
        assert_eq!(alone[89].len(), 89_002);
        for jobs in [2, 3, 200] {
            assert_eq!(texts(90, jobs), alone, "{jobs} threads");
        }
        assert!(texts(0, 4).is_empty());
    }

    #[test]
    fn a_panic_costs_one_job() {
        let work = |index: usize| {
            assert!(index != 5, "job five is broken");
            index
        };
        for jobs in [1, 3] {
            let results = map(12, jobs, work, |_| {}).unwrap();
            for (index, result) in results.iter().enumerate() {
                match index {
                    5 => assert!(
                        result.as_ref().unwrap_err().to_string().contains("panicked: job five is broken")
                    ),
                    _ => assert_eq!(*result, Ok(index)),
                }
            }
        }
    }
}
