//! A message server: threads that hand requests to workers, after schbench (Chris Mason), whose wakeup
//! latencies tell a scheduler for servers.
//!
//! ```text
//! message thread  dw--dw---dw-------dw      d: takes a request, w: wakes the next worker in turn, -: till the next
//! worker 0         ..RR-RR------------..RR-RR
//! worker 1             ..RRRR-RR               R: works, - within: waits for something else (think)
//! ```
//!
//! Open: requests come at random, whatever the workers do; one for a worker that is busy waits for it.
//! Closed: each worker has one request at a time, and the next comes when it has answered; the message thread
//! hears the answers in turn (a wakeup cannot say "whoever is first"). With `objects` it hears whoever is first: each
//! worker has a semaphore for its requests, each message thread one for the answers.

use super::distribution::Distribution;
use super::rng::Rng;
use super::storms::{at_least_one, too_long};
use super::{GenerateError, duration, finished, nice};
use crate::build::Place;
use crate::{Builder, Object, ObjectId, ObjectKind, ObjectOp, WaitCosts, Wakes, Workload};
use schedlab_units::{Nice, Span, TaskId};
use serde::{Deserialize, Serialize};

/// Parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Names the times drawn.
    pub seed: u64,
    /// Message threads, each with its own workers.
    pub messengers: u32,
    /// Workers of each message thread.
    pub workers: u32,
    /// Requests to each message thread.
    pub requests: u32,
    /// Whether requests wait for answers.
    pub mode: ServerMode,
    /// Open: time from one request to the next.
    pub between: Distribution,
    /// CPU time of the message thread for each request.
    #[serde(with = "duration")]
    pub dispatch: Span,
    /// CPU time of the worker for each request.
    pub service: Distribution,
    /// Time that the worker sleeps half-way through a request.
    pub think: Distribution,
    /// Nice value of all.
    pub nice: i32,
    /// Whether requests and answers go through semaphores: then the next request comes with the first answer, whoever
    /// gives it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub objects: bool,
}

/// Whether requests wait for answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMode {
    /// They come as they come.
    Open,
    /// A worker's next one comes after its answer.
    Closed,
}

impl Default for Server {
    /// Two message threads, 16 workers each (schbench's), 100 requests to each worker; a request takes 5 ms
    /// on average with a sleep of 100 us within, one comes every 1 ms: 10 CPUs' worth.
    fn default() -> Server {
        Server {
            seed: 1,
            messengers: 2,
            workers: 16,
            requests: 1600,
            mode: ServerMode::Open,
            between: Distribution::exponential(Span::from_ms(1)),
            dispatch: Span::from_us(5),
            service: Distribution::exponential(Span::from_ms(5)),
            think: Distribution::fixed(Span::from_us(100)),
            nice: 0,
            objects: false,
        }
    }
}

impl Server {
    /// The workload.
    pub fn build(&self) -> Result<Workload, GenerateError> {
        for (name, distribution) in
            [("between", &self.between), ("service", &self.service), ("think", &self.think)]
        {
            distribution.check(name)?;
        }
        at_least_one("workers", self.workers)?;
        too_long("dispatch", self.dispatch, u64::from(self.requests))?;
        let tasks = u128::from(self.messengers) * (1 + u128::from(self.workers));
        let each = if self.objects { 8 } else { 6 };
        let requests = u128::from(self.messengers) * u128::from(self.requests);
        let mut builder = Builder::new().with_room(each * requests + 3 * tasks)?;
        let nice = nice("nice", self.nice)?;
        for messenger in 0..u64::from(self.messengers) {
            // a stream per purpose: other services leave the arrivals as they are
            let mut streams = [0, 1, 2].map(|purpose| Rng::new(self.seed, 3 * messenger + purpose));
            if self.objects {
                self.group_with_semaphores(&mut builder, nice, messenger, &mut streams);
            } else {
                self.group(&mut builder, nice, &mut streams);
            }
        }
        finished(builder)
    }

