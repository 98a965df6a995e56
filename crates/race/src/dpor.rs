//! Which schedules differ at all? Two that order all conflicting accesses alike show the same, so one of each such
//! class is enough.
//!
//! Dynamic partial-order reduction with source sets and sleep sets (Abdulla, Aronis, Jonsson and Sagonas, POPL 2014).
//! After each step the accesses that conflict with what a CPU is about to do, and are not ordered with it by others,
//! are looked for. Where such a one was done, what leads to the other order is to be tried, too:
//!
//! ```text
//! cpu0: x=1        cpu1: r=y; r=x       classes: r=x before x=1, or after: 2 executions of 3 orders
//! ```
//!
//! What is checked at each point sees only the states of the orders that are executed; what a call returns is complete.

use crate::abi::CPUS_MAX;
use crate::strategy::{Pending, StepKind};

type Clock = [u32; CPUS_MAX];

/// A state of the schedule, and the step that was taken from it.
struct Node {
    enabled: u32,
    done: u32,
    backtrack: u32,
    sleep: u32,
    chosen: usize,
    step: Pending,
    /// What has happened before that step, of each CPU how many steps.
    clock: Clock,
    pending: [Pending; CPUS_MAX + 1],
}

fn join(clock: &mut Clock, other: &Clock) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}

/// An order with more points is given up: each is compared with all before it.
const LENGTH_MAX: usize = 2000;

/// The search.
#[derive(Default)]
pub(crate) struct Dpor {
    nodes: Vec<Node>,
    place: usize,
    /// Orders that were begun and given up, for another one shows the same.
    pub(crate) redundant: u64,
    /// One was given up for its length: not all has been seen.
    pub(crate) is_cut: bool,
}

impl Dpor {
    /// The clock of CPU `p` after its steps among the first `n` nodes.
    fn clock_of(&self, p: usize, n: usize) -> Clock {
        self.nodes[..n].iter().rev().find(|node| node.chosen == p).map_or([0; CPUS_MAX], |node| node.clock)
    }

    /// Where the order of a CPU's next step and an earlier one could be the other way round.
    fn find_races(&mut self, pending: &[Pending; CPUS_MAX + 1], n: usize) {
        let mut counts = [0u32; CPUS_MAX];
        let mut numbers = Vec::with_capacity(n);
        for node in &self.nodes[..n] {
            counts[node.chosen] += 1;
            numbers.push(counts[node.chosen]);
        }
        for (p, next) in pending.iter().enumerate().take(CPUS_MAX) {
            if next.kind == StepKind::Over || next.size == 0 && next.kind != StepKind::Boundary {
                continue;
            }
            let mut clock = self.clock_of(p, n);
            for i in (0..n).rev() {
                let node = &self.nodes[i];
                if node.chosen == p || !node.step.conflicts(next) || clock[node.chosen] >= numbers[i] {
                    continue;
                }
                join(&mut clock, &node.clock);
                self.turn_round(i, (p, next), &numbers);
            }
        }
    }

    /// The step of node `i` and the next one of `p` are to come in the other order, too. What came between them and
    /// does not need step `i` comes first; one of those that may begin it goes on from that node.
    fn turn_round(&mut self, i: usize, (p, next): (usize, &Pending), numbers: &[u32]) {
        let n = numbers.len();
        let needs = |clock: &Clock, k: usize| clock[self.nodes[k].chosen] >= numbers[k];
        let mut whole = self.clock_of(p, n);
        let conflicting = self.nodes[..n].iter().filter(|node| node.step.conflicts(next));
        conflicting.for_each(|node| join(&mut whole, &node.clock));
        let mut before: Vec<usize> = Vec::new();
        let mut may_begin = 0u32;
        for j in (i + 1..n).filter(|j| !needs(&self.nodes[*j].clock, i)) {
            if !before.iter().any(|k| needs(&self.nodes[j].clock, *k)) {
                may_begin |= 1 << self.nodes[j].chosen;
            }
            before.push(j);
        }
        if !before.iter().any(|k| needs(&whole, *k)) {
            may_begin |= 1 << p;
        }
        let node = &mut self.nodes[i];
        if may_begin & (node.backtrack | node.sleep) != 0 {
            return;
        }
        node.backtrack |= match may_begin & node.enabled {
            // `p` waits for a lock that is held there
            0 => node.enabled,
            some if some >> p & 1 == 1 => 1 << p,
            some => 1 << some.trailing_zeros(),
        };
    }

