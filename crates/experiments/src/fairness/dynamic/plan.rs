//! What do the clients of a dynamic case do? Drawn from a seed, or written down.
//!
//! ```text
//! shares 3,2,1    6:B:sleep    9:A:share=5    12:B:wake
//! ```
//!
//! Each happening stands for itself, whatever the scheduler does: times are elapsed time, work is CPU time.
//! Work and sleep of a drawn client come from one sequence of random numbers, its share changes from another,
//! so that every scheduler sees the same client.

use super::UNITS_PER_QUANTUM;
use crate::fairness::{Spread, draw_shares};
use schedlab_stdx::Random;
use schedlab_units::Nice;

/// What happens to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Its share changes.
    Share(u64),
    /// It stops being runnable: sleeps, or leaves.
    Sleep,
    /// It becomes runnable: wakes, or joins.
    Wake,
}

/// Something that happens at a time, whatever the scheduler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Happening {
    /// When, in units of 1/1000 quantum.
    pub at: u64,
    /// What; at one instant changes come first, wakeups last.
    pub action: Action,
    /// To whom.
    pub client: u32,
}

/// A text that is no happening.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}': {problem}; write TIME:CLIENT:ACTION such as 6:B:sleep, 8.5:B:wake, 4:D:join, 9:C:leave, 5:A:share=7 \
        (time in quanta)"
)]
pub struct ParseHappeningError {
    text: String,
    problem: &'static str,
}

impl std::str::FromStr for Happening {
    type Err = ParseHappeningError;
    fn from_str(text: &str) -> Result<Happening, ParseHappeningError> {
        let wrong = |problem| ParseHappeningError { text: text.to_string(), problem };
        let parts: Vec<&str> = text.split(':').collect();
        let [time, client, action] = parts[..] else { return Err(wrong("expected three parts")) };
        let at = units(time).ok_or_else(|| wrong("the time is not a number of quanta up to a billion"))?;
        let client = match client.as_bytes() {
            [letter @ b'A'..=b'Z'] => u32::from(letter - b'A'),
            _ => return Err(wrong("a client is a letter from A to Z")),
        };
        let action = match action {
            "sleep" | "leave" => Action::Sleep,
            "wake" | "join" => Action::Wake,
            other => {
                let share = other.strip_prefix("share=").and_then(|share| share.parse().ok());
                let share = share.filter(|share| (1..=1u64 << 30).contains(share));
                Action::Share(share.ok_or_else(|| wrong("no such action, or no share from 1 to 2^30"))?)
            }
        };
        Ok(Happening { at, action, client })
    }
}

/// `8.5` quanta as 8,500 units.
fn units(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = whole.parse().ok().filter(|whole| *whole <= 1_000_000_000)?;
    let fraction: u64 = if fraction.is_empty() { 0 } else { format!("{fraction:0<3}").parse().ok()? };
    Some(whole * UNITS_PER_QUANTUM + fraction)
}

/// How long clients work and sleep, in units; drawn anew each time, uniformly, up to twice the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Habits {
    /// Mean work between sleeps.
    pub work: u64,
    /// Mean sleep.
    pub sleep: u64,
}

/// What all clients do.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Shares at the start.
    pub shares: Vec<u64>,
    /// Who is absent at the start.
    pub absent: Vec<bool>,
    /// In order.
    pub happenings: Vec<Happening>,
    /// Work and sleep by habit; `None` = they always want the CPU.
    pub habits: Option<Habits>,
    /// Length, in units.
    pub length: u64,
    pub seed: u64,
}

/// A script that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A happening names nobody.
    #[error("client {0} does not exist: there are as many clients as shares, named from A on")]
    NoClient(char),
    /// A sleeper is put to sleep, or a runnable client woken.
    #[error("client {client} is to {action} at {at} quanta, but it is so already")]
    Already {
        /// Who.
        client: char,
        /// What.
        action: &'static str,
        /// When.
        at: String,
    },
}

/// 1 to 2 x mean - 1, uniform.
fn around(random: &mut Random, mean: u64) -> u64 {
    1 + random.below((2 * mean).saturating_sub(1).max(1))
}

/// A client's work and sleep, one after the other.
pub(super) struct Turns {
    random: Random,
    habits: Habits,
}

impl Turns {
    pub fn of(plan: &Plan, habits: Habits, client: usize) -> Turns {
        Turns { random: Random::for_part(plan.seed, client as u64 + 1_000_000), habits }
    }
    /// The next piece of work.
    pub fn work(&mut self) -> u64 {
        around(&mut self.random, self.habits.work)
    }
    /// The sleep after it.
    pub fn sleep(&mut self) -> u64 {
        around(&mut self.random, self.habits.sleep)
    }
}

