//! What does the paper on Harmony print, and what do the models of its schedulers do here?
//!
//! The paper measured 2.6.18 (O(1)), 2.6.32 (CFS) and 2.6.32-bfs.313 (BFS) on a quad-core Xeon with 1,000 ticks a
//! second. The native schedulers `o1-2.6.18`, `cfs-2.6.32` and `bfs` are models of those. Figures 3 to 6, 8 to 10
//! and table 1 are drawn from the experiments that answer the questions, the others from runs of their own
//! ([`trials`]). Figures 4, 11, 12 and 15 show single runs: those of the first seed.

mod queues;
mod trials;
mod unequal;

use crate::answer::plain;
use crate::data::{Data, Effort};
use crate::experiments::{SHAPES, What, special};
use crate::model::Model;
use crate::plan::Act;
use schedlab_instruments::MoveKind;
use schedlab_lab::{Subject, SubjectError};
use schedlab_report::chart::{Chart, Drawing, Series, Style, Svg};
use schedlab_report::pages::Pages;
use schedlab_report::table::{Column, Table};
use schedlab_runner::pool::PoolError;
use schedlab_topology::Topology;
use serde_json::Value;

/// The models, and what the paper calls what they model.
pub const SUBJECTS: [(&str, &str); 3] = [("o1-2.6.18", "O(1)"), ("cfs-2.6.32", "CFS"), ("bfs", "BFS")];

/// A model with its runs and its answers.
type Asked = (Data, Model);

/// Drawings and tables in the order in which they are shown, and what is published beside what is found.
#[derive(Default)]
struct Figures {
    drawings: Vec<Drawing>,
    tables: Vec<Table>,
    rows: Vec<Row>,
}

impl Figures {
    fn add(&mut self, drawing: Drawing, table: Table) {
        self.drawings.push(drawing);
        self.tables.push(table);
    }
}

/// A published number beside ours.
struct Row {
    place: &'static str,
    /// Of what.
    what: &'static str,
    sched: String,
    /// In the paper's words.
    published: String,
    /// Ours agrees if it lies from here to there.
    agrees: (f64, f64),
    /// `None`: no run says it.
    here: Option<f64>,
}

