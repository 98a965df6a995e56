//! Schedulers that give each task a share of the CPU in proportion to its weight.

use super::PolicyInfo;

pub(super) const POLICIES: &[PolicyInfo] = &[];