    /// A semaphore per worker, of its requests, and one of the answers to the message thread.
    fn group_with_semaphores(
        &self,
        builder: &mut Builder,
        nice: Nice,
        number: u64,
        [between, service, think]: &mut [Rng; 3],
    ) {
        let semaphore = |builder: &mut Builder, name: String| -> ObjectId {
            let (kind, wakes, costs) =
                (ObjectKind::Semaphore { start: 0 }, Wakes::Plain, WaitCosts::default());
            builder.object(Object { name, kind, wakes, costs, is_closed: false, is_polled: false })
        };
        let open = self.mode == ServerMode::Open;
        let nr_workers = self.workers.min(self.requests) as usize;
        let answers =
            (!open && nr_workers > 0).then(|| semaphore(builder, format!("answers-{}", number + 1)));
        let messenger = builder.task("messenger").nice(nice);
        let messenger = if open { messenger.blocked().id() } else { messenger.id() };
        let mut workers: Vec<(TaskId, ObjectId)> = Vec::new();
        for worker in 0..nr_workers {
            let requests = semaphore(builder, format!("requests-{}-{}", number + 1, worker + 1));
            workers.push((builder.task("worker").nice(nice).id(), requests));
        }
        for request in 0..self.requests as usize {
            let (worker, object) = workers[request % nr_workers];
            let (cpu, pause) = (self.service.draw(service), self.think.draw(think));
            let first_half = if pause > Span::ZERO { Span::from_ns(cpu.as_ns() / 2) } else { Span::ZERO };
            let mut life = builder.life(worker).at(ObjectOp::Receive { object, amount: 1 });
            if pause > Span::ZERO {
                life = life.run(first_half).sleep(pause);
            }
            life = life.run(cpu - first_half);
            if let Some(object) = answers {
                life.at(ObjectOp::Send { object, amount: 1 });
            }
            let mut life = builder.life(messenger);
            if open {
                life = life.sleep(self.between.draw(between));
            }
            if let Some(object) = answers.filter(|_| request >= nr_workers) {
                life = life.at(ObjectOp::Receive { object, amount: 1 });
            }
            life.run(self.dispatch).at(ObjectOp::Send { object, amount: 1 });
        }
        if self.requests > 0 {
            builder.life(messenger).exit();
        }
        for (worker, _) in workers {
            builder.life(worker).exit();
        }
    }

    fn group(&self, builder: &mut Builder, nice: Nice, [between, service, think]: &mut [Rng; 3]) {
        let open = self.mode == ServerMode::Open;
        let messenger = builder.task("messenger").nice(nice);
        let messenger = if open { messenger.blocked().id() } else { messenger.id() };
        let workers: Vec<TaskId> =
            (0..self.workers).map(|_| builder.task("worker").nice(nice).blocked().id()).collect();
        // per worker: whether its first request has come; in closed mode the messenger's wait for its answer
        let mut begun = vec![false; workers.len()];
        let mut left = vec![Span::ZERO; workers.len()]; // of the request at hand, after the pause
        let mut answers: Vec<Option<Place>> = vec![None; workers.len()];
        for request in 0..self.requests as usize {
            let turn = request % workers.len();
            let worker = workers[turn];
            // the worker is done with its request before, if there was one
            if std::mem::replace(&mut begun[turn], true) {
                let done = builder.life(worker).run(left[turn]).block().eid();
                if let Some(place) = answers[turn].take() {
                    builder.set_event(place, done, Span::ZERO);
                }
            }
            let wait = builder.wait(worker, messenger);
            let (cpu, pause) = (self.service.draw(service), self.think.draw(think));
            left[turn] = cpu;
            if pause > Span::ZERO {
                let first_half = Span::from_ns(cpu.as_ns() / 2);
                builder.life(worker).run(first_half).sleep(pause);
                left[turn] = cpu - first_half;
            }
            // the messenger: waits for the request, handles it, wakes the worker as it goes to wait again
            if open {
                let after = self.between.draw(between);
                builder.life(messenger).sleep(after);
            }
            let last = request + 1 == self.requests as usize;
            let dispatched = builder.life(messenger).run(self.dispatch);
            let event = if last { dispatched.exit().eid() } else { dispatched.block().eid() };
            builder.set_event(wait, event, Span::ZERO);
            if !open && !last {
                // the next request goes to the next worker: it must have answered its last one, if it had any
                let next = (request + 1) % workers.len();
                if begun[next] {
                    answers[next] = Some(builder.wait(messenger, workers[next]));
                } else {
                    builder.life(messenger).sleep(Span::ZERO);
                }
            }
        }
        if self.requests == 0 {
            return;
        }
        for (turn, &worker) in workers.iter().enumerate() {
            if begun[turn] {
                let end = builder.life(worker).run(left[turn]).exit().eid();
                if let Some(place) = answers[turn].take() {
                    builder.set_event(place, end, Span::ZERO);
                }
            }
        }
    }
}
