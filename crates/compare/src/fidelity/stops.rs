//! Where does a task's life first differ? Its stops, one after the other: why it stopped, after how much CPU
//! time since its last wakeup.
//!
//! ```text
//!   recorded  gzip   blocks after 2.1 ms   preempted by head after 4.0 ms   ...
//!   replayed  gzip   blocks after 2.1 ms   blocks after 6.3 ms     ...  the 2nd stop differs: preempted, blocks
//! ```

use schedlab_instruments::LogProblem;
use schedlab_log::{Log, Observer, PrevState, Row, Run, Slots, replay};
use std::collections::BTreeMap;

/// One stop of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// When, in ns from the start.
    pub time_ns: u64,
    /// CPU time of the task up to it.
    pub cpu_ns: u64,
    /// How it stopped.
    pub how: PrevState,
    /// On which CPU.
    pub cpu: u32,
}

/// The first stop that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopDifference {
    /// Stops in common before it.
    pub common: usize,
    /// Recorded and replayed; `None`: there is no further stop.
    pub stops: [Option<Stop>; 2],
}

impl StopDifference {
    /// `after 12 stops, recorded: blocks at 3.2 ms; replayed: preempted at 3.0 ms`.
    pub fn text(&self) -> String {
        let side = |stop: &Option<Stop>| match stop {
            None => "no further stop".to_string(),
            Some(stop) => {
                let how = match stop.how {
                    PrevState::Preempted => "preempted",
                    PrevState::Yielded => "yields",
                    PrevState::Sleeping | PrevState::Disk => "blocks",
                    PrevState::Dead => "exits",
                    PrevState::Unknown => "stops, nobody saw why,",
                };
                format!("{how} at {} on cpu{}", schedlab_report::units::time(stop.time_ns), stop.cpu)
            }
        };
        format!(
            "after {} stop{}: recorded {}; replayed {}",
            schedlab_report::units::count(self.common as u64),
            if self.common == 1 { "" } else { "s" },
            side(&self.stops[0]),
            side(&self.stops[1])
        )
    }
}

/// The first differing stop of each of these tasks (rows in the two logs); `None`: none differs. Memory goes
/// with their stops.
///
/// # Errors
/// [`LogProblem`] if a log cannot be read.
pub fn first_stop_differences(
    logs: [&dyn Log; 2],
    rows: &[[u32; 2]],
) -> Result<Vec<Option<StopDifference>>, LogProblem> {
    let side = |which: usize| -> Result<Vec<Vec<Stop>>, LogProblem> {
        let places = rows.iter().enumerate().map(|(place, row)| (row[which], place)).collect();
        let mut scribe = Scribe { places, stops: vec![Vec::new(); rows.len()], cpu_ns: vec![0; rows.len()] };
        replay(logs[which], &Slots::new(logs[which].header()), &mut scribe)?;
        Ok(scribe.stops)
    };
    let (recorded, replayed) = (side(0)?, side(1)?);
    Ok(recorded.into_iter().zip(replayed).map(|(a, b)| first_difference(a, b)).collect())
}

fn first_difference(recorded: Vec<Stop>, replayed: Vec<Stop>) -> Option<StopDifference> {
    let kind = |stop: &Stop| match stop.how {
        PrevState::Sleeping | PrevState::Disk => PrevState::Sleeping,
        how => how,
    };
    let common = recorded.iter().zip(&replayed).take_while(|(a, b)| kind(a) == kind(b)).count();
    let stops = [recorded.get(common).cloned(), replayed.get(common).cloned()];
    stops.iter().any(Option::is_some).then_some(StopDifference { common, stops })
}

struct Scribe {
    places: BTreeMap<u32, usize>,
    stops: Vec<Vec<Stop>>,
    cpu_ns: Vec<u64>,
}

impl Observer for Scribe {
    fn run_end(&mut self, run: &Run) {
        let Some(&place) = self.places.get(&run.row.0) else { return };
        self.cpu_ns[place] += run.until_ns - run.since_ns;
        if let Some(how) = run.stop {
            let Row(_) = run.row;
            let (time_ns, cpu_ns, cpu) = (run.until_ns, self.cpu_ns[place], run.cpu.0);
            self.stops[place].push(Stop { time_ns, cpu_ns, how, cpu });
        }
    }
}
