//! Which row of a table is this task? Workload tasks come first, in order; then the kernel's threads, in the header's order.

use schedlab_log::LogHeader;
use schedlab_units::TaskId;
use std::collections::BTreeMap;

/// A row number for every task that the header names.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    nr_tasks: u32,
    ids: Vec<TaskId>,
    /// Kernel threads with a small pid (nearly all): row by pid.
    small: Vec<u32>,
    large: BTreeMap<u32, u32>,
}

const NONE: u32 = u32::MAX;
const SMALL_PIDS: usize = 1 << 16;

impl Slots {
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

    /// The row's task.
    pub fn id(&self, row: u32) -> TaskId {
        self.ids[row as usize]
    }

    /// The task's row; `None` for idle and for a task that the header does not name.
    #[inline]
    pub fn row(&self, id: TaskId) -> Option<u32> {
        if id.is_workload() {
            return (id.0 < self.nr_tasks).then_some(id.0);
        }
        let pid = id.kernel_pid()?;
        let row = match self.small.get(pid as usize) {
            Some(row) => *row,
            None => self.large.get(&pid).copied().unwrap_or(NONE),
        };
        (row != NONE).then_some(row)
    }
}
