//! Many doubly linked lists over the tasks, each task in at most one of them: every operation takes constant time.
//!
//! ```text
//! heads   [list 0] -> t4 <-> t1 -> end        a task's row holds its neighbours
//!         [list 1] -> end
//! ```

use schedlab_units::TaskId;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// The lists, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    ends: Vec<Ends>,
    nodes: Vec<Node>,
}

impl Lists {
    /// This many empty lists.
    pub(crate) fn new(nr_lists: usize) -> Lists {
        Lists { ends: vec![Ends { first: NONE, last: NONE }; nr_lists], nodes: Vec::new() }
    }

    fn node(&mut self, task: TaskId) -> &mut Node {
        if self.nodes.len() <= task.index() {
            self.nodes.resize(task.index() + 1, Node { before: NONE, after: NONE });
        }
        &mut self.nodes[task.index()]
    }

    fn link(&mut self, list: usize, before: u32, task: TaskId, after: u32) {
        *self.node(task) = Node { before, after };
        match before {
            NONE => self.ends[list].first = task.0,
            _ => self.nodes[before as usize].after = task.0,
        }
        match after {
            NONE => self.ends[list].last = task.0,
            _ => self.nodes[after as usize].before = task.0,
        }
    }

    /// Adds at the end; the task is in no list.
    #[inline]
    pub(crate) fn push_back(&mut self, list: usize, task: TaskId) {
        self.link(list, self.ends[list].last, task, NONE);
    }

    /// Adds at the front; the task is in no list.
    #[inline]
    pub(crate) fn push_front(&mut self, list: usize, task: TaskId) {
        self.link(list, NONE, task, self.ends[list].first);
    }

    /// Adds right before `other`, which is in this list; the task is in no list.
    pub(crate) fn insert_before(&mut self, list: usize, task: TaskId, other: TaskId) {
        self.link(list, self.nodes[other.index()].before, task, other.0);
    }

    /// Takes the task out of this list, in which it is.
    #[inline]
    pub(crate) fn remove(&mut self, list: usize, task: TaskId) {
        let Node { before, after } = self.nodes[task.index()];
        match before {
            NONE => self.ends[list].first = after,
            _ => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => self.ends[list].last = before,
            _ => self.nodes[after as usize].before = before,
        }
    }

    /// The first task.
    #[inline]
    pub(crate) fn first(&self, list: usize) -> Option<TaskId> {
        task(self.ends[list].first)
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self, list: usize) -> bool {
        self.ends[list].first == NONE
    }

    /// From the first to the last.
    pub(crate) fn iter(&self, list: usize) -> impl Iterator<Item = TaskId> + '_ {
        std::iter::successors(self.first(list), |t| task(self.nodes[t.index()].after))
    }

    /// From the last to the first.
    pub(crate) fn iter_back(&self, list: usize) -> impl Iterator<Item = TaskId> + '_ {
        std::iter::successors(task(self.ends[list].last), |t| task(self.nodes[t.index()].before))
    }
}

#[inline]
fn task(number: u32) -> Option<TaskId> {
    (number != NONE).then_some(TaskId(number))
}
