//! Quantum by quantum: a discipline serves clients that come and go.

use super::ledger::Ledger;
use super::plan::{Action, Happening, Plan, Turns};
use super::{DynamicResult, SHOWN, UNITS_PER_QUANTUM};
use crate::fairness::Contender;
use schedlab_policies::proportional::Discipline;
use schedlab_policies::{Drr, Eevdf1995, Insert, Lottery, Reset, Sfq, Stride, Vtrr, Wf2q, Wfq, WfqList, Wrr};
use schedlab_units::TaskId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// With [`UNITS_PER_QUANTUM`] instead of one unit per quantum.
fn fine(contender: &Contender, seed: u64) -> Box<dyn Discipline> {
    const Q: u64 = UNITS_PER_QUANTUM;
    match contender.name {
        "wrr" => Box::new(Wrr::new(Q, 1)),
        "drr" => Box::new(Drr::new(Q, Q, 1)),
        "wfq" => Box::new(Wfq::new(Q)),
        "wfq-list" => Box::new(WfqList::new(Q)),
        "stride" => Box::new(Stride::new(Q)),
        "sfq" => Box::new(Sfq::new(Q)),
        "wf2q" => Box::new(Wf2q::new(Q)),
        "eevdf-1995" => Box::new(Eevdf1995::new(Q)),
        "vtrr" => Box::new(Vtrr::new(Q, Insert::Neighbours, Reset::Incremental)),
        "lottery" => Box::new(Lottery::new(Q, seed)),
        other => unreachable!("{other} is not in CONTENDERS"),
    }
}

struct Simulation {
    discipline: Box<dyn Discipline>,
    ledger: Ledger,
    /// By client; empty if nobody has habits.
    turns: Vec<Turns>,
    work_left: Vec<u64>,
    calendar: BinaryHeap<Reverse<Happening>>,
    stretches: Vec<(usize, u64, u64)>,
}

/// Serves the plan's clients.
pub(super) fn simulate(contender: &Contender, plan: &Plan) -> DynamicResult {
    let nr_clients = plan.shares.len();
    let turns =
        plan.habits.map(|habits| (0..nr_clients).map(|client| Turns::of(plan, habits, client)).collect());
    let mut simulation = Simulation {
        discipline: fine(contender, plan.seed),
        ledger: Ledger::new(&plan.shares, UNITS_PER_QUANTUM, SHOWN * UNITS_PER_QUANTUM),
        turns: turns.unwrap_or_default(),
        work_left: vec![u64::MAX; nr_clients],
        calendar: plan.happenings.iter().copied().map(Reverse).collect(),
        stretches: Vec::new(),
    };
    for client in (0..nr_clients).filter(|&client| !plan.absent[client]) {
        simulation.join(client);
    }
    simulation.run(plan.length);
    let Simulation { ledger, stretches, .. } = simulation;
    DynamicResult::of(contender.name.to_string(), &ledger, UNITS_PER_QUANTUM, stretches)
}

impl Simulation {
    fn join(&mut self, client: usize) {
        if let Some(turns) = self.turns.get_mut(client) {
            self.work_left[client] = turns.work();
        }
        self.ledger.join(client);
        self.discipline.join(TaskId(client as u32), self.ledger.share(client));
    }

    fn change(&mut self, client: usize, share: u64, in_service: Option<usize>) {
        let runnable = self.ledger.runnable(client);
        self.ledger.change(client, share);
        let id = TaskId(client as u32);
        if runnable && in_service == Some(client) {
            self.discipline.set_share(id, share);
        } else if runnable {
            self.discipline.leave(id);
            self.discipline.join(id, share);
        }
    }

    /// Lets time pass; others wake, leave and change meanwhile.
    fn pass(&mut self, until: u64, in_service: Option<usize>) {
        loop {
            // the leaving of the client in service is left to run(), which ends its service there
            let next = self.calendar.peek().map(|Reverse(happening)| *happening);
            let own_end = |h: &Happening| h.action == Action::Sleep && in_service == Some(h.client as usize);
            let Some(Happening { at, action, client }) = next.filter(|h| h.at <= until && !own_end(h)) else {
                return self.ledger.advance(until);
            };
            self.calendar.pop();
            self.ledger.advance(at);
            let client = client as usize;
            match action {
                Action::Wake => self.join(client),
                Action::Share(share) => self.change(client, share, in_service),
                Action::Sleep => {
                    self.ledger.leave(client);
                    self.discipline.leave(TaskId(client as u32));
                }
            }
        }
    }

    /// When the client's next leaving is written down.
    fn own_end(&self, client: usize) -> u64 {
        let own = self.calendar.iter().map(|Reverse(happening)| happening);
        let own = own.filter(|h| h.action == Action::Sleep && h.client as usize == client);
        own.map(|happening| happening.at).min().unwrap_or(u64::MAX)
    }

    fn run(&mut self, end: u64) {
        let scripted = self.calendar.iter().any(|Reverse(happening)| happening.action == Action::Sleep);
        self.pass(0, None);
        while self.ledger.now() < end {
            let now = self.ledger.now();
            let Some(id) = self.discipline.select(&|_| true) else {
                let next = self.calendar.peek().map_or(end, |Reverse(happening)| happening.at);
                self.pass(next.min(end), None);
                continue;
            };
            let client = id.index();
            self.ledger.begin(client);
            let own_end = if scripted { self.own_end(client) } else { u64::MAX };
            let length =
                self.discipline.slice(id).min(self.work_left[client]).min(end - now).min(own_end - now);
            self.pass(now + length, Some(client));
            self.ledger.end();
            self.stretches.push((client, now, now + length));
            self.discipline.charge(id, length);
            if !self.turns.is_empty() {
                self.work_left[client] -= length;
            }
            if self.work_left[client] == 0 || own_end == now + length {
                self.discipline.leave(id);
                self.ledger.leave(client);
                if own_end == now + length {
                    self.take_own_end(client);
                } else {
                    let at = now + length + self.turns[client].sleep();
                    self.calendar.push(Reverse(Happening {
                        at,
                        action: Action::Wake,
                        client: client as u32,
                    }));
                }
            } else {
                self.discipline.put(id);
            }
        }
        self.ledger.finish();
    }

    /// The leaving that has just been carried out comes off the calendar.
    fn take_own_end(&mut self, client: usize) {
        let now = self.ledger.now();
        let own = Happening { at: now, action: Action::Sleep, client: client as u32 };
        self.calendar.retain(|Reverse(happening)| *happening != own);
    }
}
