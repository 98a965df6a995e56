//! Always runnable clients in the full machine: who ran when.

use schedlab_log::{Kind, Record};
use schedlab_machine::native::Native;
use schedlab_machine::{Machine, Program, Setup};
use schedlab_policies::find;
use schedlab_topology::Topology;
use schedlab_units::{Nice, SchedParams, Span};
use schedlab_workload::{Birth, Event, EventId, EventKind, InitState, Task, Workload};

/// A client that computes for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Name in drawings.
    pub name: String,
    /// Share, for schedulers that take a list of shares.
    pub share: Option<u64>,
    /// Nice value, for the others.
    pub nice: Nice,
}

/// A stretch of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Index of the client.
    pub client: usize,
    /// Beginning.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
}

/// Runs the clients on one CPU under a registered scheduler, with its default quantum; panics if there is no such scheduler.
pub fn run(sched: &str, clients: &[Client], length: Span) -> Vec<Stretch> {
    let info = find(sched).unwrap_or_else(|| panic!("{sched} is registered"));
    let shares: Option<Vec<String>> =
        clients.iter().map(|client| client.share.map(|s| s.to_string())).collect();
    let params = shares.map(|shares| ("shares".to_string(), shares.join(",")));
    let policy = info.build(&params.into_iter().collect::<Vec<_>>()).expect("shares and defaults are valid");
    let tasks = clients.iter().enumerate().map(|(index, client)| Task {
        pid: index as u32 + 1,
        name: client.name.clone(),
        birth: Birth::Init { eid: EventId(0), parent: None, state: InitState::Runnable },
        params: Some(SchedParams::normal(client.nice)),
        affinity: None,
        cgroup: None,
        kernel_thread: false,
        events: vec![Event {
            eid: EventId(index as u64 + 1),
            kind: EventKind::Exit { length: Span::from_ns(length.as_ns() * 2) },
        }],
    });
    let workload = Workload { tasks: tasks.collect(), ..Workload::default() };
    let program = Program::new(&workload).expect("the workload is valid");
    let topology = Topology::flat(1).expect("one CPU is a machine");
    let mut records: Vec<Record> = Vec::new();
    let setup = Setup { topology, duration: Some(length), params: Vec::new() };
    Machine::new(Native::new(policy, &mut records), program, setup).run();
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut current = None;
    let mut end_stretch = |current: &mut Option<(usize, u64)>, to_ns: u64| {
        if let Some((client, from_ns)) = current.take()
            && to_ns > from_ns
        {
            stretches.push(Stretch { client, from_ns, to_ns });
        }
    };
    for record in records.iter().filter(|record| record.kind() == Some(Kind::Switch)) {
        end_stretch(&mut current, record.time_ns);
        if record.other().is_workload() {
            current = Some((record.other().index(), record.time_ns));
        }
    }
    end_stretch(&mut current, length.as_ns());
    stretches
}

/// CPU time of a client, and the longest time that it had none.
pub(super) fn received_and_wait(stretches: &[Stretch], client: usize, length: Span) -> (u64, u64) {
    let (mut received_ns, mut wait_ns, mut last_ns) = (0, 0, 0);
    for stretch in stretches.iter().filter(|stretch| stretch.client == client) {
        received_ns += stretch.to_ns - stretch.from_ns;
        wait_ns = wait_ns.max(stretch.from_ns - last_ns);
        last_ns = stretch.to_ns;
    }
    (received_ns, wait_ns.max(length.as_ns() - last_ns))
}
