//! Which tasks, and where to? What weighs, what is distinguished, where tasks wake up and are born, what is near.

use super::View;
use crate::answer::{Answer, by_majority, plain};
use crate::data::One;
use crate::experiments::{DEMANDS, Level, What, has_siblings};
use crate::facts::Placement;
use crate::stats::{Range, largest, mean, rank_chance, share};
use schedlab_units::TaskId;

pub(super) fn answers(view: &View<'_>) -> Vec<Answer> {
    let mut answers = vec![weighted(view), choice(view)];
    answers.extend(heavy_loss(view));
    answers.extend([priorities(view), affinity_by_priority(view), wake(view), fork(view), exec(view)]);
    answers.extend([tolerated_imbalance(view), sticky(view)]);
    for level in [Level::Cache, Level::Node] {
        answers.extend(super::levels::answers(view, level));
    }
    answers.push(smt(view));
    answers.push(capacity(view));
    answers
}

/// Where tasks are at an instant.
fn places(one: &One, ns: u64) -> Vec<usize> {
    (0..one.facts.first.len())
        .map(|task| one.facts.cpu_before(TaskId(task as u32), ns).map_or(usize::MAX, |cpu| cpu.index()))
        .collect()
}

/// In the last seconds of a run, at each quarter of a second.
fn late_instants(one: &One) -> impl Iterator<Item = u64> {
    let end_ns = one.facts.duration_ns;
    (1..=8).map(move |n| end_ns.saturating_sub(n * 250_000_000))
}

fn weighted(view: &View<'_>) -> Answer {
    const ID: &str = "weighted";
    if let Some(answer) = view.no_queues(ID) {
        return answer;
    }
    let runs = view.data.of(What::Weighted);
    let company = |one: &One| {
        let of = |ns| {
            let places = places(one, ns);
            places.iter().filter(|cpu| **cpu == places[0]).count() - 1
        };
        late_instants(one).map(of).sum::<usize>() as f64 / 8.0
    };
    let companies: Vec<f64> = runs.iter().map(company).collect();
    let count = |test: &dyn Fn(f64) -> bool| companies.iter().filter(|c| test(**c)).count();
    let counts = [("yes", count(&|c| c < 0.25)), ("no", count(&|c| (0.75..=1.25).contains(&c)))];
    if companies.is_empty() {
        return Answer::undecided(ID, "no run of the experiment ended as it should");
    }
    by_majority(ID, &counts, runs.len()).with(mean(&companies), "tasks").of(companies).by("weighted").because(
        "tasks on the CPU of the one at nice -10 (nine times the weight of nice 0), in the last 2 s; by \
            number one, by weight none",
    )
}

/// Ways to put `heavy` and `light` tasks, one of each per CPU, over the ways to put two on each: n! n! 2^n n! ...
/// for four CPUs 8 of 35.
fn chance_of_all_mixed(n: u32) -> f64 {
    // the first CPU's two: n heavy and n light left: n * n / C(2n, 2) of being one of each, and so on
    (1..=n).map(|k| f64::from(k) * f64::from(k) / (f64::from(k) * (2.0 * f64::from(k) - 1.0))).product()
}

fn choice(view: &View<'_>) -> Answer {
    const ID: &str = "choice";
    if let Some(answer) = view.no_queues(ID) {
        return answer;
    }
    let runs = view.data.of(What::Mixed);
    let n = view.data.topology.nr_cpus();
    let (mut mixed, mut even) = (0, 0);
    let mut per_run = Vec::new();
    for one in runs {
        let places = places(one, one.facts.duration_ns);
        let on =
            |cpu: usize, tasks: std::ops::Range<usize>| tasks.filter(|task| places[*task] == cpu).count();
        let (heavy, all) = (n as usize, 2 * n as usize);
        if (0..heavy).all(|cpu| on(cpu, 0..all) == 2) {
            even += 1;
            let is_mixed = (0..heavy).all(|cpu| on(cpu, 0..heavy) == 1);
            mixed += usize::from(is_mixed);
            per_run.push(f64::from(u8::from(is_mixed)));
        }
    }
    let spread = |one: &One| {
        let places = places(one, one.facts.duration_ns);
        (0..n as usize).all(|cpu| places[..n as usize].iter().filter(|place| **place == cpu).count() == 1)
    };
    let apart = runs.iter().filter(|one| spread(one)).count();
    let chance = chance_of_all_mixed(n);
    let range = share(mixed, even);
    let reason = format!(
        "{n} heavy and {n} light (30 %) tasks began on one CPU; in the end {apart} of {} runs have the heavy ones \
        apart; of {even} runs with two tasks on each CPU {mixed} have one of each, by chance {} %",
        runs.len(),
        plain(100.0 * chance)
    );
    let heavies = share(apart, runs.len());
    if heavies.low > chance.max(0.5) {
        return Answer::word(ID, "informed", heavies.low, runs.len()).because(reason).of(per_run).by("mixed");
    }
    if even >= 10 && range.low <= chance && chance <= range.high && range.high < 0.6 {
        return Answer::word(ID, "blind", 0.95, even)
            .with(range, "share")
            .because(reason)
            .of(per_run)
            .by("mixed");
    }
    Answer { runs: runs.len(), ..Answer::undecided(ID, reason) }.of(per_run).by("mixed")
}

