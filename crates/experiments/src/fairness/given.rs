//! One set of shares, given by hand: who ran when, and how far from its due was each client, under any scheduler?
//!
//! An [arm](GivenArm) is a scheduler and the [way](Execution) in which it is run:
//!
//! * the proportional share schedulers quantum by quantum, without a machine ([`Execution::Quanta`]);
//! * everything else, real Linux included, in the full machine on one CPU, with its own ticks and slices
//!   ([`Execution::Machine`]). It gets the shares as nice values or as weights of control groups; what can be
//!   expressed is due, and how far that is from the shares asked for stands beside it.
//!
//! All arms serve the same number of whole cycles of the shares; all clients are runnable throughout; one
//! time unit (tu) is one quantum, 10 ms by default.

use super::express::Expressed;
use super::measure::{ExactRange, Served, curve, measure, settled};
use super::{Contender, find};
use crate::arm::{ArmError, Client, Stretch, who_ran};
use schedlab_lab::Subject;
use schedlab_policies::proportional::quantum;
use schedlab_report::chart::{Bar, Chart, Drawing, Gantt, Series, Style, Svg, Unit, grid};
use schedlab_report::pages::Pages;
use schedlab_report::table::{Column, Table};
use schedlab_units::{Nice, Span};

/// In which form a scheduler in the machine is given its shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareForm {
    /// Shares as such (native proportional share schedulers).
    Shares,
    /// Nice values.
    Nice,
    /// Weights of control groups (real Linux).
    GroupWeight,
}

/// How an arm is run.
#[derive(Clone, Debug)]
pub enum Execution {
    /// Quantum by quantum, exactly.
    Quanta(&'static Contender),
    /// On one CPU of the machine.
    Machine(Box<Subject>, ShareForm),
}

impl Execution {
    /// The executions of a scheduler: quantum by quantum if it is a proportional share scheduler with its default
    /// parameters; real Linux by nice, by control group, or both.
    pub fn of(subject: &Subject, linux: &[ShareForm]) -> Vec<Execution> {
        let Some(info) = subject.info() else {
            return linux.iter().map(|&form| Execution::Machine(Box::new(subject.clone()), form)).collect();
        };
        match find(info.name) {
            Some(contender) if subject.params.is_empty() => vec![Execution::Quanta(contender)],
            _ if info.params.iter().any(|param| param.name == "shares") => {
                vec![Execution::Machine(Box::new(subject.clone()), ShareForm::Shares)]
            }
            _ => vec![Execution::Machine(Box::new(subject.clone()), ShareForm::Nice)],
        }
    }

    /// Name in tables: real Linux says what it got.
    pub fn label(&self) -> String {
        match self {
            Execution::Quanta(contender) => contender.name.to_string(),
            Execution::Machine(subject, ShareForm::Nice) if subject.linux().is_some() => {
                format!("{} nice", subject.label)
            }
            Execution::Machine(subject, ShareForm::GroupWeight) => format!("{} cpu.weight", subject.label),
            Execution::Machine(subject, _) => subject.label.clone(),
        }
    }

    /// These shares as this execution can express them.
    pub fn express(&self, shares: &[u64], nices: Option<&[Nice]>) -> Expressed {
        match (self, nices) {
            (Execution::Machine(_, ShareForm::Nice), Some(nices)) => Expressed::of_nices(nices),
            (Execution::Machine(_, ShareForm::Nice), None) => Expressed::by_nice(shares),
            (Execution::Machine(_, ShareForm::GroupWeight), _) => Expressed::by_group_weight(shares),
            _ => Expressed::as_shares(shares),
        }
    }

