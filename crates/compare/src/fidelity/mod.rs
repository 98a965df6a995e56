//! Does the replay of a recording behave as the recorded machine did?
//!
//! The recording as it happened and its replay are measured alike, and laid side by side: waits and their
//! distributions, switches by kind, migrations, per task and over all. What differs most comes first, with
//! the first decision in which the task differs.
//!
//! ```text
//!   recording ──recorded_log──> log ──Figures──┐
//!       └────────import──> replay ──Figures──> Fidelity ──> text, JSON, page
//! ```
//!
//! A worked number: hackbench's tasks waited 49.8 s in all on the recorded machine and 27 s in its replay:
//! -46 %. 10,629 blocks did not sleep, for their wakeup had come already; each is a switch and a wait that
//! the replay lacks.

mod busy;
mod causes;
mod figures;
mod order;
mod page;
mod placement;
mod seeds;
mod show;
mod stops;

pub use busy::{BusyWaits, busy_waits};
pub use causes::{Cause, Variant, taken_away};
pub use figures::{Figures, IdleExits, QUANTILES, Side, exits_of_idle};
pub use order::{WakeupOrder, wakeup_order};
pub use page::{page, table};
pub use placement::{Placement, cpus_used, placement};
pub use seeds::{Sample, Spread};
pub use show::{json, terminal};
pub use stops::{Stop, StopDifference, first_stop_differences};

use schedlab_instruments::Distribution;

/// Tasks in the page's table, those that differ most first: of these the first difference is looked for.
pub const TASKS_LISTED: usize = 50;

/// How the two compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Fidelity {
    /// For titles: what was recorded.
    pub name: String,
    /// The scheduler that replayed, and the release that was recorded.
    pub sched: String,
    /// As recorded.
    pub recorded_sched: String,
    /// CPUs of the recording and of the replay.
    pub cpus: [u32; 2],
    /// Waits of at most this count as equal: the recorded kernel took so long from a wakeup to the switch on
    /// an idle CPU; 0: no such way was seen.
    pub grain_ns: u64,
    /// Whether kernel code takes time in the replay.
    pub takes_time: bool,
    /// How long system calls go on in the replay when an interrupt asks for another task ([`BusyWaits::calls_ns`]).
    pub calls_ns: Option<[u64; QUANTILES]>,
    /// Length of the program's life, recorded and replayed.
    pub duration_ns: [u64; 2],
    /// Over all tasks that both have.
    pub all: Pair,
    /// Per task, what differs most first.
    pub tasks: Vec<Pair>,
    /// Tasks that only one of the two has.
    pub unmatched: [usize; 2],
    /// Tasks that both have, and of which the recorder saw too little: unknown, and not part of `all`.
    pub unknown: usize,
    /// Share of the recorded tasks' CPU time that those have which the other side has, too.
    pub matched_share: f64,
    /// Blocks that did not sleep in the replay, for their wakeup had come already.
    pub skipped_blocks: u64,
    /// Blocks of the replay that the recording does not have.
    pub gained_blocks: u64,
    /// Recorded waits that the replay ended, since all that were left waited.
    pub forced_blocks: u64,
    /// What the recording's channels are, if it was given any.
    pub messages: Option<String>,
    /// What its locks are.
    pub locks: Option<String>,
    /// What those had of whom the recording tells only when they had a CPU, and what they have in the replay.
    pub strangers: Option<String>,
    /// In which order wakeups came.
    pub order: Option<WakeupOrder>,
    /// Where woken tasks ran, recorded and replayed, if there are several CPUs.
    pub placement: Option<[Placement; 2]>,
    /// What was taken away, and what that left.
    pub variants: Vec<Variant>,
    /// The same replay with other seeds.
    pub samples: Vec<Sample>,
    /// Sentences that one must know before the figures are believed.
    pub warnings: Vec<String>,
}

