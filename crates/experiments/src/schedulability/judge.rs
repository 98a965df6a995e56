//! Does what theory proves hold in the schedules? Each claim is tried on each set to which it applies.
//!
//! ```text
//! claim                                         cases  against
//! EDF on one CPU, U <= 1: no job is late          300        0
//! RM on one CPU: worst response = analysis        913        0      (per task)
//! ```

use super::cases::{PeriodicTask, TaskSet};
use super::measure::{Arm, MARGIN, Measure, Telling};
use super::theory;
use schedlab_units::Span;

/// A claim and how it fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What is claimed.
    pub what: &'static str,
    /// Who proved it.
    pub source: &'static str,
    /// How often it was tried.
    pub nr_cases: u64,
    /// How often the schedule was against it.
    pub nr_against: u64,
    /// The first set against it.
    pub first_against: Option<TaskSet>,
}

/// All claims that were tried.
#[derive(Clone, Debug, Default)]
pub struct Claims(Vec<Claim>);

/// Share of each CPU that SCHED_DEADLINE may reserve, in per cent; the default of the policy.
const LIMIT_PCT: u64 = 95;

impl Claims {
    /// In the order in which they were first tried.
    pub fn rows(&self) -> &[Claim] {
        &self.0
    }

    /// Cases against any claim.
    pub fn against(&self) -> u64 {
        self.0.iter().map(|claim| claim.nr_against).sum()
    }

    fn note(&mut self, what: &'static str, source: &'static str, set: &TaskSet, holds: bool) {
        let place = self.0.iter().position(|claim| claim.what == what).unwrap_or_else(|| {
            self.0.push(Claim { what, source, nr_cases: 0, nr_against: 0, first_against: None });
            self.0.len() - 1
        });
        let claim = &mut self.0[place];
        claim.nr_cases += 1;
        if !holds {
            claim.nr_against += 1;
            claim.first_against.get_or_insert_with(|| set.clone());
        }
    }

    /// Tries all claims about this scheduler on a schedule of its.
    pub fn try_on(&mut self, set: &TaskSet, nr_cpus: u32, arm: &Arm, measure: &Measure) {
        let overloads = set.overloads(nr_cpus);
        let schedulable = measure.is_schedulable(set);
        if overloads {
            self.note("any scheduler, U > number of CPUs: some job is late", "arithmetic", set, !schedulable);
            return;
        }
        match (arm.label.as_str(), nr_cpus) {
            ("gedf" | "pedf", 1) => {
                self.note("EDF on one CPU, U <= 1: no job is late", "Liu, Layland 1973", set, schedulable);
            }
            ("rm", 1) => self.rate_monotonic(set, measure, schedulable),
            ("gedf", _) => self.global_edf(set, nr_cpus, measure, schedulable),
            ("pedf", _) => {
                let fits = theory::first_fit(set, nr_cpus);
                self.note(
                    "partitioned EDF: all fit if and only if first fit says so",
                    "first fit, exact",
                    set,
                    fits != measure.refused,
                );
                self.note(
                    "partitioned EDF, all fit: no job is late",
                    "Liu, Layland 1973",
                    set,
                    !fits || schedulable,
                );
                if theory::lopez(set, nr_cpus) {
                    self.note(
                        "partitioned EDF, U <= (b m + 1) / (b + 1): no job is late",
                        "Lopez, Diaz, Garcia 2004",
                        set,
                        schedulable,
                    );
                }
            }
            ("rm:fit=first", _) => {
                let fits = theory::first_fit_rm(set, nr_cpus);
                self.note(
                    "partitioned RM: all fit if and only if first fit by response times says so",
                    "Joseph, Pandya 1986",
                    set,
                    fits != measure.refused,
                );
                self.note(
                    "partitioned RM, all fit: no job is late",
                    "Joseph, Pandya 1986",
                    set,
                    !fits || schedulable,
                );
            }
            ("rm" | "posix", 2..) if theory::andersson(set, nr_cpus) => {
                self.note(
                    "global RM, U_max <= m / (3m - 2), U <= m^2 / (3m - 2): no job is late",
                    "Andersson, Baruah, Jonsson 2001",
                    set,
                    schedulable,
                );
            }
            _ => {}
        }
        if arm.label == "cbs" && arm.telling == Telling::Reservations {
            let asked: Vec<PeriodicTask> = set
                .tasks
                .iter()
                .map(|task| PeriodicTask { run: (task.run + MARGIN).min(task.period), ..*task })
                .collect();
            let admitted = theory::admitted(&asked, nr_cpus, LIMIT_PCT);
            self.note(
                "SCHED_DEADLINE: admitted if and only if the sum of bandwidths is at most 95 %",
                "sched-deadline.rst",
                set,
                admitted != measure.refused,
            );
            if nr_cpus == 1 && admitted {
                self.note(
                    "CBS on one CPU, admitted: no job is late",
                    "Abeni, Buttazzo 1998",
                    set,
                    schedulable,
                );
            }
        }
    }

    fn rate_monotonic(&mut self, set: &TaskSet, measure: &Measure, schedulable: bool) {
        let analysed = theory::response_times(set);
        for (place, response) in analysed.iter().enumerate() {
            let period = set.tasks[place].period;
            let is_alone = set.tasks.iter().filter(|task| task.period == period).count() == 1;
            let seen = measure.worst_response(place);
            match response {
                Some(response) if is_alone => {
                    self.note(
                        "RM on one CPU: the worst response is that of the analysis, to the ns",
                        "Joseph, Pandya 1986",
                        set,
                        seen == Some(*response),
                    );
                }
                Some(response) => {
                    self.note(
                        "RM on one CPU, equal periods: no response is longer than the analysis says",
                        "Joseph, Pandya 1986",
                        set,
                        seen.is_some_and(|seen| seen <= *response),
                    );
                }
                None if is_alone => {
                    let late = measure.tardiness(set, place).any(|late| late > Span::ZERO);
                    self.note(
                        "RM on one CPU: a task that the analysis rejects is late",
                        "Joseph, Pandya 1986",
                        set,
                        late,
                    );
                }
                None => {}
            }
        }
        if set.utilisation() <= theory::liu_layland(set.tasks.len()) {
            self.note(
                "RM on one CPU, U <= n (2^(1/n) - 1): no job is late",
                "Liu, Layland 1973",
                set,
                schedulable,
            );
        }
        if theory::hyperbolic(set) {
            self.note(
                "RM on one CPU, product of (U_i + 1) <= 2: no job is late",
                "Bini, Buttazzo 2001",
                set,
                schedulable,
            );
        }
    }

    fn global_edf(&mut self, set: &TaskSet, nr_cpus: u32, measure: &Measure, schedulable: bool) {
        if theory::gfb(set, nr_cpus) {
            self.note(
                "global EDF, U <= m - (m - 1) U_max: no job is late",
                "Goossens, Funk, Baruah 2003",
                set,
                schedulable,
            );
        }
        for (task, bound) in theory::tardiness_bounds(set, nr_cpus).into_iter().enumerate() {
            let worst = measure.tardiness(set, task).max().unwrap_or(Span::ZERO);
            self.note(
                "global EDF, U <= m: no job is later than x + C",
                "Devi, Anderson 2008",
                set,
                worst <= bound,
            );
        }
    }
}
