//! What does a log say of the scheduler that made it? Estimates with intervals, or "cannot tell" and what would.
//!
//! ```text
//! tick_ns          4,000,000 ns   3,999,998 to 4,000,003   1,482 samples
//! slice_ns         cannot tell    no two threads that compute took turns on a CPU; -n 2 -a 0 -w CPU would show it
//! ```
//!
//! Inference reads logs. It asks for nothing that a poller does not see, so that it can be tried on logs of
//! the simulated machine, where the truth is known, reduced to what a poller would have seen
//! ([`observe`](crate::observe())).

mod events;
mod period;
mod rules;
mod seen;

use crate::stats::Estimate;
use schedlab_log::{Log, LogProblem};
use schedlab_report::table::{Column, Table};
use schedlab_report::units::{count, time};
use serde_json::json;

pub(crate) use seen::Seen;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// How long is a tick?
    Tick,
    /// How long is a thread away for a tick?
    TickCost,
    /// After how long does a thread that computes give way to an equal one?
    Slice,
    /// How long does a switch from thread to thread take?
    SwitchCost,
    /// How long after its timer's time does a thread run?
    DispatchLatency,
    /// In steps of what do timers fire?
    TimerGrain,
    /// How long may real-time threads run in a period?
    RtLimit,
    /// How much CPU time does the group's cpu.max give in a period?
    CpuMaxQuota,
    /// How long is that period?
    CpuMaxPeriod,
    /// Which share of a thread's time goes to what it cannot see?
    HiddenShare,
    /// Which share of deadlines is missed?
    Reservation,
    /// How much more CPU time than a nicer thread does a thread get beside it?
    NiceShare,
    /// How many interrupts beside the tick hit a thread that computes, in a second?
    InterruptRate,
    /// How long is a thread away for one of them?
    InterruptCost,
    /// How often does a thread that is woken take the CPU from one that runs there?
    WakeupPreemption,
    /// How often does a thread move to another CPU, in a second?
    MigrationRate,
    /// How much later does a thread run that is woken on another CPU than before?
    MigrationCost,
    /// Which family of schedulers is it likely?
    Family,
}

impl Question {
    /// All, in the order of their rows.
    pub const ALL: [Question; 18] = {
        use Question::*;
        [
            Tick,
            TickCost,
            Slice,
            SwitchCost,
            DispatchLatency,
            TimerGrain,
            RtLimit,
            CpuMaxQuota,
            CpuMaxPeriod,
            HiddenShare,
            Reservation,
            NiceShare,
            InterruptRate,
            InterruptCost,
            WakeupPreemption,
            MigrationRate,
            MigrationCost,
            Family,
        ]
    };

