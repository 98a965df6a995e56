//! Does it balance, how fast, at what price, and who does it?

use super::{BATCH_NS, View, is_balance, ms};
use crate::answer::{Answer, by_majority, plain};
use crate::data::One;
use crate::experiments::{What, special};
use crate::stats::{Range, mean, median, share};
use schedlab_report::chart::{Chart, Series, Style, Svg};
use schedlab_units::TaskId;

/// What keeps moving this often (moves per task and second) has no affinity; less than the other has it.
const RATE_NONE: f64 = 1.0;
const RATE_STRONG: f64 = 0.01;
/// Idling beside work for longer is not conserving: some ticks of any kernel.
const CONSERVING_MS: f64 = 10.0;

pub(super) fn answers(view: &View<'_>) -> Vec<Answer> {
    vec![
        balances(view),
        affinity(view),
        settle(view),
        conserving(view),
        mover(view),
        intrinsic(view),
        repeat_movers(view),
        leaves_balance(view),
    ]
}

fn gap(lengths: &[u32]) -> u32 {
    lengths.iter().max().unwrap_or(&0) - lengths.iter().min().unwrap_or(&0)
}

/// How far a run of `spread` came: the difference of the longest and the shortest queue at the end.
fn left(one: &One) -> u32 {
    gap(&one.facts.lengths_at(one.facts.duration_ns))
}

fn balances(view: &View<'_>) -> Answer {
    const ID: &str = "balances";
    let runs = view.data.of(What::Spread);
    if runs.is_empty() {
        return Answer::undecided(ID, "no run of the experiment ended as it should");
    }
    let gaps: Vec<u32> = runs.iter().map(left).collect();
    let start = 2 * runs[0].facts.nr_cpus as u32;
    let count = |test: &dyn Fn(u32) -> bool| gaps.iter().filter(|gap| test(**gap)).count();
    let counts = [
        ("yes", count(&|gap| gap <= 1)),
        ("partly", count(&|gap| gap > 1 && gap < start)),
        ("no", count(&|gap| gap >= start)),
    ];
    let answer =
        by_majority(ID, &counts, runs.len()).by("spread").of(gaps.iter().map(|g| f64::from(*g)).collect());
    let answer = answer.because(format!(
        "{start} tasks began on one CPU; yes: in the end no queue is longer than another by 2"
    ));
    let picture = Some(lengths_picture(&runs[0]));
    Answer { picture, ..answer }
}

/// The queues of a run of `spread` over time.
fn lengths_picture(one: &One) -> Svg {
    let from_ns = one.scenario.marks.first().map_or(0, |mark| mark.at.as_ns()).saturating_sub(50_000_000);
    let mut points = vec![Vec::new(); one.facts.nr_cpus.min(16)];
    let mut settled_ns = from_ns;
    let mut before = Vec::new();
    one.facts.for_each_state(from_ns, |since_ns, _, lengths| {
        if lengths != before {
            before = lengths.to_vec();
            settled_ns = since_ns;
        }
    });
    let to_ns = (settled_ns + (settled_ns - from_ns) / 4 + 20_000_000).min(one.facts.duration_ns);
    one.facts.for_each_state(from_ns, |since_ns, until_ns, lengths| {
        if since_ns <= to_ns {
            for (points, length) in points.iter_mut().zip(lengths) {
                let points: &mut Vec<(f64, f64)> = points;
                if points.last().is_none_or(|last| last.1 != f64::from(*length)) {
                    points.push((since_ns as f64 / 1e9, f64::from(*length)));
                }
                if until_ns > to_ns {
                    points.push((to_ns as f64 / 1e9, f64::from(*length)));
                }
            }
        }
    });
    let series = points.into_iter().enumerate();
    Chart {
        title: "length of each queue, one run".into(),
        x_label: "time, s".into(),
        y_label: "tasks on the CPU".into(),
        series: series.map(|(cpu, points)| Series::new(format!("CPU {cpu}"), points, Style::Steps)).collect(),
        ..Chart::default()
    }
    .svg()
}

fn affinity(view: &View<'_>) -> Answer {
    const ID: &str = "affinity";
    const LAST_NS: u64 = 4_000_000_000;
    let runs = view.data.of(What::Spread);
    let rate = |one: &One| {
        let from_ns = one.facts.duration_ns.saturating_sub(LAST_NS);
        let moves = one.facts.moves.iter().filter(|moved| moved.time_ns >= from_ns).count();
        moves as f64 / (2.0 * one.facts.nr_cpus as f64) / 4.0
    };
    let rates: Vec<f64> = runs.iter().map(rate).collect();
    if rates.is_empty() {
        return Answer::undecided(ID, "no run of the experiment ended as it should");
    }
    let count = |test: &dyn Fn(f64) -> bool| rates.iter().filter(|rate| test(**rate)).count();
    let counts = [
        ("strong", count(&|rate| rate < RATE_STRONG)),
        ("partial", count(&|rate| (RATE_STRONG..=RATE_NONE).contains(&rate))),
        ("none", count(&|rate| rate > RATE_NONE)),
    ];
    let range = mean(&rates);
    by_majority(ID, &counts, runs.len())
        .with(range, "moves per task and s")
        .of(rates)
        .by("spread")
        .because(format!("in the last 4 s; strong: below {RATE_STRONG}, none: above {RATE_NONE}"))
}

