//! What if kernel code took time? Optional costs, as CPU time of the task in whose context the kernel works.
//!
//! Without costs (the default) a replay's kernel is infinitely fast: a wakeup arrives the instant it is asked
//! for, a task that wakes another and then sleeps does both at once. With costs:
//!
//! ```text
//!   us       0        100  101.5                       switch 2 us, wakeup 1.5 us, block 1 us
//!   A        computes │wake│blk                        the wakee starts 1.5 us later than without,
//!   B (idle CPU)           │switch│ computes           A is off its CPU at 102.5 us, B computes from 103.5 us
//! ```
//!
//! | cost | when | whose CPU time |
//! |---|---|---|
//! | `wakeup` | before a wakeup of another task takes effect | the waker's |
//! | `block` | before a sleep, a yield or an exit takes effect | the sleeper's |
//! | `fork` | before a child exists | the parent's |
//! | `switch` | before a task computes where another (or idle) was | the new task's |
//! | `resched` | between an interrupt that asks for another task and the choice of it (real Linux only) | of the task that ran |
//! | `call_drawn` | an interrupt finds the task that it hits in a system call, which goes on for one of twenty times: nobody else gets the CPU before (real Linux only, and not if it is preempted in system calls) | nobody's: the task computes |
//! | `tick` | at a timer interrupt | of the task that computes next |
//! | `interrupt` | at an interrupt that wakes sleepers | of the task that computes next |
//! | `ipi` | at an interrupt from another CPU | of the task that computes next |
//! | `idle_exit` | between an interrupt from another CPU to one that is idle and its handler | nobody's: who was woken waits |
//! | `idle_exit_deep` | the same, in place of `idle_exit`, if it has been idle for `idle_deep_after` | nobody's |
//! | `idle_exit_drawn`, `idle_exit_deep_drawn` | in their place: one of twenty times, drawn anew each time | nobody's |
//! | `idle_resched` | between a timer's or device's interrupt on an idle CPU and the choice of who runs (real Linux only) | nobody's |
//! | `idle_resched_drawn` | in its place: one of twenty times | nobody's |
//! | `kick` | behind a wakeup at an object for which an idle CPU is interrupted | the waker's, on top of the workload's |
//! | `migration` | before a task computes on another CPU than before (a cold cache) | its |
//!
//! Otherwise an idle CPU's interrupts cost nothing by themselves. Recorded CPU time holds the kernel's work already,
//! and the guest's tasks compute up to a total: so what a task has paid is taken off its burst after its next
//! sleep or yield (`total = "kept"`, the default). With `total = "added"` it comes on top. Accounts, ticks
//! and slices of the kernel see the longer bursts as they would on hardware.

use schedlab_stdx::Random;
use schedlab_units::Span;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Times of which one is drawn, each as likely as the others: the means of twenty equal parts of what was measured, so
/// that their sum is kept.
pub type Drawn = [Span; 20];

/// Costs of kernel work; see the module. All zero: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// Waking another task.
    pub wakeup: Span,
    /// Going to sleep, yielding or exiting.
    pub block: Span,
    /// Creating a task.
    pub fork: Span,
    /// Switching to another task.
    pub switch: Span,
    /// From an interrupt that asks for another task to the choice of it.
    pub resched: Span,
    /// How long the system call goes on in which an interrupt finds a task; 0: it finds it in user mode. Nobody else
    /// gets the CPU before the call's end, unless the kernel is preempted there. No file of costs has it; it is
    /// measured in a recording.
    #[serde(default)]
    pub call_drawn: Option<Drawn>,
    /// A timer interrupt.
    pub tick: Span,
    /// An interrupt that wakes sleepers.
    pub interrupt: Span,
    /// An interrupt from another CPU.
    pub ipi: Span,
    /// A task's first computing on another CPU.
    pub migration: Span,
    /// How long an idle CPU takes to answer another CPU's interrupt: it comes out of a sleep state, or its
    /// hypervisor gives it a CPU again.
    pub idle_exit: Span,
    /// The same of a CPU that has been idle for [`Costs::idle_deep_after`]: a guest polls at first, then it halts.
    pub idle_exit_deep: Span,
    /// From when on a CPU's idleness is deep; 0: there is no such depth.
    pub idle_deep_after: Span,
    /// In place of [`Costs::idle_exit`]: what is drawn. No file of costs has it; it is measured in a recording.
    #[serde(default)]
    pub idle_exit_drawn: Option<Drawn>,
    /// The same in place of [`Costs::idle_exit_deep`].
    #[serde(default)]
    pub idle_exit_deep_drawn: Option<Drawn>,
    /// Between an interrupt by an idle CPU's own timer or device and the choice of who runs.
    pub idle_resched: Span,
    /// The same: what is drawn.
    #[serde(default)]
    pub idle_resched_drawn: Option<Drawn>,
    /// What it takes to interrupt an idle CPU for whom a task has woken at an object.
    pub kick: Span,
    /// Costs come on top of the workload's CPU time, instead of being part of it.
    pub added: bool,
}