/// One task, or all, on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// `gzip (4711)`; `all`.
    pub label: String,
    /// Row in the recording's log; `None`: all, or several tasks of one name.
    pub task: Option<u32>,
    /// Recorded and replayed.
    pub sides: [Figures; 2],
    /// The first stop in which the two differ.
    pub first: Option<StopDifference>,
}

impl Pair {
    /// Whether waits and switches of both sides are known. Of no task at all nothing is.
    pub fn is_known(&self) -> bool {
        self.sides.iter().all(|figures| figures.is_known() && figures.tasks > 0)
    }

    /// Kolmogorov and Smirnov's distance of the waits of any cause.
    pub fn run_delay_ks(&self, grain_ns: u64) -> Option<f64> {
        self.ks(|figures| &figures.run_delay, grain_ns)
    }

    /// The same of the waits after a wakeup.
    pub fn wakeup_latency_ks(&self, grain_ns: u64) -> Option<f64> {
        self.ks(|figures| &figures.wakeup_latency, grain_ns)
    }

    fn ks(&self, of: impl Fn(&Figures) -> &Distribution, grain_ns: u64) -> Option<f64> {
        of(&self.sides[0]).kolmogorov_smirnov(of(&self.sides[1]), grain_ns)
    }

    /// By how much run delay differs, in ns: what ranks tasks.
    pub fn weight_ns(&self) -> u64 {
        let [recorded, replayed] = [&self.sides[0], &self.sides[1]].map(|figures| figures.run_delay.sum_ns());
        recorded.abs_diff(replayed)
    }

    /// One number for how far the replay is from the recording: the mean of the relative differences of run
    /// delay, of voluntary and of forced switches, and of both K-S distances; 0: alike.
    pub fn distance(&self, grain_ns: u64) -> f64 {
        let relative = |of: fn(&Figures) -> u64| {
            let (recorded, replayed) = (of(&self.sides[0]) as f64, of(&self.sides[1]) as f64);
            if recorded + replayed == 0.0 {
                0.0
            } else {
                (recorded - replayed).abs() / recorded.max(replayed)
            }
        };
        let parts = [
            relative(|figures| figures.run_delay.sum_ns()),
            relative(|figures| figures.voluntary),
            relative(|figures| figures.preempted),
            self.run_delay_ks(grain_ns).unwrap_or(0.0),
            self.wakeup_latency_ks(grain_ns).unwrap_or(0.0),
        ];
        parts.iter().sum::<f64>() / parts.len() as f64
    }
}

/// How two sides' tasks find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchBy {
    /// A replay of the recording: the same numbers.
    Pid,
    /// Another recording of the same program: the same names, all tasks of one name together.
    Name,
}

