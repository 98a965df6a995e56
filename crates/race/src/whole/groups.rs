//! How is a line of code that runs once drawn as often as one that runs a thousand times? By groups, then within one.
//!
//! ```text
//! key      7  7  7  7  7  7  7  9          pick: key 7 or 9, one in two each; then one of its members
//! ```

use schedlab_stdx::Random;

/// Members by key, groups of equal keys.
#[derive(Clone, Debug)]
pub(super) struct Groups<T> {
    /// In order of their keys; equal ones as they came.
    members: Vec<T>,
    /// Each group's key, and where its members begin.
    groups: Vec<(u64, usize)>,
}

impl<T> Default for Groups<T> {
    fn default() -> Groups<T> {
        Groups { members: Vec::new(), groups: Vec::new() }
    }
}

impl<T: Copy> Groups<T> {
    pub(super) fn of(mut members: Vec<T>, key: impl Fn(&T) -> u64) -> Groups<T> {
        members.sort_by_key(&key);
        let mut groups: Vec<(u64, usize)> =
            members.iter().enumerate().map(|(begin, member)| (key(member), begin)).collect();
        groups.dedup_by_key(|(key, _)| *key);
        Groups { members, groups }
    }

    /// Groups whose key `other` has not.
    pub(super) fn nr_missing(&self, other: &Groups<T>) -> usize {
        let has = |key: u64| other.groups.binary_search_by_key(&key, |(key, _)| *key).is_ok();
        self.groups.iter().filter(|(key, _)| !has(*key)).count()
    }

    /// Each group with equal chances, then one of its members; `None`: there is none.
    pub(super) fn pick(&self, random: &mut Random) -> Option<T> {
        if self.groups.is_empty() {
            return None;
        }
        let group = random.below(self.groups.len() as u64) as usize;
        let end = self.groups.get(group + 1).map_or(self.members.len(), |(_, begin)| *begin);
        Some(*random.pick(&self.members[self.groups[group].1..end]))
    }

    /// How many groups.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Each group's members.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[T]> {
        let begins = self.groups.iter().map(|(_, begin)| *begin);
        let ends = begins.clone().skip(1).chain([self.members.len()]);
        begins.zip(ends).map(|(begin, end)| &self.members[begin..end])
    }

    #[cfg(test)]
    pub(super) fn members(&self) -> &[T] {
        &self.members
    }
}