    /// Serves always runnable clients for `quanta` time units.
    pub(super) fn serve(
        &self,
        expressed: &Expressed,
        names: &[String],
        unit: Span,
        quanta: u64,
        seed: u64,
    ) -> Result<Vec<Stretch>, ArmError> {
        match self {
            Execution::Quanta(contender) => {
                let mut stretches = Vec::new();
                let mut discipline = (contender.make)(expressed.weights.len(), seed);
                quantum::serve(&mut *discipline, &expressed.weights, quanta, |client, from, length| {
                    let (from_ns, to_ns) = (from * unit.as_ns(), (from + length) * unit.as_ns());
                    stretches.push(Stretch { client: client.index(), from_ns, to_ns });
                });
                Ok(stretches)
            }
            Execution::Machine(subject, _) => {
                let settings = names.iter().zip(&expressed.settings);
                let clients: Vec<Client> =
                    settings.map(|(name, &setting)| Client::new(name, setting)).collect();
                who_ran(&with_quantum(subject, unit), &clients, Span::from_ns(unit.as_ns() * quanta))
            }
        }
    }
}

/// A native scheduler that has a quantum serves in the study's time units, unless it was given another.
pub(super) fn with_quantum(subject: &Subject, unit: Span) -> Subject {
    let has = subject.info().is_some_and(|info| info.params.iter().any(|param| param.name == "quantum"));
    if has && !subject.params.iter().any(|(name, _)| name == "quantum") {
        return subject.clone().with("quantum", &format!("{}ns", unit.as_ns()));
    }
    subject.clone()
}

/// What to serve.
#[derive(Clone, Debug)]
pub struct GivenConfig {
    /// Shares by client, none zero.
    pub shares: Vec<u64>,
    /// The nice values that these shares are the weights of, if they were given so.
    pub nices: Option<Vec<Nice>>,
    /// The arms.
    pub executions: Vec<Execution>,
    /// A time unit.
    pub unit: Span,
    /// How many time units; see [`GivenConfig::default_quanta`].
    pub quanta: u64,
    /// For schedulers that draw.
    pub seed: u64,
}

impl GivenConfig {
    /// Whole cycles of the shares, at least 1,000 quanta.
    pub fn default_quanta(shares: &[u64]) -> u64 {
        let total: u64 = shares.iter().sum();
        total * 1000u64.div_ceil(total)
    }
}

/// One arm's result.
#[derive(Clone, Debug)]
pub struct GivenArm {
    /// Its name.
    pub label: String,
    /// What it got.
    pub expressed: Expressed,
    /// Who ran when.
    pub stretches: Vec<Stretch>,
    /// The errors, against what it got.
    pub served: Served,
    /// The errors from the start, at times from a tenth of the run on.
    pub settled: ExactRange,
    /// Whether all stretches are whole quanta.
    whole_quanta: bool,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Given {
    /// What was asked.
    pub config: GivenConfig,
    /// By arm, in the order of the configuration.
    pub arms: Vec<GivenArm>,
}

/// Serves the shares under each arm.
pub fn given(config: &GivenConfig) -> Result<Given, ArmError> {
    let names = names(config.shares.len());
    let arm = |execution: &Execution| {
        let expressed = execution.express(&config.shares, config.nices.as_deref());
        let stretches = execution.serve(&expressed, &names, config.unit, config.quanta, config.seed)?;
        let length = Span::from_ns(config.unit.as_ns() * config.quanta);
        let served = measure(&stretches, &expressed.weights, length, config.unit);
        let start = Span::from_ns(config.unit.as_ns() * (config.quanta / 10));
        let settled = settled(&stretches, &expressed.weights, length, start);
        let whole = |ns: u64| ns.is_multiple_of(config.unit.as_ns());
        let whole_quanta = stretches.iter().all(|stretch| whole(stretch.from_ns) && whole(stretch.to_ns));
        Ok(GivenArm { label: execution.label(), expressed, stretches, served, settled, whole_quanta })
    };
    let arms = config.executions.iter().map(arm).collect::<Result<Vec<GivenArm>, ArmError>>()?;
    Ok(Given { config: config.clone(), arms })
}

/// A, B, ... Z, then C27, C28, ...
pub(crate) fn names(nr_clients: usize) -> Vec<String> {
    let name = |index: usize| match index {
        0..26 => char::from(b'A' + index as u8).to_string(),
        _ => format!("C{}", index + 1),
    };
    (0..nr_clients).map(name).collect()
}

/// Letters of the quanta shown, at most.
const ORDER_MAX: u64 = 30;

impl Given {
    /// The order of the first cycle as letters, one per quantum; `None` if the arm does not serve in quanta.
    pub fn order(&self, arm: &GivenArm) -> Option<String> {
        if !arm.whole_quanta || self.config.shares.len() > 26 {
            return None;
        }
        let unit_ns = self.config.unit.as_ns();
        let cycle: u64 = self.config.shares.iter().sum();
        let quanta = arm.stretches.iter().flat_map(|stretch| {
            let letter = char::from(b'A' + stretch.client as u8);
            std::iter::repeat_n(letter, ((stretch.to_ns - stretch.from_ns) / unit_ns) as usize)
        });
        let mut order: String = quanta.take(cycle.min(ORDER_MAX) as usize).collect();
        if cycle > ORDER_MAX {
            order.push_str("...");
        }
        Some(order)
    }