impl Fidelity {
    /// Lays two sides side by side; the other fields are the caller's to fill in.
    pub fn of(recorded: &Side, replayed: &Side, by: MatchBy, grain_ns: u64) -> Fidelity {
        let [mine, others] = [recorded, replayed].map(|side| side.keyed(by));
        let mut tasks = Vec::new();
        for (key, (label, task, figures)) in &mine {
            if let Some((_, _, other)) = others.get(key) {
                let sides = [figures.clone(), other.clone()];
                let task = task.filter(|_| by == MatchBy::Pid);
                tasks.push(Pair { label: label.clone(), task, sides, first: None });
            }
        }
        let cpu_ns = |figures: &Figures| figures.cpu_ns as f64;
        let of_matched: f64 = tasks.iter().map(|pair| cpu_ns(&pair.sides[0])).sum();
        let of_recorded: f64 = mine.values().map(|(_, _, figures)| cpu_ns(figures)).sum();
        let matched_share = if of_recorded > 0.0 { of_matched / of_recorded } else { 1.0 };
        let unmatched = [mine.len() - tasks.len(), others.len() - tasks.len()];
        let mut all = [Figures::default(), Figures::default()];
        for pair in tasks.iter().filter(|pair| pair.is_known()) {
            all.iter_mut().zip(&pair.sides).for_each(|(sum, figures)| sum.merge(figures));
        }
        tasks.sort_by(|a, b| {
            b.is_known()
                .cmp(&a.is_known())
                .then(b.weight_ns().cmp(&a.weight_ns()))
                .then_with(|| a.label.cmp(&b.label))
        });
        let [skipped_at_objects, gained_blocks, forced_blocks] = replayed.at_objects;
        let skipped_blocks = all[1].skipped + skipped_at_objects;
        let unknown = tasks.iter().filter(|pair| !pair.is_known()).count();
        Fidelity {
            name: String::new(),
            sched: replayed.sched.clone(),
            recorded_sched: recorded.sched.clone(),
            cpus: [recorded.nr_cpus, replayed.nr_cpus],
            grain_ns,
            takes_time: false,
            calls_ns: None,
            duration_ns: [recorded.duration_ns, replayed.duration_ns],
            all: Pair { label: "all".to_string(), task: None, sides: all, first: None },
            tasks,
            unmatched,
            unknown,
            matched_share,
            skipped_blocks,
            // only objects have waits that are not recorded ones (docs/objects.md)
            gained_blocks,
            forced_blocks,
            messages: None,
            locks: None,
            strangers: None,
            order: None,
            placement: None,
            variants: Vec::new(),
            samples: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// Of fewer wakeups beside an idle CPU no share is shown.
const CHOICES_MIN: u64 = 20;
/// Names that a sentence lists.
const NAMES_SHOWN: usize = 4;

impl Fidelity {
    /// What must be known of tasks that were not seen, where it is a hundredth of the CPU time or all tasks.
    pub fn about_unknown(&self) -> Option<String> {
        let unknown: Vec<&Pair> = self.tasks.iter().filter(|pair| !pair.is_known()).collect();
        let cpu_ns = |pairs: &[&Pair]| pairs.iter().map(|pair| pair.sides[0].cpu_ns).sum::<u64>();
        let all_ns = cpu_ns(&self.tasks.iter().collect::<Vec<_>>());
        let share = if all_ns > 0 { cpu_ns(&unknown) as f64 / all_ns as f64 } else { 0.0 };
        if unknown.is_empty() || share < 0.01 && unknown.len() < self.tasks.len() {
            return None;
        }
        let mut names: Vec<&str> = unknown.iter().take(NAMES_SHOWN).map(|pair| pair.label.as_str()).collect();
        if unknown.len() > NAMES_SHOWN {
            names.push("...");
        }
        let rest = match self.all.is_known() {
            true => "what follows is of the others",
            false => "so nothing can be compared",
        };
        Some(format!(
            "{} of {} tasks, with {:.0} % of the tasks' CPU time, were not seen as a whole ({}): {rest}",
            unknown.len(),
            self.tasks.len(),
            100.0 * share,
            names.join(", ")
        ))
    }

    /// Shares of the recorded and replayed waits that are within the grain, and so count as equal.
    pub fn within_grain(&self) -> [f64; 2] {
        self.all.sides.each_ref().map(|figures| {
            let mut within = 0;
            figures.run_delay.for_each_bucket(|_, last_ns, number| {
                within += if last_ns <= self.grain_ns { number } else { 0 };
            });
            within as f64 / figures.run_delay.count().max(1) as f64
        })
    }

    /// Shares of the wakeups beside an idle CPU that were kept on the waker's, in per cent, and how many such there
    /// are; `None`: a side has too few to tell ([`CHOICES_MIN`]).
    pub fn kept(&self) -> Option<[(f64, u64); 2]> {
        let [was, is] = self.placement?;
        let of = |placement: Placement| {
            let share = placement.share().filter(|_| placement.wakeups >= CHOICES_MIN)?;
            Some((100.0 * share, placement.wakeups))
        };
        Some([of(was)?, of(is)?])
    }

    /// Whether the replay's channels are recorded ones.
    fn has_recorded_messages(&self) -> bool {
        self.messages.as_deref().is_some_and(|messages| messages.starts_with("recorded"))
    }
}

#[cfg(test)]
mod tests;
