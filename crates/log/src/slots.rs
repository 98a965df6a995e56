//! Which row of a table is this task? Workload tasks come first, in order; then the kernel's threads, in the
//! header's order.
//!
//! ```text
//!   header: task t0, task t1, kernel_thread k17, kernel_thread k9
//!   rows:        0        1                  2                 3
//! ```
//!
//! ```
//! use schedlab_log::{KernelThread, LogHeader, LogTask, Row, Slots};
//! use schedlab_units::TaskId;
//! let thread = |pid| KernelThread { pid, name: String::new() };
//! let header = LogHeader {
//!     tasks: vec![LogTask::default(); 2],
//!     kernel_threads: vec![thread(17), thread(9)],
//!     ..LogHeader::default()
//! };
//! let slots = Slots::new(&header);
//! assert_eq!(slots.row(TaskId::kernel_thread(9)), Some(Row(3)));
//! assert_eq!(slots.id(Row(1)), TaskId(1));
//! assert_eq!((slots.row(TaskId::IDLE), slots.row(TaskId(2))), (None, None));
//! ```

use crate::LogHeader;
use schedlab_units::TaskId;
use std::collections::BTreeMap;

/// A task's place in tables that have a row per task: row i is `TaskId(i)` for the workload's tasks; the
/// kernel's threads follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub u32);

impl Row {
    /// As an index into a table.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A row number for every task that a header names.
#[derive(Clone, Debug)]
pub struct Slots {
    nr_tasks: u32,
    ids: Vec<TaskId>,
    /// Kernel threads with a small pid (nearly all): row by pid.
    small: Vec<u32>,
    large: BTreeMap<u32, u32>,
}

const NONE: u32 = u32::MAX;
const SMALL_PIDS: usize = 1 << 16;

impl Slots {
    /// The rows of this header's tasks and threads.
    pub fn new(header: &LogHeader) -> Slots {
        let nr_tasks = header.tasks.len() as u32;
        let mut slots = Slots {
            nr_tasks,
            ids: (0..nr_tasks).map(TaskId).collect(),
            small: vec![],
            large: BTreeMap::new(),
        };
        for thread in &header.kernel_threads {
            let row = slots.ids.len() as u32;
            slots.ids.push(TaskId::kernel_thread(thread.pid));
            let pid = thread.pid as usize;
            if pid >= SMALL_PIDS {
                slots.large.insert(thread.pid, row);
                continue;
            }
            if slots.small.len() <= pid {
                slots.small.resize(pid + 1, NONE);
            }
            slots.small[pid] = row;
        }
        slots
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether the header names nobody.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Number of rows of the workload's tasks: the first ones.
    pub fn nr_tasks(&self) -> u32 {
        self.nr_tasks
    }

    /// All rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = Row> + use<> {
        (0..self.ids.len() as u32).map(Row)
    }

    /// The row's task.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn id(&self, row: Row) -> TaskId {
        self.ids[row.index()]
    }

    /// The task's row; `None` for idle and for a task that the header does not name.
    #[inline]
    pub fn row(&self, id: TaskId) -> Option<Row> {
        if id.is_workload() {
            return (id.0 < self.nr_tasks).then_some(Row(id.0));
        }
        let pid = id.kernel_pid()?;
        let row = match self.small.get(pid as usize) {
            Some(row) => *row,
            None => self.large.get(&pid).copied().unwrap_or(NONE),
        };
        (row != NONE).then_some(Row(row))
    }
}
