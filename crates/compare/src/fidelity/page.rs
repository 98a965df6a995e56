//! Fidelity as a page: recorded and replayed distributions one over the other, then the tables.

use super::show::{
    about_calls, about_grain, about_unseen, blocks, change, ks_text, rows, shown, spread_text,
};
use super::{Fidelity, Pair, TASKS_LISTED, taken_away};
use schedlab_instruments::Distribution;
use schedlab_report::chart::{Chart, Scale, Series, Style, Unit};
use schedlab_report::page::Page;
use schedlab_report::table::{Cell, Column, Grid, Table};
use schedlab_report::units::{count, time};

/// Tasks with a picture of their own.
const TASKS_DRAWN: usize = 4;

/// The page of one or several recordings.
pub fn page(title: &str, all: &[Fidelity]) -> String {
    let mut page = Page::new(title);
    if all.len() > 1 {
        page.table(&table(all));
    }
    for fidelity in all {
        one(&mut page, fidelity);
    }
    page.html()
}

/// A row for each recording.
pub fn table(all: &[Fidelity]) -> Table {
    let columns = vec![
        Column::new(
            "recording",
            "",
            "what was recorded; * = the recording machine was contended, events were lost, or tasks not seen",
        ),
        Column::new("cpus", "", "recorded, and replayed if that differs"),
        Column::new("unknown", "", "tasks of which the recorder saw too little; they are in no sum"),
        Column::new("duration", "", "change from the recording to the replay"),
        Column::new("run_delay", "", "change of the sum of all waits"),
        Column::new("run_delay_ks", "", "Kolmogorov and Smirnov's distance of the waits, 0 to 1"),
        Column::new("wakeup_ks", "", "the same of the waits after a wakeup"),
        Column::new("voluntary", "", "change of the number of switches by blocking"),
        Column::new("preempted", "", "change of the number of forced switches"),
        Column::new("skipped", "", "blocks that did not sleep"),
        Column::new("gained", "", "blocks that the recording does not have"),
        Column::new("in_order", "%", "pairs of wakeups in recorded order"),
        Column::new("cause", "", "found by taking causes away"),
    ];
    let has_seeds = all.iter().any(|fidelity| !fidelity.samples.is_empty());
    let columns = match has_seeds {
        true => [columns, seed_columns()].concat(),
        false => columns,
    };
    let mut table = Table::new("fidelity", "All recordings", columns);
    for fidelity in all {
        let [a, b] = &fidelity.all.sides;
        let mark = if fidelity.warnings.is_empty() { "" } else { "*" };
        let [was, is] = fidelity.cpus;
        let in_order = fidelity.order.and_then(|order| order.share());
        let changed = |recorded, replayed| {
            let [_, _, change] = shown(&fidelity.all, ("", "count"), recorded, replayed);
            change
        };
        let mut row = vec![
            format!("{}{mark}", fidelity.name).into(),
            if was == is { was.to_string().into() } else { format!("{was} > {is}").into() },
            fidelity.unknown.into(),
            change(fidelity.duration_ns[0], fidelity.duration_ns[1]).into(),
            changed(a.run_delay.sum_ns(), b.run_delay.sum_ns()).into(),
            ks_text(fidelity.all.run_delay_ks(fidelity.grain_ns)).into(),
            ks_text(fidelity.all.wakeup_latency_ks(fidelity.grain_ns)).into(),
            changed(a.voluntary, b.voluntary).into(),
            changed(a.preempted, b.preempted).into(),
            fidelity.skipped_blocks.into(),
            fidelity.gained_blocks.into(),
            in_order.map_or("-".to_string(), |share| format!("{:.1}", 100.0 * share)).into(),
            taken_away(&fidelity.variants).map_or("-", |cause| cause.name()).into(),
        ];
        if has_seeds {
            let spreads = fidelity.spreads();
            row.extend(["run_delay", "switches_voluntary"].map(|wanted| {
                let found = spreads.iter().find(|((name, ..), _)| *name == wanted);
                spread_text(found.map(|(_, spread)| *spread)).into()
            }));
        }
        table.push(row);
    }
    table
}

fn seed_columns() -> Vec<Column> {
    vec![
        Column::new("run_delay_seeds", "", "the same from the least to the most that seeds give"),
        Column::new("voluntary_seeds", "", "the same of switches by blocking"),
    ]
}