/// More than this is no cost of kernel code.
pub const COST_MAX: Span = Span::from_ms(10);

/// A cost that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cost '{name}': {problem}; expected one of wakeup, block, fork, switch, resched, tick, interrupt, ipi, migration, \
        idle_exit, idle_exit_deep, idle_deep_after, idle_resched, kick = \"TIME\" up to 10ms, or total = \"kept\" or \
        \"added\""
)]
pub struct CostError {
    /// Which.
    pub name: String,
    /// What is wrong.
    pub problem: String,
}

impl Costs {
    /// Names and values, in the order of the module's table.
    pub fn named(&self) -> [(&'static str, Span); 14] {
        [
            ("wakeup", self.wakeup),
            ("block", self.block),
            ("fork", self.fork),
            ("switch", self.switch),
            ("resched", self.resched),
            ("tick", self.tick),
            ("interrupt", self.interrupt),
            ("ipi", self.ipi),
            ("migration", self.migration),
            ("idle_exit", self.idle_exit),
            ("idle_exit_deep", self.idle_exit_deep),
            ("idle_deep_after", self.idle_deep_after),
            ("idle_resched", self.idle_resched),
            ("kick", self.kick),
        ]
    }

    /// Sets one by its name: `switch`, `2us`.
    ///
    /// # Errors
    /// There is no such cost, or no such time.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), CostError> {
        let wrong = |problem: String| CostError { name: name.to_string(), problem };
        if name == "total" {
            self.added = match value {
                "kept" => false,
                "added" => true,
                _ => return Err(wrong(format!("'{value}' is neither kept nor added"))),
            };
            return Ok(());
        }
        let field = match name {
            "wakeup" => &mut self.wakeup,
            "block" => &mut self.block,
            "fork" => &mut self.fork,
            "switch" => &mut self.switch,
            "resched" => &mut self.resched,
            "tick" => &mut self.tick,
            "interrupt" => &mut self.interrupt,
            "ipi" => &mut self.ipi,
            "migration" => &mut self.migration,
            "idle_exit" => &mut self.idle_exit,
            "idle_exit_deep" => &mut self.idle_exit_deep,
            "idle_deep_after" => &mut self.idle_deep_after,
            "idle_resched" => &mut self.idle_resched,
            "kick" => &mut self.kick,
            _ => return Err(wrong("there is no such cost".to_string())),
        };
        let span: Span = value.parse().map_err(|error| wrong(format!("{error}")))?;
        if span > COST_MAX {
            return Err(wrong(format!("{span} is more than {COST_MAX}")));
        }
        *field = span;
        Ok(())
    }

    /// How long a CPU that has been idle for so long takes to answer, this time.
    pub fn exit_after(&self, idle: Span, random: &mut Random) -> Span {
        let is_deep = self.idle_deep_after > Span::ZERO && idle >= self.idle_deep_after;
        let (always, drawn) = match is_deep {
            true => (self.idle_exit_deep, &self.idle_exit_deep_drawn),
            false => (self.idle_exit, &self.idle_exit_drawn),
        };
        drawn.as_ref().map_or(always, |times| *random.pick(times))
    }

