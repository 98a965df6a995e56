//! When does it look for work, how much does it take, and from which difference on?

use super::balance::{idle_firsts, idle_waits};
use super::{AT_ONCE_NS, BATCH_NS, InRun, View, is_balance, ms};
use crate::answer::{Answer, by_majority, plain};
use crate::experiments::{SHAPES, THRESHOLD_MAX, What, special};
use crate::stats::{Range, mean, median, mode, share, uniform_chance, uniform_max};
use schedlab_instruments::Move;
use schedlab_report::chart::{Chart, Series, Style};
use schedlab_units::CpuId;
use std::collections::BTreeMap;

/// Below this chance times are not uniform.
const UNLIKELY: f64 = 0.01;
/// Times that belong together differ by no more than this, relative.
const SAME: f64 = 0.02;
/// Fewer times than these say little of a period.
const FEW: usize = 8;

/// Tasks moved one after the other, from one queue to another, by one CPU.
#[derive(Clone, Copy, Debug)]
struct Batch {
    time_ns: u64,
    last_ns: u64,
    from: CpuId,
    size: usize,
    mover: Option<CpuId>,
}

/// A round of `detect`, as far as the short queue is concerned.
struct Detected {
    shape: (u32, u32),
    /// The CPU with the short queue.
    target: usize,
    nr_cpus: usize,
    at_ns: u64,
    batches: Vec<Batch>,
}

pub(super) fn answers(view: &View<'_>) -> Vec<Answer> {
    let detected = detected(view);
    let newidle = newidle(view);
    let idle = idle_periodic(view);
    // small differences may be below a threshold
    let clear: Vec<&Detected> = detected.iter().filter(|round| round.shape.1 > THRESHOLD_MAX).collect();
    let (event, periodic) = (event(view, &clear), periodic(view, &clear));
    let times = Times::of(&clear);
    let is_periodic = periodic.answer == "yes";
    let mut answers = vec![newidle, idle, periodic, event];
    answers.extend([idle_period(view), idle_amount(view)]);
    let wanting = |id: &'static str| {
        let why = "busy CPUs make no periodic checks that were seen";
        view.no_queues(id).unwrap_or_else(|| Answer::not_applicable(id, why))
    };
    if is_periodic && view.shared.is_none() {
        answers.extend([period(&times), after_success(&times), rest(&times), randomised(&times)]);
    } else {
        answers.extend(
            ["period_ms", "after_success_ms", "rest_after_move_ms", "randomised_interval"].map(wanting),
        );
    }
    if is_periodic && view.shared.is_none() {
        let (amount, cap) = amount(view, &detected);
        answers.extend([amount, cap, threshold(view)]);
    } else {
        answers.extend(["amount", "cap", "threshold"].map(wanting));
    }
    answers
}

fn detected(view: &View<'_>) -> Vec<Detected> {
    let mut all = Vec::new();
    for (base, excess) in SHAPES {
        for InRun { one, number, round, .. } in view.rounds(What::Detect { base, excess }) {
            let target = special(&view.data.topology, one.seed + number);
            let mut batches: Vec<Batch> = Vec::new();
            for moved in round.moves.iter().filter(|m| m.to.index() == target && is_balance(m)) {
                match batches.last_mut() {
                    Some(last)
                        if (last.from, last.mover) == (moved.from, moved.mover)
                            && moved.time_ns - last.last_ns <= BATCH_NS =>
                    {
                        last.size += 1;
                        last.last_ns = moved.time_ns;
                    }
                    _ => {
                        let Move { time_ns, from, mover, .. } = **moved;
                        batches.push(Batch { time_ns, last_ns: time_ns, from, size: 1, mover });
                    }
                }
            }
            let nr_cpus = one.facts.nr_cpus;
            all.push(Detected { shape: (base, excess), target, nr_cpus, at_ns: round.at_ns, batches });
        }
    }
    all
}

