//! Fidelity on a terminal and as JSON.

use super::{Fidelity, Pair, QUANTILES, Spread, taken_away};
use schedlab_report::units::{count, time};
use schedlab_report::{Style, clip, wrapped};
use serde_json::{Value, json};
use std::fmt::Write;

/// Tasks shown.
const TASKS_SHOWN: usize = 8;

/// `+3.1 %`; `-` where there was nothing.
pub(super) fn change(recorded: u64, replayed: u64) -> String {
    match recorded {
        0 if replayed == 0 => "same".to_string(),
        0 => "new".to_string(),
        _ => format!("{:+.1} %", 100.0 * (replayed as f64 - recorded as f64) / recorded as f64),
    }
}

/// `-36.5 .. +27.2 %`: from the least to the most that seeds give.
pub(super) fn spread_text(spread: Option<Spread>) -> String {
    let Some(Spread { recorded, least, most, .. }) = spread else { return String::new() };
    match change(recorded, least).strip_suffix(" %") {
        Some(from) => format!("{from} .. {}", change(recorded, most)),
        None => format!("{} .. {}", change(recorded, least), change(recorded, most)),
    }
}

pub(super) fn ks_text(ks: Option<f64>) -> String {
    ks.map_or("-".to_string(), |ks| format!("{ks:.3}"))
}