/// How much less CPU time the heavy tasks have than if one of each were bound to each CPU: soon after the release, and
/// in the last 6 s.
fn heavy_loss(view: &View<'_>) -> Vec<Answer> {
    let n = view.data.topology.nr_cpus() as usize;
    let of = |what: What, window: usize| -> Vec<f64> {
        let heavy =
            |one: &One| one.facts.in_windows.get(window).map(|cpu_ns| cpu_ns[..n].iter().sum::<u64>() as f64);
        view.data.of(what).iter().filter_map(heavy).collect()
    };
    let ids = ["heavy_loss_short", "heavy_loss_long"];
    let whens = ["from 1 to 2 s after the release", "in the last 6 s"];
    let loss = |window: usize| {
        let (bound, free) = (of(What::MixedBound, window), of(What::Mixed, window));
        let ideal = mean(&bound).mean;
        if bound.len() < 2 || free.len() < 4 || ideal <= 0.0 {
            let why =
                format!("{} runs with bound tasks, {} without; 2 and 4 are needed", bound.len(), free.len());
            return Answer::undecided(ids[window], why);
        }
        let losses: Vec<f64> = free.iter().map(|cpu_ns| 100.0 * (1.0 - cpu_ns / ideal)).collect();
        Answer::number(ids[window], mean(&losses), "% of CPU time", losses.len())
            .because(format!(
                "CPU time of {n} heavy tasks beside {n} light ones, {}, against the same tasks bound one of each to a \
                    CPU",
                whens[window]
            ))
            .of(losses)
            .by("mixed, mixed-bound")
    };
    vec![loss(0), loss(1)]
}

/// How much more CPU time may be wanted on one CPU than on another without anything being moved? The largest
/// difference that was left alone at the end of a run, of heavy tasks and light ones of several sizes.
fn tolerated_imbalance(view: &View<'_>) -> Answer {
    const ID: &str = "tolerated_imbalance";
    /// For so long nothing was moved.
    const ALONE_NS: u64 = 4_000_000_000;
    if let Some(answer) = view.no_queues(ID) {
        return answer;
    }
    let n = view.data.topology.nr_cpus() as usize;
    let mut found = Vec::new();
    let (mut runs, mut reason) = (0, Vec::new());
    for percent in DEMANDS {
        let what = if percent == 30 { What::Mixed } else { What::Demand { percent } };
        let (mut left, mut most) = (0, 0);
        for one in view.data.of(what) {
            runs += 1;
            let end_ns = one.facts.duration_ns;
            let is_late = |time_ns: u64| time_ns + ALONE_NS > end_ns;
            if one.facts.moves.iter().any(|moved| is_late(moved.time_ns) && super::is_balance(moved)) {
                continue;
            }
            let mut demands = vec![0; n];
            for (task, cpu) in places(one, end_ns).into_iter().enumerate().filter(|(_, cpu)| *cpu < n) {
                demands[cpu] += if task < n { 100 } else { percent };
            }
            let apart = demands.iter().max().unwrap_or(&0) - demands.iter().min().unwrap_or(&0);
            left += 1;
            most = most.max(apart);
            found.push(f64::from(apart));
        }
        reason.push(format!("{percent} %: {left} left alone, {most} % of a CPU at most"));
    }
    let reason = format!(
        "light tasks of so much of a CPU each beside as many heavy ones, runs at rest in the last 4 s, \
        and the difference between the CPUs' demands: {}",
        reason.join("; ")
    );
    if found.len() < 10 {
        return Answer { runs, ..Answer::undecided(ID, reason) }
            .because(format!("{} of {runs} runs were at rest, 10 are needed", found.len()));
    }
    let range = largest(&found);
    Answer::number(ID, range, "% of a CPU", found.len()).because(reason).of(found).by("demand, mixed")
}