fn newidle(view: &View<'_>) -> Answer {
    const ID: &str = "newidle";
    let waits = idle_waits(view, What::FallIdle);
    let (n, at_once) =
        (waits.len(), waits.iter().filter(|wait| wait.is_some_and(|ns| ns <= AT_ONCE_NS)).count());
    let range = share(at_once, n);
    let reason = format!(
        "of {n} times that a CPU fell idle beside waiting tasks it got one within 10 us in {at_once}; yes: in more \
        than a tenth (95 %), far more than periodic checks meet that instant; no: in none of ten or more"
    );
    let word = match () {
        () if n >= 10 && range.low > 0.1 => "yes",
        () if n >= 10 && at_once == 0 => "no",
        () => return Answer { runs: n, ..Answer::undecided(ID, reason) },
    };
    Answer::word(ID, word, if word == "yes" { 0.95 } else { 1.0 - range.high }, n)
        .with(range, "of the times")
        .because(reason)
        .of(waits.iter().map(|wait| wait.map_or(1e6, ms)).collect())
        .by("fall-idle")
}

fn idle_periodic(view: &View<'_>) -> Answer {
    const ID: &str = "idle_periodic";
    let waits = idle_waits(view, What::Idle);
    let later = waits.iter().filter(|wait| wait.is_some_and(|ns| ns > AT_ONCE_NS)).count();
    let at_once = waits.iter().filter(|wait| wait.is_some_and(|ns| ns <= AT_ONCE_NS)).count();
    let counts = [("yes", later), ("no", waits.len() - later - at_once)];
    by_majority(ID, &counts, waits.len())
        .because(format!(
            "an idle CPU gets a waiting task some time later: yes; at once: {at_once} times; not at all: no"
        ))
        .of(waits.iter().map(|wait| wait.map_or(1e6, ms)).collect())
        .by("idle")
}

fn idle_period(view: &View<'_>) -> Answer {
    const ID: &str = "idle_period_ms";
    let waits = idle_waits(view, What::Idle);
    let times: Vec<f64> = waits.iter().flatten().filter(|ns| **ns > AT_ONCE_NS).map(|ns| ms(*ns)).collect();
    if times.len() < FEW || times.len() * 10 < waits.len() * 9 {
        let why = format!("{} of {} idle CPUs were given work some time later", times.len(), waits.len());
        return match times.is_empty() {
            true => Answer::not_applicable(ID, why),
            false => Answer::undecided(ID, why),
        };
    }
    uniform_period(ID, &times).by("idle")
}

/// How many tasks come at once to a CPU that has been idle?
fn idle_amount(view: &View<'_>) -> Answer {
    const ID: &str = "idle_amount";
    if let Some(answer) = view.no_queues(ID) {
        return answer;
    }
    let firsts = idle_firsts(view, What::Idle);
    let sizes: Vec<f64> = firsts.iter().flatten().map(|(_, size)| *size as f64).collect();
    let why = format!(
        "{} of {} idle CPUs were given work; the number of tasks at once, the middle one of all",
        sizes.len(),
        firsts.len()
    );
    match sizes.len() {
        0 => Answer::not_applicable(ID, why),
        few if few < FEW => Answer { runs: few, ..Answer::undecided(ID, why) },
        n => Answer::number(ID, median(&sizes), "tasks", n).because(why).of(sizes).by("idle"),
    }
}

/// The period of checks that come at times from a random instant on.
fn uniform_period(id: &'static str, times: &[f64]) -> Answer {
    let range = uniform_max(times);
    let chance = uniform_chance(times, range.mean);
    let middle = median(times);
    let reason = format!(
        "{} times from a drawn instant to the first move, {} ms in the middle, {} at most; that they are uniform up \
        to {} ms has a chance of {}",
        times.len(),
        plain(middle.mean),
        plain(range.low),
        plain(range.mean),
        plain(chance)
    );
    match chance < UNLIKELY {
        true => Answer { runs: times.len(), ..Answer::undecided(id, reason) }
            .because("not uniform: there is no one period, or several mechanisms act")
            .of(times.to_vec()),
        false => Answer::number(id, range, "ms", times.len()).because(reason).of(times.to_vec()),
    }
}

