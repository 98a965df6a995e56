//! Which values of parameters are tried? Each combination of them is a run of its own.
//!
//! ```text
//! --sweep base_slice_ns=700000,3000000 --sweep nr_migrate=8,32     4 runs: 700000/8, 700000/32, 3000000/8, 3000000/32
//! --sweep features=NO_HRTICK\\,NO_DELAY_DEQUEUE,NO_HRTICK          2 runs: a comma within a value has a backslash
//! ```

use crate::failure::{Failure, Result};
use std::str::FromStr;

/// More combinations than these are a typing error.
const COMBINATIONS_MAX: usize = 10_000;

/// A parameter with the values that are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Swept {
    pub name: String,
    pub values: Vec<String>,
}

/// Parameters as schedulers take them: name and value.
pub(crate) type Params = Vec<(String, String)>;

impl FromStr for Swept {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Swept, String> {
        let wrong = |what: &str| {
            format!(
                "'{text}': {what}; expected NAME=VALUE,VALUE,..., for example base_slice_ns=700000,3000000"
            )
        };
        let (name, list) = text.split_once('=').ok_or_else(|| wrong("there is no '='"))?;
        if name.is_empty() {
            return Err(wrong("the name is missing"));
        }
        let mut values = vec![String::new()];
        let mut chars = list.chars().peekable();
        while let Some(c) = chars.next() {
            match (c, chars.peek()) {
                ('\\', Some(',')) => values.last_mut().expect("one at least").extend(chars.next()),
                (',', _) => values.push(String::new()),
                (c, _) => values.last_mut().expect("one at least").push(c),
            }
        }
        if values.iter().any(String::is_empty) {
            return Err(wrong("a value is empty"));
        }
        if let Some(twice) = (1..values.len()).find(|&at| values[..at].contains(&values[at])) {
            return Err(wrong(&format!("the value {} stands there twice", values[twice])));
        }
        Ok(Swept { name: name.to_string(), values })
    }
}

/// Every combination, the first parameter's values outermost; a single empty one of no parameters.
pub(crate) fn combinations(swept: &[Swept]) -> Result<Vec<Params>> {
    let mut all: Vec<Params> = vec![Vec::new()];
    for (at, one) in swept.iter().enumerate() {
        if swept[..at].iter().any(|other| other.name == one.name) {
            return Err(Failure::Input(format!(
                "--sweep {0} is given twice; give all its values at once: --sweep {0}=VALUE,VALUE,...",
                one.name
            )));
        }
        if all.len() * one.values.len() > COMBINATIONS_MAX {
            return Err(Failure::Input(format!(
                "--sweep asks for more than {COMBINATIONS_MAX} combinations of values; give fewer at once"
            )));
        }
        let longer = |params: &Params| {
            let with = |value: &String| [&params[..], &[(one.name.clone(), value.clone())]].concat();
            one.values.iter().map(with).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_separated_by_commas() {
        let swept: Swept = r"features=NO_A\,NO_B,NO_A".parse().unwrap();
        assert_eq!(
            (swept.name.as_str(), swept.values),
            ("features", vec!["NO_A,NO_B".to_string(), "NO_A".into()])
        );
        for (bad, why) in [
            ("x", "no '='"),
            ("=1,2", "name is missing"),
            ("x=1,,2", "is empty"),
            ("x=1,2,1", "1 stands there twice"),
        ] {
            let error = bad.parse::<Swept>().unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn every_combination_is_made_once() {
        let swept = |text: &str| text.parse::<Swept>().unwrap();
        let text =
            |params: &Params| params.iter().map(|(name, value)| format!("{name}{value}")).collect::<String>();
        let all = combinations(&[swept("a=1,2"), swept("b=3,4")]).unwrap();
        assert_eq!(all.iter().map(text).collect::<Vec<_>>(), ["a1b3", "a1b4", "a2b3", "a2b4"]);
        assert_eq!(combinations(&[]).unwrap(), [Params::new()]);
        assert!(combinations(&[swept("a=1"), swept("a=2")]).is_err());
        let many = (0..101).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        assert!(combinations(&[swept(&format!("a={many}")), swept(&format!("b={many}"))]).is_err());
    }
}
