//! Why does a replay differ? Causes are taken away one at a time; the one without which least is left is the cause.
//!
//! ```text
//!   as it is                              distance .31
//!   each sleep as long as recorded        distance .12   <- messages: wakeups came in another order
//!   kernel code takes time                distance .30
//! ```
//!
//! A cause counts if without it at least a tenth of the distance is gone, and more than chance: than what
//! other seeds make of it.

use super::Pair;

/// What was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A wakeup that depends on a task comes when that gets there: order and number of blocks change.
    Messages,
    /// Kernel code takes no time.
    Costs,
    /// The time of recorded interrupts is taken out of the tasks'.
    Interrupts,
    /// Where ticks and timers fall: another seed.
    Chance,
}

impl Cause {
    /// For tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Messages => "messages",
            Cause::Costs => "costs",
            Cause::Interrupts => "interrupts",
            Cause::Chance => "chance",
        }
    }

    /// What the replay was then.
    pub fn without(self) -> &'static str {
        match self {
            Cause::Messages => "each sleep as long as recorded",
            Cause::Costs => "kernel code takes time",
            Cause::Interrupts => "interrupts' time is the tasks'",
            Cause::Chance => "another seed",
        }
    }

    /// What it says of the difference.
    pub fn explanation(self, has_recorded_messages: bool) -> &'static str {
        match self {
            Cause::Messages if has_recorded_messages => {
                "wakeups come in another order than recorded: one that comes early finds its sleeper awake, and a task \
                 that finds nothing sleeps where it did not"
            }
            Cause::Messages => {
                "wakeups come in another order than recorded: one that comes early finds its sleeper awake, and the \
                 block is skipped; \
                 a message that found its reader awake was never recorded, and makes no block"
            }
            Cause::Costs => {
                "the recorded kernel takes time to switch, wake and block, the simulated one does not"
            }
            Cause::Interrupts => "interrupts took the CPU at times that the replay does not know",
            Cause::Chance => {
                "where ticks and timers fall decides as much: another seed makes as much difference"
            }
        }
    }
}

/// A replay without one cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Without what; `None`: as it is.
    pub without: Option<Cause>,
    /// All tasks, recorded and replayed so.
    pub all: Pair,
    /// The distance that is left.
    pub distance: f64,
}

/// The distance must fall by this share.
const GONE: f64 = 0.10;

/// The cause, if one was found: that without which least is left. `variants` begins with the replay as it is.
pub fn taken_away(variants: &[Variant]) -> Option<Cause> {
    let plain = variants.iter().find(|variant| variant.without.is_none())?.distance;
    let of_chance = variants.iter().filter(|variant| variant.without == Some(Cause::Chance));
    let chance = of_chance.map(|variant| (variant.distance - plain).abs()).fold(0.0, f64::max);
    let least = variants
        .iter()
        .filter(|variant| variant.without.is_some_and(|cause| cause != Cause::Chance))
        .min_by(|a, b| a.distance.total_cmp(&b.distance))?;
    let gone = plain - least.distance;
    match gone > GONE * plain {
        true if gone > chance => least.without,
        true => Some(Cause::Chance),
        false => None,
    }
}
