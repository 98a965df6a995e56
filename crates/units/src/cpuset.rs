//! Sets of CPUs: affinity masks in the kernel's list format, `0-3,8`.

use crate::CpuId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A set of CPUs (a cpumask). Its text form is the kernel's list format: `0-3,8`; the empty set prints as ``.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CpuSet {
    /// 64 CPUs per word, no trailing zero word (so that equal sets are equal values).
    words: Vec<u64>,
}

/// Highest CPU number a set accepts, plus one; far above what any kernel is built for.
const CPUS_MAX: u32 = 1 << 16;

impl CpuSet {
    /// No CPU.
    pub fn empty() -> CpuSet {
        CpuSet::default()
    }
    /// CPUs 0 to `nr_cpus - 1`.
    pub fn first(nr_cpus: u32) -> CpuSet {
        (0..nr_cpus).map(CpuId).collect()
    }
    /// Just this CPU.
    pub fn single(cpu: CpuId) -> CpuSet {
        [cpu].into_iter().collect()
    }
    /// Adds a CPU.
    pub fn insert(&mut self, cpu: CpuId) {
        assert!(cpu.0 < CPUS_MAX, "{cpu} is beyond any machine");
        let word = cpu.index() / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu.0 % 64);
    }
    /// Whether the CPU is in the set.
    #[inline]
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words.get(cpu.index() / 64).is_some_and(|word| word >> (cpu.0 % 64) & 1 == 1)
    }
    /// Whether no CPU is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
    /// Number of CPUs in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            (0..64u32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| CpuId(i as u32 * 64 + bit))
        })
    }
    /// CPUs in both sets.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        let mut words: Vec<u64> = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        while words.last() == Some(&0) {
            words.pop();
        }
        CpuSet { words }
    }
    /// The bits, 64 CPUs per word, lowest first, without trailing zero words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::empty();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().map(|cpu| cpu.0).peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Why a text is not a list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseCpuSetError {
    text: String,
}

impl fmt::Display for ParseCpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a list of CPUs; write for example 0-3,8", self.text)
    }
}
impl std::error::Error for ParseCpuSetError {}

impl std::str::FromStr for CpuSet {
    type Err = ParseCpuSetError;
    fn from_str(text: &str) -> Result<CpuSet, ParseCpuSetError> {
        let fail = || ParseCpuSetError { text: text.to_string() };
        let number = |s: &str| s.trim().parse::<u32>().ok().filter(|&n| n < CPUS_MAX).ok_or_else(fail);
        let mut set = CpuSet::empty();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(fail());
            }
            (first..=last).for_each(|cpu| set.insert(CpuId(cpu)));
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_format_round_trips() {
        for text in ["", "0", "0-3,8", "63-64", "1,3,5,1023"] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), text);
        }
        assert_eq!("0-3".parse::<CpuSet>().unwrap(), CpuSet::first(4));
        assert_eq!("0-9".parse::<CpuSet>().unwrap().len(), 10);
    }

    #[test]
    fn bad_lists_are_refused() {
        for text in ["x", "3-1", "1,,2", "70000", "-1", "1-"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn intersection_is_canonical() {
        let low = "0-3".parse::<CpuSet>().unwrap();
        let high = "3,100".parse::<CpuSet>().unwrap();
        assert_eq!(low.intersection(&high), "3".parse().unwrap());
        assert!(low.intersection(&"100".parse().unwrap()).is_empty());
    }
}