/// Rounds of `detect` whose short queue got its first tasks at once, later, or not at all.
fn when(detected: &[&Detected]) -> (usize, usize, usize) {
    let first = |round: &&Detected| round.batches.first().map(|batch| batch.time_ns - round.at_ns);
    let at_once = detected.iter().filter(|round| first(round).is_some_and(|ns| ns <= AT_ONCE_NS)).count();
    let never = detected.iter().filter(|round| round.batches.is_empty()).count();
    (at_once, detected.len() - at_once - never, never)
}

fn periodic(view: &View<'_>, detected: &[&Detected]) -> Answer {
    const ID: &str = "periodic";
    if let Some(answer) = view.no_queues(ID) {
        return answer;
    }
    let (at_once, later, never) = when(detected);
    let line = "yes: a busy CPU with a short queue gets tasks some time later, though nothing happens";
    if at_once * 10 >= detected.len().max(1) * 9 {
        let why = format!(
            "in {at_once} of {} rounds tasks moved at once: what would come later was not seen",
            detected.len()
        );
        return Answer::undecided(ID, why);
    }
    by_majority(ID, &[("yes", later), ("no", never)], detected.len())
        .because(line)
        .of(detected.iter().map(|round| f64::from(u8::from(!round.batches.is_empty()))).collect())
        .by("detect")
}

fn event(view: &View<'_>, detected: &[&Detected]) -> Answer {
    const ID: &str = "event";
    if let Some(answer) = view.no_queues(ID) {
        return answer;
    }
    let (at_once, later, never) = when(detected);
    by_majority(ID, &[("yes", at_once), ("no", later + never)], detected.len())
        .because(
            "yes: tasks move within 10 us of the change that made queues differ, though no CPU fell idle",
        )
        .of(detected
            .iter()
            .map(|round| {
                let first = round.batches.first();
                f64::from(u8::from(first.is_some_and(|batch| batch.time_ns - round.at_ns <= AT_ONCE_NS)))
            })
            .collect())
        .by("detect")
}

/// Times in ms: from the change to each CPU's first move, and from each of its moves to its next.
struct Times {
    firsts: Vec<f64>,
    gaps: Vec<f64>,
}

impl Times {
    fn of(detected: &[&Detected]) -> Times {
        let (mut firsts, mut gaps) = (Vec::new(), Vec::new());
        for round in detected {
            let later: Vec<&Batch> =
                round.batches.iter().filter(|batch| batch.time_ns > round.at_ns + AT_ONCE_NS).collect();
            // one CPU's first move a round, the same one whoever else moved before: the short queue's own if it does it
            let moves =
                |cpu: usize| later.iter().any(|batch| batch.mover.is_some_and(|mover| mover.index() == cpu));
            let chosen = if moves(round.target) { round.target } else { (round.target + 1) % round.nr_cpus };
            let mut last: BTreeMap<CpuId, u64> = BTreeMap::new();
            for batch in later {
                let Some(mover) = batch.mover else { continue };
                match last.insert(mover, batch.time_ns) {
                    None if mover.index() == chosen => firsts.push(ms(batch.time_ns - round.at_ns)),
                    Some(before) if before + BATCH_NS < batch.time_ns => {
                        gaps.push(ms(batch.time_ns - before))
                    }
                    None | Some(_) => {}
                }
            }
        }
        Times { firsts, gaps }
    }

    /// The length that nearly all gaps have.
    fn usual_gap(&self) -> Option<f64> {
        let (usual, part) = mode(&self.gaps, SAME)?;
        (self.gaps.len() >= FEW && part >= 0.8).then_some(usual)
    }

    fn gap_range(&self, usual: f64) -> Range {
        let near: Vec<f64> =
            self.gaps.iter().copied().filter(|gap| (gap - usual).abs() <= SAME * usual).collect();
        let mid = median(&near);
        // ends are met to the tick at best: never more exact than what was seen
        Range { low: mid.low.min(usual * 0.99), high: mid.high.max(usual * 1.01), ..mid }
    }
}