    /// A row per arm.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::new("sched", "", "scheduler"),
            Column::new("error_low_tu", "tu", "most behind, from the start, over all clients and times"),
            Column::new("error_high_tu", "tu", "most ahead, from the start, over all clients and times"),
            Column::new("error_exact", "tu", "the same, as fractions where they are short"),
            Column::new(
                "settled_low_tu",
                "tu",
                "most behind, from the start, at times from a tenth of the run on",
            ),
            Column::new(
                "settled_high_tu",
                "tu",
                "most ahead, from the start, at times from a tenth of the run on",
            ),
            Column::new("interval_low_tu", "tu", "most behind over any interval"),
            Column::new("interval_high_tu", "tu", "most ahead over any interval"),
            Column::new("longest_wait_tu", "tu", "longest time that any client had no service"),
            Column::new(
                "off_percent",
                "%",
                "how far the parts that it got are from those asked for, at worst",
            ),
            Column::new("order", "", "first cycle, a letter per quantum; - = it does not serve in quanta"),
        ];
        let title = format!("Service time error, shares {}", self.shares_text());
        let mut table = Table::new("fairness-given", title, columns);
        let unit_ns = self.config.unit.as_ns() as f64;
        for arm in &self.arms {
            let served = &arm.served;
            let wait_ns = served.clients.iter().map(|client| client.longest_wait_ns).max().unwrap_or(0);
            let range = served.from_start;
            table.push(vec![
                arm.label.clone().into(),
                served.tu(range.low).into(),
                served.tu(range.high).into(),
                format!("{} .. {}", served.fraction(range.low), served.fraction(range.high)).into(),
                served.tu(arm.settled.low).into(),
                served.tu(arm.settled.high).into(),
                served.tu(served.intervals.low).into(),
                served.tu(served.intervals.high).into(),
                (wait_ns as f64 / unit_ns).into(),
                (arm.expressed.worst * 100.0).into(),
                self.order(arm).into(),
            ]);
        }
        table
    }

    /// A row per arm and client.
    pub fn clients_table(&self) -> Table {
        let columns = vec![
            Column::new("sched", "", "scheduler"),
            Column::new("client", "", "client"),
            Column::new("share", "", "share asked for"),
            Column::new("told", "", "what the scheduler got"),
            Column::new("part_asked", "", "share / sum of shares"),
            Column::new("part_due", "", "the same of what it got"),
            Column::new("part_received", "", "part of the CPU received"),
            Column::new("error_low_tu", "tu", "most behind, from the start"),
            Column::new("error_high_tu", "tu", "most ahead, from the start"),
            Column::new("longest_wait_tu", "tu", "longest time without service"),
        ];
        let mut table = Table::new("fairness-given-clients", "By client", columns);
        let total: u64 = self.config.shares.iter().sum();
        let unit_ns = self.config.unit.as_ns() as f64;
        let round = |part: f64| (part * 1e6).round() / 1e6;
        for arm in &self.arms {
            let weights: u64 = arm.expressed.weights.iter().sum();
            for (index, (client, name)) in
                arm.served.clients.iter().zip(names(self.config.shares.len())).enumerate()
            {
                table.push(vec![
                    arm.label.clone().into(),
                    name.into(),
                    self.config.shares[index].into(),
                    arm.expressed.words(index).into(),
                    round(self.config.shares[index] as f64 / total as f64).into(),
                    round(arm.expressed.weights[index] as f64 / weights as f64).into(),
                    round(client.received_ns as f64 / (unit_ns * self.config.quanta as f64)).into(),
                    arm.served.tu(client.from_start.low).into(),
                    arm.served.tu(client.from_start.high).into(),
                    (client.longest_wait_ns as f64 / unit_ns).into(),
                ]);
            }
        }
        table
    }

    fn shares_text(&self) -> String {
        let list = |values: Vec<String>| match values.len() {
            0..=12 => values.join(", "),
            n => format!("{}, ... ({n} clients)", values[..8].join(", ")),
        };
        let shares = list(self.config.shares.iter().map(u64::to_string).collect());
        match &self.config.nices {
            None => shares,
            Some(nices) => format!("{shares} (nice {})", list(nices.iter().map(Nice::to_string).collect())),
        }
    }

