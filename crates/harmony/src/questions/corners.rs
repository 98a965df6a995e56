//! Is a CPU overlooked? A task whose CPU others take from, a small CPU, a busy CPU beside its idle sibling, an isolated
//! one.
//!
//! ```text
//! reduced    others have 30 % of a task's CPU, three CPUs are idle: it leaves after 4 ms
//! little     two tasks on a large CPU, nothing on a small one: one comes after 21 ms
//! sibling    a core of a busy and an idle CPU: 0 of 981 tasks that came were taken by the busy one
//! isolated   0 of 200 wakeups beside an isolated idle CPU went there
//! ```

use super::{View, is_balance, ms};
use crate::answer::{Answer, plain};
use crate::data::One;
use crate::experiments::What;
use crate::experiments::corners::{large_and_small, last_core};
use crate::plan::Act;
use crate::stats::{Range, median, share};
use schedlab_units::TaskId;

pub(super) fn answers(view: &View<'_>) -> Vec<Answer> {
    vec![reduced(view), little(view), sibling(view), isolated(view)]
}

/// When the tasks were released, and how long the run went on.
fn released_ns(one: &One) -> u64 {
    let mark = one.scenario.marks.iter().find(|mark| mark.act == Act::Release);
    mark.map_or(0, |mark| mark.at.as_ns())
}

/// Of so many runs or events so many are as the second word says: in nine of ten the one or the other word.
fn either(id: &'static str, [no, yes]: [&str; 2], k: usize, n: usize) -> Answer {
    let range = share(k, n);
    match () {
        () if n >= 5 && k * 10 >= n * 9 => Answer::word(id, yes, range.low, n),
        () if n >= 5 && k * 10 <= n => Answer::word(id, no, 1.0 - range.high, n),
        () if n >= 20 => Answer::word(id, "partly", 0.95, n),
        () => Answer { runs: n, ..Answer::undecided(id, "no answer holds in nine of ten") },
    }
}

/// Does a task leave a CPU of whose time others take a part, beside idle CPUs?
fn reduced(view: &View<'_>) -> Answer {
    const ID: &str = "reduced_capacity";
    let runs = view.data.of(What::Reduced);
    let leaves = |one: &One| {
        let from_ns = released_ns(one);
        let first = one.facts.moves.iter().find(|moved| moved.task == TaskId(0) && moved.time_ns >= from_ns);
        first.map_or(one.facts.duration_ns, |moved| moved.time_ns) - from_ns
    };
    let times: Vec<u64> = runs.iter().map(leaves).collect();
    let stays = |(ns, one): (&u64, &One)| ns + released_ns(one) == one.facts.duration_ns;
    let stayed = times.iter().zip(runs).filter(|pair| stays(*pair)).count();
    let n = runs.len();
    let samples: Vec<f64> = times.iter().map(|ns| ms(*ns)).collect();
    let reason = format!(
        "a real-time task takes 30 % of a hog's CPU, and all others are idle; the hog may leave: it does in {} of {n} \
        runs, after {} ms in the middle",
        n - stayed,
        plain(median(&samples).mean)
    );
    either(ID, ["no", "yes"], n - stayed, n)
        .with(median(&samples), "ms")
        .because(reason)
        .of(samples)
        .by("reduced")
}

/// How long is a small CPU idle beside two tasks on a large one?
fn little(view: &View<'_>) -> Answer {
    const ID: &str = "little_idle_ms";
    let Some([large, _, small]) = large_and_small(&view.data.topology) else {
        return Answer::not_applicable(
            ID,
            "there are no two CPUs of the largest capacity beside a smaller one",
        );
    };
    let idles = |one: &One| {
        let mut until_ns = one.facts.duration_ns;
        one.facts.for_each_state(released_ns(one), |from_ns, _, lengths| {
            let waits = lengths[small as usize] == 0 && lengths[large as usize] > 1;
            if !waits {
                until_ns = until_ns.min(from_ns);
            }
        });
        ms(until_ns - released_ns(one))
    };
    let samples: Vec<f64> = view.data.of(What::Little).iter().map(idles).collect();
    if samples.len() < 5 {
        return Answer::undecided(ID, format!("{} runs, 5 are needed", samples.len()));
    }
    let reason = format!(
        "a task on each CPU, but two on CPU {large}, of the largest capacity, and none on CPU {small}, of the \
        smallest; the two have been alone on a large CPU before"
    );
    Answer::number(ID, median(&samples), "ms", samples.len()).because(reason).of(samples).by("little")
}

/// A core has a busy CPU and an idle one: who takes what may come to both?
fn sibling(view: &View<'_>) -> Answer {
    const ID: &str = "busy_beside_idle";
    let Some([busy, idle]) = last_core(&view.data.topology) else {
        return Answer::not_applicable(ID, "no core but the first has two CPUs");
    };
    if let Some(answer) = view.no_queues(ID) {
        return answer;
    }
    let taken = |one: &One, cpu: u32| {
        let by = |moved: &&schedlab_instruments::Move| {
            is_balance(moved)
                && moved.task == one.scenario.watched[0]
                && moved.to.0 == cpu
                && moved.from.0 == 0
        };
        one.facts.moves.iter().filter(by).count()
    };
    let runs = view.data.of(What::Sibling);
    let samples: Vec<f64> = runs.iter().map(|one| taken(one, busy) as f64).collect();
    let by_busy: usize = runs.iter().map(|one| taken(one, busy)).sum();
    let all = by_busy + runs.iter().map(|one| taken(one, idle)).sum::<usize>();
    let range = share(by_busy, all);
    let reason = format!(
        "CPU {busy} is busy and CPU {idle} of the same core idle; a task of CPU 0 may come to both now and then: \
        {by_busy} of {all} times it came to the busy one"
    );
    let answer = match () {
        () if all < 100 => Answer { runs: all, ..Answer::undecided(ID, "100 times are needed") },
        () if by_busy > 0 => Answer::word(ID, "yes", 1.0, all).with(range, "share"),
        () => Answer::word(ID, "no", 1.0 - range.high, all).with(range, "share"),
    };
    answer.because(reason).of(samples).by("sibling")
}

/// Is a sleeper woken on a CPU that is left out of balancing?
fn isolated(view: &View<'_>) -> Answer {
    const ID: &str = "isolated";
    let found = view.data.runs.keys().find_map(|what| match what {
        What::Isolated { cpu } => Some((*what, *cpu)),
        _ => None,
    });
    let Some((what, cpu)) = found else {
        return Answer::not_applicable(ID, "boot.isolcpus leaves out no CPU whose core has another");
    };
    let (mut samples, mut all, mut there) = (Vec::new(), 0, 0);
    for one in view.data.of(what) {
        let placements = one.facts.placements.iter().filter(|p| !p.born && p.lengths[cpu as usize] == 0);
        let (mut n, mut k) = (0, 0);
        for placement in placements {
            n += 1;
            k += usize::from(placement.to.0 == cpu);
        }
        samples.push(k as f64 / f64::from(n.max(1) as u32));
        all += n;
        there += k;
    }
    let range: Range = share(there, all);
    let reason = format!(
        "all CPUs are busy but CPU {cpu}, which boot.isolcpus leaves out: of {all} wakeups of a task that may go \
        anywhere {there} went there"
    );
    either(ID, ["left-alone", "used"], there, all)
        .with(range, "share")
        .because(reason)
        .of(samples)
        .by(what.name())
}