/// Whether a task that had to wait long is served better for a while after the others have gone.
fn sticky(view: &View<'_>) -> Answer {
    const ID: &str = "sticky";
    /// Less of a CPU than this is no bonus.
    const CLEAR: f64 = 5.0;
    let of = |warm: bool| -> Vec<f64> {
        let percent = |one: &One| {
            let (from, to) = one.scenario.windows.first()?;
            let cpu_ns = one.facts.in_windows.first()?.first()?;
            Some(100.0 * *cpu_ns as f64 / (to.as_ns() - from.as_ns()) as f64)
        };
        view.data.of(What::Sticky { warm }).iter().filter_map(percent).collect()
    };
    let (cold, warm) = (of(false), of(true));
    if cold.len() < 6 || warm.len() < 6 {
        let why = format!("{} and {} runs, 6 are needed of each", cold.len(), warm.len());
        return Answer::undecided(ID, why);
    }
    let chance = rank_chance(&cold, &warm);
    let (without, with) = (mean(&cold), mean(&warm));
    let gain = with.mean - without.mean;
    let range = Range { mean: gain, low: with.low - without.high, high: with.high - without.low };
    let reason = format!(
        "a task that wants 85 % of a CPU, beside two that want all of it, has {} % of it; from 1 to 2 s after 16 \
        others have gone {} %; that this is chance has a chance of {}",
        plain(without.mean),
        plain(with.mean),
        plain(chance)
    );
    let n = cold.len() + warm.len();
    let word = match () {
        () if chance < 0.01 && gain > CLEAR => "yes",
        () if range.high < CLEAR => "no",
        () => return Answer { runs: n, ..Answer::undecided(ID, reason) }.of(warm),
    };
    Answer::word(ID, word, 0.95, n).with(range, "% of a CPU").because(reason).of(warm).by("sticky")
}

/// High and low priority: who shares a CPU in the end?
fn priorities(view: &View<'_>) -> Answer {
    const ID: &str = "priorities";
    if let Some(answer) = view.no_queues(ID) {
        return answer;
    }
    let n = view.data.topology.nr_cpus() as usize;
    let most =
        |places: &[usize]| (0..n).map(|cpu| places.iter().filter(|place| **place == cpu).count()).max();
    let word = |one: &One| {
        let (mut apart, mut even, mut all) = (0, 0, 0);
        for ns in late_instants(one) {
            let places = places(one, ns);
            let (high, low) = (most(&places[..n]) == Some(1), most(&places[n..]) == Some(1));
            all += 1;
            apart += usize::from(high);
            even += usize::from(high && low);
        }
        match () {
            () if even * 10 >= all * 8 => "spread",
            () if apart * 10 >= all * 8 => "weight",
            () if apart * 10 <= all * 2 => "clustered",
            () => "mixed",
        }
    };
    let words: Vec<&str> = view.data.of(What::Priorities).iter().map(word).collect();
    if words.is_empty() {
        return Answer::undecided(ID, "no run of the experiment ended as it should");
    }
    let counts =
        ["spread", "weight", "clustered"].map(|w| (w, words.iter().filter(|word| **word == w).count()));
    let which =
        |word: &&str| counts.iter().position(|(known, _)| known == word).unwrap_or(counts.len()) as f64;
    let samples = words.iter().map(which).collect();
    by_majority(ID, &counts, words.len()).by("priorities").of(samples).because(
        "tasks at nice -10 and 10, as many of each as CPUs; spread: one of each on each CPU; weight: the high ones \
        apart, the low ones anywhere; clustered: high ones share a CPU",
    )
}