fn period(times: &Times) -> Answer {
    const ID: &str = "period_ms";
    let firsts = &times.firsts;
    if firsts.len() < FEW {
        return Answer::undecided(ID, format!("{} first moves, {FEW} are needed", firsts.len()));
    }
    let most = firsts.iter().copied().fold(0.0, f64::max);
    if let Some(usual) = times.usual_gap() {
        let chance = uniform_chance(firsts, usual);
        if most <= usual * (1.0 + SAME) && chance >= 0.05 {
            let range = times.gap_range(usual);
            return Answer::number(ID, range, "ms", firsts.len())
                .because(format!(
                    "{} times from one move of a CPU to its next are {} ms, nearly all; {} times from a drawn \
                    instant to the first are uniform up to that (chance {}): checks come at this interval, \
                    whatever they find",
                    times.gaps.len(), plain(usual), firsts.len(), plain(chance)
                ))
                .of(firsts.clone())
                .by("detect");
        }
    } else if times.gaps.len() >= 2 * FEW {
        let (range, spread) = (mean(&times.gaps), variation(&times.gaps));
        if spread > 0.05 && spread < 0.7 && distinct(&times.gaps) * 2 > times.gaps.len() {
            // intervals that vary: a random instant falls into long ones more often, so that first times say less
            // than gaps do
            let expected = range.mean * (1.0 + spread * spread) / 2.0;
            let first = mean(firsts);
            let reason = format!(
                "{} times from one move of a CPU to its next vary by {} %, {} ms in the mean; first moves come {} \
                ms after a drawn instant in the mean, {} would be expected",
                times.gaps.len(),
                plain(100.0 * spread),
                plain(range.mean),
                plain(first.mean),
                plain(expected)
            );
            return match (first.low..=first.high).contains(&expected) {
                true => Answer::number(ID, range, "ms", times.gaps.len())
                    .because(reason)
                    .of(firsts.clone())
                    .by("detect"),
                false => Answer { runs: firsts.len(), ..Answer::undecided(ID, reason) }
                    .of(firsts.clone())
                    .by("detect"),
            };
        }
    }
    uniform_period(ID, firsts).by("detect")
}

/// The coefficient of variation.
fn variation(values: &[f64]) -> f64 {
    let centre = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - centre) * (value - centre)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt() / centre
}

fn after_success(times: &Times) -> Answer {
    const ID: &str = "after_success_ms";
    if times.gaps.len() < FEW {
        return Answer::undecided(
            ID,
            format!("{} times from a CPU's move to its next, {FEW} are needed", times.gaps.len()),
        );
    }
    let range = times.usual_gap().map_or_else(|| median(&times.gaps), |usual| times.gap_range(usual));
    Answer::number(ID, range, "ms", times.gaps.len())
        .because(format!(
            "the middle of {} times from a CPU's move to its next, in one round",
            times.gaps.len()
        ))
        .of(times.gaps.clone())
        .by("detect")
}

fn rest(times: &Times) -> Answer {
    const ID: &str = "rest_after_move_ms";
    if times.gaps.len() < FEW {
        return Answer::undecided(
            ID,
            format!("{} times from a CPU's move to its next, {FEW} are needed", times.gaps.len()),
        );
    }
    let mut sorted = times.gaps.clone();
    sorted.sort_by(f64::total_cmp);
    let least = sorted[0];
    let few = sorted[sorted.len() / 10];
    Answer::number(
        ID,
        Range { mean: least, low: least * 0.99, high: few.max(least * 1.01) },
        "ms",
        sorted.len(),
    )
    .because(format!(
        "the shortest of {} times from a CPU's move to its next; one in ten is up to {} ms",
        sorted.len(),
        plain(few)
    ))
    .of(sorted)
    .by("detect")
}