/// The nice values whose weights stand in for shares: from 110 to 9,548.
const NICE_RANGE: std::ops::RangeInclusive<i32> = -10..=10;

fn nice_weight(random: &mut Random) -> u64 {
    let (low, high) = NICE_RANGE.into_inner();
    let nice = low + random.below((high - low + 1) as u64) as i32;
    Nice::new(nice).expect("-10 to 10").weight().0
}

impl Plan {
    /// Drawn, as the configuration says.
    pub fn drawn(config: &super::DynamicConfig) -> Plan {
        let unit = |quanta: u64| quanta * UNITS_PER_QUANTUM;
        let mut random = Random::for_part(config.seed, u64::from(config.nr_clients));
        let shares = match config.nice_weights {
            true => (0..config.nr_clients).map(|_| nice_weight(&mut random)).collect(),
            false => draw_shares(&mut random, Spread::Uniform, config.nr_clients as usize, config.total),
        };
        let most = (2 * config.total / u64::from(config.nr_clients)).max(1);
        let mut happenings = Vec::new();
        if config.change_quanta > 0 {
            for client in 0..config.nr_clients {
                let mut random = Random::for_part(config.seed, u64::from(client) + 2_000_000);
                let mut at = around(&mut random, unit(config.change_quanta));
                while at < unit(config.quanta) {
                    let share =
                        if config.nice_weights { nice_weight(&mut random) } else { 1 + random.below(most) };
                    happenings.push(Happening { at, action: Action::Share(share), client });
                    at += around(&mut random, unit(config.change_quanta));
                }
            }
        }
        happenings.sort_unstable();
        let habits = (config.work_quanta > 0)
            .then(|| Habits { work: unit(config.work_quanta), sleep: unit(config.sleep_quanta).max(1) });
        let absent = vec![false; shares.len()];
        Plan { shares, absent, happenings, habits, length: unit(config.quanta), seed: config.seed }
    }

    /// Written down: who is woken before it is put to sleep is absent at the start.
    pub fn written(script: &super::Script) -> Result<Plan, PlanError> {
        let mut happenings = script.happenings.clone();
        happenings.sort_unstable();
        let mut asleep: Vec<Option<bool>> = vec![None; script.shares.len()];
        let mut absent = vec![false; script.shares.len()];
        for Happening { at, action, client } in &happenings {
            let letter = char::from(b'A' + *client as u8);
            let Some(state) = asleep.get_mut(*client as usize) else {
                return Err(PlanError::NoClient(letter));
            };
            let (becomes, word) = match action {
                Action::Share(_) => continue,
                Action::Sleep => (true, "sleep"),
                Action::Wake => (false, "wake"),
            };
            if *state == Some(becomes) {
                let at = format!("{}", *at as f64 / UNITS_PER_QUANTUM as f64);
                return Err(PlanError::Already { client: letter, action: word, at });
            }
            if state.is_none() {
                absent[*client as usize] = !becomes;
            }
            *state = Some(becomes);
        }
        Ok(Plan {
            shares: script.shares.clone(),
            absent,
            happenings,
            habits: None,
            length: script.quanta * UNITS_PER_QUANTUM,
            seed: script.seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Script;
    use super::*;

    #[test]
    fn happenings_are_read_or_refused() {
        let read = |text: &str| text.parse::<Happening>();
        assert_eq!(read("6:B:sleep"), Ok(Happening { at: 6_000, action: Action::Sleep, client: 1 }));
        assert_eq!(read("8.25:Z:join"), Ok(Happening { at: 8_250, action: Action::Wake, client: 25 }));
        assert_eq!(read("0:A:share=7"), Ok(Happening { at: 0, action: Action::Share(7), client: 0 }));
        for bad in
            ["", "6:B", "6:b:sleep", "x:B:sleep", "6:B:nap", "6:B:share=0", "1.2345:A:wake", "-1:A:wake"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn scripts_that_contradict_themselves_are_refused() {
        let plan = |events: &[&str]| {
            let happenings = events.iter().map(|event| event.parse().unwrap()).collect();
            Plan::written(&Script { shares: vec![3, 2, 1], happenings, quanta: 20, seed: 1 })
        };
        assert_eq!(plan(&["6:B:sleep", "4:C:join", "9:B:wake"]).unwrap().absent, [false, false, true]);
        assert!(matches!(plan(&["1:D:sleep"]), Err(PlanError::NoClient('D'))));
        let twice = plan(&["6:B:sleep", "7:B:sleep"]).unwrap_err();
        assert_eq!(twice.to_string(), "client B is to sleep at 7 quanta, but it is so already");
    }
}
