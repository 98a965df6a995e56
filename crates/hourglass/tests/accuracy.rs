//! Is inference right? On the machine the truth is known: parameters are drawn, schedules made, reduced to
//! what pollers would have seen.
//!
//! [`TABLE`] says, before any run, which case each parameter can be told in. Widths and the share of "cannot
//! tell" are printed and not judged: for some questions both are beyond their goals (10 %, 20 %) yet.

use schedlab_hourglass::{Answer, Model, Question, ThreadPlan, Timer, View, infer, observe};
use schedlab_lab::{Standard, run_here};
use schedlab_log::MemLog;
use schedlab_stdx::Random;
use schedlab_topology::Topology;
use schedlab_units::{Nice, Span};
use schedlab_workload::Builder;
use std::collections::BTreeMap;

/// A case that a parameter can be told in: for at least so long, by at least so many threads of these.
struct Identifiable {
    question: Question,
    least_ms: u64,
    needs: &'static str,
    is_given: fn(&Case) -> bool,
}

/// Which parameters can be told in which cases. Slices are told where a thread gets at least thirty of them.
const TABLE: [Identifiable; 6] = [
    Identifiable {
        question: Question::Tick,
        least_ms: 1000,
        needs: "a thread that computes",
        is_given: |c| c.load != Load::Sleepers,
    },
    Identifiable {
        question: Question::Slice,
        least_ms: 1000,
        needs: "two equal threads that compute on each CPU, 60 turns",
        is_given: |c| c.load == Load::Equal && c.turn_ns * 60 < c.duration_ns(),
    },
    Identifiable {
        question: Question::SwitchCost,
        least_ms: 1000,
        needs: "two threads that compute on each CPU, 60 turns",
        is_given: |c| c.load == Load::Equal && c.turn_ns * 60 < c.duration_ns(),
    },
    Identifiable {
        question: Question::DispatchLatency,
        least_ms: 1000,
        needs: "a thread that sleeps, on an idle CPU",
        is_given: |c| c.load == Load::Sleepers,
    },
    Identifiable {
        question: Question::HiddenShare,
        least_ms: 1000,
        needs: "a thread that computes",
        is_given: |c| c.load != Load::Sleepers,
    },
    Identifiable {
        question: Question::Family,
        least_ms: 1000,
        needs: "a fair class, and two threads that compute on one CPU, one nicer",
        is_given: |c| c.load == Load::Nicer && c.cpus == 1 && c.sched != "rr",
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// Two equal threads that compute on each CPU.
    Equal,
    /// Two threads that compute on each CPU, the second nicer by 5.
    Nicer,
    /// A thread that sleeps on each CPU.
    Sleepers,
}

#[derive(Debug)]
struct Case {
    seed: u64,
    cpus: u32,
    sched: &'static str,
    params: Vec<(String, String)>,
    duration_ms: u64,
    load: Load,
    /// How long a thread that computes keeps its CPU beside an equal one.
    turn_ns: u64,
    view: View,
}

impl Case {
    fn duration_ns(&self) -> u64 {
        self.duration_ms * 1_000_000
    }

    fn draw(seed: u64) -> Case {
        let mut random = Random::new(seed);
        let hz = *random.pick(&[100u64, 250, 300, 1000]);
        // the machine's ticks are whole ns apart
        let tick_ns = (1_000_000_000 / hz) as f64;
        let load = *random.pick(&[Load::Equal, Load::Equal, Load::Nicer, Load::Sleepers]);
        let sched = *random.pick(&["eevdf", "rr"]);
        let slice_us = 500 + random.below(12_000);
        let (params, turn_ns) = match sched {
            // a tick finds the request used up: kernel/sched/fair.c update_deadline(), run by task_tick_fair()
            "eevdf" => {
                let turns = (slice_us as f64 * 1000.0 / tick_ns).ceil() * tick_ns;
                let slice = format!("{slice_us}us");
                (
                    vec![("hz", hz.to_string()), ("tick_phase", "0".into()), ("base_slice", slice)],
                    turns as u64,
                )
            }
            _ => (vec![("quantum", format!("{slice_us}us"))], slice_us * 1000),
        };
        let low = 1000 + random.below(3000);
        Case {
            seed,
            cpus: if sched == "rr" { 1 } else { *random.pick(&[1, 1, 2, 4]) },
            sched,
            params: params.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
            duration_ms: 2000,
            load,
            turn_ns,
            view: View {
                threshold_ns: 300,
                loop_ns: 14.0,
                tick_ns,
                tick_cost_ns: 1500 + random.below(4000),
                switch_ns: 800 + random.below(3000),
                wake_ns: 2000 + random.below(30_000),
                noise_hz: random.below(400) as f64,
                noise_ns: (low, low + 1 + random.below(8000)),
                jitter: 0.2 * random.unit_f64(),
                seed,
            },
        }
    }

    fn run(&self) -> (MemLog, Vec<ThreadPlan>) {
        let mut workload = Builder::new();
        let mut plans = Vec::new();
        for cpu in 0..self.cpus {
            let bound = |cpu: u32| if self.sched == "rr" { None } else { Some(cpu) };
            let pair = if self.load == Load::Sleepers { 1 } else { 2 };
            for place in 0..pair {
                let mut life = workload.task(format!("poller{cpu}.{place}"));
                if let Some(cpu) = bound(cpu) {
                    life = life.cpu(cpu);
                }
                if self.load == Load::Nicer && place == 1 {
                    life = life.nice(Nice::new(5).unwrap());
                }
                let model = if self.load == Load::Sleepers {
                    for _ in 0..self.duration_ms / 5 {
                        life = life.run(Span::from_us(100)).sleep(Span::from_us(4770));
                    }
                    life.exit();
                    Model::Latency { period: Span::from_us(4770) }
                } else {
                    life.run(Span::from_ms(self.duration_ms * 2)).exit();
                    Model::Cpu
                };
                plans.push(ThreadPlan { model, timer: Timer::Absolute, ..ThreadPlan::default() });
            }
        }
        let workload = workload.finish().unwrap();
        let info = schedlab_policies::find(self.sched).unwrap();
        let topology = Topology::flat(self.cpus).unwrap();
        let duration = Some(Span::from_ms(self.duration_ms));
        let log = run_here(info, &self.params, (&workload, topology), duration, Standard::NoWarning).unwrap();
        (log, plans)
    }

    /// What the answer should be; `None`: this case has no truth for it.
    fn truth(&self, question: Question) -> Option<f64> {
        let view = &self.view;
        let noise_ns = (view.noise_ns.0 + view.noise_ns.1) as f64 / 2.0;
        match question {
            Question::Tick if self.load != Load::Sleepers => Some(view.tick_ns),
            Question::Slice if self.load == Load::Equal => Some(self.turn_ns as f64),
            Question::SwitchCost if self.load == Load::Equal => Some(view.switch_ns as f64),
            Question::DispatchLatency if self.load == Load::Sleepers => {
                Some((view.switch_ns + view.wake_ns) as f64)
            }
            Question::HiddenShare if self.load != Load::Sleepers => {
                // the tick that ends a turn is part of the switch
                let ended = match (self.sched, self.load) {
                    ("rr", _) => 0.0,
                    (_, Load::Equal) => 1.0 / self.turn_ns as f64,
                    _ => return None,
                };
                let ticks = view.tick_cost_ns as f64 * (1.0 / view.tick_ns - ended);
                Some(ticks + view.noise_hz * noise_ns / 1e9)
            }
            _ => None,
        }
    }
}

#[derive(Default)]
struct Score {
    held: u32,
    given: u32,
    cannot: u32,
    identifiable: u32,
    widths: Vec<f64>,
    off: Vec<String>,
}

fn study(seeds: std::ops::Range<u64>) -> BTreeMap<Question, Score> {
    let mut scores: BTreeMap<Question, Score> = BTreeMap::new();
    for seed in seeds {
        let case = Case::draw(seed);
        let (log, plans) = case.run();
        let seen = observe(&log, &case.view, &plans).unwrap();
        assert!(schedlab_instruments::verify(&seen).unwrap().is_clean(), "{case:?}");
        let findings = infer(&seen).unwrap();
        for question in Question::ALL {
            let score = scores.entry(question).or_default();
            let row = TABLE.iter().find(|row| row.question == question);
            let is_given = row.is_some_and(|row| case.duration_ms >= row.least_ms && (row.is_given)(&case));
            score.identifiable += u32::from(is_given);
            match &findings.on(question).answer {
                Answer::Is(found) => {
                    if let Some(truth) = case.truth(question) {
                        score.given += 1;
                        score.held += u32::from(found.holds(truth));
                        score.widths.push((found.high - found.low) / truth);
                        if !found.holds(truth) {
                            score.off.push(format!(
                                "seed {} {:?} {}: {found:?}, truth {truth}",
                                case.seed, case.load, case.sched
                            ));
                        }
                    }
                }
                Answer::Named { name, .. } if is_given => {
                    score.given += 1;
                    score.held += u32::from(*name == "fair");
                }
                Answer::CannotTell { .. } => score.cannot += u32::from(is_given),
                _ => {}
            }
        }
    }
    scores
}

/// Prints a row per question, and says what is against the bounds.
fn judge(scores: &mut BTreeMap<Question, Score>, least: f64, most: f64) -> Vec<String> {
    let mut faults = Vec::new();
    for (question, score) in scores.iter_mut().filter(|(_, score)| score.given > 0) {
        score.widths.sort_by(f64::total_cmp);
        let held = f64::from(score.held) / f64::from(score.given);
        let cannot = f64::from(score.cannot) / f64::from(score.identifiable.max(1));
        let width = score.widths.get(score.widths.len() / 2).copied().unwrap_or(0.0);
        println!(
            "{:<20} {:>4} given, {:>5.1} % hold the truth; median width {:>7.3} %; cannot tell {:>4.1} % of {}",
            question.id(),
            score.given,
            100.0 * held,
            100.0 * width,
            100.0 * cannot,
            score.identifiable
        );
        if let Some(row) = TABLE.iter().find(|row| row.question == *question) {
            println!("    from {} ms on: {}", row.least_ms, row.needs);
        }
        score.off.iter().take(4).for_each(|line| println!("    {line}"));
        if !(least..=most).contains(&held) {
            faults.push(format!(
                "{}: held {held:.3}, width {width:.3}, cannot tell {cannot:.3}",
                question.id()
            ));
        }
    }
    faults
}

/// A few runs, for every build: an interval that misses the truth much too often shows here already.
/// Binomial: of 20 intervals that hold with 95 %, fewer than 15 do once in 3,000 times.
#[test]
fn intervals_hold_the_truth() {
    let faults = judge(&mut study(0..32), 0.75, 1.0);
    assert!(faults.is_empty(), "{faults:#?}");
}