fn one(page: &mut Page, fidelity: &Fidelity) {
    page.section(&fidelity.name, &fidelity.name);
    let [recorded, replayed] = fidelity.cpus;
    page.note(&format!(
        "{} on {recorded} CPUs, beside {} on {replayed}.",
        fidelity.recorded_sched, fidelity.sched
    ));
    let said =
        [("Messages", &fidelity.messages), ("Locks", &fidelity.locks), ("Strangers", &fidelity.strangers)];
    for (what, text) in said {
        if let Some(text) = text {
            page.note(&format!("{what} {text}."));
        }
    }
    fidelity.warnings.iter().for_each(|warning| page.warning(warning));
    page.beside(|page| drawings(page, &fidelity.all, fidelity.grain_ns));
    page.note(&format!("Share of waits that are at most so long. {}.", about_grain(fidelity)));
    about_calls(fidelity).iter().for_each(|about| page.note(&format!("{about}.")));
    if let Some(unseen) = about_unseen(fidelity) {
        page.note(&format!("{unseen}."));
    }
    page.grid(&pair_table(&fidelity.all, fidelity));
    if let Some(verdict) = fidelity.verdict() {
        page.note(&format!("The last column goes from the least to the most that seeds give: {verdict}."));
    }
    if let Some(order) = fidelity.order
        && let Some(share) = order.share()
    {
        let (share, pairs) = (100.0 * share, count(order.pairs));
        page.note(&format!(
            "{share:.1} % of {pairs} pairs of wakeups come in the order in which they were recorded."
        ));
    }
    if let Some([(was, nr), (is, nr_replayed)]) = fidelity.kept() {
        let [nr, nr_replayed] = [nr, nr_replayed].map(count);
        page.note(&format!(
            "Of {nr} recorded wakeups from a busy CPU beside an idle one {was:.1} % were kept on the waker's CPU, of \
             {nr_replayed} replayed ones {is:.1} %."
        ));
    }
    if !fidelity.variants.is_empty() {
        page.part("Causes taken away");
        page.grid(&causes(fidelity));
        page.note(&match taken_away(&fidelity.variants) {
            Some(cause) => {
                let explanation = cause.explanation(fidelity.has_recorded_messages());
                format!("The cause is {}: {explanation}.", cause.name())
            }
            None => "No cause was found this way.".to_string(),
        });
    }
    page.part("Tasks, what differs most first");
    page.grid(&tasks(fidelity));
    let drawn =
        fidelity.tasks.iter().filter(|pair| pair.is_known() && pair.weight_ns() > 0).take(TASKS_DRAWN);
    for pair in drawn {
        page.fold(&pair.label, false, |page| {
            page.beside(|page| drawings(page, pair, fidelity.grain_ns));
            page.grid(&pair_table(pair, fidelity));
        });
    }
}

/// Recorded and replayed waits, one over the other.
fn drawings(page: &mut Page, pair: &Pair, grain_ns: u64) {
    let [a, b] = &pair.sides;
    let charts =
        [("run delay", &a.run_delay, &b.run_delay), ("wakeup latency", &a.wakeup_latency, &b.wakeup_latency)];
    for (what, recorded, replayed) in charts {
        if recorded.count() == 0 && replayed.count() == 0 {
            continue;
        }
        let chart = Chart {
            title: format!("{}: {what}", pair.label),
            x_label: "wait".into(),
            y_label: "share of waits".into(),
            x_scale: Scale::Log,
            x_unit: Unit::TimeNs,
            y_unit: Unit::Part,
            y_holds: vec![0.0, 1.0],
            series: vec![
                Series::new("recorded", curve(recorded, grain_ns), Style::BroadSteps),
                Series::new("replayed", curve(replayed, grain_ns), Style::Steps),
            ],
            size: (560.0, 320.0),
            ..Chart::default()
        };
        page.svg(&chart.svg());
    }
}

/// Points of the distribution function: at most some 200.
fn curve(d: &Distribution, grain_ns: u64) -> Vec<(f64, f64)> {
    if d.count() == 0 {
        return Vec::new();
    }
    let mut points = vec![(grain_ns.max(1) as f64, 0.0)];
    let (mut seen, mut drawn) = (0u64, 0.0);
    d.for_each_bucket(|_, last, number| {
        seen += number;
        let share = seen as f64 / d.count() as f64;
        if share - drawn >= 0.005 || seen == d.count() {
            points.push((last.max(grain_ns).max(1) as f64, share));
            drawn = share;
        }
    });
    points
}

