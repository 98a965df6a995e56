//! Is a near queue told from a far one? Which of two equal queues is served first, when does work cross, and from
//! which difference on?
//!
//! ```text
//! cache 0: 2 12 2 2     cache 1: 12 2 2 2     two queues are the longest: near ones are taken from first, or any
//! cache 0: 2  2 2 2     cache 1: 12 2 2 2     does anything cross, and when?
//! cache 0: 3+d each     cache 1:  3 each      from which d on does anything cross?
//! ```

use super::{AT_ONCE_NS, InRun, View, is_balance, ms};
use crate::answer::{Answer, plain};
use crate::experiments::{Level, THRESHOLD_MAX, What, across, between, special};
use crate::stats::{Range, share, uniform_chance, uniform_max};
use schedlab_instruments::Move;
use schedlab_topology::Cpu;
use std::collections::BTreeMap;

/// Identifiers of a level's questions.
fn ids(level: Level) -> [&'static str; 3] {
    match level {
        Level::Cache => ["llc", "cross_llc_period_ms", "cross_llc_threshold"],
        Level::Node => ["numa", "cross_numa_period_ms", "cross_numa_threshold"],
    }
}

pub(super) fn answers(view: &View<'_>, level: Level) -> Vec<Answer> {
    if !level.exists(&view.data.topology) {
        let whole = if level == Level::Cache { "last-level cache" } else { "node" };
        return ids(level)
            .map(|id| Answer::not_applicable(id, format!("the machine has one {whole}")))
            .to_vec();
    }
    if let Some(why) = &view.shared {
        return ids(level).map(|id| Answer::not_applicable(id, why.clone())).to_vec();
    }
    let first = preference(view, level);
    let is_wall = first.answer == "wall";
    vec![first, period(view, level, is_wall), threshold(view, level, is_wall)]
}

fn part(view: &View<'_>, level: Level, cpu: usize) -> u32 {
    level.part(&view.data.topology.cpus()[cpu])
}

/// Choices between a near and a far queue of the same length, both the longest: for each whether the near one was
/// taken from. Who comes later in a round may find one of them shortened by others. That is no choice, and does not
/// count.
fn choices(view: &View<'_>, level: Level, round: &InRun<'_>) -> Vec<bool> {
    let cpus: &[Cpu] = view.data.topology.cpus();
    let target = special(&view.data.topology, round.one.seed + round.number);
    let mut lengths = between(&view.data.topology, level, target, true);
    let mut served: Vec<usize> = Vec::new();
    let mut found = Vec::new();
    for moved in &round.round.moves {
        let (from, to) = (moved.from.index(), moved.to.index());
        let longest = |is_near: bool, lengths: &[u32]| {
            let of_kind =
                |cpu: &usize| *cpu != to && (level.part(&cpus[*cpu]) == level.part(&cpus[to])) == is_near;
            (0..cpus.len()).filter(of_kind).map(|cpu| lengths[cpu]).max()
        };
        let [near, far] = [true, false].map(|is_near| longest(is_near, &lengths));
        let is_even = near == far && near == Some(lengths[from]);
        if is_balance(moved) && is_even && !served.contains(&to) {
            found.push(level.part(&cpus[from]) == level.part(&cpus[to]));
        }
        served.push(to);
        lengths[from] = lengths[from].saturating_sub(1);
        lengths[to] += 1;
    }
    found
}

fn preference(view: &View<'_>, level: Level) -> Answer {
    let id = ids(level)[0];
    let rounds = view.rounds(What::Between { level, both: true });
    let all: Vec<bool> = rounds.iter().flat_map(|round| choices(view, level, round)).collect();
    let far_rounds = view.rounds(What::Between { level, both: false });
    let crosses = |moved: &&Move| {
        is_balance(moved) && part(view, level, moved.from.index()) != part(view, level, moved.to.index())
    };
    let crossed = far_rounds.iter().filter(|round| round.round.moves.iter().any(crosses)).count();
    let n_far = far_rounds.len();
    let nearer = all.iter().filter(|is_near| **is_near).count();
    let range = share(nearer, all.len());
    let reason = format!(
        "{} times a CPU chose between a near queue and a far one that were equally long, and took from near {nearer} \
        times; beside far queues only, tasks crossed in {crossed} of {n_far} rounds",
        all.len(),
    );
    let word = match () {
        () if n_far >= 10 && crossed == 0 && nearer > 0 => Some("wall"),
        () if all.len() < 10 => None,
        () if range.low > 0.6 => Some("aware"),
        () if range.high < 0.4 => Some("reversed"),
        () if range.low > 0.25 && range.high < 0.75 => Some("blind"),
        () => None,
    };
    let samples: Vec<f64> = all.iter().map(|is_near| f64::from(u8::from(*is_near))).collect();
    let name = format!("{}-near-and-far, {}-far", level.name(), level.name());
    let answer = match word {
        None => Answer { runs: all.len(), ..Answer::undecided(id, reason) },
        Some(word) => Answer::word(id, word, 0.95, all.len()).with(range, "share").because(reason),
    };
    answer.of(samples).by(name)
}

