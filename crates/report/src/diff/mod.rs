//! Two logs side by side: where they first differ, as text and as JSON.

mod json;
mod terminal;

pub use json::diff_json;
pub use terminal::diff_terminal;

use schedlab_instruments::diff::{Diff, Pair};
use schedlab_log::LogHeader;
use schedlab_units::TaskId;

/// A comparison of two logs with what its reader needs to know of them.
#[derive(Clone, Copy, Debug)]
pub struct DiffView<'a> {
    /// The result.
    pub diff: &'a Diff,
    /// Who ran on what, in either log.
    pub headers: [&'a LogHeader; 2],
    /// What to call the logs: their files.
    pub names: [&'a str; 2],
}

impl DiffView<'_> {
    /// The task's name in one of the logs.
    fn task_name(&self, which: usize, task: TaskId) -> &str {
        let header = self.headers[which];
        if task.is_workload() {
            return header.tasks.get(task.index()).map_or("?", |task| &task.name);
        }
        let thread = header.kernel_threads.iter().find(|thread| Some(thread.pid) == task.kernel_pid());
        thread.map_or("idle", |thread| &thread.name)
    }

    /// A pair's task in one of the logs.
    fn id(pair: Pair, which: usize) -> Option<TaskId> {
        if which == 0 { pair.a } else { pair.b }
    }

    /// The pair of a task of one of the logs.
    fn pair(&self, which: usize, task: TaskId) -> Option<Pair> {
        self.diff.map.pairs.iter().copied().find(|pair| Self::id(*pair, which) == Some(task))
    }

    /// Row of a task in that side's tables.
    fn row(&self, which: usize, task: TaskId) -> Option<usize> {
        let header = self.headers[which];
        if task.is_workload() {
            return Some(task.index());
        }
        let threads = &header.kernel_threads;
        let at = threads.iter().position(|thread| Some(thread.pid) == task.kernel_pid())?;
        Some(header.tasks.len() + at)
    }
}
