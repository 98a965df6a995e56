//! Do wakeups come in the order in which they were recorded? The k-th time that A wakes B is one wakeup, on
//! both sides; of each two that follow one another in the recording, do they in the replay?
//!
//! ```text
//!   recorded   A>B 1   C>D 1   A>B 2   C>D 2         pairs: (A>B 1, C>D 1) (C>D 1, A>B 2) (A>B 2, C>D 2)
//!   replayed   A>B 1   A>B 2   C>D 1   C>D 2         in order: yes, no, yes: 2 of 3
//! ```
//!
//! In a replay a wakeup may find its sleeper awake ([`note::EARLY`]); it counts all the same.

use schedlab_instruments::LogProblem;
use schedlab_log::{Kind, Log, Record, note};
use std::collections::BTreeMap;

/// How many wakeups that follow one another in the recording do so in the replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeupOrder {
    /// Pairs of which both sides have both.
    pub pairs: u64,
    /// Those in recorded order.
    pub in_order: u64,
    /// Wakeups by tasks on each side.
    pub wakeups: [u64; 2],
}

impl WakeupOrder {
    /// Share in order, 0 to 1; `None`: there is no pair.
    pub fn share(&self) -> Option<f64> {
        (self.pairs > 0).then(|| self.in_order as f64 / self.pairs as f64)
    }
}

/// Waker and sleeper by pid, and how often it had been.
type Wakeup = (u32, u32, u32);

/// Compares the order of wakeups by tasks. Memory goes with their number.
///
/// # Errors
/// [`LogProblem`] if a log cannot be read.
pub fn wakeup_order(recorded: &dyn Log, replayed: &dyn Log) -> Result<WakeupOrder, LogProblem> {
    let (mine, others) = (wakeups(recorded)?, wakeups(replayed)?);
    let places: BTreeMap<Wakeup, usize> =
        others.iter().enumerate().map(|(place, wakeup)| (*wakeup, place)).collect();
    let mut order =
        WakeupOrder { wakeups: [mine.len() as u64, others.len() as u64], ..WakeupOrder::default() };
    // of the wakeups that both have
    let common = mine.iter().filter_map(|wakeup| places.get(wakeup).copied());
    let mut last: Option<usize> = None;
    for place in common {
        if let Some(before) = last.replace(place) {
            order.pairs += 1;
            order.in_order += u64::from(before < place);
        }
    }
    Ok(order)
}

/// In order of time.
fn wakeups(log: &dyn Log) -> Result<Vec<Wakeup>, LogProblem> {
    let header = log.header();
    let pid = |task: u32| header.tasks.get(task as usize).map(|task| task.pid);
    let mut times: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut found = Vec::new();
    let mut asked: Option<Record> = None;
    let mut add = |waker: u32, sleeper: u32| {
        if let (Some(waker), Some(sleeper)) = (pid(waker), pid(sleeper)) {
            let times = times.entry((waker, sleeper)).or_default();
            *times += 1;
            found.push((waker, sleeper, *times));
        }
    };
    schedlab_log::for_each(log, |_, record| -> Result<(), LogProblem> {
        match record.kind() {
            Some(Kind::Waking) if record.flags & 1 == 0 => asked = Some(*record),
            // one that did not wake anybody has no wakeup behind it
            Some(Kind::Wakeup) => {
                if let Some(waking) = asked.take().filter(|waking| waking.task == record.task) {
                    add(waking.other, record.task);
                }
            }
            Some(Kind::Note) if record.arg == note::EARLY => add(record.task, record.other),
            Some(Kind::Waking) => asked = None,
            _ => {}
        }
        Ok(())
    })?;
    Ok(found)
}