/// When a run was balanced for good, after the release.
fn settled_ns(view: &View<'_>, one: &One) -> Option<u64> {
    let (at_ns, _) = view.after_release(one);
    let mut since = Some(at_ns);
    one.facts.for_each_state(at_ns, |from_ns, _, lengths| {
        since = if gap(lengths) > 1 { None } else { since.or(Some(from_ns)) };
    });
    since.map(|since| since - at_ns)
}

fn settle(view: &View<'_>) -> Answer {
    const ID: &str = "settle_ms";
    let runs = view.data.of(What::Spread);
    let times: Vec<Option<u64>> = runs.iter().map(|one| settled_ns(view, one)).collect();
    let settled: Vec<f64> = times.iter().flatten().map(|ns| ms(*ns)).collect();
    let reason = format!("{} of {} runs were balanced for good", settled.len(), runs.len());
    if settled.len() * 10 < runs.len() * 9 || settled.len() < 2 {
        return Answer { runs: runs.len(), ..Answer::undecided(ID, reason) };
    }
    let most = settled.iter().copied().fold(0.0, f64::max);
    Answer::number(ID, mean(&settled), "ms", settled.len())
        .because(format!("{reason}, the last after {} ms", plain(most)))
        .of(settled)
        .by("spread")
}

/// How long the special CPU of `emptied` runs was idle beside waiting tasks, per round: `None` = to the round's end.
pub(super) fn idle_waits(view: &View<'_>, what: What) -> Vec<Option<u64>> {
    idle_firsts(view, what).into_iter().map(|first| first.map(|(wait_ns, _)| wait_ns)).collect()
}

/// The same, with the number of tasks that came at once: moves one after the other from one queue.
pub(super) fn idle_firsts(view: &View<'_>, what: What) -> Vec<Option<(u64, usize)>> {
    let mut firsts = Vec::new();
    for one in view.data.of(what) {
        let target = special(&view.data.topology, one.seed);
        let releases: Vec<_> =
            one.scenario.marks.iter().filter(|mark| mark.act == crate::plan::Act::Release).collect();
        for mark in &releases {
            // in `fall-idle` the CPU falls idle 10 us after the release
            let head_ns = if what == What::FallIdle { 10_000 } else { 0 };
            let from_ns = mark.at.as_ns() + head_ns;
            // until the tasks are stopped, before the next time
            let bound = one.scenario.marks.iter().find(|next| next.at > mark.at);
            let until_ns = bound.map_or(one.facts.duration_ns, |next| next.at.as_ns());
            // any task: those that were on the other CPUs all the time may be taken as well as those that came
            let comes = |moved: &&schedlab_instruments::Move| {
                moved.to.index() == target && (mark.at.as_ns()..until_ns).contains(&moved.time_ns)
            };
            let mut coming = one.facts.moves.iter().filter(comes);
            let first = coming.next();
            if first.is_some_and(|moved| moved.time_ns < from_ns) {
                continue; // it had a task before it fell idle: nothing is to be seen
            }
            firsts.push(first.map(|first| {
                let mut last_ns = first.time_ns;
                let more = coming.take_while(|moved| {
                    let is_same = (moved.from, moved.mover) == (first.from, first.mover);
                    let follows = is_same && moved.time_ns - last_ns <= BATCH_NS;
                    last_ns = moved.time_ns;
                    follows
                });
                (first.time_ns.saturating_sub(from_ns), 1 + more.count())
            }));
        }
    }
    firsts
}