fn pair_table(pair: &Pair, fidelity: &Fidelity) -> Grid {
    let head = ["", "statistic", "recorded", "replayed", "change", "K-S"].map(Cell::text).to_vec();
    let mut grid = Grid { head, rows: Vec::new() };
    let of_all = pair.label == fidelity.all.label && pair.task.is_none();
    let spreads = if of_all { fidelity.spreads() } else { Vec::new() };
    let has_seeds = !spreads.is_empty();
    if has_seeds {
        grid.head.push(Cell::text(format!("of {} seeds", fidelity.samples.len() + 1)));
    }
    let seeds = |spread| has_seeds.then(|| Cell::number(spread_text(spread)));
    if pair.task.is_none() {
        let [a, b] = fidelity.duration_ns;
        grid.rows.push(line("duration", "", time(a), time(b), change(a, b), String::new()));
        grid.rows[0].extend(seeds(fidelity.duration_spread()));
    }
    for (number, (name, statistic, a, b, unit)) in rows(pair).into_iter().enumerate() {
        let ks = match (name, statistic) {
            ("run_delay", "sum") => ks_text(pair.run_delay_ks(fidelity.grain_ns)),
            ("wakeup_latency", "sum") => ks_text(pair.wakeup_latency_ks(fidelity.grain_ns)),
            _ => String::new(),
        };
        let [was, is, change] = shown(pair, (name, unit), a, b);
        let mut row = line(&name.replace('_', " "), statistic, was, is, change, ks);
        row.extend(seeds(spreads.get(number).map(|(_, spread)| *spread)));
        grid.rows.push(row);
    }
    if pair.task.is_none() {
        for (label, blocks) in blocks(fidelity) {
            let mut row = line(label, "", String::new(), count(blocks), String::new(), String::new());
            row.extend(seeds(None));
            grid.rows.push(row);
        }
    }
    grid
}

fn line(name: &str, statistic: &str, a: String, b: String, change: String, ks: String) -> Vec<Cell> {
    let numbers = [a, b, change, ks].map(Cell::number);
    [Cell::text(name), Cell::text(statistic)].into_iter().chain(numbers).collect()
}

fn causes(fidelity: &Fidelity) -> Grid {
    let head =
        ["taken away", "run delay", "voluntary", "preempted", "K-S", "distance"].map(Cell::text).to_vec();
    let row = |variant: &super::Variant| {
        let [a, b] = &variant.all.sides;
        let what = variant.without.map_or("nothing: the replay as it is", |cause| cause.without());
        vec![
            Cell::text(what),
            Cell::number(change(a.run_delay.sum_ns(), b.run_delay.sum_ns())),
            Cell::number(change(a.voluntary, b.voluntary)),
            Cell::number(change(a.preempted, b.preempted)),
            Cell::number(ks_text(variant.all.run_delay_ks(fidelity.grain_ns))),
            Cell::number(format!("{:.3}", variant.distance)),
        ]
    };
    Grid { head, rows: fidelity.variants.iter().map(row).collect() }
}

fn tasks(fidelity: &Fidelity) -> Grid {
    let head = [
        "task",
        "run delay recorded",
        "replayed",
        "change",
        "K-S",
        "switches recorded",
        "replayed",
        "first difference",
    ];
    let row = |pair: &Pair| {
        let [a, b] = &pair.sides;
        let (was, is) = (a.run_delay.sum_ns(), b.run_delay.sum_ns());
        vec![
            Cell::text(&pair.label),
            Cell::number(if pair.is_known() { time(was) } else { "unknown".to_string() }),
            Cell::number(time(is)),
            Cell::number(if pair.is_known() { change(was, is) } else { "unknown".to_string() }),
            Cell::number(ks_text(pair.run_delay_ks(fidelity.grain_ns).filter(|_| pair.is_known()))),
            Cell::number(count(a.voluntary + a.preempted)),
            Cell::number(count(b.voluntary + b.preempted)),
            Cell::text(pair.first.as_ref().map(|first| first.text()).unwrap_or_default()),
        ]
    };
    let rows = fidelity.tasks.iter().take(TASKS_LISTED).map(row).collect();
    Grid { head: head.map(Cell::text).to_vec(), rows }
}