    /// Errors against time, and who ran when, a panel per arm.
    fn drawings(&self) -> Vec<Drawing> {
        let unit_ns = self.config.unit.as_ns();
        let nr_clients = self.config.shares.len();
        let cycle: u64 = self.config.shares.iter().sum();
        let shown = self.config.quanta.min(cycle.clamp(12, 60).max(2 * cycle.min(30)));
        let until = Span::from_ns(shown * unit_ns);
        let names = names(nr_clients);
        let panel = |arm: &GivenArm| {
            let series = (0..nr_clients).map(|client| {
                let points = curve(&arm.stretches, &arm.expressed.weights, client, until, self.config.unit);
                Series::new(names[client].clone(), points, Style::Thin)
            });
            error_panel(&arm.label, series.collect())
        };
        let panels: Vec<Svg> = self.arms.iter().map(panel).collect();
        let title = format!("Service time error against time, shares {}", self.shares_text());
        let legend = if nr_clients <= 26 { &names[..] } else { &[] };
        let errors = Drawing {
            name: "error-by-time".into(),
            caption: "A line per client: it rises while the client is served and falls while it waits. Each panel has \
                its own scale."
                .into(),
            svg: grid(&title, legend, &panels, 2),
        };
        let row = |arm: &GivenArm| {
            let rows: Vec<String> =
                (0..nr_clients).map(|i| format!("{}, {}", names[i], arm.expressed.words(i))).collect();
            let gantt = Gantt {
                title: &arm.label,
                x_label: "time, tu",
                x_unit: Unit::Number,
                until: shown as f64,
                clients: &rows,
                width: PANEL.0,
            };
            gantt.svg(&bars(&arm.stretches, unit_ns, until))
        };
        let panels: Vec<Svg> = self.arms.iter().map(row).collect();
        let sequences = Drawing {
            name: "sequences".into(),
            caption: String::new(),
            svg: grid("Who ran when", &[], &panels, 2),
        };
        vec![errors, sequences]
    }

    /// Tables and drawings together.
    pub fn pages(&self) -> Pages {
        let unit = self.config.unit;
        let mut remarks = vec![
            super::ERROR_IS.to_string(),
            format!(
                "1 tu = {unit}; {} tu are served. off_percent: nice values and cpu.weight express some shares only; \
                 errors are against what the scheduler got.",
                self.config.quanta
            ),
        ];
        if self
            .config
            .executions
            .iter()
            .any(|execution| matches!(execution, Execution::Machine(subject, _) if subject.linux().is_some()))
        {
            remarks.push(super::LINUX_TICKS.to_string());
        }
        Pages {
            title: format!("Fairness: shares {}", self.shares_text()),
            remarks,
            drawings: self.drawings(),
            tables: vec![self.table(), self.clients_table()],
        }
    }

    /// For a terminal.
    pub fn summary(&self) -> String {
        let (table, clients) = (self.table(), self.clients_table());
        let mut text = format!("{}\n{}\n{}", table.title, super::ERROR_IS, table.to_text());
        if self.config.shares.len() <= 12 {
            text += &format!("\n{}\n{}", clients.title, clients.to_text());
        }
        text
    }
}

/// A panel of a picture of errors against time: a series per client, without their names.
pub(super) fn error_panel(title: &str, series: Vec<Series>) -> Svg {
    let chart = Chart {
        title: title.into(),
        x_label: "time, tu".into(),
        y_label: "error, tu".into(),
        series,
        size: PANEL,
        no_names: true,
        ..Chart::default()
    };
    chart.svg()
}

/// Stretches until a time, in time units.
fn bars(stretches: &[Stretch], unit_ns: u64, until: Span) -> Vec<Bar> {
    let tu = |ns: u64| ns as f64 / unit_ns as f64;
    let shown = stretches.iter().filter(|stretch| stretch.from_ns < until.as_ns());
    shown.map(|s| Bar { client: s.client, from: tu(s.from_ns), to: tu(s.to_ns.min(until.as_ns())) }).collect()
}

/// Width and height of a panel, in px.
pub(super) const PANEL: (f64, f64) = (540.0, 260.0);