    /// How long it takes, this time, from an interrupt by an idle CPU's own timer or device to the choice.
    pub fn resched_idle(&self, random: &mut Random) -> Span {
        self.idle_resched_drawn.as_ref().map_or(self.idle_resched, |times| *random.pick(times))
    }

    /// Whether it takes time until an idle CPU answers, or to interrupt it.
    pub fn at_idle_cpus(&self) -> bool {
        let always = [self.idle_exit, self.idle_exit_deep, self.idle_resched, self.kick];
        let drawn = [self.idle_exit_drawn, self.idle_exit_deep_drawn, self.idle_resched_drawn];
        drawn.iter().any(Option::is_some) || always.iter().any(|span| *span > Span::ZERO)
    }

    /// Whether nothing costs anything.
    pub fn is_none(&self) -> bool {
        self.named().iter().all(|(_, span)| *span == Span::ZERO) && self.drawn().next().is_none()
    }

    /// What is drawn, by its name.
    fn drawn(&self) -> impl Iterator<Item = (&'static str, Drawn)> {
        let all = [
            ("call_drawn", self.call_drawn),
            ("idle_exit_drawn", self.idle_exit_drawn),
            ("idle_exit_deep_drawn", self.idle_exit_deep_drawn),
            ("idle_resched_drawn", self.idle_resched_drawn),
        ];
        all.into_iter().filter_map(|(name, times)| times.map(|times| (name, times)))
    }
}

/// What is not zero: `switch=2us,total=added`. Of what is drawn, least and most.
impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(
            self.named().iter().filter(|(_, s)| *s > Span::ZERO).map(|(name, s)| format!("{name}={s}")),
        );
        parts.extend(self.drawn().map(|(name, times)| format!("{name}={}..{}", times[0], times[19])));
        if self.added {
            parts.push("total=added".to_string());
        }
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_one_of_the_times_that_were_measured_at_its_depth() {
        let times = |first: u64| std::array::from_fn(|k| Span::from_us(first + k as u64));
        let costs = Costs {
            idle_deep_after: Span::from_us(100),
            idle_exit_drawn: Some(times(1)),
            idle_exit_deep: Span::from_us(70),
            ..Costs::default()
        };
        let (mut random, mut seen) = (Random::new(1), [0; 21]);
        for _ in 0..4000 {
            let exit = costs.exit_after(Span::from_us(99), &mut random);
            seen[exit.as_ns() as usize / 1000] += 1;
        }
        assert!(seen[1..].iter().all(|times| (120..280).contains(times)), "200 of each: {seen:?}");
        assert_eq!(costs.exit_after(Span::from_us(100), &mut random), Span::from_us(70));
        assert_eq!(costs.to_string(), "idle_exit_deep=70us,idle_deep_after=100us,idle_exit_drawn=1us..20us");
    }

    #[test]
    fn costs_are_set_by_name_and_shown() {
        let mut costs = Costs::default();
        assert!(costs.is_none());
        for (name, _) in costs.named() {
            costs.set(name, "2us").unwrap();
        }
        assert_eq!(costs.named().map(|(_, span)| span), [Span::from_us(2); 14]);
        costs = Costs { idle_exit_drawn: Some(Drawn::default()), ..Costs::default() };
        assert!(!costs.is_none() && costs.at_idle_cpus());
        costs = Costs::default();
        costs.set("switch", "1500ns").unwrap();
        costs.set("total", "added").unwrap();
        assert_eq!(costs.to_string(), "switch=1500ns,total=added");
        for (name, value, wants) in [
            ("swich", "1us", "no such"),
            ("switch", "1s", "more than"),
            ("switch", "much", "switch"),
            ("total", "x", "neither"),
        ] {
            let error = costs.set(name, value).unwrap_err().to_string();
            assert!(error.contains(wants), "{error}");
        }
    }
}