/// Moves per second of CPU time of low and of high priority.
fn affinity_by_priority(view: &View<'_>) -> Answer {
    const ID: &str = "affinity_by_priority";
    if let Some(answer) = view.no_queues(ID) {
        return answer;
    }
    let n = view.data.topology.nr_cpus() as usize;
    let (mut moves, mut cpu_ns) = ([0usize; 2], [0u64; 2]);
    let rate = |moves: usize, cpu_ns: u64| moves as f64 * 1e9 / (cpu_ns as f64).max(1.0);
    let mut more = Vec::new();
    for one in view.data.of(What::Priorities) {
        let from_ns = one.scenario.window.as_ns();
        let (mut of_run, mut ns_of_run) = ([0usize; 2], [0u64; 2]);
        for moved in one.facts.moves.iter().filter(|moved| moved.time_ns >= from_ns) {
            of_run[usize::from(moved.task.index() < n)] += 1;
        }
        for (task, ns) in one.facts.cpu_ns.iter().enumerate() {
            ns_of_run[usize::from(task < n)] += ns;
        }
        more.push(rate(of_run[0], ns_of_run[0]) - rate(of_run[1], ns_of_run[1]));
        for which in [0, 1] {
            moves[which] += of_run[which];
            cpu_ns[which] += ns_of_run[which];
        }
    }
    let all = moves[0] + moves[1];
    let reason = format!(
        "moves per second of CPU time in the last 6 s: nice 10 {} ({} moves), nice -10 {} ({})",
        plain(rate(moves[0], cpu_ns[0])),
        moves[0],
        plain(rate(moves[1], cpu_ns[1])),
        moves[1]
    );
    let n_runs = view.data.of(What::Priorities).len();
    if n_runs < 4 || (1..20).contains(&all) {
        return Answer { runs: n_runs, ..Answer::undecided(ID, reason) }
            .because("fewer than 20 moves or 4 runs");
    }
    let range = share(moves[0], all);
    let expected = cpu_ns[0] as f64 / (cpu_ns[0] + cpu_ns[1]).max(1) as f64;
    let word = match () {
        () if all == 0 => "none",
        () if range.low > expected => "high",
        () if range.high < expected => "low",
        () => "none",
    };
    Answer::word(ID, word, 0.95, n_runs)
        .because(reason)
        .because("high: high priority stays where it is, low priority is moved more often; low: the other way round")
        .of(more)
        .by("priorities")
}

/// CPUs of other capacities: do as many tasks as there are large ones end on those?
fn capacity(view: &View<'_>) -> Answer {
    const ID: &str = "capacity";
    if !view.data.topology.is_asymmetric() {
        return Answer::not_applicable(ID, "all CPUs have the same capacity");
    }
    let cpus = view.data.topology.cpus();
    let most = cpus.iter().map(|cpu| cpu.capacity).max().unwrap_or(0);
    let of = |one: &One| {
        let places = places(one, one.facts.duration_ns);
        let large =
            places.iter().filter(|cpu| cpus.get(**cpu).is_some_and(|cpu| cpu.capacity == most)).count();
        large as f64 / places.len() as f64
    };
    let shares: Vec<f64> = view.data.of(What::Capacity).iter().map(of).collect();
    if shares.is_empty() {
        return Answer::undecided(ID, "no run of the experiment ended as it should");
    }
    let count = |test: &dyn Fn(f64) -> bool| shares.iter().filter(|share| test(**share)).count();
    let counts = [
        ("aware", count(&|share| share == 1.0)),
        ("reversed", count(&|share| share == 0.0)),
        ("blind", count(&|share| share > 0.0 && share < 1.0)),
    ];
    by_majority(ID, &counts, shares.len()).with(mean(&shares), "share").of(shares).by("capacity").because(
        "as many tasks as CPUs of the largest capacity began on a CPU of the smallest; aware: all end on the largest",
    )
}

/// Those that were put somewhere while they stood on CPU 0.
fn fresh(view: &View<'_>, what: What) -> Vec<Placement> {
    let all = view.data.of(what).iter().flat_map(|one| &one.facts.placements);
    all.filter(|placement| placement.from.0 == 0 && is_released(placement)).cloned().collect()
}

/// Not while it is bound: [`What::scenario`] binds at each tenth of a second, for 30 ms.
fn is_released(placement: &Placement) -> bool {
    placement.time_ns >= 100_000_000 && placement.time_ns % 100_000_000 > 30_000_000
}

