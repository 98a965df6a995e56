//! The run queue: clients in a fixed order, largest share first, ties by id. Where does a client that joins belong?
//!
//! ```text
//!   head ─> 7 (t4) ─> 7 (t9) ─> 3 (t0) ─> 1 (t2) <─ tail
//! ```

use crate::proportional::row;
use schedlab_units::TaskId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How the place of a joining client is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// By walking along the queue: O(n). (The tail is looked at first.)
    List,
    /// Between the neighbours that it had when it left, if they still stand there; else by walking.
    Neighbours,
    /// By a search tree beside the queue: O(log n).
    Tree,
    /// Behind the last client with its share, found by an array over share values and a bitmap: O(1), equal
    /// shares in order of arrival.
    Array,
}

/// Shares from here on (less one) have one list together in [`Insert::Array`] and are walked along; nice
/// weights are all below.
const ARRAY_SHARES: usize = 1 << 18;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
    share: u64,
    present: bool,
    /// Neighbours when it left.
    last_before: u32,
    last_after: u32,
    /// Whether it has left before, with this share.
    left_with: u64,
}

const NONE: u32 = u32::MAX;
const EMPTY: Link = Link {
    before: NONE,
    after: NONE,
    share: 0,
    present: false,
    last_before: NONE,
    last_after: NONE,
    left_with: 0,
};

/// See the module.
#[derive(Debug)]
pub(super) struct Line {
    insert: Insert,
    links: Vec<Link>,
    head: u32,
    tail: u32,
    tree: BTreeMap<(Reverse<u64>, u32), ()>,
    array: ShareArray,
}

impl Line {
    pub(super) fn new(insert: Insert) -> Line {
        Line {
            insert,
            links: Vec::new(),
            head: NONE,
            tail: NONE,
            tree: BTreeMap::new(),
            array: ShareArray::default(),
        }
    }

    #[inline]
    pub(super) fn head(&self) -> Option<TaskId> {
        (self.head != NONE).then_some(TaskId(self.head))
    }
    #[inline]
    pub(super) fn successor(&self, client: TaskId) -> Option<TaskId> {
        let after = self.links[client.index()].after;
        (after != NONE).then_some(TaskId(after))
    }
    #[inline]
    pub(super) fn predecessor(&self, client: TaskId) -> Option<TaskId> {
        let before = self.links[client.index()].before;
        (before != NONE).then_some(TaskId(before))
    }

    fn key(&self, client: u32) -> (Reverse<u64>, u32) {
        (Reverse(self.links[client as usize].share), client)
    }

    /// Puts an absent client into its place.
    pub(super) fn insert(&mut self, client: TaskId, share: u64) {
        row(&mut self.links, client, &EMPTY);
        let id = client.0;
        debug_assert!(!self.links[client.index()].present);
        self.links[client.index()].share = share;
        let before = match self.insert {
            Insert::List => self.walk(id),
            Insert::Neighbours => self.between_neighbours(id).unwrap_or_else(|| self.walk(id)),
            Insert::Tree => self.tree.range(..self.key(id)).next_back().map_or(NONE, |(key, ())| key.1),
            Insert::Array if ShareArray::is_shared(share) => self.walk(id),
            Insert::Array => self.array.last_at_least(share).unwrap_or(NONE),
        };
        let after = if before == NONE { self.head } else { self.links[before as usize].after };
        let link = &mut self.links[client.index()];
        (link.before, link.after, link.present) = (before, after, true);
        self.join(before, id);
        self.join(id, after);
        match self.insert {
            Insert::Tree => drop(self.tree.insert(self.key(id), ())),
            Insert::Array => {
                let last = after == NONE || !ShareArray::same_slot(self.links[after as usize].share, share);
                self.array.add(share, id, last);
            }
            _ => {}
        }
    }

    /// Takes a client out; it keeps its neighbours in mind.
    pub(super) fn remove(&mut self, client: TaskId) {
        match self.insert {
            Insert::Tree => drop(self.tree.remove(&self.key(client.0))),
            Insert::Array => {
                let Link { share, before, .. } = self.links[client.index()];
                let same = before != NONE && ShareArray::same_slot(self.links[before as usize].share, share);
                self.array.remove(share, client.0, same.then_some(before));
            }
            _ => {}
        }
        let link = &mut self.links[client.index()];
        link.present = false;
        (link.last_before, link.last_after, link.left_with) = (link.before, link.after, link.share);
        let (before, after) = (link.before, link.after);
        self.join(before, after);
    }