fn randomised(times: &Times) -> Answer {
    const ID: &str = "randomised_interval";
    let Some((usual, part)) = mode(&times.gaps, SAME).filter(|_| times.gaps.len() >= FEW) else {
        return Answer::undecided(
            ID,
            format!("{} times from a CPU's move to its next, {FEW} are needed", times.gaps.len()),
        );
    };
    let spread = variation(&times.gaps);
    let n = times.gaps.len();
    let k = (part * n as f64).round() as usize;
    let reason = format!(
        "of {n} times from a CPU's move to its next {k} are within 2 % of {} ms; they vary by {} %",
        plain(usual),
        plain(100.0 * spread)
    );
    let word = match () {
        () if part >= 0.8 => "no",
        // several lengths that are met again and again are not drawn
        () if part < 0.4 && spread > 0.05 && distinct(&times.gaps) * 2 > n => "yes",
        () => return Answer { runs: n, ..Answer::undecided(ID, reason) }.of(times.gaps.clone()),
    };
    Answer::word(ID, word, if word == "no" { share(k, n).low } else { 1.0 - share(k, n).high }, n)
        .because(reason)
        .of(times.gaps.clone())
        .by("detect")
}

/// How many values differ from all others by more than a microsecond.
fn distinct(values: &[f64]) -> usize {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    1 + sorted.windows(2).filter(|pair| pair[1] - pair[0] > 0.001).count()
}

