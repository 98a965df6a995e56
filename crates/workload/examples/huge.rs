//! Writes a workload that does not fit into memory: `huge EVENTS FILE.wlb`.
//!
//! Pairs of tasks that wake each other in turn, as in a pipe, and every tenth time sleep a while; all events
//! name their place, so that every tool has to do what it does with real ones. The bench of `schedlab
//! workload`: 100 million events within 1 GiB.

use schedlab_units::{Span, TaskId};
use schedlab_workload::binary::BinaryWriter;
use schedlab_workload::{Birth, Event, EventId, EventKind, ExternalSource, InitState, Task, Wakeup};
use std::fs::File;
use std::io::BufWriter;

const PAIRS: u32 = 100;
const PIECE: u64 = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [events, path] = arguments.as_slice() else { return Err("usage: huge EVENTS FILE.wlb".into()) };
    let turns = events.parse::<u64>()? / u64::from(PAIRS) / 4;
    let mut writer = BinaryWriter::of_version(BufWriter::with_capacity(1 << 20, File::create(path)?), 1)?;
    writer.note("made by", "examples/huge")?;
    // identifiers: each task has 2 turns + 1 of its own
    let first_eid = |row: u32| u64::from(row) * (2 * turns + 1) + 1;
    for row in 0..2 * PAIRS {
        let state = if row % 2 == 0 { InitState::Runnable } else { InitState::Blocked };
        let birth = Birth::Init { eid: EventId(first_eid(row)), parent: None, state };
        let name = ["ping", "pong"][row as usize % 2].to_string();
        let task = Task {
            pid: row + 1,
            name,
            birth,
            params: None,
            affinity: None,
            cgroup: None,
            kernel_thread: false,
            events: Vec::new(),
        };
        writer.task(TaskId(row), &task)?;
    }
    for row in 0..2 * PAIRS {
        let (partner, ping) = (row ^ 1, row % 2 == 0);
        let mut run = Vec::new();
        for turn in 0..turns {
            let eid = first_eid(row) + 1 + 2 * turn;
            let length = Span::from_ns(50_000 + (turn * 7919 + u64::from(row)) % 100_000);
            // ping blocks, then pong's block wakes it; pong waits for ping's block first
            let block =
                Event { eid: EventId(if ping { eid } else { eid + 1 }), kind: EventKind::Block { length } };
            let of_partner = first_eid(partner) + 1 + 2 * turn + u64::from(ping);
            let wakeup = if turn % 10 == 9 && ping {
                Wakeup::External { after: Span::from_ms(1 + turn % 9), source: ExternalSource::Timer }
            } else {
                let (event, task) = (EventId(of_partner), TaskId(partner));
                Wakeup::Dependent {
                    recorded_after: Span::from_us(130),
                    event,
                    task,
                    distance: Span::from_us(20),
                }
            };
            let wakeup =
                Event { eid: EventId(if ping { eid + 1 } else { eid }), kind: EventKind::Wakeup(wakeup) };
            run.extend(if ping { [block, wakeup] } else { [wakeup, block] });
            if run.len() as u64 >= PIECE {
                writer.events(TaskId(row), &run)?;
                run.clear();
            }
        }
        writer.events(TaskId(row), &run)?;
    }
    writer.finish()?;
    println!("{} events in {path}", u64::from(2 * PAIRS) * (2 * turns + 1));
    Ok(())
}
