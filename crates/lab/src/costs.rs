//! Files of costs: what kernel code takes, as TOML.
//!
//! ```toml
//! switch = "2us"
//! wakeup = "1500ns"
//! total = "kept"
//! ```

use crate::failure::{Fails, FailureKind};
use schedlab_machine::Costs;
use std::path::Path;

/// A file of costs that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CostsError(String);

impl Fails for CostsError {
    fn kind(&self) -> FailureKind {
        FailureKind::Input
    }
}

/// Reads a file of costs. Strings at the top level; tables say where the numbers come from and are not read.
///
/// # Errors
/// It cannot be read, or holds a cost that cannot be: which, and what was expected.
pub fn load_costs(path: &Path) -> Result<Costs, CostsError> {
    let fail = |problem: String| CostsError(format!("{}: {problem}", path.display()));
    let text = schedlab_stdx::limits::read_toml(path)
        .map_err(|error| fail(format!("cannot be read: {error}; costs/ has files to begin with")))?;
    parse_costs(&text).map_err(|error| fail(error.0))
}

/// The same from a text.
///
/// # Errors
/// It holds a cost that cannot be.
pub fn parse_costs(text: &str) -> Result<Costs, CostsError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| CostsError(error.to_string()))?;
    let mut costs = Costs::default();
    for (name, value) in &table {
        match value {
            toml::Value::String(value) => {
                costs.set(name, value).map_err(|error| CostsError(error.to_string()))?;
            }
            toml::Value::Table(_) => {}
            other => {
                let problem = format!("{name} = {other}: a cost is a time in quotes, such as \"2us\"");
                return Err(CostsError(problem));
            }
        }
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_or_refused() {
        let text = "switch = \"2us\"\ntotal = \"added\"\n[measured]\non = \"a guest\"\n";
        assert_eq!(parse_costs(text).unwrap().to_string(), "switch=2us,total=added");
        for (bad, wants) in
            [("switch = 2", "in quotes"), ("swich = \"2us\"", "no such cost"), ("switch = ", "switch")]
        {
            let error = parse_costs(bad).unwrap_err().to_string();
            assert!(error.contains(wants), "{error}");
        }
        let error = load_costs(Path::new("/nowhere.toml")).unwrap_err().to_string();
        assert!(error.contains("/nowhere.toml: cannot be read"), "{error}");
    }
}
