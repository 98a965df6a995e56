//! What is a task's share?

use schedlab_machine::policy::View;
use schedlab_units::{NICE_0_WEIGHT, TaskId};

/// Where shares come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shares {
    /// The weight of the task's nice value, as the kernel's fair class has it: nice 0 = 1024.
    #[default]
    Weight,
    /// By task id; the last number stands for all further tasks. Not empty, none is zero.
    List(Vec<u64>),
}

/// A text that is no list of shares.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}': expected 'weight' (the nice weight) or positive whole numbers up to 2^32, such as 3,2,1")]
pub struct ParseSharesError(String);

/// Shares up to here keep all comparisons exact (see [`super`]).
const SHARE_MAX: u64 = 1 << 32;

impl Shares {
    /// The share of a task now.
    #[inline]
    pub(crate) fn of(&self, view: &View, task: TaskId) -> u64 {
        match self {
            Shares::Weight => view.params(task).nice.weight().0,
            Shares::List(list) => list[task.index().min(list.len() - 1)],
        }
    }

    /// The share that earns one quantum per round where a scheduler gives quanta in proportion to shares
    /// (wrr, drr): nice 0, or 1.
    pub(crate) fn unit(&self) -> u64 {
        match self {
            Shares::Weight => NICE_0_WEIGHT.0,
            Shares::List(_) => 1,
        }
    }
}

impl std::str::FromStr for Shares {
    type Err = ParseSharesError;
    fn from_str(text: &str) -> Result<Shares, ParseSharesError> {
        if text == "weight" {
            return Ok(Shares::Weight);
        }
        let share =
            |part: &str| part.trim().parse::<u64>().ok().filter(|share| (1..=SHARE_MAX).contains(share));
        let list: Option<Vec<u64>> = text.split(',').map(share).collect();
        list.map(Shares::List).ok_or_else(|| ParseSharesError(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_parse() {
        assert_eq!("weight".parse(), Ok(Shares::Weight));
        assert_eq!("3, 2,1".parse(), Ok(Shares::List(vec![3, 2, 1])));
        for bad in ["", "3,,1", "0", "1,0", "-1", "4294967297", "nice", "1.5"] {
            assert!(bad.parse::<Shares>().is_err(), "{bad}");
        }
    }
}
