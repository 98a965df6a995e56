//! Imports a trace and prints what came out: `import_summary [--tasks] [--lenient] [--recorded] [--text] TRACE`.
//!
//! With --tasks a line per task: pid, name, CPU time (ns), BLOCKs, WAKEUPs, FORKs, YIELDs, PRIOs; to be
//! compared with what another reader of the trace counts. --recorded: with the objects of `record --objects`. --text:
//! the workload itself.

use schedlab_trace::Mode;
use schedlab_workload::derive::{DeriveOptions, import_trace};
use schedlab_workload::{EventKind, Messages, find_deadlock};
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let Some(path) = arguments.iter().find(|argument| !argument.starts_with("--")) else {
        eprintln!("usage: import_summary [--tasks] [--lenient] [--recorded] [--text] TRACE");
        std::process::exit(2);
    };
    let mode = if has("--lenient") { Mode::Lenient } else { Mode::Strict };
    let start = Instant::now();
    let messages = if has("--recorded") { Messages::Recorded } else { Messages::None };
    let options = DeriveOptions { messages: Some(messages), ..DeriveOptions::default() };
    let derived = match import_trace(path.as_ref(), mode, options, |_| {}) {
        Ok(derived) => derived,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let (workload, summary) = (&derived.workload, &derived.summary);
    if has("--tasks") {
        for task in &workload.tasks {
            let count = |wanted: fn(&EventKind) -> bool| {
                task.events.iter().filter(|event| wanted(&event.kind)).count()
            };
            println!(
                "{} {} {} {} {} {} {} {}",
                task.pid,
                task.name.replace(' ', "_"),
                task.cpu_demand().as_ns(),
                count(|kind| matches!(kind, EventKind::Block { .. })),
                count(|kind| matches!(kind, EventKind::Wakeup(_))),
                count(|kind| matches!(kind, EventKind::Fork { .. })),
                count(|kind| matches!(kind, EventKind::Yield { .. })),
                count(|kind| matches!(kind, EventKind::Prio { .. })),
            );
        }
        return;
    }
    if has("--text") {
        match workload.to_text() {
            Ok(text) => print!("{text}"),
            Err(error) => eprintln!("{error}"),
        }
        return;
    }
    match workload.check() {
        Ok(()) => println!("the workload keeps every rule of the model"),
        Err(error) => println!("BROKEN RULES: {error}"),
    }
    if let Some(deadlock) = find_deadlock(workload) {
        println!("DEADLOCK: {deadlock}");
    }
    println!("{} tasks, {summary:#?}", workload.tasks.len());
    for (key, value) in &workload.notes {
        println!("{key}: {value}");
    }
    for (reason, count) in &workload.dropped {
        println!("dropped: {count} x {reason}");
    }
    eprintln!("{:.2} s, {:.2} M events/s", seconds, summary.trace_events as f64 / seconds / 1e6);
}