/// A quantity of a pair: name, recorded, replayed, as text or as a number.
pub(super) type Row = (&'static str, &'static str, u64, u64, &'static str);

/// How many blocks of the replay differ from the recording's, by name; those ended by force where there are any.
pub(super) fn blocks(fidelity: &Fidelity) -> impl Iterator<Item = (&'static str, u64)> {
    let forced = (fidelity.forced_blocks > 0).then_some(("waits ended, all waited", fidelity.forced_blocks));
    [("blocks skipped", fidelity.skipped_blocks), ("blocks gained", fidelity.gained_blocks)]
        .into_iter()
        .chain(forced)
}

/// The rows of a pair: quantity, statistic, recorded, replayed, unit.
pub(super) fn rows(pair: &Pair) -> Vec<Row> {
    let [a, b] = &pair.sides;
    let mut rows = vec![("cpu", "sum", a.cpu_ns, b.cpu_ns, "ns")];
    let waits =
        [("run_delay", &a.run_delay, &b.run_delay), ("wakeup_latency", &a.wakeup_latency, &b.wakeup_latency)];
    for (name, a, b) in waits {
        rows.push((name, "sum", a.sum_ns(), b.sum_ns(), "ns"));
        for (statistic, per_mille) in [("p50", 500), ("p90", 900), ("p99", 990)] {
            rows.push((name, statistic, a.percentile_ns(per_mille), b.percentile_ns(per_mille), "ns"));
        }
        rows.push((name, "max", a.max_ns(), b.max_ns(), "ns"));
    }
    rows.push(("switches_voluntary", "sum", a.voluntary, b.voluntary, "count"));
    rows.push(("switches_preempted", "sum", a.preempted, b.preempted, "count"));
    rows.push(("migrations", "sum", a.migrations, b.migrations, "count"));
    rows
}

/// A row's recorded and replayed value and the change, as text; what is not known is called so.
pub(super) fn shown(pair: &Pair, (name, unit): (&str, &str), recorded: u64, replayed: u64) -> [String; 3] {
    let value = |n: u64| if unit == "ns" { time(n) } else { count(n) };
    let unknown = || "unknown".to_string();
    if pair.sides[0].tasks == 0 {
        return [unknown(), unknown(), unknown()];
    }
    match pair.is_known() || name == "cpu" {
        true => [value(recorded), value(replayed), change(recorded, replayed)],
        false => [unknown(), value(replayed), unknown()],
    }
}

/// How long who is woken onto a busy CPU waits for the end of a system call.
pub(super) fn about_calls(fidelity: &Fidelity) -> Option<String> {
    let times = fidelity.calls_ns?;
    Some(format!(
        "calls: who was woken by an interrupt or another CPU, and preferred, waited {} for the end of the busy CPU's \
         system call (median; {} to {}), and the replay draws such times",
        time(times[QUANTILES / 2]),
        time(times[0]),
        time(times[QUANTILES - 1])
    ))
}

/// What K-S is, and which waits count as equal there.
pub(super) fn about_grain(fidelity: &Fidelity) -> String {
    let ks = "K-S: largest difference of the two distributions of waits, 0 to 1";
    if fidelity.grain_ns == 0 {
        return format!("{ks}; no wakeup of an idle CPU was recorded, so that no wait is too short to count");
    }
    let [was, is] = fidelity.within_grain().map(|share| 100.0 * share);
    let shares = match fidelity.all.is_known() {
        true => format!(" ({was:.0} % of the recorded ones, {is:.0} % of the replayed)"),
        false => String::new(),
    };
    let replay = match fidelity.takes_time {
        true => "the replay draws such times",
        false => "the simulated one takes no time",
    };
    let exact =
        fidelity.all.run_delay_ks(0).map_or(String::new(), |ks| format!(". Else run delay's is {ks:.3}"));
    format!(
        "{ks}; waits of up to {} count as equal{shares}: so long the \
         recorded kernel took from a wakeup to the switch on an idle CPU (9 of 10), and {replay}{exact}",
        time(fidelity.grain_ns)
    )
}

/// Tasks that count although something of them was not seen.
pub(super) fn about_unseen(fidelity: &Fidelity) -> Option<String> {
    let unseen = fidelity.tasks.iter().filter(|pair| pair.is_known() && pair.sides[0].unseen_ns > 0);
    let (nr, ns) = unseen.fold((0, 0), |(nr, ns), pair| (nr + 1, ns + pair.sides[0].unseen_ns));
    (nr > 0).then(|| {
        format!(
            "{nr} tasks were out of the recorder's sight for {} in all: what they waited then is in no sum",
            time(ns)
        )
    })
}

/// Lines of at most 100 columns.
pub fn terminal(fidelity: &Fidelity, style: Style) -> String {
    let mut text = String::new();
    let [recorded, replayed] = fidelity.cpus;
    let _ = writeln!(
        text,
        "\n{}",
        style.bold(&format!(
            "{} · recorded on {recorded} CPUs, replayed on {replayed}",
            clip(&fidelity.name, 40)
        ))
    );
    let _ = writeln!(
        text,
        "{}",
        style.dim(&clip(&format!("{} beside {}", fidelity.recorded_sched, fidelity.sched), 100))
    );
    if let Some(messages) = &fidelity.messages {
        wrapped(&mut text, &format!("messages {messages}"));
    }
    if let Some(locks) = &fidelity.locks {
        wrapped(&mut text, &format!("locks {locks}"));
    }
    if let Some(strangers) = &fidelity.strangers {
        wrapped(&mut text, &format!("strangers {strangers}"));
    }
    for warning in &fidelity.warnings {
        wrapped(&mut text, &format!("warning: {warning}"));
    }
    let of_seeds = match fidelity.samples.len() {
        0 => String::new(),
        others => format!("of {} seeds", others + 1),
    };
    let head = format!(
        "{:<28} {:>14} {:>14} {:>10} {:>8} {of_seeds:>20}",
        "all tasks", "recorded", "replayed", "change", "K-S"
    );
    let _ = writeln!(text, "\n{}", style.dim(head.trim_end()));
    let [a, b] = fidelity.duration_ns;
    let seeds = spread_text(fidelity.duration_spread());
    let line = format!(
        "{:<28} {:>14} {:>14} {:>10} {:>8} {seeds:>20}",
        "duration",
        time(a),
        time(b),
        change(a, b),
        ""
    );
    let _ = writeln!(text, "{}", line.trim_end());
    let spreads = fidelity.spreads();
    for (number, (name, statistic, a, b, unit)) in rows(&fidelity.all).into_iter().enumerate() {
        let seeds = spread_text(spreads.get(number).map(|(_, spread)| *spread));
        let ks = match (name, statistic) {
            ("run_delay", "sum") => ks_text(fidelity.all.run_delay_ks(fidelity.grain_ns)),
            ("wakeup_latency", "sum") => ks_text(fidelity.all.wakeup_latency_ks(fidelity.grain_ns)),
            _ => String::new(),
        };
        let label = match statistic {
            "sum" => name.replace('_', " "),
            _ => format!("{:>12}", statistic),
        };
        let [was, is, change] = shown(&fidelity.all, (name, unit), a, b);
        let line = format!("{label:<28} {was:>14} {is:>14} {change:>10} {ks:>8} {seeds:>20}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for (label, blocks) in blocks(fidelity) {
        let _ = writeln!(text, "{label:<28} {:>14} {:>14}", "", count(blocks));
    }
    if let Some(order) = fidelity.order
        && let Some(share) = order.share()
    {
        let share = format!("{:.1} %", 100.0 * share);
        let of = format!("of {} pairs", count(order.pairs));
        let _ = writeln!(text, "{:<28} {:>14} {share:>14}  {of}", "wakeup pairs in order", "");
    }
    if let Some([(was, nr), (is, nr_replayed)]) = fidelity.kept() {
        let [was, is] = [was, is].map(|share| format!("{share:.1} %"));
        let of = format!("of {} and {} from busy CPUs beside idle ones", count(nr), count(nr_replayed));
        let _ = writeln!(text, "{:<28} {was:>14} {is:>14}  {of}", "kept on the waker's CPU");
    }
    if let Some(verdict) = fidelity.verdict() {
        wrapped(&mut text, &verdict);
    }
    tasks(&mut text, fidelity, style);
    causes(&mut text, fidelity, style);
    notes(&mut text, fidelity, style);
    text
}

fn tasks(text: &mut String, fidelity: &Fidelity, style: Style) {
    let shown =
        fidelity.tasks.iter().filter(|pair| pair.is_known() && pair.weight_ns() > 0).take(TASKS_SHOWN);
    let shown: Vec<&Pair> = shown.collect();
    if shown.is_empty() {
        return;
    }
    let head = format!(
        "{:<28} {:>14} {:>14} {:>10} {:>8}",
        "what differs most: run delay", "recorded", "replayed", "change", "K-S"
    );
    let _ = writeln!(text, "\n{}", style.dim(&head));
    for pair in shown {
        let [a, b] = [&pair.sides[0], &pair.sides[1]].map(|figures| figures.run_delay.sum_ns());
        let _ = writeln!(
            text,
            "{:<28} {:>14} {:>14} {:>10} {:>8}",
            clip(&pair.label, 28),
            time(a),
            time(b),
            change(a, b),
            ks_text(pair.run_delay_ks(fidelity.grain_ns))
        );
        if let Some(first) = &pair.first {
            wrapped(text, &format!("  differs {}", first.text()));
        }
    }
}

fn causes(text: &mut String, fidelity: &Fidelity, style: Style) {
    if fidelity.variants.is_empty() {
        return;
    }
    let head = format!(
        "{:<34} {:>10} {:>11} {:>11} {:>8} {:>9}",
        "taken away", "run delay", "voluntary", "preempted", "K-S", "distance"
    );
    let _ = writeln!(text, "\n{}", style.dim(&head));
    for variant in &fidelity.variants {
        let what = variant.without.map_or("nothing: the replay as it is", |cause| cause.without());
        let [a, b] = &variant.all.sides;
        let _ = writeln!(
            text,
            "{what:<34} {:>10} {:>11} {:>11} {:>8} {:>9.3}",
            change(a.run_delay.sum_ns(), b.run_delay.sum_ns()),
            change(a.voluntary, b.voluntary),
            change(a.preempted, b.preempted),
            ks_text(variant.all.run_delay_ks(fidelity.grain_ns)),
            variant.distance
        );
    }
    match taken_away(&fidelity.variants) {
        Some(cause) => {
            let explanation = cause.explanation(fidelity.has_recorded_messages());
            wrapped(text, &format!("the cause is {}: {explanation}", cause.name()));
        }
        None => wrapped(
            text,
            "no cause was found this way: taking any of these away leaves at least nine tenths of the difference",
        ),
    }
}

fn notes(text: &mut String, fidelity: &Fidelity, style: Style) {
    let _ = writeln!(text, "\n{}", style.dim("notes"));
    wrapped(text, &about_grain(fidelity));
    about_calls(fidelity).iter().for_each(|about| wrapped(text, about));
    if !fidelity.variants.is_empty() {
        wrapped(
            text,
            "distance: mean of the relative differences of run delay, voluntary and forced switches, and of both \
             K-S; 0: alike",
        );
    }
    if let Some(unseen) = about_unseen(fidelity) {
        wrapped(text, &unseen);
    }
    if fidelity.unknown > 0 {
        let number = count(fidelity.unknown as u64);
        wrapped(
            text,
            &format!(
                "{number} tasks are unknown, for the recorder saw too little of them; they are in no sum"
            ),
        );
    }
    let [a, b] = fidelity.unmatched;
    if a + b > 0 {
        wrapped(
            text,
            &format!(
                "{a} tasks are in the recording only (seen in part, or the scheduler's own), {b} in the replay only"
            ),
        );
    }
}

/// The result for scripts: `quantities` has a row per task and statistic, over all tasks first.
pub fn json(fidelity: &Fidelity) -> Value {
    let seeds = |spread: Option<Spread>, ks: Option<[f64; 2]>| {
        let Spread { least, median, most, .. } = spread?;
        Some(json!({"least": least, "median": median, "most": most, "ks": ks}))
    };
    let mut quantities = vec![json!({
        "task": null, "name": "duration", "statistic": "max", "unit": "ns", "ks": null, "ks_exact": null,
        "recorded": fidelity.duration_ns[0], "replayed": fidelity.duration_ns[1],
        "seeds": seeds(fidelity.duration_spread(), None),
    })];
    let mut spreads = fidelity.spreads().into_iter();
    for pair in std::iter::once(&fidelity.all).chain(&fidelity.tasks) {
        for (name, statistic, recorded, replayed, unit) in rows(pair) {
            // those of all tasks come first
            let spread = spreads.next().map(|(_, spread)| spread);
            let ks_spread = fidelity.run_delay_ks_spread().filter(|_| name == "run_delay");
            let known = pair.is_known() || name == "cpu" && pair.sides[0].tasks > 0;
            let ks_of = |grain_ns| match name {
                "run_delay" => pair.run_delay_ks(grain_ns),
                "wakeup_latency" => pair.wakeup_latency_ks(grain_ns),
                _ => None,
            };
            let [ks, ks_exact] = [fidelity.grain_ns, 0].map(|grain_ns| ks_of(grain_ns).filter(|_| known));
            quantities.push(json!({
                "task": pair.task, "label": pair.label, "name": name, "statistic": statistic, "unit": unit,
                "recorded": known.then_some(recorded), "replayed": replayed, "ks": ks, "ks_exact": ks_exact,
                "seeds": seeds(spread, ks_spread),
            }));
        }
    }
    let variants = fidelity.variants.iter().map(|variant| {
        let [a, b] = &variant.all.sides;
        json!({
            "without": variant.without.map(|cause| cause.name()),
            "distance": variant.distance,
            "run_delay_ns": [a.run_delay.sum_ns(), b.run_delay.sum_ns()],
            "switches_voluntary": [a.voluntary, b.voluntary],
            "switches_preempted": [a.preempted, b.preempted],
            "ks": variant.all.run_delay_ks(fidelity.grain_ns),
        })
    });
    let first = fidelity.tasks.iter().filter_map(|pair| {
        let first = pair.first.as_ref()?;
        Some(json!({"task": pair.task, "label": pair.label, "stops_in_common": first.common, "text": first.text()}))
    });
    json!({
        "schema": 1,
        "workload": fidelity.name,
        "recorded_sched": fidelity.recorded_sched,
        "sched": fidelity.sched,
        "cpus": {"recorded": fidelity.cpus[0], "replayed": fidelity.cpus[1]},
        "grain_ns": fidelity.grain_ns,
        "within_grain": fidelity.within_grain(),
        "calls_ns": fidelity.calls_ns,
        "distance": fidelity.all.is_known().then(|| fidelity.all.distance(fidelity.grain_ns)),
        "skipped_blocks": fidelity.skipped_blocks,
        "gained_blocks": fidelity.gained_blocks,
        "forced_blocks": fidelity.forced_blocks,
        "messages": fidelity.messages,
        "locks": fidelity.locks,
        "strangers": fidelity.strangers,
        "wakeup_pairs": fidelity.order.map(|order| json!({
            "pairs": order.pairs, "in_order": order.in_order, "recorded": order.wakeups[0],
            "replayed": order.wakeups[1],
        })),
        "kept_on_wakers_cpu": fidelity.placement.map(|sides| sides.map(|placement| json!({
            "wakeups_beside_idle": placement.wakeups, "kept": placement.kept,
        }))),
        "seeds": fidelity.samples.len() + 1,
        "unknown_tasks": fidelity.unknown,
        "unseen_ns": fidelity.all.sides[0].unseen_ns,
        "matched_share": fidelity.matched_share,
        "unmatched_tasks": {"recorded": fidelity.unmatched[0], "replayed": fidelity.unmatched[1]},
        "cause": taken_away(&fidelity.variants).map(|cause| cause.name()),
        "taken_away": variants.collect::<Vec<_>>(),
        "first_differences": first.collect::<Vec<_>>(),
        "warnings": fidelity.warnings,
        "quantities": quantities,
    })
}
