//! What the tests of structures search with.

use schedlab_race::compile::Compiled;
use schedlab_race::explore::Plan;
use schedlab_race::{MemoryModel, Strategy};

/// Two processes, seed 1, up to ten findings.
pub fn plan_of(compiled: Compiled, model: MemoryModel, strategy: Strategy, schedules: u64) -> Plan {
    Plan {
        compiled,
        model,
        strategy,
        seed: 1,
        schedules,
        jobs: 2,
        findings: 10,
        from: 0,
        aside: Vec::new(),
        without: Vec::new(),
        races: false,
    }
}
