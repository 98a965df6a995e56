//! Files of costs: what kernel code takes, as TOML.
//!
//! ```toml
//! switch = "2us"
//! wakeup = "1500ns"
//! total = "kept"
//! ```

use crate::failure::{Failure, Result};
use schedlab_machine::Costs;
use schedlab_stdx::limits::read_toml;
use std::path::Path;

/// Reads a file of costs. Strings at the top level; tables say where the numbers come from and are not read.
pub(crate) fn load(path: &Path) -> Result<Costs> {
    let text = read_toml(path).map_err(|error| {
        Failure::Input(format!("{}: cannot be read: {error}; costs/ has files to begin with", path.display()))
    })?;
    parse(&text).map_err(|problem| Failure::Input(format!("{}: {problem}", path.display())))
}

/// Costs that were measured in a guest, kernel 6.12.
pub(crate) fn measured() -> Result<Costs> {
    parse(include_str!("../../../costs/guest-6.12.toml")).map_err(Failure::Internal)
}

fn parse(text: &str) -> std::result::Result<Costs, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let mut costs = Costs::default();
    for (name, value) in &table {
        match value {
            toml::Value::String(value) => costs.set(name, value).map_err(|error| error.to_string())?,
            toml::Value::Table(_) => {}
            other => return Err(format!("{name} = {other}: a cost is a time in quotes, such as \"2us\"")),
        }
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_or_refused() {
        let costs = parse("switch = \"2us\"\ntotal = \"added\"\n[measured]\non = \"a guest\"\n").unwrap();
        assert_eq!(costs.to_string(), "switch=2us,total=added");
        for (bad, wants) in
            [("switch = 2", "in quotes"), ("swich = \"2us\"", "no such cost"), ("switch = ", "switch")]
        {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(wants), "{error}");
        }
    }
}