    /// Its id in every form.
    pub fn id(self) -> &'static str {
        use Question::*;
        match self {
            Tick => "tick_ns",
            TickCost => "tick_cost_ns",
            Slice => "slice_ns",
            SwitchCost => "switch_cost_ns",
            DispatchLatency => "dispatch_latency_ns",
            TimerGrain => "timer_grain_ns",
            RtLimit => "rt_limit_ns",
            CpuMaxQuota => "cpu_max_quota_ns",
            CpuMaxPeriod => "cpu_max_period_ns",
            HiddenShare => "hidden_share",
            Reservation => "reservation",
            NiceShare => "nice_share",
            InterruptRate => "interrupts_per_s",
            InterruptCost => "interrupt_cost_ns",
            WakeupPreemption => "wakeup_preemption",
            MigrationRate => "migrations_per_s",
            MigrationCost => "migration_cost_ns",
            Family => "family",
        }
    }

    /// A value in words: `4.00 ms`, `3.06 : 1`, `0.495 %`.
    pub fn shown(self, value: f64) -> String {
        match self {
            Question::NiceShare => format!("{value:.2} : 1"),
            Question::InterruptRate | Question::MigrationRate => format!("{value:.2} /s"),
            _ if !self.id().ends_with("_ns") => format!("{:.3} %", 100.0 * value),
            _ if value < 0.0 => format!("-{}", time((-value).round() as u64)),
            _ => time(value.round() as u64),
        }
    }

    /// By what values of a picture are divided whose greatest is `most`, and the unit that they have then.
    pub(crate) fn scale(self, most: f64) -> (f64, &'static str) {
        match self {
            Question::NiceShare => (1.0, "to 1"),
            Question::InterruptRate | Question::MigrationRate => (1.0, "in a second"),
            _ if !self.id().ends_with("_ns") => (0.01, "%"),
            _ if most >= 1e6 => (1e6, "ms"),
            _ if most >= 1e3 => (1e3, "us"),
            _ => (1.0, "ns"),
        }
    }

    /// An estimate with its interval in words.
    pub(crate) fn shown_estimate(self, e: &Estimate) -> String {
        format!("{} ({} to {})", self.shown(e.value), self.shown(e.low), self.shown(e.high))
    }

    /// An answer in words.
    pub(crate) fn shown_answer(self, answer: &Answer) -> String {
        match answer {
            Answer::Is(e) => self.shown_estimate(e),
            Answer::AtMost { bound, .. } => format!("at most {}", self.shown(*bound)),
            Answer::Named { name, .. } => (*name).to_string(),
            Answer::CannotTell { .. } => "cannot tell".into(),
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A number.
    Is(Estimate),
    /// Not more than this; how much less, the log does not show.
    AtMost {
        /// The bound.
        bound: f64,
        /// Samples.
        n: u64,
    },
    /// A name.
    Named {
        /// Which.
        name: &'static str,
        /// How sure, in per cent.
        confidence_pct: u8,
        /// Samples.
        n: u64,
    },
    /// The log does not show it.
    CannotTell {
        /// Why.
        why: String,
        /// What would show it.
        would: &'static str,
    },
}

/// A question with its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Inference {
    /// What was asked.
    pub question: Question,
    /// What was found.
    pub answer: Answer,
    /// What else to know: by which evidence, what it may be mistaken for.
    pub remark: String,
}

/// What is known of one timer.
#[derive(Clone, Debug, PartialEq)]
pub struct TimerRow {
    /// Its name.
    pub timer: &'static str,
    /// From the time that was asked for to running: the median, in ns.
    pub latency: Estimate,
    /// The latest wakeup, in ns.
    pub worst_ns: f64,
    /// In steps of what it fires.
    pub grain: Answer,
}

/// What one log, or several of one machine, say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// One for each question, in their order.
    pub findings: Vec<Inference>,
    /// One for each timer that woke somebody often enough.
    pub timers: Vec<TimerRow>,
    /// What they hold for: name, value; of the first log that says it.
    pub conditions: Vec<(String, String)>,
}

/// What a parameter of a log's header is called that says what its results depend on, before the condition's name.
pub(crate) const CONDITION: &str = "hourglass.condition.";

/// What results depend on, as a table.
pub(crate) fn condition_table(conditions: &[(String, String)]) -> Table {
    let columns = vec![
        Column::new("condition", "", "what the result depends on"),
        Column::new("value", "", "what it was"),
    ];
    let mut table = Table::new("conditions", "Preconditions", columns);
    conditions.iter().for_each(|(name, value)| table.push(vec![json!(name), json!(value)]));
    table
}

/// Asks a log every question.
///
/// # Errors
/// [`LogProblem`]: the log cannot be read.
pub fn infer(log: &dyn Log) -> Result<Findings, LogProblem> {
    let seen = Seen::of(log)?;
    let findings = Question::ALL.into_iter().map(|question| rules::answer(question, &seen));
    let params = log.header().params.iter();
    let conditions = params
        .filter_map(|(name, value)| Some((name.strip_prefix(CONDITION)?.to_string(), value.clone())))
        .collect();
    Ok(Findings { findings: findings.collect(), timers: events::timers(&seen), conditions })
}