/// A part of a whole, in %.
fn percent_of(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

/// Three digits behind the point, for tables.
fn rounded(value: f64) -> Value {
    ((value * 1000.0).round() / 1000.0).into()
}

/// Why ours is not what is published: place, question or quantity, scheduler, cause. What is not listed is not
/// explained.
const CAUSES: [(&str, &str, &str, &str); 1] = [(
    "figure 3",
    "affinity",
    "bfs",
    "nobody else runs here: with a task of 300 us each 97 ms beside the eight the model moves 2 to 16 times a second \
     (crates/policies/src/bfs)",
)];

/// What is published of a scheduler: place, question, the scheduler, in the paper's words, the answers that agree.
type Published = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

const PUBLISHED: [Published; 22] = [
    ("table 1", "balances", "o1-2.6.18", "yes", &["yes"]),
    ("table 1", "balances", "cfs-2.6.32", "yes", &["yes"]),
    ("table 1", "balances", "bfs", "yes", &["yes"]),
    ("figure 3", "affinity", "o1-2.6.18", "6 migrations, then none", &["strong"]),
    ("figure 3", "affinity", "cfs-2.6.32", "30 migrations, then none", &["strong"]),
    ("figure 3", "affinity", "bfs", "13 migrations a second, for ever", &["none"]),
    ("section 4.3", "conserving", "o1-2.6.18", "an idle CPU steals after 1 ms", &["yes"]),
    ("section 4.3", "conserving", "cfs-2.6.32", "an idle CPU steals within 1 ms", &["yes"]),
    ("section 4.3", "conserving", "bfs", "yes", &["yes"]),
    ("table 1", "periodic", "o1-2.6.18", "periodic checks", &["yes"]),
    ("table 1", "periodic", "cfs-2.6.32", "periodic checks", &["yes"]),
    ("figure 6", "amount", "o1-2.6.18", "poly: what is above the mean", &["poly"]),
    ("figure 6", "amount", "cfs-2.6.32", "a wide range, more than poly", &["random", "pairwise"]),
    ("figure 9", "intrinsic", "o1-2.6.18", "three have 100 %, two 50 %", &["affine"]),
    ("figure 9", "intrinsic", "cfs-2.6.32", "65 to 100 %", &["between"]),
    ("figure 9", "intrinsic", "bfs", "80 % each, within 1 %", &["fair"]),
    ("figure 12", "repeat_movers", "cfs-2.6.32", "those moved recently move again", &["yes"]),
    ("table 1", "weighted", "o1-2.6.18", "high priorities are spread evenly", &["yes"]),
    ("section 4.6", "weighted", "cfs-2.6.32", "high priorities are spread evenly", &["yes"]),
    ("table 1", "choice", "o1-2.6.18", "heavy and light are matched well", &["informed"]),
    ("table 1", "choice", "cfs-2.6.32", "blind", &["blind"]),
    ("figure 8", "randomised_interval", "o1-2.6.18", "second and third interval predictable", &["no"]),
];

/// Published numbers, each beside ours: place, question, scheduler, number, within a factor.
const NUMBERS: [(&str, &str, &str, f64, f64); 2] = [
    ("figure 8, interval 2", "after_success_ms", "o1-2.6.18", 64.0, 1.1),
    ("figure 4, one run", "settle_ms", "o1-2.6.18", 250.0, 2.0),
];

/// Why it could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// A model is not registered.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// Runs cannot be started.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// Asks the three models everything on four CPUs, and puts it beside what is published. `done` hears which model is
/// asked.
///
/// # Errors
/// Runs cannot be started.
pub fn pages(effort: Effort, mut done: impl FnMut(&str)) -> Result<Pages, ReproduceError> {
    let topology = Topology::flat(4).expect("four CPUs");
    let (mut asked, mut subjects) = (Vec::new(), Vec::new());
    for (name, _) in SUBJECTS {
        done(name);
        let subject = Subject::native(name)?;
        subjects.push((name.to_string(), subject.clone()));
        let data = Data::collect(&subject, &topology, effort, |_, _| {})?;
        let model = Model::of(&data, name, &format!("schedlab harmony --sched {name} --cpus 4"));
        asked.push((data, model));
    }
    let mut figures = Figures::default();
    let add = |figures: &mut Figures, (drawing, table)| figures.add(drawing, table);
    add(&mut figures, migrations(&asked));
    queues::timeline(&asked, &mut figures);
    queues::eight(&asked, &mut figures);
    add(&mut figures, first_batches(&asked));
    done("the time to resolve");
    let effort = (effort.seed, effort.jobs);
    queues::resolving(&subjects, effort, &mut figures)?;
    figures.tables.push(intervals(&asked));
    add(&mut figures, allocations(&asked));
    queues::five_over_time(&subjects, effort, &mut figures)?;
    done("mixes of heavy and light tasks");
    unequal::one_mix(&subjects, effort, &mut figures)?;
    unequal::mixes(&subjects, effort, &mut figures)?;
    unequal::bonus(&subjects, effort, &mut figures)?;
    done("mixes of priorities");
    unequal::levels(&subjects, effort, &mut figures)?;
    let table = beside(&asked, &figures.rows);
    let count =
        |verdict: &str| (0..table.rows.len()).filter(|row| table.text(*row, "verdict") == verdict).count();
    let unexplained = (0..table.rows.len()).filter(|row| table.text(*row, "cause") == UNEXPLAINED).count();
    let remark = format!(
        "{} published statements and numbers: {} agree, {} differ ({unexplained} of them not explained), {} are \
        undecided here. The models are of 2.6.18, 2.6.32 and BFS; the paper measured real kernels, with patches of \
        Red Hat and Fedora.",
        table.rows.len(),
        count("agrees"),
        count("differs"),
        count("undecided")
    );
    figures.tables.insert(0, table);
    let Figures { drawings, tables, .. } = figures;
    Ok(Pages { title: "Harmony: published and here".into(), remarks: vec![remark], drawings, tables })
}

/// The drawing of a figure.
fn curve(title: &str, y_label: &str, x_label: &str, series: Vec<Series>) -> Svg {
    let (title, y_label, x_label) = (title.into(), y_label.into(), x_label.into());
    Chart { title, x_label, y_label, series, ..Chart::default() }.svg()
}

/// The cause of a difference that is not known.
const UNEXPLAINED: &str = "not explained";

fn beside(asked: &[Asked], more: &[Row]) -> Table {
    let columns = vec![
        Column::new("place", "", "in the paper"),
        Column::new("question", "", "identifier, as in docs/harmony.md, or a quantity of a figure"),
        Column::new("sched", "", "the model"),
        Column::new("published", "", "in the paper's words"),
        Column::new("here", "", "the answer"),
        Column::new("verdict", "", "agrees, differs, undecided"),
        Column::new("cause", "", "of a difference"),
    ];
    let mut table = Table::new("table1", "Published and here", columns);
    let answer = |sched: &str, id: &str| {
        let model = asked.iter().map(|(_, model)| model).find(|model| model.subject == sched);
        model.and_then(|model| model.answer(id))
    };
    for (place, id, sched, published, agree) in PUBLISHED {
        let Some(answer) = answer(sched, id) else { continue };
        let verdict = match answer.answer.as_str() {
            word if agree.contains(&word) => "agrees",
            "undecided" => "undecided",
            _ => "differs",
        };
        push(&mut table, [place, id, sched, published, &answer.answer, verdict]);
    }
    for (place, id, sched, published, factor) in NUMBERS {
        let Some(answer) = answer(sched, id) else { continue };
        let (here, verdict) = match &answer.value {
            None => (answer.answer.clone(), "undecided"),
            Some(range) => {
                let ratio = (range.mean / published).max(published / range.mean);
                let reason = format!("{} ({} to {})", plain(range.mean), plain(range.low), plain(range.high));
                (reason, if ratio <= factor { "agrees" } else { "differs" })
            }
        };
        push(&mut table, [place, id, sched, &plain(published), &here, verdict]);
    }
    for Row { place, what, sched, published, agrees: (low, high), here } in more {
        let published = format!("{published} (agrees from {} to {})", plain(*low), plain(*high));
        let (here, verdict) = match here {
            None => ("no run".to_string(), "undecided"),
            Some(value) => (plain(*value), if (low..=high).contains(&value) { "agrees" } else { "differs" }),
        };
        push(&mut table, [place, what, sched, &published, &here, verdict]);
    }
    table
}

/// A row of place, question, scheduler, published, here, verdict; and of a difference its cause.
fn push(table: &mut Table, cells: [&str; 6]) {
    let [place, what, sched, .., verdict] = cells;
    let known = CAUSES.iter().find(|cause| (cause.0, cause.1, cause.2) == (place, what, sched));
    let mut row: Vec<Value> = cells.iter().map(|cell| Value::from(*cell)).collect();
    row.push(match verdict {
        "differs" => known.map_or(UNEXPLAINED, |cause| cause.3).into(),
        _ => Value::Null,
    });
    table.push(row);
}

/// The release of a run, in ns.
fn released_ns(one: &crate::data::One) -> u64 {
    one.scenario.marks.first().map_or(0, |mark| mark.at.as_ns())
}

/// Figures 3 and 10: moves per second after the release, in the mean of all runs.
fn migrations(asked: &[Asked]) -> (Drawing, Table) {
    let columns = vec![
        Column::new("figure", "", "3: [8,0,0,0], 10: [5,0,0,0]"),
        Column::new("sched", "", "the model"),
        Column::new("second", "s", "after the release"),
        Column::new("moves", "", "in that second, mean of all runs"),
    ];
    let mut table = Table::new("figures-3-10", "Moves per second", columns);
    let mut series = Vec::new();
    for (figure, what, seconds) in [("3", What::Spread, 8), ("10", What::Intrinsic, 14)] {
        for (data, model) in asked {
            let runs = data.of(what);
            let mut points = Vec::new();
            for second in 0..seconds {
                let moves = |one: &crate::data::One| {
                    let from_ns = released_ns(one) + second * 1_000_000_000;
                    let within = |time_ns: u64| (from_ns..from_ns + 1_000_000_000).contains(&time_ns);
                    let mark = one.scenario.marks.first();
                    let moves =
                        mark.map_or(Vec::new(), |mark| one.facts.round(mark, one.facts.duration_ns).moves);
                    moves.into_iter().filter(|moved| within(moved.time_ns)).count()
                };
                let mean = runs.iter().map(moves).sum::<usize>() as f64 / runs.len().max(1) as f64;
                points.push((second as f64, mean));
                table.push(vec![figure.into(), model.subject.clone().into(), second.into(), mean.into()]);
            }
            series.push(Series::new(format!("{} (figure {figure})", model.subject), points, Style::Steps));
        }
    }
    let svg = curve("moves per second after the release", "moves in a second, all tasks", "time, s", series);
    let caption = "Published, [8,0,0,0]: O(1) 6 and CFS 30 at first, then none; BFS 13 a second. [5,0,0,0]: O(1) \
        few, CFS 23, BFS 163 a second.";
    (Drawing { name: "figures-3-10".into(), caption: caption.into(), svg }, table)
}

/// Figure 9: CPU time of five tasks on four CPUs, sorted, of each run.
fn allocations(asked: &[Asked]) -> (Drawing, Table) {
    let columns = vec![
        Column::new("sched", "", "the model"),
        Column::new("seed", "", "of the run"),
        Column::new("rank", "", "of the task, the least CPU time first"),
        Column::new("percent", "%", "of a CPU, over 12 s"),
    ];
    let mut table = Table::new("figure-9", "CPU time with [5,0,0,0]", columns);
    let mut series = Vec::new();
    for (data, model) in asked {
        let mut points = Vec::new();
        for one in data.of(What::Intrinsic) {
            let window_ns = (one.facts.duration_ns - one.scenario.window.as_ns()) as f64;
            let mut parts: Vec<f64> =
                one.facts.cpu_ns.iter().map(|ns| 100.0 * *ns as f64 / window_ns).collect();
            parts.sort_by(f64::total_cmp);
            for (rank, percent) in parts.into_iter().enumerate() {
                points.push((rank as f64 + 1.0, percent));
                let rounded = (percent * 100.0).round() / 100.0;
                table.push(vec![
                    model.subject.clone().into(),
                    one.seed.into(),
                    (rank + 1).into(),
                    rounded.into(),
                ]);
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        series.push(Series::new(model.subject.clone(), points, Style::Points));
    }
    let svg =
        curve("CPU time of five tasks on four CPUs", "% of a CPU", "task, the least CPU time first", series);
    let caption = "Published: O(1) three at 100 and two at 50, CFS 65 to 100, BFS 80 within 1.";
    (Drawing { name: "figure-9".into(), caption: caption.into(), svg }, table)
}

/// Rounds of `detect`: shape, and per round the times (ms) and sizes of what came to the short queue at one instant
/// from one queue.
type Round = ((u32, u32), Vec<(f64, usize)>);

fn batches(data: &Data) -> Vec<Round> {
    let mut rounds = Vec::new();
    for (base, excess) in SHAPES {
        for one in data.of(What::Detect { base, excess }) {
            let marks: Vec<_> = one.scenario.marks.iter().filter(|mark| mark.act == Act::Arrange).collect();
            for (number, mark) in marks.iter().enumerate() {
                let target = special(&data.topology, one.seed + number as u64);
                let until_ns = marks.get(number + 1).map_or(one.facts.duration_ns, |next| next.at.as_ns());
                let mut found: Vec<(u64, schedlab_units::CpuId, usize)> = Vec::new();
                for moved in one.facts.round(mark, until_ns).moves {
                    if moved.to.index() == target && moved.kind == MoveKind::Balance {
                        match found.last_mut() {
                            Some(last) if (last.0, last.1) == (moved.time_ns, moved.from) => last.2 += 1,
                            _ => found.push((moved.time_ns, moved.from, 1)),
                        }
                    }
                }
                let ms = |ns: u64| (ns - mark.at.as_ns()) as f64 / 1e6;
                rounds
                    .push(((base, excess), found.into_iter().map(|(ns, _, size)| (ms(ns), size)).collect()));
            }
        }
    }
    rounds
}

/// Figure 6: the first batch against the difference.
fn first_batches(asked: &[Asked]) -> (Drawing, Table) {
    let columns = vec![
        Column::new("sched", "", "the model"),
        Column::new("excess", "tasks", "more on each other queue"),
        Column::new("moved", "tasks", "in the first batch from one queue"),
    ];
    let mut table = Table::new("figure-6", "First batches", columns);
    let mut series = Vec::new();
    for (data, model) in asked.iter().filter(|(_, model)| model.subject != "bfs") {
        let mut points = Vec::new();
        for ((_, excess), found) in batches(data) {
            if let Some((_, size)) = found.first() {
                points.push((f64::from(excess), *size as f64));
                table.push(vec![model.subject.clone().into(), excess.into(), (*size).into()]);
            }
        }
        series.push(Series::new(model.subject.clone(), points, Style::Points));
    }
    series.push(Series::new("poly", vec![(0.0, 0.0), (64.0, 16.0)], Style::Dashed));
    series.push(Series::new("pairwise", vec![(0.0, 0.0), (64.0, 32.0)], Style::Dashed));
    let svg =
        curve("tasks in the first batch", "tasks moved at once", "tasks more on each other queue", series);
    let caption =
        "Published: O(1) what is above the mean (poly) in most cases, CFS a wide range, mostly more.";
    (Drawing { name: "figure-6".into(), caption: caption.into(), svg }, table)
}

/// Figure 8: from the change to the first move, and from move to move.
fn intervals(asked: &[Asked]) -> Table {
    let columns = vec![
        Column::new("sched", "", "the model"),
        Column::new("interval", "", "1: from the change to the first move, 2 and 3: to the next ones"),
        Column::new("published_median_ms", "ms", "in the paper"),
        Column::new("published_max_ms", "ms", "in the paper"),
        Column::new("median_ms", "ms", "here"),
        Column::new("max_ms", "ms", "here"),
        Column::new("rounds", "", "here"),
    ];
    let mut table = Table::new("figure-8", "Imbalance detection", columns);
    let published = [
        ("o1-2.6.18", [(248.0, Some(11458.0)), (64.0, None), (64.0, None)]),
        ("cfs-2.6.32", [(210.5, Some(9419.0)), (256.0, None), (64.0, None)]),
    ];
    for (data, model) in asked {
        let Some((_, values)) = published.iter().find(|(name, _)| *name == model.subject) else { continue };
        let rounds = batches(data);
        for (number, (median, most)) in values.iter().enumerate() {
            let mut times: Vec<f64> = Vec::new();
            for (_, found) in &rounds {
                let mut instants: Vec<f64> = found.iter().map(|(ms, _)| *ms).collect();
                instants.dedup();
                let before = if number == 0 { Some(0.0) } else { instants.get(number - 1).copied() };
                if let (Some(before), Some(at)) = (before, instants.get(number)) {
                    times.push(at - before);
                }
            }
            times.sort_by(f64::total_cmp);
            let number_of =
                |value: Option<&f64>| value.map_or(Value::Null, |ms| ((ms * 1000.0).round() / 1000.0).into());
            table.push(vec![
                model.subject.clone().into(),
                (number + 1).into(),
                (*median).into(),
                most.map_or(Value::Null, Value::from),
                number_of(times.get(times.len() / 2)),
                number_of(times.last()),
                times.len().into(),
            ]);
        }
    }
    table
}
