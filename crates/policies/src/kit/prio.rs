//! Arrays of priority lists with a bitmap of the lists in use: the first task of the best level is found in
//! constant time.

use super::lists::Lists;
use schedlab_units::TaskId;

/// Most levels an array can have.
const LEVELS_MAX: usize = 256;

#[derive(Clone, Debug, Default)]
struct Used {
    words: [u64; LEVELS_MAX / 64],
    nr: u32,
}

/// Arrays 0, 1, ... of `levels` lists each; level 0 is the best.
#[derive(Debug, Default)]
pub(crate) struct PrioArrays {
    levels: usize,
    lists: Lists,
    used: Vec<Used>,
}

impl PrioArrays {
    pub(crate) fn new(nr_arrays: usize, levels: usize) -> PrioArrays {
        assert!(levels <= LEVELS_MAX, "the bitmap has {LEVELS_MAX} bits");
        PrioArrays { levels, lists: Lists::new(nr_arrays * levels), used: vec![Used::default(); nr_arrays] }
    }

    fn note_added(&mut self, array: usize, level: usize) {
        let used = &mut self.used[array];
        used.words[level / 64] |= 1 << (level % 64);
        used.nr += 1;
    }

    /// Adds at the end of a level.
    #[inline]
    pub(crate) fn push_back(&mut self, array: usize, level: usize, task: TaskId) {
        self.lists.push_back(array * self.levels + level, task);
        self.note_added(array, level);
    }

    /// Adds at the front of a level.
    #[inline]
    pub(crate) fn push_front(&mut self, array: usize, level: usize, task: TaskId) {
        self.lists.push_front(array * self.levels + level, task);
        self.note_added(array, level);
    }

    /// Adds right before `other`, which is on this level.
    pub(crate) fn insert_before(&mut self, array: usize, level: usize, task: TaskId, other: TaskId) {
        self.lists.insert_before(array * self.levels + level, task, other);
        self.note_added(array, level);
    }

    /// Takes out a task that is on this level.
    #[inline]
    pub(crate) fn remove(&mut self, array: usize, level: usize, task: TaskId) {
        let list = array * self.levels + level;
        self.lists.remove(list, task);
        let used = &mut self.used[array];
        used.nr -= 1;
        if self.lists.is_empty(list) {
            used.words[level / 64] &= !(1 << (level % 64));
        }
    }

    /// Tasks in the array.
    #[inline]
    pub(crate) fn nr(&self, array: usize) -> u32 {
        self.used[array].nr
    }

    /// The first level from `from` on that is in use.
    #[inline]
    pub(crate) fn level_from(&self, array: usize, from: usize) -> Option<usize> {
        let words = &self.used[array].words;
        let mut word = from / 64;
        let mut bits = words.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *words.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The best level in use and its first task.
    #[inline]
    pub(crate) fn first(&self, array: usize) -> Option<(usize, TaskId)> {
        let level = self.level_from(array, 0)?;
        Some((
            level,
            self.lists.first(array * self.levels + level).expect("the bitmap says that it is in use"),
        ))
    }

    /// The tasks of a level, first to last.
    pub(crate) fn level(&self, array: usize, level: usize) -> impl Iterator<Item = TaskId> + '_ {
        self.lists.iter(array * self.levels + level)
    }

    /// All tasks with their levels, best level first, within a level first to last.
    pub(crate) fn iter(&self, array: usize) -> impl Iterator<Item = (usize, TaskId)> + '_ {
        self.levels_in_use(array)
            .flat_map(move |level| self.level(array, level).map(move |task| (level, task)))
    }

    /// All tasks with their levels, best level first, within a level last to first.
    pub(crate) fn iter_back(&self, array: usize) -> impl Iterator<Item = (usize, TaskId)> + '_ {
        self.levels_in_use(array).flat_map(move |level| {
            self.lists.iter_back(array * self.levels + level).map(move |task| (level, task))
        })
    }

    fn levels_in_use(&self, array: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.level_from(array, 0), move |level| self.level_from(array, level + 1))
    }
}
