//! A row of state per task, made when the task comes to exist.

use schedlab_units::TaskId;
use std::ops::{Index, IndexMut};

/// Rows by [`TaskId`]. Tasks are numbered densely, so this is an array.
#[derive(Debug)]
pub(crate) struct Table<T> {
    rows: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { rows: Vec::new() }
    }
}

impl<T: Default> Table<T> {
    /// Puts a fresh row in place and returns it.
    pub(crate) fn reset(&mut self, task: TaskId) -> &mut T {
        if self.rows.len() <= task.index() {
            self.rows.resize_with(task.index() + 1, T::default);
        }
        self.rows[task.index()] = T::default();
        &mut self.rows[task.index()]
    }

    /// All rows so far, of tasks that have exited too.
    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows.iter_mut()
    }
}

impl<T> Index<TaskId> for Table<T> {
    type Output = T;
    #[inline]
    fn index(&self, task: TaskId) -> &T {
        &self.rows[task.index()]
    }
}

impl<T> IndexMut<TaskId> for Table<T> {
    #[inline]
    fn index_mut(&mut self, task: TaskId) -> &mut T {
        &mut self.rows[task.index()]
    }
}
