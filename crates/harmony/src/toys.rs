//! Are the verdicts right? Toys with known policies, what should be found of each, and what is.
//!
//! ```text
//! toy                                   question    truth       found
//! busy=60ms:amount=pairwise:cap=3       amount      pairwise    pairwise            right
//! busy=60ms:amount=pairwise:cap=3       cap         3           3 (3 to 3)          right
//! ```
//!
//! A question is not among the truths of a toy where its rule does not follow from the toy's parameters alone.
//!
//! Native toys are [`crate::toy`]; sched_ext ones are `linux/scx/tests/queues.bpf.c`, on Linux's own ext.c.

use crate::answer::{Answer, NOT_APPLICABLE, UNDECIDED, plain};
use crate::data::{Data, Effort};
use crate::model::Model;
use crate::stats::Range;
use crate::toy::toy;
use schedlab_lab::{Progress, Setting, Subject, SubjectError, SubjectSpec};
use schedlab_report::table::{Column, Table};
use schedlab_runner::pool::PoolError;
use schedlab_stdx::Random;
use schedlab_topology::Topology;
use std::path::Path;

/// What is known of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Truth {
    /// The answer's word.
    Word(&'static str),
    /// The number that the interval should hold.
    Number(f64),
}

/// What a toy is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The native policy `toy`.
    Native,
    /// `queues.bpf.c`.
    SchedExt,
}

/// Where sched_ext toys are, and what they run on.
#[derive(Clone, Copy)]
pub struct SchedExt<'a> {
    /// `queues.bpf.c`.
    pub source: &'a Path,
    /// Ticks per second of the kernel, and who hears of its build.
    pub hz: u32,
    /// See `hz`.
    pub progress: &'a dyn Progress,
}

/// Where `queues.bpf.c` lies in the project.
pub const SCHED_EXT_SOURCE: &str = "linux/scx/tests/queues.bpf.c";

/// A toy that could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ToyError {
    /// Runs cannot be started.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Its kernel, or the toy itself, cannot be built.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// A sched_ext toy, and nobody said where they are.
    #[error("the toy '{0}' is a sched_ext scheduler: its source, linux/scx/tests/queues.bpf.c, is needed")]
    NoSource(String),
}

/// A toy and what is known of it.
#[derive(Clone, Debug)]
pub struct KnownToy {
    /// Its parameters, `NAME=VALUE` with colons between.
    pub params: String,
    /// What it is written in.
    pub family: Family,
    /// It is tried on two caches of four CPUs; else on four CPUs.
    pub has_caches: bool,
    /// Question and truth.
    pub truths: Vec<(&'static str, Truth)>,
}

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// The truth.
    Right,
    /// Nothing was said.
    Undecided,
    /// A 95 % interval does not hold the truth: one in twenty need not.
    Outside,
    /// Something else.
    Wrong,
}

/// A toy's questions with what came of them.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The toy.
    pub case: KnownToy,
    /// Question, truth, answer, score.
    pub rows: Vec<(&'static str, Truth, Answer, Score)>,
    /// Runs that did not end as they should.
    pub failed: Vec<String>,
}

/// Parameters of a toy, as far as truths depend on them. Times in ms.
#[derive(Clone, Copy, Debug)]
struct Made {
    newidle: bool,
    event: bool,
    busy: u64,
    idle: u64,
    after: u64,
    jitter: u64,
    amount: &'static str,
    number: u64,
    cap: u64,
    threshold: u64,
    mover: &'static str,
    scope: &'static str,
    weighs: bool,
    wake: &'static str,
    fork: &'static str,
    exec: &'static str,
}

const PLAIN: Made = Made {
    newidle: false,
    event: false,
    busy: 0,
    idle: 0,
    after: 0,
    jitter: 0,
    amount: "one",
    number: 3,
    cap: 0,
    threshold: 2,
    mover: "target",
    scope: "all",
    weighs: false,
    wake: "previous",
    fork: "previous",
    exec: "previous",
};