fn conserving(view: &View<'_>) -> Answer {
    const ID: &str = "conserving";
    let waits: Vec<Option<u64>> =
        [What::FallIdle, What::Idle].into_iter().flat_map(|what| idle_waits(view, what)).collect();
    let mut longest_ns = 0;
    let mut idled: Vec<f64> = Vec::new();
    for one in view.data.of(What::Spread) {
        let (at_ns, _) = view.after_release(one);
        let (mut since, mut most_ns) = (None, 0);
        one.facts.for_each_state(at_ns, |from_ns, until_ns, lengths| {
            let wasted = lengths.contains(&0) && lengths.iter().any(|length| *length > 1);
            since = if wasted { since.or(Some(from_ns)) } else { None };
            most_ns = most_ns.max(since.map_or(0, |since: u64| until_ns - since));
        });
        longest_ns = longest_ns.max(most_ns);
        idled.push(ms(most_ns));
    }
    let never = waits.iter().filter(|wait| wait.is_none()).count();
    idled.extend(waits.iter().flatten().map(|ns| ms(*ns)));
    if idled.is_empty() && never == 0 {
        return Answer::undecided(ID, "no run of the experiments ended as it should");
    }
    let longest = idled.iter().copied().fold(ms(longest_ns), f64::max);
    let is_conserving = never == 0 && longest <= CONSERVING_MS;
    let n = idled.len() + never;
    let agree = match is_conserving {
        true => n,
        false => never + idled.iter().filter(|ms| **ms > CONSERVING_MS).count(),
    };
    let confidence = if is_conserving { share(agree, n).low } else { 1.0 };
    Answer::word(ID, if is_conserving { "yes" } else { "no" }, confidence, n)
        .with(Range { mean: longest, low: longest, high: if never > 0 { f64::INFINITY } else { longest } }, "ms")
        .because(format!(
            "of {n} times that a CPU was idle beside waiting tasks {never} did not end; of the others the longest \
            lasted {} ms; {} lasted longer than {CONSERVING_MS} ms",
            plain(longest),
            idled.iter().filter(|ms| **ms > CONSERVING_MS).count()
        ))
        .of(idled)
        .by("fall-idle, idle, spread")
}

fn mover(view: &View<'_>) -> Answer {
    const ID: &str = "mover";
    let (mut target, mut source, mut third, mut nobody) = (0, 0, 0, 0);
    let mut count = |moved: &schedlab_instruments::Move| match moved.mover {
        None => nobody += 1,
        Some(cpu) if cpu == moved.to => target += 1,
        Some(cpu) if cpu == moved.from => source += 1,
        Some(_) => third += 1,
    };
    // all CPUs are busy there, and any of them may be the one that moves
    let detects: Vec<What> = view
        .data
        .runs
        .keys()
        .copied()
        .filter(|what| matches!(what, What::Detect { .. } | What::Threshold { .. }))
        .collect();
    let rounds: Vec<_> = detects.iter().flat_map(|what| view.rounds(*what)).collect();
    let moves: Vec<_> =
        rounds.iter().flat_map(|round| &round.round.moves).filter(|m| is_balance(m)).collect();
    if moves.len() >= 5 {
        moves.iter().for_each(|moved| count(moved));
    } else {
        let runs = view.data.of(What::Spread).iter().chain(view.data.of(What::Intrinsic));
        runs.flat_map(|one| view.after_release(one).1).filter(|m| is_balance(m)).for_each(&mut count);
    }
    let n = target + source + third + nobody;
    let reason = format!(
        "of {n} moves {target} were made by the CPU that got the task, {source} by the one that gave it, {third} by \
        another, {nobody} by nobody that was recorded"
    );
    if let Some(answer) = view.no_queues(ID) {
        return answer.because(reason);
    }
    if n < 5 {
        return Answer { runs: n, ..Answer::undecided(ID, reason) }.because("fewer than 5 moves");
    }
    let (word, k) = match () {
        () if target * 5 >= n * 4 => ("target", target),
        () if source * 5 >= n * 4 => ("source", source),
        () if third * 10 >= n * 3 => ("third", third),
        () => return Answer { runs: n, ..Answer::undecided(ID, reason) }.because("no four in five"),
    };
    Answer::word(ID, word, share(k, n).low, n)
        .because(reason)
        .because("target, source: four in five moves; third: three in ten or more")
        .of([(target, 0.0), (source, 1.0), (third, 2.0)]
            .iter()
            .flat_map(|(n, v)| vec![*v; (*n).min(200)])
            .collect())
        .by("detect, threshold, spread, intrinsic")
}

/// Jain's index of the shares that tasks had in the window: 1 = all the same.
fn jain(one: &One) -> f64 {
    let (sum, squares) = one.facts.cpu_ns.iter().fold((0.0, 0.0), |(sum, squares), ns| {
        let ns = *ns as f64;
        (sum + ns, squares + ns * ns)
    });
    sum * sum / (one.facts.cpu_ns.len() as f64 * squares)
}