    fn join(&mut self, before: u32, after: u32) {
        match before {
            NONE => self.head = after,
            _ => self.links[before as usize].after = after,
        }
        match after {
            NONE => self.tail = before,
            _ => self.links[after as usize].before = before,
        }
    }

    /// The client after which this one belongs, by walking; `NONE` = it is the first.
    fn walk(&self, id: u32) -> u32 {
        let key = self.key(id);
        if self.tail != NONE && self.key(self.tail) < key {
            return self.tail;
        }
        let mut before = NONE;
        let mut next = self.head;
        while next != NONE && self.key(next) < key {
            before = next;
            next = self.links[next as usize].after;
        }
        before
    }

    /// The former predecessor, if both former neighbours stand side by side as before and the client belongs
    /// between them.
    fn between_neighbours(&self, id: u32) -> Option<u32> {
        let link = self.links[id as usize];
        if link.left_with != link.share {
            return None; // first time here, or another share
        }
        let (before, after) = (link.last_before, link.last_after);
        let key = self.key(id);
        let adjacent = match before {
            NONE => self.head == after,
            _ => {
                let neighbour = &self.links[before as usize];
                neighbour.present && neighbour.after == after && self.key(before) < key
            }
        };
        let after_stands = match after {
            NONE => true,
            _ => self.links[after as usize].present && key < self.key(after),
        };
        (adjacent && after_stands).then_some(before)
    }
}

/// Per share value the last client that has it, and a bitmap of the values in use: finds the least value in
/// use not below a given one in four steps.
#[derive(Debug, Default)]
struct ShareArray {
    last: Vec<u32>,
    /// Three levels of 64-bit words: values, words of values, words of words.
    levels: [Vec<u64>; 3],
}

impl ShareArray {
    fn slot(share: u64) -> usize {
        share.min(ARRAY_SHARES as u64 - 1) as usize
    }
    fn same_slot(a: u64, b: u64) -> bool {
        Self::slot(a) == Self::slot(b)
    }
    /// Whether all shares from this one up have one slot together.
    fn is_shared(share: u64) -> bool {
        share >= ARRAY_SHARES as u64 - 1
    }

    /// `id` has joined; is it the last of its slot?
    fn add(&mut self, share: u64, id: u32, last: bool) {
        if self.last.is_empty() {
            self.last = vec![NONE; ARRAY_SHARES];
            self.levels = [64, 4096, 262_144].map(|span: usize| vec![0; ARRAY_SHARES.div_ceil(span)]);
        }
        let mut place = Self::slot(share);
        if last {
            self.last[place] = id;
        }
        for level in &mut self.levels {
            level[place / 64] |= 1 << (place % 64);
            place /= 64;
        }
    }

    /// `id` leaves; `before` is its predecessor if that has the same slot.
    fn remove(&mut self, share: u64, id: u32, before: Option<u32>) {
        let mut place = Self::slot(share);
        if self.last[place] != id {
            return;
        }
        self.last[place] = before.unwrap_or(NONE);
        if before.is_none() {
            for level in &mut self.levels {
                level[place / 64] &= !(1 << (place % 64));
                if level[place / 64] != 0 {
                    break;
                }
                place /= 64;
            }
        }
    }

    /// The last client of the least share in use that is at least `share`.
    fn last_at_least(&self, share: u64) -> Option<u32> {
        if self.last.is_empty() {
            return None;
        }
        let mut place = Self::slot(share);
        for (depth, level) in self.levels.iter().enumerate() {
            let word = level[place / 64] >> (place % 64);
            if word != 0 {
                let mut found = place + word.trailing_zeros() as usize;
                for lower in self.levels[..depth].iter().rev() {
                    found = found * 64 + lower[found].trailing_zeros() as usize;
                }
                return Some(self.last[found]);
            }
            place = place / 64 + 1;
            if place / 64 >= self.levels.get(depth + 1).map_or(0, Vec::len) {
                return None;
            }
        }
        None
    }
}
