//! Trees of tasks ordered by virtual deadline, in which the first *eligible* task is found in logarithmic time.
//!
//! A task is eligible if its vruntime is at most V. Each node keeps the least vruntime of its subtree, so
//! that a subtree without an eligible task is not entered. Balance is kept at random, by a number drawn from
//! the task and its sequence number (a treap): the same operations always build the same tree.
//!
//! ```text
//! deadline      5        V = 10: of deadlines 2, 5, 7 the first (2) has vruntime 12, not eligible;
//! vruntime      9        the next, 5, is: found without looking at 7
//!             /   \
//!          2,12   7,8
//! ```

use schedlab_units::TaskId;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    left: u32,
    right: u32,
    heap: u64,
    key: (i64, u64),
    vruntime: i64,
    least: i64,
}

/// Trees 0, 1, ..., each task in at most one of them.
#[derive(Debug, Default)]
pub(crate) struct DeadlineTrees {
    roots: Vec<u32>,
    nodes: Vec<Node>,
}

impl DeadlineTrees {
    pub(crate) fn new(nr_trees: usize) -> DeadlineTrees {
        DeadlineTrees { roots: vec![NONE; nr_trees], nodes: Vec::new() }
    }

    fn update(&mut self, at: u32) {
        let Node { left, right, vruntime, .. } = self.nodes[at as usize];
        let below = [left, right].into_iter().filter(|&n| n != NONE);
        let least = below.map(|n| self.nodes[n as usize].least).fold(vruntime, i64::min);
        self.nodes[at as usize].least = least;
    }

    /// Parts a tree into the keys below `key` and the others.
    fn split(&mut self, at: u32, key: (i64, u64)) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let node = self.nodes[at as usize];
        if node.key < key {
            let (left, right) = self.split(node.right, key);
            self.nodes[at as usize].right = left;
            self.update(at);
            (at, right)
        } else {
            let (left, right) = self.split(node.left, key);
            self.nodes[at as usize].left = right;
            self.update(at);
            (left, at)
        }
    }

    /// Joins two trees, all keys of the first below those of the second.
    fn join(&mut self, first: u32, second: u32) -> u32 {
        match (first, second) {
            (NONE, other) | (other, NONE) => other,
            _ if self.nodes[first as usize].heap > self.nodes[second as usize].heap => {
                let joined = self.join(self.nodes[first as usize].right, second);
                self.nodes[first as usize].right = joined;
                self.update(first);
                first
            }
            _ => {
                let joined = self.join(first, self.nodes[second as usize].left);
                self.nodes[second as usize].left = joined;
                self.update(second);
                second
            }
        }
    }

    /// Adds a task, which is in no tree. Equal deadlines stand in order of `sequence`, which is never the same twice.
    pub(crate) fn insert(&mut self, tree: usize, task: TaskId, deadline: i64, sequence: u64, vruntime: i64) {
        if self.nodes.len() <= task.index() {
            let empty = Node { left: NONE, right: NONE, heap: 0, key: (0, 0), vruntime: 0, least: 0 };
            self.nodes.resize(task.index() + 1, empty);
        }
        let key = (deadline, sequence);
        let mut heap = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(task.0);
        heap = (heap ^ (heap >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        heap ^= heap >> 29;
        self.nodes[task.index()] = Node { left: NONE, right: NONE, heap, key, vruntime, least: vruntime };
        let (first, second) = self.split(self.roots[tree], key);
        let joined = self.join(first, task.0);
        self.roots[tree] = self.join(joined, second);
    }

    /// Takes out a task that is in this tree.
    pub(crate) fn remove(&mut self, tree: usize, task: TaskId) {
        let key = self.nodes[task.index()].key;
        self.roots[tree] = self.remove_below(self.roots[tree], key);
    }

    fn remove_below(&mut self, at: u32, key: (i64, u64)) -> u32 {
        if at == NONE {
            return NONE;
        }
        let node = self.nodes[at as usize];
        if node.key == key {
            return self.join(node.left, node.right);
        }
        if key < node.key {
            self.nodes[at as usize].left = self.remove_below(node.left, key);
        } else {
            self.nodes[at as usize].right = self.remove_below(node.right, key);
        }
        self.update(at);
        at
    }

    /// The task with the earliest deadline among those whose vruntime satisfies `eligible` (true up to some
    /// vruntime, then false).
    pub(crate) fn first_eligible(&self, tree: usize, eligible: impl Fn(i64) -> bool) -> Option<TaskId> {
        let mut at = self.roots[tree];
        while at != NONE {
            let node = &self.nodes[at as usize];
            if node.left != NONE && eligible(self.nodes[node.left as usize].least) {
                at = node.left;
            } else if eligible(node.vruntime) {
                return Some(TaskId(at));
            } else {
                at = node.right;
            }
        }
        None
    }

    /// The task with the earliest deadline.
    pub(crate) fn first(&self, tree: usize) -> Option<TaskId> {
        self.first_eligible(tree, |_| true)
    }

    /// All tasks in order of deadline.
    pub(crate) fn tasks(&self, tree: usize) -> Vec<TaskId> {
        let mut out = Vec::new();
        let mut stack = Vec::new();
        let mut at = self.roots[tree];
        while at != NONE || !stack.is_empty() {
            while at != NONE {
                stack.push(at);
                at = self.nodes[at as usize].left;
            }
            let node = stack.pop().expect("not empty: checked above");
            out.push(TaskId(node));
            at = self.nodes[node as usize].right;
        }
        out
    }
}