/// Of the births between a release and the next step all but the first: a parent that was preempted within its fork may
/// have copied its mask for the child while it was bound. (In a guest a fork takes .65 ms.)
fn free_births(placements: &[Placement]) -> impl Iterator<Item = &Placement> {
    let mut released = None;
    let released_births = placements.iter().filter(|placement| is_released(placement));
    released_births.filter(move |placement| {
        let tenth = Some(placement.time_ns / 100_000_000);
        std::mem::replace(&mut released, tenth) == tenth
    })
}

/// How often each is true of where tasks were put.
struct Put {
    n: usize,
    stay: usize,
    waker: usize,
    idle: usize,
    shortest: usize,
    places: Vec<usize>,
}

impl Put {
    fn of(placements: &[Placement]) -> Put {
        let mut put =
            Put { n: placements.len(), stay: 0, waker: 0, idle: 0, shortest: 0, places: Vec::new() };
        for placement in placements {
            let least = placement.lengths.iter().min().copied().unwrap_or(0);
            let there = placement.lengths[placement.to.index()];
            put.stay += usize::from(placement.to == placement.from);
            put.waker += usize::from(placement.to == placement.by);
            put.idle += usize::from(there == 0);
            put.shortest += usize::from(there == least);
            put.places.push(placement.to.index());
        }
        put
    }

    fn mostly(&self, k: usize) -> bool {
        self.n >= 10 && k * 10 >= self.n * 9
    }

    /// Whether any CPU is as likely as another.
    fn is_even(&self, nr_cpus: usize) -> bool {
        let expected = self.n as f64 / nr_cpus as f64;
        let squares: f64 = (0..nr_cpus)
            .map(|cpu| {
                let seen = self.places.iter().filter(|place| **place == cpu).count() as f64;
                (seen - expected) * (seen - expected) / expected
            })
            .sum();
        // mean and standard deviation of chi-square: n - 1 and the root of 2 (n - 1); three of them
        let freedom = nr_cpus as f64 - 1.0;
        self.n >= 30 && nr_cpus > 2 && squares < freedom + 3.0 * (2.0 * freedom).sqrt()
    }

    fn reason(&self, when: &str) -> String {
        let Put { n, stay, waker, idle, shortest, .. } = self;
        format!(
            "{when}: of {n} {stay} stayed, {waker} went to the waker's or parent's CPU, {idle} to an idle one, \
            {shortest} to a shortest queue"
        )
    }
}

fn wake(view: &View<'_>) -> Answer {
    const ID: &str = "wake";
    let nr_cpus = view.data.topology.nr_cpus() as usize;
    let [beside_idle, all_busy] = [false, true].map(|all_busy| fresh(view, What::Wake { all_busy }));
    let (idle, busy) = (Put::of(&beside_idle), Put::of(&all_busy));
    // where it was is idle, and another CPU too
    let again: Vec<Placement> = view
        .data
        .of(What::Wake { all_busy: false })
        .iter()
        .flat_map(|one| &one.facts.placements)
        .filter(|p| is_released(p))
        .filter(|p| {
            p.lengths[p.from.index()] == 0 && p.lengths.iter().filter(|length| **length == 0).count() > 1
        })
        .cloned()
        .collect();
    let home = Put::of(&again);
    let n = idle.n + busy.n;
    let cache =
        |p: &Placement| view.data.topology.cpus()[p.to.index()].llc == view.data.topology.cpus()[0].llc;
    let near = beside_idle.iter().filter(|p| cache(p)).count();
    let has_caches = Level::Cache.exists(&view.data.topology);
    let word = match () {
        () if nr_cpus < 3 => None,
        () if idle.mostly(idle.waker) && busy.mostly(busy.waker) => Some("waker"),
        () if idle.mostly(idle.stay) && busy.mostly(busy.stay) => Some("previous"),
        () if idle.mostly(idle.idle) && busy.mostly(busy.shortest) => Some("shortest"),
        () if idle.mostly(idle.idle) && home.mostly(home.stay) => Some("idle-previous-first"),
        () if busy.is_even(nr_cpus) && idle.is_even(nr_cpus) => Some("random"),
        () => None,
    };
    let mut lines = vec![
        idle.reason("its CPU busy, others idle"),
        busy.reason("all busy, its own queue the longest"),
        home.reason("its CPU idle, others too"),
    ];
    if has_caches {
        lines.push(format!("of {} beside idle CPUs {near} stayed within the cache", idle.n));
    }
    let mut answer = match word {
        None => Answer { runs: n, ..Answer::undecided(ID, "no rule holds in nine of ten") },
        Some(word) => {
            // there are idle CPUs in its own cache: those are taken, or any
            let word = if word == "idle-previous-first" && has_caches && idle.mostly(near) {
                "idle-same-cache"
            } else {
                word
            };
            Answer::word(ID, word, share(n, n).low, n)
        }
    };
    answer.evidence.extend(lines);
    answer
        .of(beside_idle.iter().map(|p| f64::from(p.lengths[p.to.index()])).collect())
        .by("wake-idle, wake-busy")
}

