//! Which CPU goes on at a point? Four searches, and a given schedule.
//!
//! | name | each point | source |
//! |---|---|---|
//! | `mix` | in turn one of the next: random, pct with 2 and 3, pos | |
//! | `random` | any CPU that can go on, with equal chances | |
//! | `pct` | the CPU of highest priority; at d-1 points that one falls to the bottom | Burckhardt, ASPLOS 2010 |
//! | `pos` | the CPU with the highest random priority; accesses that conflict draw again | Yuan, CAV 2018 |
//! | `exhaustive` | all, with at most so many preemptions; or one of each class (`dpor.rs`) | Musuvathi, PLDI 2007 |

use crate::abi::CPUS_MAX;
use crate::dpor::Dpor;
use crate::schedule::{Choice, ChoiceKind};
use schedlab_stdx::Random;
use serde::{Deserialize, Serialize};

/// A search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// In turn: random, pct with 2, pct with 3, pos; of a whole scheduler as `whole/draw.rs` says.
    Mix,
    /// Equal chances at each point.
    Random,
    /// Priorities with this many order constraints, from 1.
    Pct(u32),
    /// Random priorities of accesses; of a whole scheduler `whole/pos.rs`, and under a weak model [`Strategy::Mix`].
    Pos,
    /// Of a whole scheduler: a CPU stands until another one changes what it looks at (`whole/conflict.rs`). A structure
    /// is searched as by [`Strategy::Pos`].
    Conflict,
    /// All schedules with at most so many preemptions; under a weak model: preemptions, stores that become visible
    /// before they must, and loads of what has been, together.
    Bounded(u32),
    /// One schedule of each class that differs in the order of accesses that conflict.
    Dpor,
}

impl Strategy {
    /// As reports have it.
    pub fn name(self) -> String {
        match self {
            Strategy::Mix => "mix".into(),
            Strategy::Random => "random".into(),
            Strategy::Pct(d) => format!("pct-{d}"),
            Strategy::Pos => "pos".into(),
            Strategy::Conflict => "conflict".into(),
            Strategy::Bounded(n) => format!("exhaustive, at most {n} preemptions"),
            Strategy::Dpor => "exhaustive, one schedule of each class".into(),
        }
    }

    /// Whether it ends by itself, and cannot be shared among processes.
    pub fn is_exhaustive(self) -> bool {
        matches!(self, Strategy::Bounded(_) | Strategy::Dpor)
    }
}

/// An access that a CPU is about to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) at: usize,
    pub(crate) size: u32,
    pub(crate) kind: StepKind,
    pub(crate) code: usize,
}

/// What kind of step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// The first, or between two calls: conflicts with all of its kind.
    #[default]
    Boundary,
    Read,
    Write,
    Atomic,
    Barrier,
    Lock,
    Unlock,
    Relax,
    /// Until the state of the CPU is no longer "asleep".
    Sleep,
    /// That state is set, by the CPU or by one that wakes it.
    State,
    /// A late store is to become visible when all calls are over.
    Drain,
    /// Nothing is left.
    Over,
}

impl Pending {
    fn writes(&self) -> bool {
        matches!(
            self.kind,
            StepKind::Write | StepKind::Atomic | StepKind::Lock | StepKind::Unlock | StepKind::State
        )
    }

    /// Whether the order of the two matters.
    pub(crate) fn conflicts(&self, other: &Pending) -> bool {
        match (self.kind, other.kind) {
            (StepKind::Boundary, StepKind::Boundary) => true,
            (
                StepKind::Boundary | StepKind::Barrier | StepKind::Relax | StepKind::Drain | StepKind::Over,
                _,
            )
            | (
                _,
                StepKind::Boundary | StepKind::Barrier | StepKind::Relax | StepKind::Drain | StepKind::Over,
            ) => false,
            _ => {
                (self.writes() || other.writes())
                    && self.at < other.at + other.size as usize
                    && other.at < self.at + self.size as usize
            }
        }
    }
}