/// What a rule says of the size of the first batch.
type Rule = (&'static str, fn(f64, f64, f64) -> f64);

/// `base` tasks on the short queue, `excess` more on the others, `n` CPUs.
const RULES: [Rule; 3] = [
    ("half-of-queue", |base, excess, _| (base + excess) / 2.0),
    ("pairwise", |_, excess, _| excess / 2.0),
    ("poly", |_, excess, n| excess / n),
];

/// A number of tasks is what a rule says: rounded either way, within a tenth where there are many.
fn agrees(size: usize, expected: f64) -> bool {
    let size = size as f64;
    let least = expected.floor().max(1.0);
    size >= least.min(expected * 0.9) && size <= (expected.ceil().max(1.0)).max(expected * 1.1)
}

fn amount(view: &View<'_>, detected: &[Detected]) -> (Answer, Answer) {
    const ID: &str = "amount";
    const CAP: &str = "cap";
    let n = f64::from(view.data.topology.nr_cpus());
    let firsts: Vec<((u32, u32), usize)> =
        detected.iter().filter_map(|round| Some((round.shape, round.batches.first()?.size))).collect();
    let most = firsts.iter().map(|first| first.1).max().unwrap_or(0);
    if firsts.len() < FEW {
        let why = format!("{} first batches, {FEW} are needed", firsts.len());
        return (Answer::undecided(ID, why.clone()), Answer::undecided(CAP, why));
    }
    let fits = |expected: &dyn Fn(f64, f64) -> f64| {
        let agree = |(shape, size): &&((u32, u32), usize)| {
            agrees(*size, expected(f64::from(shape.0), f64::from(shape.1)))
        };
        firsts.iter().filter(agree).count()
    };
    let capped =
        |cap: f64| RULES.map(|(word, rule)| (word, fits(&|base, excess| rule(base, excess, n).min(cap))));
    let same = |size: usize| firsts.iter().filter(|first| first.1 == size).count();
    let mut found: Vec<(&str, usize, Option<usize>)> = vec![("one", same(1), None)];
    found.extend(capped(f64::INFINITY).map(|(word, k)| (word, k, None)));
    if most > 1 {
        found.extend(capped(most as f64).map(|(word, k)| (word, k, Some(most))));
        found.push(("fixed", same(most), Some(most)));
    }
    let total = firsts.len();
    let reason: Vec<String> = found
        .iter()
        .map(|(word, k, cap)| {
            format!("{word}{} {k}", cap.map_or(String::new(), |cap| format!(" up to {cap}")))
        })
        .collect();
    let line = format!("of {total} first batches as many agree with: {}", reason.join(", "));
    let samples: Vec<f64> = firsts.iter().map(|(shape, size)| *size as f64 / f64::from(shape.1)).collect();
    let picture = Some(sizes_picture(&firsts, n));
    // a cap explains what a rule without one does not; where both do, there is none
    let fit: Vec<&(&str, usize, Option<usize>)> =
        found.iter().filter(|(_, k, _)| k * 10 >= total * 9).collect();
    let words: Vec<&str> = fit.iter().map(|(word, ..)| *word).collect();
    let is_one_rule = words.iter().all(|word| *word == words[0]);
    let done = |answer: Answer, cap: Answer| {
        let answer = Answer {
            picture: picture.clone(),
            ..answer.because(line.clone()).of(samples.clone()).by("detect")
        };
        (answer, cap.of(samples.clone()).by("detect"))
    };
    match fit.first() {
        Some((word, k, cap)) if is_one_rule => {
            let answer = Answer::word(ID, word, share(*k, total).low, total);
            let answer = if *word == "fixed" {
                let number = most as f64;
                answer.with(Range { mean: number, low: number, high: number }, "tasks")
            } else {
                answer
            };
            done(answer, the_cap(word, *cap, most, total))
        }
        Some(_) => {
            let why = format!("several rules agree: {}", words.join(", "));
            done(Answer { runs: total, ..Answer::undecided(ID, why) }, Answer::undecided(CAP, line.clone()))
        }
        None if from_below(&firsts, n).is_some() => {
            let (word, k, part, cap) = from_below(&firsts, n).expect("just asked");
            let why = format!(
                "{k} are what the rule '{word}' says, or a little less: {} % of it in the mean; tasks are taken while \
                what they weigh fits, and that differs by some per cent",
                plain(100.0 * part)
            );
            let answer = Answer::word(ID, word, share(k, total).low, total).because(why);
            done(answer, the_cap(word, cap, most, total))
        }
        None => {
            // anything up to half of the difference, each size as likely
            let large: Vec<f64> = firsts
                .iter()
                .filter(|(shape, _)| shape.1 >= 16)
                .map(|(shape, size)| (*size as f64 - 0.5) / (f64::from(shape.1) / 2.0))
                .collect();
            let chance = if large.len() >= FEW { uniform_chance(&large, 1.0) } else { 0.0 };
            let why = format!(
                "sizes as a part of half of the difference are uniform with a chance of {}",
                plain(chance)
            );
            match chance >= 0.05 {
                true => done(
                    Answer::word(ID, "random", 0.95, total).because(why),
                    Answer::undecided(CAP, line.clone()),
                ),
                false => done(
                    Answer { runs: total, ..Answer::undecided(ID, why) },
                    Answer::undecided(CAP, line.clone()),
                ),
            }
        }
    }
}

/// A rule that sizes stay a little below: how many agree, what part of the rule's number they are in the mean, its cap.
type Below = (&'static str, usize, f64, Option<usize>);

/// The one rule that sizes stay a little below, by one task or by a fifth of it; with a cap only if none does without.
fn from_below(firsts: &[((u32, u32), usize)], n: f64) -> Option<Below> {
    let most = firsts.iter().map(|first| first.1).max()?;
    for cap in [None, Some(most)] {
        let most = cap.map_or(f64::INFINITY, |cap| cap as f64);
        let below = |(word, rule): Rule| {
            let wanted = |shape: &(u32, u32)| rule(f64::from(shape.0), f64::from(shape.1), n).min(most);
            let is_near = |(shape, size): &&((u32, u32), usize)| {
                let (wanted, size) = (wanted(shape), *size as f64);
                size >= (0.8 * wanted).min(wanted - 1.0) && size <= wanted.ceil().max(1.0)
            };
            let k = firsts.iter().filter(is_near).count();
            let large = firsts.iter().filter(|(shape, _)| wanted(shape) >= 4.0);
            let parts: Vec<f64> = large.map(|(shape, size)| *size as f64 / wanted(shape)).collect();
            (k * 10 >= firsts.len() * 9 && parts.len() >= FEW).then(|| (word, k, mean(&parts).mean, cap))
        };
        let mut fits: Vec<Below> = RULES.into_iter().filter_map(below).collect();
        if !fits.is_empty() {
            // one rule, not two
            return if fits.len() == 1 { fits.pop() } else { None };
        }
    }
    None
}

fn the_cap(word: &str, cap: Option<usize>, most: usize, n: usize) -> Answer {
    const ID: &str = "cap";
    match (word, cap) {
        ("one" | "fixed", _) => {
            Answer::not_applicable(ID, "the same number each time, whatever the difference")
        }
        (_, Some(cap)) => {
            let number = cap as f64;
            Answer::number(ID, Range { mean: number, low: number, high: number }, "tasks", n)
                .because(format!("no batch is larger than {cap}, and the rule alone would have larger ones"))
        }
        (_, None) => Answer::word(ID, "none", 0.95, n)
            .because(format!("the rule holds without one: batches of up to {most} tasks")),
    }
}

fn sizes_picture(firsts: &[((u32, u32), usize)], n: f64) -> schedlab_report::chart::Svg {
    let seen = firsts.iter().map(|(shape, size)| (f64::from(shape.1), *size as f64)).collect();
    let mut series = vec![Series::new("first batches", seen, Style::Points)];
    for (word, rule) in RULES {
        let line = [4.0, 64.0].map(|excess| (excess, rule(4.0, excess, n)));
        series.push(Series::new(word, line.to_vec(), Style::Dashed));
    }
    Chart {
        title: "tasks in the first batch from one queue".into(),
        x_label: "tasks more on each other queue".into(),
        y_label: "tasks moved at once".into(),
        series,
        ..Chart::default()
    }
    .svg()
}

fn threshold(view: &View<'_>) -> Answer {
    const ID: &str = "threshold";
    let mut parts = Vec::new();
    for difference in 1..=THRESHOLD_MAX {
        let rounds = view.rounds(What::Threshold { difference });
        let moves = |round: &InRun<'_>| {
            let source = special(&view.data.topology, round.one.seed + round.number);
            round.round.moves.iter().any(|m| m.from.index() == source && is_balance(m))
        };
        parts.push((difference, rounds.iter().filter(|round| moves(round)).count(), rounds.len()));
    }
    let reason: Vec<String> = parts.iter().map(|(d, k, n)| format!("{d}: {k} of {n}")).collect();
    let line = format!(
        "rounds in which the longer queue gave a task away, by how much longer it was: {}",
        reason.join(", ")
    );
    let first = parts.iter().find(|(_, k, n)| *n > 0 && k * 10 >= n * 9);
    let runs = parts.iter().map(|(_, _, n)| n).sum();
    let answer = match first {
        Some((difference, ..)) if parts.iter().all(|(d, k, n)| d >= difference || k * 10 <= *n) => {
            let number = f64::from(*difference);
            Answer::number(ID, Range { mean: number, low: number, high: number }, "tasks", runs)
                .because(line)
                .of(vec![number])
                .by("threshold")
        }
        _ => Answer { runs, ..Answer::undecided(ID, line) }
            .because("no difference from which on all, and below which none"),
    };
    Answer { picture: Some(given_away(&parts)), ..answer }
}

/// The share of rounds in which the longer queue gave a task away, by the difference.
fn given_away(parts: &[(u32, usize, usize)]) -> schedlab_report::chart::Svg {
    let share = |(difference, k, n): &(u32, usize, usize)| {
        (f64::from(*difference), 100.0 * *k as f64 / (*n).max(1) as f64)
    };
    Chart {
        title: "rounds in which the longer queue gave a task away".into(),
        x_label: "tasks by which it was longer".into(),
        y_label: "share of rounds, %".into(),
        y_marks: vec![0.0, 25.0, 50.0, 75.0, 100.0],
        series: vec![Series::new("", parts.iter().map(share).collect(), Style::Points)],
        ..Chart::default()
    }
    .svg()
}
