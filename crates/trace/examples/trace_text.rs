//! Prints a recording's scheduling events, one a line, or only counts and speed: `trace_text [--speed]
//! [--lenient] FILE`.
//!
//! The lines are made to be compared with those of another reader, such as `trace-cmd report -R -t --cpu ...`.

use schedlab_trace::{Mode, Recording, RecordingStream, SchedEvent, TraceError, Wake};
use std::io::Write;
use std::time::Instant;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let Some(path) = arguments.iter().find(|argument| !argument.starts_with("--")) else {
        eprintln!("usage: trace_text [--speed] [--lenient] FILE");
        std::process::exit(2);
    };
    let mode = if has("--lenient") { Mode::Lenient } else { Mode::Strict };
    if let Err(error) = print(path.as_ref(), mode, has("--speed")) {
        eprintln!("{error}");
        std::process::exit(2);
    }
}

fn print(path: &std::path::Path, mode: Mode, speed_only: bool) -> Result<(), TraceError> {
    let start = Instant::now();
    let file = Recording::open(path, mode)?;
    let mut events = file.events()?;
    let opened = start.elapsed();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let (mut count, mut sum) = (0u64, 0u64);
    while let Some(event) = events.next_event()? {
        count += 1;
        sum = sum.wrapping_add(event.time_ns ^ u64::from(event.cpu.0));
        if !speed_only {
            let text = describe(&events, event.what);
            let written =
                writeln!(out, "{} {} {} {:?} {text}", event.time_ns, event.cpu.0, event.pid, event.context);
            if written.is_err() {
                return Ok(());
            }
        }
    }
    let _ = out.flush();
    if speed_only {
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{count} events (checksum {sum:x}), {:.1} ms to open, {:.2} s in all, {:.2} M events/s",
            opened.as_secs_f64() * 1e3,
            seconds,
            count as f64 / seconds / 1e6
        );
    }
    for (reason, count) in events.counts() {
        eprintln!("{count} x {reason}");
    }
    Ok(())
}

fn describe(events: &RecordingStream<'_>, what: SchedEvent) -> String {
    let wake = |name: &str, wake: Wake| {
        format!("{name} {} {} {} {}", events.comm(wake.comm), wake.pid, wake.prio, wake.target_cpu.0)
    };
    match what {
        SchedEvent::Switch { prev, prev_state, next } => format!(
            "switch {} {} {} {prev_state:?} {} {} {}",
            events.comm(prev.comm),
            prev.pid,
            prev.prio,
            events.comm(next.comm),
            next.pid,
            next.prio
        ),
        SchedEvent::Waking(w) => wake("waking", w),
        SchedEvent::Wakeup(w) => wake("wakeup", w),
        SchedEvent::WakeupNew(w) => wake("wakeup_new", w),
        other => format!("{other:?}"),
    }
}