fn fork(view: &View<'_>) -> Answer {
    let placements = [false, true].map(|all_busy| {
        let all =
            view.data.of(What::Fork { all_busy }).iter().flat_map(|one| free_births(&one.facts.placements));
        all.filter(|placement| placement.from.0 == 0).cloned().collect()
    });
    newcomer(view, "fork", placements, "parent").by("fork-idle, fork-busy")
}

fn exec(view: &View<'_>) -> Answer {
    let placements = [false, true].map(|all_busy| fresh(view, What::Exec { all_busy }));
    newcomer(view, "exec", placements, "task").by("exec-idle, exec-busy")
}

/// Where is a task put that has nothing in any cache, by one that stands on CPU 0? Beside idle CPUs, and with all busy.
fn newcomer(
    view: &View<'_>,
    id: &'static str,
    [beside_idle, all_busy]: [Vec<Placement>; 2],
    who: &str,
) -> Answer {
    let nr_cpus = view.data.topology.nr_cpus() as usize;
    let (idle, busy) = (Put::of(&beside_idle), Put::of(&all_busy));
    let word = match () {
        () if nr_cpus < 3 => None,
        () if idle.mostly(idle.stay) && busy.mostly(busy.stay) => Some("parent"),
        () if idle.mostly(idle.idle) && busy.mostly(busy.shortest) => Some("shortest"),
        () if idle.mostly(idle.idle) && busy.mostly(busy.stay) => Some("idle"),
        () if busy.is_even(nr_cpus) && idle.is_even(nr_cpus) => Some("random"),
        () => None,
    };
    let n = idle.n + busy.n;
    let mut answer = match word {
        None => Answer { runs: n, ..Answer::undecided(id, "no rule holds in nine of ten") },
        Some(word) => Answer::word(id, word, share(n, n).low, n),
    };
    answer.evidence.push(idle.reason(&format!("the {who}'s CPU busy, others idle")));
    answer.evidence.push(busy.reason(&format!("all busy, the {who}'s queue the longest")));
    answer.of(beside_idle.iter().map(|p| f64::from(p.lengths[p.to.index()])).collect())
}

fn smt(view: &View<'_>) -> Answer {
    const ID: &str = "smt";
    if !has_siblings(&view.data.topology) {
        return Answer::not_applicable(ID, "each core has one CPU");
    }
    let cpus = view.data.topology.cpus();
    let mut shared = Vec::new();
    for one in view.data.of(What::Cores) {
        let lengths = one.facts.lengths_at(one.facts.duration_ns);
        let busy =
            |core: u32| cpus.iter().zip(&lengths).filter(|(cpu, n)| cpu.core == core && **n > 0).count();
        let mut cores: Vec<u32> = cpus.iter().map(|cpu| cpu.core).collect();
        cores.sort_unstable();
        cores.dedup();
        shared.push(cores.into_iter().filter(|core| busy(*core) > 1).count() as f64);
    }
    let apart = shared.iter().filter(|n| **n == 0.0).count();
    let n = shared.len();
    let reason = format!(
        "one task per core began on one CPU; in the end {apart} of {n} runs have no core with two; in the mean {} \
        such cores",
        plain(mean(&shared).mean)
    );
    let answer = match () {
        () if n >= 5 && apart * 10 >= n * 9 => {
            Answer::word(ID, "aware", share(apart, n).low, n).because(reason)
        }
        () if n >= 5 && apart * 10 <= n => {
            Answer::word(ID, "blind", share(n - apart, n).low, n).because(reason)
        }
        () => Answer { runs: n, ..Answer::undecided(ID, reason) },
    };
    answer.of(shared).by("cores")
}