impl Answer {
    /// How good it is: the smaller, the better.
    fn rank(&self) -> (u8, f64) {
        match self {
            Answer::Is(estimate) => (0, (estimate.high - estimate.low) / estimate.value.abs().max(1e-9)),
            Answer::Named { confidence_pct, .. } => (0, 1.0 - f64::from(*confidence_pct) / 100.0),
            Answer::AtMost { bound, .. } => (1, *bound),
            Answer::CannotTell { .. } => (2, 0.0),
        }
    }
}

impl Findings {
    /// The best answers of both.
    #[must_use]
    pub fn or(self, other: Findings) -> Findings {
        if self.findings.is_empty() {
            return other;
        }
        let better = |(a, b): (Inference, Inference)| {
            let (ranked_a, ranked_b) = (a.answer.rank(), b.answer.rank());
            if ranked_b.0 < ranked_a.0 || (ranked_b.0 == ranked_a.0 && ranked_b.1 < ranked_a.1) {
                b
            } else {
                a
            }
        };
        let conditions = if self.conditions.is_empty() { other.conditions } else { self.conditions };
        let mut timers = self.timers;
        for row in other.timers {
            match timers.iter_mut().find(|own| own.timer == row.timer) {
                Some(own) if own.latency.n < row.latency.n => *own = row,
                Some(_) => {}
                None => timers.push(row),
            }
        }
        let findings = self.findings.into_iter().zip(other.findings).map(better).collect();
        Findings { findings, timers, conditions }
    }

    /// The finding on a question.
    ///
    /// # Panics
    /// If these are findings of no log.
    pub fn on(&self, question: Question) -> &Inference {
        self.findings
            .iter()
            .find(|finding| finding.question == question)
            .expect("every question has a finding")
    }

    /// A file for `run --costs`: what kernel code costs here, as far as it was found; `None` if nothing of it was.
    pub fn costs(&self, source: &str) -> Option<String> {
        let named = [
            ("switch", Question::SwitchCost),
            ("tick", Question::TickCost),
            ("interrupt", Question::InterruptCost),
            ("migration", Question::MigrationCost),
        ];
        let found: Vec<String> = named
            .into_iter()
            .filter_map(|(name, question)| match &self.on(question).answer {
                Answer::Is(found) => Some(format!("{name} = \"{:.0}ns\"\n", found.value)),
                _ => None,
            })
            .collect();
        if found.is_empty() {
            return None;
        }
        let head =
            "# What kernel code costs here, as pollers saw it; by `schedlab hourglass infer --costs`.\n";
        Some(format!("{head}{}total = \"kept\"\n\n[measured]\non = {source:?}\n", found.concat()))
    }