fn yes_no(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

impl Made {
    fn params(&self) -> String {
        let mut words = Vec::new();
        let mut say = |is_said: bool, word: String| {
            if is_said {
                words.push(word);
            }
        };
        say(self.newidle, "newidle=yes".into());
        say(self.event, "event=yes".into());
        say(self.busy > 0, format!("busy={}ms", self.busy));
        say(self.idle > 0, format!("idle={}ms", self.idle));
        say(self.after > 0, format!("after={}ms", self.after));
        say(self.jitter > 0, format!("jitter={}", self.jitter));
        say(self.amount != "one", format!("amount={}", self.amount));
        say(self.amount == "fixed", format!("number={}", self.number));
        say(self.cap > 0, format!("cap={}", self.cap));
        say(self.threshold != 2, format!("threshold={}", self.threshold));
        say(self.mover != "target", format!("mover={}", self.mover));
        say(self.scope != "all", format!("scope={}", self.scope));
        say(self.weighs, "weighs=yes".into());
        say(self.wake != "previous", format!("wake={}", self.wake));
        say(self.fork != "previous", format!("fork={}", self.fork));
        say(self.exec != "previous", format!("exec={}", self.exec));
        words.join(":")
    }

    fn case(self, has_caches: bool) -> KnownToy {
        let mut truths: Vec<(&'static str, Truth)> = Vec::new();
        let word = |word: &'static str| Truth::Word(word);
        let number = |number: u64| Truth::Number(number as f64);
        let pulls = self.mover == "target";
        if has_caches {
            let scope = match self.scope {
                "near" => "aware",
                "wall" => "wall",
                "far" => "reversed",
                _ => "blind",
            };
            truths.push(("llc", word(scope)));
            let across = ["cross_llc_period_ms", "cross_llc_threshold"];
            if self.scope == "wall" {
                truths.extend(across.map(|id| (id, word(NOT_APPLICABLE))));
            } else if self.busy > 0 && !self.event && self.jitter == 0 {
                truths.extend(across.into_iter().zip([number(self.busy), number(self.threshold)]));
            }
        } else {
            truths.push(("llc", word(NOT_APPLICABLE)));
            self.moves(&mut truths);
        }
        if !self.event {
            truths.push(("newidle", word(yes_no(self.newidle && pulls))));
            let looks = if pulls { self.idle > 0 } else { self.busy > 0 };
            truths.push(("idle_periodic", word(yes_no(looks))));
            truths.push(("periodic", word(yes_no(self.busy > 0))));
            if pulls && self.idle > 0 && self.jitter == 0 && !has_caches {
                truths.push(("idle_period_ms", number(self.idle)));
            }
            if pulls && self.idle > 0 && !has_caches && !self.weighs && self.amount != "random" {
                truths.push(("idle_amount", number(self.taken_by_idle())));
            }
            if pulls && (!self.newidle && self.idle == 0 || self.idle > 30) {
                truths.push(("conserving", word("no")));
            }
        }
        truths.push(("event", word(yes_no(self.event))));
        truths.push(("wake", word(self.wake)));
        let newcomer = |place: &'static str| match place {
            "previous" => "parent",
            "idle-previous-first" => "idle",
            other => other,
        };
        truths.push(("fork", word(newcomer(self.fork))));
        truths.push(("exec", word(newcomer(self.exec))));
        KnownToy { params: self.params(), family: Family::Native, has_caches, truths }
    }

    /// The same policy in BPF C. It has one timer a CPU: intervals of busy and of idle CPUs are alike, where both look.
    fn in_bpf(self) -> KnownToy {
        let place = |word: &str| {
            let places = ["previous", "idle-previous-first", "waker", "shortest", "random"];
            places.iter().position(|place| *place == word).expect("a place of the toy in BPF C")
        };
        let words = ["one", "half-of-queue", "pairwise", "poly", "fixed"];
        let amount = words.iter().position(|word| *word == self.amount).expect("an amount of that toy");
        let mover = ["target", "source", "third"].iter().position(|word| *word == self.mover).unwrap_or(0);
        let params = [
            ("period_ns", self.busy.max(self.idle) * 1_000_000),
            ("busy_looks", u64::from(self.busy > 0)),
            ("idle_looks", u64::from(self.idle > 0)),
            ("newidle", u64::from(self.newidle)),
            ("amount", amount as u64),
            ("number", self.number),
            ("cap", self.cap),
            ("threshold", self.threshold),
            ("mover", mover as u64),
            ("wake", place(self.wake) as u64),
            ("fork", place(self.fork) as u64),
        ];
        let params: Vec<String> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        KnownToy { params: params.join(":"), family: Family::SchedExt, ..self.case(false) }
    }

    /// Tasks that an idle CPU takes at once of 9, 9, 9, 0.
    fn taken_by_idle(&self) -> u64 {
        let taken = match self.amount {
            "half-of-queue" | "pairwise" => 9 / 2,
            // above the mean of 6.75
            "poly" => 2,
            "fixed" => self.number,
            _ => 1,
        };
        if self.cap > 0 { taken.min(self.cap) } else { taken }
    }

    /// Truths of what busy CPUs do.
    fn moves(&self, truths: &mut Vec<(&'static str, Truth)>) {
        let word = |word: &'static str| Truth::Word(word);
        let number = |number: u64| Truth::Number(number as f64);
        if self.busy == 0 || self.event {
            return;
        }
        truths.push(("mover", word(self.mover)));
        truths.push(("period_ms", number(self.busy)));
        truths.push(("randomised_interval", word(yes_no(self.jitter > 0))));
        if self.jitter == 0 {
            truths.push(("after_success_ms", number(if self.after > 0 { self.after } else { self.busy })));
        }
        if !self.weighs {
            truths.push(("amount", word(self.amount)));
            truths.push(("threshold", number(self.threshold)));
            match self.amount {
                "one" | "fixed" => truths.push(("cap", word(NOT_APPLICABLE))),
                "random" => {}
                _ if self.cap > 0 => truths.push(("cap", number(self.cap))),
                _ => truths.push(("cap", word("none"))),
            }
        }
        // idle CPUs take part
        let spreads = self.idle > 0 || self.mover == "source";
        if self.threshold == 2 && spreads {
            truths.push(("weighted", word(yes_no(self.weighs))));
        }
        if self.threshold == 2 && spreads && !self.weighs && self.amount == "one" {
            truths.push(("balances", word("yes")));
            truths.push(("affinity", word("strong")));
            truths.push(("intrinsic", word("affine")));
            truths.push(("leaves_balance", word("no")));
        }
    }
}

/// Toys with and without each part.
pub fn named() -> Vec<KnownToy> {
    let busy = Made { busy: 60, ..PLAIN };
    let list = [
        PLAIN,
        Made { newidle: true, ..PLAIN },
        Made { idle: 10, ..PLAIN },
        Made { idle: 80, ..PLAIN },
        Made { event: true, ..PLAIN },
        busy,
        Made { newidle: true, ..busy },
        Made { newidle: true, idle: 10, ..busy },
        Made { busy: 200, after: 40, ..PLAIN },
        Made { busy: 50, after: 200, ..PLAIN },
        Made { jitter: 50, ..busy },
        Made { busy: 200, jitter: 80, ..PLAIN },
        Made { amount: "half-of-queue", ..busy },
        Made { amount: "pairwise", ..busy },
        Made { amount: "poly", ..busy },
        Made { amount: "fixed", number: 3, ..busy },
        Made { amount: "random", ..busy },
        Made { amount: "pairwise", cap: 3, ..busy },
        Made { amount: "half-of-queue", cap: 3, ..busy },
        Made { amount: "poly", cap: 5, ..busy },
        Made { threshold: 4, ..busy },
        Made { threshold: 4, newidle: true, amount: "pairwise", ..busy },
        Made { mover: "source", ..busy },
        Made { mover: "third", ..busy },
        Made { weighs: true, idle: 20, ..busy },
        Made { idle: 20, ..busy },
        Made { wake: "idle-previous-first", fork: "idle-previous-first", exec: "shortest", ..busy },
        Made { wake: "shortest", fork: "shortest", exec: "random", ..busy },
        Made { wake: "random", fork: "random", exec: "idle-previous-first", ..busy },
        Made { wake: "waker", ..busy },
    ];
    let mut cases: Vec<KnownToy> = list.into_iter().map(|made| made.case(false)).collect();
    let scopes = ["all", "near", "wall", "far"];
    cases.extend(scopes.map(|scope| Made { scope, ..busy }.case(true)));
    cases
}

/// Toys in BPF C, with and without each part; on Linux's own ext.c.
pub fn named_sched_ext() -> Vec<KnownToy> {
    let busy = Made { busy: 60, ..PLAIN };
    let list = [
        PLAIN,
        Made { newidle: true, ..PLAIN },
        Made { idle: 80, ..PLAIN },
        busy,
        Made { newidle: true, ..busy },
        Made { newidle: true, idle: 60, ..busy },
        Made { busy: 200, idle: 200, amount: "pairwise", cap: 3, ..PLAIN },
        Made { amount: "half-of-queue", ..busy },
        Made { amount: "pairwise", ..busy },
        Made { amount: "poly", ..busy },
        Made { amount: "fixed", number: 3, ..busy },
        Made { threshold: 4, ..busy },
        Made { mover: "source", ..busy },
        Made { mover: "third", ..busy },
        Made { wake: "idle-previous-first", fork: "idle-previous-first", ..busy },
        Made { wake: "shortest", fork: "shortest", ..busy },
        Made { wake: "random", fork: "random", ..busy },
        Made { wake: "waker", ..busy },
    ];
    list.into_iter().map(Made::in_bpf).collect()
}

/// Toys drawn from a seed: period, amount, cap, threshold, scope.
pub fn drawn(seed: u64, count: u64) -> Vec<KnownToy> {
    let one = |index: u64| {
        let mut random = Random::for_part(seed, index);
        let has_caches = random.below(4) == 0;
        let amount = *random.pick(&["one", "half-of-queue", "pairwise", "poly"]);
        let cap = if amount != "one" && random.below(2) == 0 { 2 + random.below(7) } else { 0 };
        let newidle = random.below(2) == 0;
        let busy = 10 + random.below(491);
        let idle = if random.below(2) == 0 { 10 + random.below(491) } else { 0 };
        let threshold = 2 + random.below(5);
        let drawn: Option<&str> = has_caches.then(|| *random.pick(&["all", "near", "wall", "far"]));
        let scope = drawn.unwrap_or("all");
        let made = Made { newidle, busy, idle, amount, cap, threshold, scope, ..PLAIN };
        made.case(has_caches)
    };
    (0..count).map(one).collect()
}

/// Whether an answer is true.
fn score(answer: &Answer, truth: &Truth) -> Score {
    let is_true = match (truth, &answer.value) {
        (Truth::Word(word), _) => answer.answer == *word,
        (Truth::Number(number), Some(range)) => range.low <= *number && *number <= range.high,
        (Truth::Number(_), None) => false,
    };
    match (is_true, answer.answer.as_str()) {
        (true, _) => Score::Right,
        (false, UNDECIDED) => Score::Undecided,
        (false, _) if matches!(truth, Truth::Number(_)) && interval(answer).is_some() => Score::Outside,
        (false, _) => Score::Wrong,
    }
}

/// An answer's interval, if it has one: a number of tasks that is exact has none.
fn interval(answer: &Answer) -> Option<Range> {
    answer.value.filter(|range| range.low < range.high)
}

impl KnownToy {
    /// The toy as a scheduler.
    ///
    /// # Errors
    /// See [`ToyError`].
    ///
    /// # Panics
    /// If the native toy does not take its parameters.
    pub fn subject(&self, sched_ext: Option<SchedExt<'_>>) -> Result<Subject, ToyError> {
        let params = self.params.split(':').filter_map(|word| word.split_once('='));
        let params: Vec<(String, String)> = params.map(|(name, value)| (name.into(), value.into())).collect();
        match (self.family, sched_ext) {
            (Family::Native, _) => {
                Ok(toy(&format!("toy:{}", self.params), &params).expect("a toy's parameters"))
            }
            (Family::SchedExt, None) => Err(ToyError::NoSource(self.params.clone())),
            (Family::SchedExt, Some(SchedExt { source, hz, progress })) => {
                let spec: SubjectSpec = format!("scx:{}", source.display()).parse()?;
                Ok(spec.and(&params).resolve(Setting { hz, nr_cpus: 4, progress })?)
            }
        }
    }

    /// Asks everything of the toy.
    ///
    /// # Errors
    /// See [`ToyError`].
    ///
    /// # Panics
    /// If the native toy does not take its parameters.
    pub fn tried(&self, effort: Effort, sched_ext: Option<SchedExt<'_>>) -> Result<Tried, ToyError> {
        let subject = self.subject(sched_ext)?;
        let topology = match self.has_caches {
            true => Topology::regular(1, 2, 4, 1),
            false => Topology::flat(4),
        };
        let data = Data::collect(&subject, &topology.expect("a small machine"), effort, |_, _| {})?;
        let model = Model::of(&data, &subject.label, "");
        let row = |(id, truth): &(&'static str, Truth)| {
            let answer = model.answer(id).cloned();
            let answer = answer.unwrap_or_else(|| Answer::undecided(id, "it was not asked"));
            let score = score(&answer, truth);
            (*id, truth.clone(), answer, score)
        };
        Ok(Tried { case: self.clone(), rows: self.truths.iter().map(row).collect(), failed: model.failed })
    }
}

/// Asks each toy everything, with a seed of its own: toys that are asked at the same drawn instants would be right and
/// wrong together, and their number would say less than it seems. `done` hears how many have been asked.
///
/// # Errors
/// See [`ToyError`].
pub fn asked(
    cases: &[KnownToy],
    effort: Effort,
    sched_ext: Option<SchedExt<'_>>,
    mut done: impl FnMut(usize),
) -> Result<Vec<Tried>, ToyError> {
    let mut tried = Vec::new();
    for (case, index) in cases.iter().zip(0..) {
        done(tried.len());
        let seed = 1 + Random::for_part(effort.seed, index).below(1_000_000);
        tried.push(case.tried(Effort { seed, ..effort }, sched_ext)?);
    }
    Ok(tried)
}

/// A row per toy and question; `all`: also those that are right.
pub fn table(tried: &[Tried], all: bool) -> Table {
    let columns = vec![
        Column::new("toy", "", "its parameters"),
        Column::new("question", "", "identifier"),
        Column::new("truth", "", "what the parameters say"),
        Column::new("found", "", "the answer, with its interval"),
        Column::new("score", "", "right, undecided, outside (the interval does not hold the truth), wrong"),
    ];
    let mut table = Table::new("toys", "Toys: truth and answer", columns);
    for toy in tried {
        for (id, truth, answer, score) in &toy.rows {
            let found = match &answer.value {
                Some(range) => format!("{} ({} to {})", answer.answer, plain(range.low), plain(range.high)),
                None => answer.answer.clone(),
            };
            let truth = match truth {
                Truth::Word(word) => (*word).to_string(),
                Truth::Number(number) => plain(*number),
            };
            if all || *score != Score::Right {
                let score = format!("{score:?}").to_lowercase();
                let kind = if toy.case.family == Family::SchedExt { "scx " } else { "" };
                table.push(vec![
                    format!("{kind}{}", toy.case.params).into(),
                    (*id).into(),
                    truth.into(),
                    found.into(),
                    score.into(),
                ]);
            }
        }
    }
    table
}

/// How many rows have this score.
pub fn count(tried: &[Tried], score: Score) -> usize {
    tried.iter().flat_map(|toy| &toy.rows).filter(|row| row.3 == score).count()
}

/// Intervals, as far as truths are numbers. Numbers of tasks that are exact have none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coverage {
    /// Intervals that hold the truth.
    pub held: usize,
    /// All.
    pub of: usize,
    /// The middle width, relative to the truth; NaN without intervals.
    pub width: f64,
}

impl Coverage {
    /// The share of intervals that hold the truth; of none: 1.
    pub fn share(&self) -> f64 {
        if self.of == 0 { 1.0 } else { self.held as f64 / self.of as f64 }
    }

    /// The chance that so few hold the truth, or fewer, if each one does with nine chances in ten (binomial).
    pub fn chance(&self) -> f64 {
        crate::stats::at_most(self.held, self.of, 0.9)
    }

    /// So few hold the truth that nine in ten is out of the question: a chance below 1 %.
    pub fn is_too_low(&self) -> bool {
        self.chance() < 0.01
    }
}

/// What there is to say of the intervals.
pub fn coverage(tried: &[Tried]) -> Coverage {
    let mut held = 0;
    let mut widths = Vec::new();
    for (_, truth, answer, score) in tried.iter().flat_map(|toy| &toy.rows) {
        if let (Truth::Number(number), Some(range)) = (truth, interval(answer)) {
            held += usize::from(*score == Score::Right);
            widths.push((range.high - range.low) / number);
        }
    }
    Coverage { held, of: widths.len(), width: crate::stats::median(&widths).mean }
}
