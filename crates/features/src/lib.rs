//! Which of its features does a kernel show in the laboratory?
//!
//! Each [`Feature`] is a scenario of a few tasks whose outcome follows from a formula of the kernel, run on a
//! given kernel object:
//!
//! ```text
//! nice    1 CPU, hogs of nice 0, 5, -5, 10       shares 1024 : 335 : 3121 : 110 (sched_prio_to_weight)
//! found   22.31 7.30 67.99 2.40 %                expected 22.31 7.30 67.99 2.40 %        works
//! ```
//!
//! [`all`] lists them; [`ScenarioBench::run`] runs one; [`page`] lays versions beside each other. `schedlab linux
//! check --all` prints it.

mod cases;
mod judge;
mod measure;
pub mod page;

pub use cases::all;
pub use judge::{FeatureCell, Finding};
pub use measure::{ScenarioBench, Trouble};

/// Counts up when a scenario or a tolerance changes: results that are kept from before do not count any more.
pub const SUITE: u32 = 9;

/// Something that a scheduler does or offers, and the scenario that shows it.
#[derive(Clone, Copy)]
pub struct Feature {
    /// A short name, the same in every version.
    pub name: &'static str,
    /// What it belongs to: the table's sections.
    pub group: FeatureGroup,
    /// What is set up, and where the expected result is from.
    pub what: &'static str,
    /// The first version that has it, as `(6, 12)`.
    pub since: (u32, u32),
    /// A flavour that has it where the plain configuration has not, and the first version whose plain
    /// configuration has it.
    pub flavour: Option<(&'static str, (u32, u32))>,
    /// Most CPUs of the kernel that it needs: 64 or 1024.
    pub nr_cpus: u32,
    pub(crate) run: fn(&ScenarioBench) -> Result<Finding, Trouble>,
}

impl Feature {
    /// The flavour that a version needs for it; an unknown version counts as the oldest.
    pub fn flavour_of(&self, version: Option<(u32, u32)>) -> Option<&'static str> {
        self.flavour.filter(|(_, plain)| version.is_none_or(|v| v < *plain)).map(|(name, _)| name)
    }
}

/// Sections of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeatureGroup {
    /// nice, policies of the fair class.
    Fair,
    /// FIFO, RR, DEADLINE.
    RealTime,
    /// Control groups, affinity, sessions.
    Groups,
    /// Cores, caches, nodes, capacities, CPUs that come and go.
    Machine,
    /// Ticks, isolation, tunables.
    System,
}

impl FeatureGroup {
    /// The section's title.
    pub fn title(self) -> &'static str {
        match self {
            FeatureGroup::Fair => "fair class",
            FeatureGroup::RealTime => "real-time classes",
            FeatureGroup::Groups => "groups and sets",
            FeatureGroup::Machine => "machines",
            FeatureGroup::System => "ticks, isolation, tunables",
        }
    }
}