/// When a CPU with a short queue takes its first task from afar. A CPU counts if in nine of ten rounds of its own the
/// first task that comes to it is one from afar: one that others serve before says nothing of its own interval.
fn period(view: &View<'_>, level: Level, is_wall: bool) -> Answer {
    let id = ids(level)[1];
    if is_wall {
        return Answer::not_applicable(id, "nothing crosses");
    }
    let mut by_cpu: BTreeMap<usize, Vec<Option<u64>>> = BTreeMap::new();
    for round in view.rounds(What::Between { level, both: false }) {
        let target = special(&view.data.topology, round.one.seed + round.number);
        let first = round.round.moves.iter().find(|moved| moved.to.index() == target && is_balance(moved));
        let from_afar = first.filter(|moved| {
            moved.mover == Some(moved.to)
                && part(view, level, moved.from.index()) != part(view, level, target)
        });
        by_cpu.entry(target).or_default().push(from_afar.map(|moved| moved.time_ns - round.round.at_ns));
    }
    let all = by_cpu.len();
    let counts = |times: &&Vec<Option<u64>>| times.iter().flatten().count() * 10 >= times.len() * 9;
    let own: Vec<&Vec<Option<u64>>> = by_cpu.values().filter(counts).collect();
    let times: Vec<f64> = own
        .iter()
        .flat_map(|times| times.iter().flatten())
        .filter(|ns| **ns > AT_ONCE_NS)
        .map(|ns| ms(*ns))
        .collect();
    let reason =
        format!("{} of {all} CPUs take from afar before others serve them; {} times", own.len(), times.len());
    if times.len() < 10 {
        return Answer { runs: times.len(), ..Answer::undecided(id, reason) }
            .because("10 times are needed")
            .of(times);
    }
    let whole = uniform_max(&times);
    let chance = uniform_chance(&times, whole.mean);
    let reason =
        format!("{reason} from a drawn instant on; that they are uniform has a chance of {}", plain(chance));
    let answer = match chance >= 0.01 {
        true => Answer::number(id, whole, "ms", times.len()).because(reason),
        false => Answer { runs: times.len(), ..Answer::undecided(id, reason) },
    };
    answer.of(times).by(format!("{}-far", level.name()))
}

/// From which difference on tasks cross, if all queues of one part are longer by it than all of the others.
fn threshold(view: &View<'_>, level: Level, is_wall: bool) -> Answer {
    let id = ids(level)[2];
    if is_wall {
        return Answer::not_applicable(id, "nothing crosses");
    }
    let mut parts: Vec<(u32, usize, usize)> = Vec::new();
    for difference in across(&view.data.topology) {
        let rounds = view.rounds(What::Across { level, difference });
        let crosses = |round: &&InRun<'_>| {
            let is_other = |moved: &&&Move| {
                is_balance(moved)
                    && part(view, level, moved.from.index()) != part(view, level, moved.to.index())
            };
            round.round.moves.iter().any(|moved| is_other(&moved))
        };
        parts.push((difference, rounds.iter().filter(crosses).count(), rounds.len()));
    }
    let shown: Vec<String> = parts.iter().map(|(d, k, n)| format!("{d}: {k} of {n}")).collect();
    let line =
        format!("rounds in which tasks crossed, by how much longer the queues were: {}", shown.join(", "));
    let runs = parts.iter().map(|(_, _, n)| n).sum();
    let first = parts.iter().position(|(_, k, n)| *n > 0 && k * 10 >= n * 9);
    let name = format!("{}-across", level.name());
    match first {
        Some(place) if parts[..place].iter().all(|(_, k, n)| k * 10 <= *n) => {
            let number = f64::from(parts[place].0);
            let low = place.checked_sub(1).map_or(number, |before| f64::from(parts[before].0 + 1));
            Answer::number(id, Range { mean: number, low, high: number }, "tasks", runs)
                .because(line)
                .of(vec![number])
                .by(name)
        }
        None if parts.iter().all(|(_, k, n)| *n > 0 && *k == 0) => {
            Answer { runs, ..Answer::undecided(id, line) }
                .because(format!("nothing crossed: the threshold is above {THRESHOLD_MAX}"))
        }
        _ => Answer { runs, ..Answer::undecided(id, line) }
            .because("no difference from which on all, and below which none"),
    }
}