    /// Nobody can go on, and some wait.
    pub(crate) fn stuck(&mut self, pending: &[Pending; CPUS_MAX + 1]) {
        if self.place == self.nodes.len() {
            self.find_races(pending, self.place);
        }
    }

    /// Who goes on; `None`: all that could go on are asleep.
    pub(crate) fn choose(
        &mut self,
        cur: usize,
        mask: u32,
        pending: &[Pending; CPUS_MAX + 1],
    ) -> Option<usize> {
        let n = self.place;
        if n >= LENGTH_MAX {
            self.is_cut = true;
            return None;
        }
        if n == self.nodes.len() {
            self.find_races(pending, n);
            let sleep = self.nodes.last().map_or(0, |parent| {
                let candidates = parent.sleep | (parent.done & !(1 << parent.chosen));
                (0..CPUS_MAX)
                    .filter(|&q| {
                        candidates >> q & 1 == 1
                            && q != parent.chosen
                            && !parent.pending[q].conflicts(&parent.step)
                    })
                    .fold(0, |set, q| set | 1 << q)
            });
            let awake = mask & !sleep;
            if awake == 0 {
                self.redundant += 1;
                return None;
            }
            let first =
                if cur < CPUS_MAX && awake >> cur & 1 == 1 { cur } else { awake.trailing_zeros() as usize };
            self.nodes.push(Node {
                enabled: mask,
                done: 1 << first,
                backtrack: 1 << first,
                sleep,
                chosen: first,
                step: Pending::default(),
                clock: [0; CPUS_MAX],
                pending: *pending,
            });
        }
        let to = self.nodes[n].chosen;
        let step = pending[to];
        let mut clock = self.clock_of(to, n);
        for node in &self.nodes[..n] {
            if node.step.conflicts(&step) {
                join(&mut clock, &node.clock);
            }
        }
        clock[to] += 1;
        let node = &mut self.nodes[n];
        (node.step, node.clock, node.pending) = (step, clock, *pending);
        self.place += 1;
        Some(to)
    }

