//! Costs for commands: a file's, or those that were measured.

use crate::failure::{Failure, Result};
use schedlab_lab::{load_costs, parse_costs};
use schedlab_machine::Costs;
use std::path::Path;

/// Reads a file of costs.
pub(crate) fn load(path: &Path) -> Result<Costs> {
    Ok(load_costs(path)?)
}

/// Costs that were measured in a guest, kernel 6.12.
pub(crate) fn measured() -> Result<Costs> {
    parse_costs(include_str!("../../../costs/guest-6.12.toml"))
        .map_err(|error| Failure::Internal(error.to_string()))
}
