//! Who saw what a log says, and what could they not see?
//!
//! The machine sees everything. A recording may lack events; a program that watches its own threads from user
//! level sees when they compute, and nothing else. What nobody saw is neither idle time nor a task's:
//! instruments answer "unknown" where they would need it.
//!
//! ```text
//! # schedlab log 2
//! # sched "unknown"
//! # cpus 2
//! # duration_ns 20000000
//! # observer poller
//! # hidden wakeups stops idle assignments spans
//! ```
//!
//! A header without these lines is the machine's, and nothing is hidden.

use std::fmt;
use std::str::FromStr;

/// Who observed what a log says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObservedBy {
    /// The simulated machine, which knows everything.
    #[default]
    Machine,
    /// The trace points of a kernel in a virtual machine.
    Guest,
    /// A recorder on a real system: trace points of its kernel.
    Recorder,
    /// Threads that poll the clock at user level, without the kernel's help.
    Poller,
}

impl ObservedBy {
    const ALL: [ObservedBy; 4] =
        [ObservedBy::Machine, ObservedBy::Guest, ObservedBy::Recorder, ObservedBy::Poller];

    /// The name in all forms of a log.
    pub fn name(self) -> &'static str {
        match self {
            ObservedBy::Machine => "machine",
            ObservedBy::Guest => "guest",
            ObservedBy::Recorder => "recorder",
            ObservedBy::Poller => "poller",
        }
    }
}

impl fmt::Display for ObservedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ObservedBy {
    type Err = String;

    fn from_str(text: &str) -> Result<ObservedBy, String> {
        ObservedBy::ALL.into_iter().find(|by| by.name() == text).ok_or_else(|| {
            format!(
                "'{text}' is no observer that this schedlab knows; expected one of {}",
                ObservedBy::ALL.map(ObservedBy::name).join(" ")
            )
        })
    }
}

/// Something that an observer may be unable to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fact {
    /// When a blocked task became runnable.
    Wakeups = 0,
    /// Why a task stopped running: so also whether it waits afterwards or is blocked.
    Stops = 1,
    /// What a CPU does while none of the log's tasks runs there: it may idle, or run something else.
    Idle = 2,
    /// On which CPU's queue a waiting task stands.
    Assignments = 3,
    /// Which CPUs a task may use.
    Affinity = 4,
    /// Changes of scheduling parameters.
    Params = 5,
    /// Births and exits of tasks.
    Lives = 6,
    /// Everything, for some stretches of time; [`note::UNKNOWN_CPU`](crate::note::UNKNOWN_CPU) and
    /// [`note::UNKNOWN_TASK`](crate::note::UNKNOWN_TASK) say which.
    Spans = 7,
    /// Whether a limit of CPU time holds a runnable task back ([`note::HELD`](crate::note::HELD)).
    Limits = 8,
}

impl Fact {
    /// All, in order.
    pub const ALL: [Fact; 9] = {
        use Fact::*;
        [Wakeups, Stops, Idle, Assignments, Affinity, Params, Lives, Spans, Limits]
    };

    /// The name in all forms of a log.
    pub fn name(self) -> &'static str {
        match self {
            Fact::Wakeups => "wakeups",
            Fact::Stops => "stops",
            Fact::Idle => "idle",
            Fact::Assignments => "assignments",
            Fact::Affinity => "affinity",
            Fact::Params => "params",
            Fact::Lives => "lives",
            Fact::Spans => "spans",
            Fact::Limits => "limits",
        }
    }
}

impl FromStr for Fact {
    type Err = String;

    fn from_str(text: &str) -> Result<Fact, String> {
        Fact::ALL.into_iter().find(|fact| fact.name() == text).ok_or_else(|| {
            format!(
                "'{text}' is nothing that can be hidden as far as this schedlab knows; expected some of {}",
                Fact::ALL.map(Fact::name).join(" ")
            )
        })
    }
}

/// What is hidden from a log's observer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Hidden(u16);

impl Hidden {
    /// The observer sees everything.
    pub const NOTHING: Hidden = Hidden(0);

    /// These facts.
    pub fn of(facts: &[Fact]) -> Hidden {
        facts.iter().copied().collect()
    }

    /// With this fact too.
    #[must_use]
    pub fn with(self, fact: Fact) -> Hidden {
        Hidden(self.0 | 1 << fact as u16)
    }

    /// Whether nothing is hidden.
    pub fn is_nothing(self) -> bool {
        self == Hidden::NOTHING
    }

    /// Whether this is hidden.
    pub fn has(self, fact: Fact) -> bool {
        self.0 >> fact as u16 & 1 == 1
    }

    /// Whether any of these is hidden.
    pub fn has_any(self, facts: &[Fact]) -> bool {
        facts.iter().any(|fact| self.has(*fact))
    }

    /// What is hidden, in order.
    pub fn iter(self) -> impl Iterator<Item = Fact> {
        Fact::ALL.into_iter().filter(move |fact| self.has(*fact))
    }
}

impl FromIterator<Fact> for Hidden {
    fn from_iter<T: IntoIterator<Item = Fact>>(facts: T) -> Hidden {
        Hidden(facts.into_iter().fold(0, |bits, fact| bits | 1 << fact as u16))
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The names, in order, with spaces between them.
impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Fact::name).collect();
        f.write_str(&names.join(" "))
    }
}

impl FromStr for Hidden {
    type Err = String;

    fn from_str(text: &str) -> Result<Hidden, String> {
        text.split_whitespace().map(str::parse).collect()
    }
}
