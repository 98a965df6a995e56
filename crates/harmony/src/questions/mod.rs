//! What do the runs say? One function per question, each a rule with counts; docs/harmony.md has the table.

mod balance;
mod checks;
mod corners;
mod levels;
mod places;

use crate::answer::{Answer, plain};
use crate::data::{Data, One};
use crate::experiments::What;
use crate::facts::Round;
use crate::plan::Act;
use schedlab_instruments::{Move, MoveKind};
use schedlab_report::chart::{Chart, Series, Style, Unit};

/// A longer time than kernel code and rounding explain: what comes within it came at once.
pub(crate) const AT_ONCE_NS: u64 = 10_000;

/// Moves that follow each other sooner are one batch: real kernels need some microseconds for each.
pub(crate) const BATCH_NS: u64 = 50_000;

pub(crate) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// What several questions need to know first.
pub(crate) struct View<'a> {
    pub data: &'a Data,
    /// One queue serves all CPUs: tasks run elsewhere without anybody having moved them.
    pub shared: Option<String>,
}

/// A round of an experiment with several.
pub(crate) struct InRun<'a> {
    pub one: &'a One,
    pub number: u64,
    pub round: Round<'a>,
}

impl<'a> View<'a> {
    fn new(data: &'a Data) -> View<'a> {
        let (mut unmade, mut all) = (0, 0);
        for one in data.runs.values().flatten() {
            let (without, of) = one.facts.unmade();
            unmade += without;
            all += of;
        }
        let shared = (all >= 4 && unmade * 2 >= all).then(|| {
            format!(
                "of {all} moves of runnable tasks {unmade} were made by nobody: tasks simply ran elsewhere, as from \
                one queue for all CPUs"
            )
        });
        View { data, shared }
    }

    /// All rounds of an experiment with arrangements.
    pub fn rounds(&self, what: What) -> Vec<InRun<'a>> {
        let mut rounds = Vec::new();
        for one in self.data.of(what) {
            let marks: Vec<_> = one.scenario.marks.iter().filter(|mark| mark.act == Act::Arrange).collect();
            for (number, mark) in marks.iter().enumerate() {
                let end_ns = one.facts.duration_ns;
                let until_ns = marks.get(number + 1).map_or(end_ns, |next| next.at.as_ns());
                let round = one.facts.round(mark, until_ns);
                if !round.is_spoiled {
                    rounds.push(InRun { one, number: number as u64, round });
                }
            }
        }
        rounds
    }

    /// The scheduler's moves after the only step, of an experiment that has one: when that was, and the moves.
    pub fn after_release(&self, one: &'a One) -> (u64, Vec<&'a Move>) {
        match one.scenario.marks.first() {
            Some(mark) => (mark.at.as_ns(), one.facts.round(mark, one.facts.duration_ns).moves),
            None => (0, Vec::new()),
        }
    }

    /// What is said of mechanisms that a shared queue has not.
    pub fn no_queues(&self, id: &'static str) -> Option<Answer> {
        self.shared.as_ref().map(|why| Answer::not_applicable(id, why.clone()))
    }
}

/// Whether a balancer (or nobody) did it: the task was runnable all the time.
pub(crate) fn is_balance(moved: &Move) -> bool {
    moved.kind == MoveKind::Balance
}

/// All questions, in the order in which they are shown.
pub fn answers(data: &Data) -> Vec<Answer> {
    let view = View::new(data);
    let mut answers = balance::answers(&view);
    answers.extend(checks::answers(&view));
    answers.extend(places::answers(&view));
    answers.extend(corners::answers(&view));
    for answer in &mut answers {
        if answer.picture.is_none() && answer.samples.len() > 1 {
            answer.picture = Some(spread_of(answer));
        }
    }
    answers
}

/// How the values that an answer rests on are spread: the share of them up to each.
fn spread_of(answer: &Answer) -> schedlab_report::chart::Svg {
    let mut sorted = answer.samples.clone();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let (first, last) = (sorted[0], sorted[sorted.len() - 1]);
    // some room at both ends: where the share is none, and where it is all
    let room = match last - first {
        _ if sorted.iter().all(|value| value.fract() == 0.0) => 1.0,
        0.0 => first.abs() / 10.0,
        width => width / 20.0,
    };
    let before = if first < 0.0 { first - room } else { (first - room).max(0.0) };
    let mut points = vec![(before, 0.0), (first, 0.0)];
    points.extend(sorted.iter().enumerate().map(|(rank, value)| (*value, 100.0 * (rank as f64 + 1.0) / n)));
    points.push((last + room, 100.0));
    let what = match first == last {
        true => format!("all {} values are {}", sorted.len(), plain(first)),
        false => format!("{} values, the middle one {}", sorted.len(), plain(sorted[sorted.len() / 2])),
    };
    Chart {
        title: format!("{}: {what}", answer.id),
        x_label: what_is_spread(answer).into(),
        y_label: "share of values up to here, %".into(),
        x_unit: Unit::default(),
        series: vec![Series::new("", points, Style::Steps)],
        ..Chart::default()
    }
    .svg()
}

/// What the values of an answer are: numbers of its unit, unless it is decided on something else.
fn what_is_spread(answer: &Answer) -> &'static str {
    match answer.id {
        "newidle" | "idle_periodic" => "ms until the CPU had a task",
        "randomised_interval" => "ms between moves",
        "periodic" => "1: the CPU was given a task, 0: it was not",
        "event" => "1: a task came at once, 0: it did not",
        "mover" => "0: the target moved it, 1: the source, 2: another CPU",
        "cap" => "tasks in the first batch, as a part of the difference",
        "balances" => "tasks by which the longest queue exceeded the shortest in the end",
        "wake" | "fork" | "exec" => "tasks on the CPU that was chosen",
        "affinity_by_priority" => "moves per second of CPU time, of nice 10 less those of nice -10",
        "reduced_capacity" => "ms until the task left",
        "busy_beside_idle" => "tasks that the busy CPU took, per run",
        "isolated" => "share of wakeups on the isolated CPU",
        "priorities" => "0: spread, 1: weight, 2: clustered, 3: neither",
        "choice" => "1: one of each on each CPU in the end, 0: not",
        _ if answer.unit.is_empty() => answer.id,
        _ => answer.unit,
    }
}