fn intrinsic(view: &View<'_>) -> Answer {
    const ID: &str = "intrinsic";
    let runs = view.data.of(What::Intrinsic);
    let Some(first) = runs.first() else {
        return Answer::undecided(ID, "no run of the experiment ended as it should");
    };
    let n = first.facts.nr_cpus as f64;
    // all but two have a CPU each, two share one
    let affine = n * n / ((n + 1.0) * (n - 0.5));
    let indices: Vec<f64> = runs.iter().map(jain).collect();
    let window_ns = |one: &One| (one.facts.duration_ns - one.scenario.window.as_ns()) as f64 * n;
    let used = |one: &One| one.facts.cpu_ns.iter().sum::<u64>() as f64 / window_ns(one);
    let least = runs.iter().map(used).fold(1.0, f64::min);
    if least < 0.95 {
        let why = format!(
            "tasks had {} % of the CPUs' time in a run: they were not spread over them",
            plain(100.0 * least)
        );
        return Answer { runs: runs.len(), ..Answer::undecided(ID, why) };
    }
    let fair = 1.0 - (1.0 - affine) * 0.1;
    let at_most = affine + (1.0 - affine) * 0.25;
    let range = mean(&indices);
    let reason = format!(
        "{} tasks on {n} CPUs for 12 s; nobody moves: {}; fair: {} or more; affine: {} or less; the interval of the \
        mean decides",
        n + 1.0,
        plain(affine),
        plain(fair),
        plain(at_most)
    );
    let word = match () {
        () if runs.len() < 4 => None,
        () if range.low >= fair => Some("fair"),
        () if range.high <= at_most => Some("affine"),
        () if range.low > at_most && range.high < fair => Some("between"),
        () => None,
    };
    let answer = match word {
        Some(word) => Answer::word(ID, word, 0.95, runs.len()),
        None => Answer { runs: runs.len(), ..Answer::undecided(ID, "the interval has more than one answer") },
    };
    answer.with(range, "Jain's index").of(indices).by("intrinsic").because(reason)
}

/// Whether those that were moved last are moved again, more often than chance has it.
fn repeat_movers(view: &View<'_>) -> Answer {
    const ID: &str = "repeat_movers";
    if let Some(answer) = view.no_queues(ID) {
        return answer;
    }
    let (mut again, mut n, mut chance) = (0, 0, 0.0);
    let mut per_run = Vec::new();
    for one in view.data.of(What::Intrinsic) {
        let (at_ns, moves) = view.after_release(one);
        let tasks = one.facts.cpu_ns.len();
        let late =
            moves.into_iter().filter(|moved| moved.time_ns > at_ns + 2_000_000_000 && is_balance(moved));
        let order: Vec<TaskId> = late.map(|moved| moved.task).collect();
        let mine = order.windows(3).filter(|three| three[..2].contains(&three[2])).count();
        let of = order.len().saturating_sub(2);
        again += mine;
        n += of;
        chance = 2.0 / tasks as f64;
        if of > 0 {
            per_run.push(mine as f64 / of as f64);
        }
    }
    // moves of one run depend on each other, runs do not: the wider of both intervals
    let (pooled, by_run) = (share(again, n), mean(&per_run));
    let range = Range {
        mean: pooled.mean,
        low: pooled.low.min(by_run.low).max(0.0),
        high: pooled.high.max(by_run.high).min(1.0),
    };
    let reason = format!(
        "of {n} moves of five tasks or so on a CPU too few, {again} were of one of the two tasks moved last; by \
        chance {} %",
        plain(100.0 * chance)
    );
    if n < 20 {
        return Answer { runs: n, ..Answer::undecided(ID, reason) }.because("fewer than 20 moves");
    }
    let word = match () {
        () if range.low > chance => "yes",
        () if range.high < chance + 0.1 => "no",
        () => return Answer { runs: n, ..Answer::undecided(ID, reason) },
    };
    Answer::word(ID, word, 0.95, n).with(range, "share").because(reason).of(per_run).by("intrinsic")
}

fn leaves_balance(view: &View<'_>) -> Answer {
    const ID: &str = "leaves_balance";
    if let Some(answer) = view.no_queues(ID) {
        return answer;
    }
    let mut moves_later = Vec::new();
    let mut unsettled = 0;
    for one in view.data.of(What::Spread) {
        let (at_ns, moves) = view.after_release(one);
        // the first time, not the last: a balance that is left again is what is asked for
        let mut first = None;
        one.facts.for_each_state(at_ns, |from_ns, until_ns, lengths| {
            if gap(lengths) == 0 && until_ns > from_ns + 1_000_000 {
                first = first.or(Some(from_ns));
            }
        });
        match first {
            Some(first_ns) => {
                moves_later
                    .push(moves.iter().filter(|m| m.time_ns > first_ns && is_balance(m)).count() as f64);
            }
            None => unsettled += 1,
        }
    }
    let n = moves_later.len();
    if n == 0 {
        return Answer::undecided(ID, format!("none of {unsettled} runs was balanced"));
    }
    let stay = moves_later.iter().filter(|moves| **moves == 0.0).count();
    let counts = [("no", stay), ("yes", n - stay)];
    by_majority(ID, &counts, n)
        .with(median(&moves_later), "moves later")
        .of(moves_later)
        .by("spread")
        .because("moves after the first millisecond in which all queues were of one length")
}