/// Where a choice is made.
pub(crate) struct Fork<'a> {
    /// The CPU at the point; one more than the last: before any has begun.
    pub(crate) cur: usize,
    /// Which of its points.
    pub(crate) at: u32,
    /// CPUs that can go on, a bit each; not 0.
    pub(crate) mask: u32,
    /// What each is about to do.
    pub(crate) pending: &'a [Pending; CPUS_MAX + 1],
    /// What the rule says.
    pub(crate) rule: usize,
}

impl Fork<'_> {
    /// The CPU at the point cannot go on.
    fn is_forced(&self) -> bool {
        self.mask >> self.cur & 1 == 0
    }
}

/// The `n`th set bit, from 0.
fn nth(mask: u32, n: u32) -> usize {
    let mut mask = mask;
    for _ in 0..n {
        mask &= mask - 1;
    }
    mask.trailing_zeros() as usize
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    todo: u32,
    now: usize,
}

/// A search under way.
pub(crate) enum Search {
    Random(Random),
    Pct { random: Random, priority: [i64; CPUS_MAX], change: Vec<u64>, step: u64 },
    Pos { random: Random, priority: [u64; CPUS_MAX + 1] },
    Bounded { bound: u32, levels: Vec<Level>, place: usize, preemptions: u32 },
    Dpor(Box<Dpor>),
    Given { choices: Vec<Choice> },
}

impl Search {
    /// For schedule `index` of a search with `seed`; `length`: points of an ordinary schedule.
    pub(crate) fn new(strategy: Strategy, seed: u64, index: u64, length: u64) -> Search {
        let mut random = Random::for_part(seed, index);
        let turns = [Strategy::Random, Strategy::Pct(2), Strategy::Pct(3), Strategy::Pos];
        let strategy = if strategy == Strategy::Mix { turns[(index % 4) as usize] } else { strategy };
        match strategy {
            Strategy::Mix => unreachable!("it is one of the turns"),
            Strategy::Random => Search::Random(random),
            Strategy::Pct(depth) => {
                let mut priority = [0; CPUS_MAX];
                for p in &mut priority {
                    *p = (random.next_u64() >> 2) as i64 + 1000;
                }
                let change = (1..depth).map(|_| 1 + random.below(length.max(1))).collect();
                Search::Pct { random, priority, change, step: 0 }
            }
            Strategy::Pos | Strategy::Conflict => Search::Pos { random, priority: [0; CPUS_MAX + 1] },
            Strategy::Bounded(bound) => {
                Search::Bounded { bound, levels: Vec::new(), place: 0, preemptions: 0 }
            }
            Strategy::Dpor => Search::Dpor(Box::default()),
        }
    }

    /// Who goes on; `None`: this schedule is no use, for another one has shown the same.
    pub(crate) fn choose(&mut self, fork: &Fork<'_>) -> Option<usize> {
        let Fork { cur, at, mask, pending, rule } = *fork;
        Some(match self {
            Search::Random(random) => match mask.count_ones() {
                1 => mask.trailing_zeros() as usize,
                n => nth(mask, (((random.next_u64() >> 32) * u64::from(n)) >> 32) as u32),
            },
            Search::Pct { priority, change, step, .. } => {
                *step += 1;
                for (i, _) in change.iter().enumerate().filter(|(_, c)| **c == *step) {
                    if cur < CPUS_MAX {
                        priority[cur] = -(i as i64);
                    }
                }
                if pending[cur].kind == StepKind::Relax && cur < CPUS_MAX {
                    // who waits for others lets them go first
                    priority[cur] = -1000 - *step as i64;
                }
                (0..CPUS_MAX).filter(|c| mask >> c & 1 == 1).max_by_key(|c| priority[*c])?
            }
            Search::Pos { random, priority } => {
                priority[cur] = random.next_u64();
                let to = (0..CPUS_MAX).filter(|c| mask >> c & 1 == 1).max_by_key(|c| priority[*c])?;
                for c in (0..CPUS_MAX).filter(|&c| c != to && pending[c].conflicts(&pending[to])) {
                    priority[c] = random.next_u64();
                }
                to
            }
            Search::Bounded { bound, levels, place, preemptions } => {
                if *place == levels.len() {
                    let others = mask & !(1 << rule);
                    let todo = if fork.is_forced() || *preemptions < *bound { others } else { 0 };
                    levels.push(Level { todo, now: rule });
                }
                let to = levels[*place].now;
                *place += 1;
                if to != cur && !fork.is_forced() {
                    *preemptions += 1;
                }
                to
            }
            Search::Dpor(dpor) => dpor.choose(cur, mask, pending)?,
            Search::Given { choices } => {
                let is_here = |c: &&Choice| usize::from(c.cpu) == cur && c.at == at;
                let given = choices.iter().filter(is_here).find_map(|c| match c.what {
                    ChoiceKind::To(to) => Some(usize::from(to)),
                    _ => None,
                });
                given.filter(|to| mask >> to & 1 == 1).unwrap_or(rule)
            }
        })
    }