    /// The next order; `false`: all have been executed.
    pub(crate) fn advance(&mut self) -> bool {
        self.place = 0;
        while let Some(node) = self.nodes.last_mut() {
            let todo = node.backtrack & node.enabled & !node.done & !node.sleep;
            if todo != 0 {
                node.chosen = todo.trailing_zeros() as usize;
                node.done |= 1 << node.chosen;
                return true;
            }
            self.nodes.pop();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_stdx::Random;
    use std::collections::BTreeSet;

    type Program = Vec<Vec<Pending>>;
    /// Pairs of steps that conflict, first ones first: CPU and number of each. With itself: how far that CPU comes.
    type Class = Vec<(usize, usize, usize, usize)>;

    fn access(at: usize, kind: StepKind) -> Pending {
        Pending { at, size: 4, kind, code: 0 }
    }

    /// `r0 w1` for each CPU: a load of place 0, a store to place 1; `a0`: an atomic operation; `c`: a boundary
    /// between two calls; `l0 u0`: lock 0 is taken and given back.
    fn program(text: &str) -> Program {
        let step = |word: &str| {
            let at = word[1..].parse::<usize>().unwrap_or(0) * 8 + 64;
            match &word[..1] {
                "r" => access(at, StepKind::Read),
                "w" => access(at, StepKind::Write),
                "a" => access(at, StepKind::Atomic),
                "l" => access(at + 640, StepKind::Lock),
                "u" => access(at + 640, StepKind::Unlock),
                _ => Pending::default(),
            }
        };
        text.split('|').map(|cpu| cpu.split_whitespace().map(step).collect()).collect()
    }

    /// Who stands where, and which locks are held.
    #[derive(Clone)]
    struct State {
        next: Vec<usize>,
        held: BTreeSet<usize>,
        order: Vec<usize>,
    }

    impl State {
        fn first(program: &Program) -> State {
            State { next: vec![0; program.len()], held: BTreeSet::new(), order: Vec::new() }
        }

        /// CPUs that can go on, a bit each.
        fn mask(&self, program: &Program) -> u32 {
            let can = |step: &Pending| step.kind != StepKind::Lock || !self.held.contains(&step.at);
            let cpus = program.iter().zip(&self.next).enumerate();
            cpus.filter(|(_, (steps, next))| steps.get(**next).is_some_and(can))
                .fold(0, |mask, (cpu, _)| mask | 1 << cpu)
        }

        fn goes_on(&mut self, program: &Program, cpu: usize) {
            let step = program[cpu][self.next[cpu]];
            match step.kind {
                StepKind::Lock => drop(self.held.insert(step.at)),
                StepKind::Unlock => drop(self.held.remove(&step.at)),
                _ => {}
            }
            self.next[cpu] += 1;
            self.order.push(cpu);
        }
    }

    /// What orders of one class have in common: the order of steps that conflict, and how far each CPU comes.
    fn class(program: &Program, order: &[usize]) -> Class {
        let mut next = vec![0; program.len()];
        let steps: Vec<(usize, usize)> = order
            .iter()
            .map(|&cpu| {
                next[cpu] += 1;
                (cpu, next[cpu] - 1)
            })
            .collect();
        let mut pairs: Class = next.iter().enumerate().map(|(cpu, n)| (cpu, *n, cpu, *n)).collect();
        for (n, &(a, i)) in steps.iter().enumerate() {
            for &(b, j) in &steps[n + 1..] {
                if a != b && program[a][i].conflicts(&program[b][j]) {
                    pairs.push((a, i, b, j));
                }
            }
        }
        pairs.sort_unstable();
        pairs
    }

    fn all(program: &Program, state: &State, classes: &mut BTreeSet<Class>) {
        let mask = state.mask(program);
        if mask == 0 {
            classes.insert(class(program, &state.order));
        }
        for cpu in (0..program.len()).filter(|cpu| mask >> cpu & 1 == 1) {
            let mut state = state.clone();
            state.goes_on(program, cpu);
            all(program, &state, classes);
        }
    }

    fn explored(program: &Program) -> (u64, BTreeSet<Class>) {
        let mut dpor = Dpor::default();
        let (mut executions, mut classes) = (0, BTreeSet::new());
        loop {
            let mut state = State::first(program);
            let mut cur = CPUS_MAX;
            let is_cut = loop {
                let mut pending = [Pending { kind: StepKind::Over, ..Pending::default() }; CPUS_MAX + 1];
                for (cpu, steps) in program.iter().enumerate() {
                    if let Some(step) = steps.get(state.next[cpu]) {
                        pending[cpu] = *step;
                    }
                }
                let mask = state.mask(program);
                if mask == 0 {
                    dpor.stuck(&pending);
                    break false;
                }
                let Some(to) = dpor.choose(cur, mask, &pending) else { break true };
                state.goes_on(program, to);
                cur = to;
            };
            if !is_cut {
                executions += 1;
                classes.insert(class(program, &state.order));
            }
            if !dpor.advance() {
                return (executions, classes);
            }
        }
    }

    const PROGRAMS: [&str; 10] = [
        "w0|w1",
        "w0|w0",
        "w0|r0 r0",
        "w0 w1|r1 r0",
        "w0 r1|w1 r0",
        "w0|w0|w0",
        "w0 r1|w1 r2|w2 r0",
        "a0 r1|a0 w1|r0",
        "c w0 c r1|c w1 c r0",
        "r0 w0|r0 w0|r0",
    ];

    fn classes(program: &Program) -> BTreeSet<Class> {
        let mut classes = BTreeSet::new();
        all(program, &State::first(program), &mut classes);
        classes
    }

    fn has_one_execution_of_each_class(text: &str) {
        let program = program(text);
        let classes = classes(&program);
        let (executions, seen) = explored(&program);
        assert_eq!(seen, classes, "{text}");
        assert_eq!(executions, classes.len() as u64, "{text}: each class once");
    }

    #[test]
    fn ten_programs_have_one_execution_of_each_class() {
        PROGRAMS.into_iter().for_each(has_one_execution_of_each_class);
        // who begins is one order more; a sleeping CPU does not begin what leads to another order here
        has_one_execution_of_each_class("c w0 r1|c w1 r2|c w2 r0");
    }

    /// Steps of a drawn CPU: locks are given back in the end, the last one first.
    fn drawn(random: &mut Random, steps: u64) -> String {
        let (mut words, mut held) = (Vec::new(), Vec::new());
        if random.below(2) == 0 {
            words.push("c".to_owned());
        }
        for _ in 0..=random.below(steps) {
            let lock = random.below(2);
            match random.below(10) {
                0..=2 if !held.contains(&lock) => {
                    words.push(format!("l{lock}"));
                    held.push(lock);
                }
                3 if !held.is_empty() => words.extend(held.pop().map(|lock| format!("u{lock}"))),
                n => words.push(format!("{}{}", if n < 7 { "r" } else { "w" }, random.below(3))),
            }
        }
        words.extend(held.iter().rev().map(|lock| format!("u{lock}")));
        words.join(" ")
    }

    #[test]
    fn drawn_programs_have_one_execution_of_each_class() {
        let mut random = Random::new(1);
        for _ in 0..400 {
            let cpus = 2 + random.below(2);
            let steps = if cpus == 2 { 4 } else { 3 };
            let text = (0..cpus).map(|_| drawn(&mut random, steps)).collect::<Vec<_>>().join("|");
            if text.matches(['r', 'w', 'l', 'u', 'c']).count() <= 11 {
                has_one_execution_of_each_class(&text);
            }
        }
    }

    /// The same ten as C: an operation for each call, and the scenarios that call them. A CPU begins with a boundary.
    fn compiled_programs() -> (String, Vec<(String, Program)>) {
        let mut c = "#include <schedlab_race.h>\n#include <stddef.h>\nstatic int v[3];\n\
                     #define ONCE(x) (*(volatile int *)&(x))\n"
            .to_owned();
        let mut ops = String::new();
        let mut scenarios = Vec::new();
        for (n, text) in PROGRAMS.iter().enumerate() {
            let cpus: Vec<&str> = text.split('|').collect();
            let mut scenario = format!("cpus {}\n", cpus.len());
            let mut with_boundaries = Vec::new();
            for (cpu, steps) in cpus.iter().enumerate() {
                let calls: Vec<&str> = steps.trim_start_matches('c').split('c').map(str::trim).collect();
                for (call, steps) in calls.iter().enumerate() {
                    let name = format!("p{n}_{cpu}_{call}");
                    c.push_str(&format!("static long {name}(int cpu, const long *args, int nr_args)\n{{\n"));
                    for step in steps.split_whitespace() {
                        let at = &step[1..];
                        c.push_str(&match &step[..1] {
                            "r" => format!("\t(void)ONCE(v[{at}]);\n"),
                            "w" => format!("\tONCE(v[{at}]) = 1;\n"),
                            _ => format!("\trace_atomic(&v[{at}], 4, RACE_ADD, 1, 0, RACE_RELAXED, 1);\n"),
                        });
                    }
                    c.push_str("\treturn 0;\n}\n");
                    ops.push_str(&format!("\t{{ \"{name}\", {name}, \"\", 0 }},\n"));
                    scenario.push_str(&format!("cpu{cpu} {name}\n"));
                }
                with_boundaries.push(format!("c {}", calls.join(" c ")));
            }
            scenarios.push((scenario, program(&with_boundaries.join("|"))));
        }
        c.push_str(&format!(
            "static const struct race_op ops[] = {{\n{ops}\t{{ NULL }},\n}};\n\
             RACE_TARGET(.name = \"ten\", .ops = ops);\n"
        ));
        (c, scenarios)
    }

    /// What the compiler made of them is run by the engine: the executions are as many as a naive enumerator's classes.
    #[test]
    fn ten_compiled_programs_have_one_execution_of_each_class() {
        let (source, scenarios) = compiled_programs();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ten.c");
        std::fs::write(&path, source).unwrap();
        let plan = crate::explore::Plan {
            compiled: crate::compile::own_target(&path, &[]).unwrap(),
            model: crate::MemoryModel::Sc,
            strategy: crate::Strategy::Dpor,
            seed: 1,
            schedules: u64::MAX,
            jobs: 1,
            findings: 1,
            from: 0,
            aside: Vec::new(),
            without: Vec::new(),
            races: false,
        };
        for (text, program) in scenarios {
            let scenario = crate::Scenario::parse("ten", &text).unwrap();
            let explored = plan.explore(&scenario).unwrap();
            assert!(explored.is_complete, "{text}");
            assert_eq!(explored.schedules, classes(&program).len() as u64, "{text}");
        }
    }
}