    /// One row a question.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::new("id", "", "what was asked"),
            Column::new("answer", "", "is, at most, named, or cannot tell"),
            Column::new("shown", "", "the estimate with its 95 % interval, for people"),
            Column::new("value", "", "the estimate, in the unit of its id"),
            Column::new("low", "", "lower end of the 95 % interval"),
            Column::new("high", "", "upper end"),
            Column::new("samples", "", "how many"),
            Column::new("remark", "", "the evidence, or why there is no answer and what would give one"),
        ];
        let mut table = Table::new("inference", "What the log says of the scheduler", columns);
        for Inference { question, answer, remark } in &self.findings {
            let id = json!(question.id());
            let shown = json!(question.shown_answer(answer));
            let row = match answer {
                Answer::Is(e) => {
                    vec![
                        id,
                        json!("is"),
                        shown,
                        json!(e.value),
                        json!(e.low),
                        json!(e.high),
                        json!(e.n),
                        json!(remark),
                    ]
                }
                Answer::AtMost { bound, n } => {
                    let bound = json!(bound);
                    vec![
                        id,
                        json!("at most"),
                        shown,
                        bound.clone(),
                        json!(0.0),
                        bound,
                        json!(n),
                        json!(remark),
                    ]
                }
                Answer::Named { name, confidence_pct, n } => {
                    let remark = format!("{confidence_pct} % sure. {remark}");
                    vec![
                        id,
                        json!(name),
                        shown,
                        json!(null),
                        json!(null),
                        json!(null),
                        json!(n),
                        json!(remark),
                    ]
                }
                Answer::CannotTell { why, would } => {
                    let remark = format!("{why}; {would} would tell");
                    vec![
                        id,
                        json!("cannot tell"),
                        shown,
                        json!(null),
                        json!(null),
                        json!(null),
                        json!(0),
                        json!(remark),
                    ]
                }
            };
            table.push(row);
        }
        table
    }

    /// Dispatch latency and grain of each timer.
    pub fn timer_table(&self) -> Table {
        let columns = vec![
            Column::new("timer", "", "by what threads slept"),
            Column::new(
                "shown",
                "",
                "median time from what was asked for to running, with its 95 % interval",
            ),
            Column::new("latency_ns", "ns", "the median"),
            Column::new("low_ns", "ns", "lower end of its 95 % interval"),
            Column::new("high_ns", "ns", "upper end"),
            Column::new("worst_ns", "ns", "the latest"),
            Column::new("grain", "", "steps in which it fires"),
            Column::new("samples", "", "wakeups"),
        ];
        let mut table = Table::new("timers", "Each timer", columns);
        for TimerRow { timer, latency, worst_ns, grain } in &self.timers {
            table.push(vec![
                json!(timer),
                json!(Question::DispatchLatency.shown_estimate(latency)),
                json!(latency.value),
                json!(latency.low),
                json!(latency.high),
                json!(worst_ns),
                json!(Question::TimerGrain.shown_answer(grain)),
                json!(latency.n),
            ]);
        }
        table
    }

    /// What the answers hold for, in one line; empty if no log says it.
    pub fn holds_for(&self) -> String {
        let words = self.conditions.iter().map(|(name, value)| format!("{name} {value}"));
        words.collect::<Vec<_>>().join("; ")
    }

    /// What the answers hold for, as a table.
    pub fn conditions(&self) -> Table {
        condition_table(&self.conditions)
    }

    /// For a terminal.
    pub fn summary(&self) -> String {
        let mut text = format!("{:<21}{:>12}   {:<26}{:>9}\n", "", "estimate", "95 % interval", "samples");
        for Inference { question, answer, remark } in &self.findings {
            let show = |value: f64| question.shown(value);
            let line = match answer {
                Answer::Is(e) => {
                    let interval = format!("{} to {}", show(e.low.max(0.0)), show(e.high));
                    format!("{:>12}   {interval:<26}{:>9}", show(e.value), count(e.n))
                }
                Answer::AtMost { bound, n } => {
                    format!("{:>12}   {:<26}{:>9}", "", format!("at most {}", show(*bound)), count(*n))
                }
                Answer::Named { name, confidence_pct, n } => {
                    format!("{:>12}   {:<26}{:>9}", name, format!("{confidence_pct} % sure"), count(*n))
                }
                Answer::CannotTell { .. } => format!("{:>12}", "cannot tell"),
            };
            text += &format!("{:<21}{}\n", question.id(), line.trim_end());
            let more = match answer {
                Answer::CannotTell { why, would } => format!("{why}; {would} would tell"),
                _ => remark.clone(),
            };
            if !more.is_empty() {
                schedlab_report::wrapped(&mut text, &more);
            }
        }
        for row in &self.timers {
            text += &format!("timer {}\n", events::timer_line(row));
        }
        if !self.conditions.is_empty() {
            schedlab_report::wrapped(&mut text, &format!("holds for: {}", self.holds_for()));
        }
        text
    }
}