    /// Nobody can go on, and some wait for others.
    pub(crate) fn stuck(&mut self, pending: &[Pending; CPUS_MAX + 1]) {
        if let Search::Dpor(dpor) = self {
            dpor.stuck(pending);
        }
    }

    /// For the model's choices: a number below `bound`, 0 the rule.
    pub(crate) fn pick(&mut self, bound: usize) -> usize {
        match self {
            Search::Random(random) | Search::Pct { random, .. } | Search::Pos { random, .. } => {
                random.below(bound as u64) as usize
            }
            Search::Bounded { bound: most, levels, place, preemptions } => {
                if bound < 2 {
                    return 0;
                }
                if *place == levels.len() {
                    let all = (1u64 << bound.min(32)) - 1;
                    let todo = if *preemptions < *most { all as u32 & !1 } else { 0 };
                    levels.push(Level { todo, now: 0 });
                }
                let picked = levels[*place].now;
                *place += 1;
                *preemptions += u32::from(picked > 0);
                picked
            }
            Search::Dpor(_) | Search::Given { .. } => 0,
        }
    }

    /// Which of so many late stores becomes visible at a point, if any. `chance`: of 256.
    pub(crate) fn flush(&mut self, nr: usize, chance: u64) -> Option<usize> {
        if matches!(self, Search::Bounded { .. }) {
            return self.pick(nr + 1).checked_sub(1);
        }
        (chance > 0 && (self.pick(256) as u64) < chance).then(|| self.pick(nr))
    }

    /// How old the value is that a load sees, if there are so many older ones; 0: the newest.
    pub(crate) fn age(&mut self, older: usize) -> usize {
        match matches!(self, Search::Bounded { .. }) {
            true => self.pick(older + 1),
            false if self.pick(2) == 0 => 0,
            false => 1 + self.pick(older),
        }
    }

    /// What a given schedule says of the model's choices here.
    pub(crate) fn given(&self, cpu: usize, at: u32) -> impl Iterator<Item = ChoiceKind> + '_ {
        let choices: &[Choice] = match self {
            Search::Given { choices } => choices,
            _ => &[],
        };
        choices.iter().filter(move |c| usize::from(c.cpu) == cpu && c.at == at).map(|c| c.what)
    }

    /// Whether an exhaustive search has given up schedules for their length.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self, Search::Dpor(dpor) if dpor.is_cut)
    }

    /// The next schedule of an exhaustive search; `false`: there is none.
    pub(crate) fn advance(&mut self) -> bool {
        match self {
            Search::Bounded { levels, place, preemptions, .. } => {
                (*place, *preemptions) = (0, 0);
                while let Some(level) = levels.last_mut() {
                    if level.todo != 0 {
                        level.now = level.todo.trailing_zeros() as usize;
                        level.todo &= level.todo - 1;
                        return true;
                    }
                    levels.pop();
                }
                false
            }
            Search::Dpor(dpor) => dpor.advance(),
            _ => false,
        }
    }
}
