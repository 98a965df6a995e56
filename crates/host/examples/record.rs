//! Records from a shell: the library behind `schedlab record`, with nothing around it.
//!
//! ```text
//! record [-o FILE] [-t SECONDS] [--tree] [--pid P]... [--buffer-kb N] [--irq] [--softirq] [--stat-runtime]
//!        [--objects] [--locks] [--ftrace] [--bpf] [--no-syscalls] [--level ZSTD] [--anonymise rename|drop] [-- CMD...]
//! ```

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use schedlab_host::{Backend, EventChoice, Others, RecordOptions, RecordRequest, Scope, record};
use schedlab_trace::write::{Compression, FileVersion};

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(message) => {
            eprintln!("record: {message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, String> {
    let mut options = RecordOptions::new("trace.dat", RecordRequest::System { duration: None });
    let (mut argv, mut pids, mut duration, mut scope) =
        (Vec::<OsString>::new(), Vec::new(), None, Scope::Whole);
    let mut events = EventChoice::default();
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        let mut value = |what: &str| {
            words.next().and_then(|v| v.into_string().ok()).ok_or_else(|| format!("{what} needs a value"))
        };
        fn number<T: std::str::FromStr>(text: String, what: &str) -> Result<T, String> {
            text.parse().map_err(|_| format!("{what} is {text:?}, expected a number"))
        }
        match word.to_str().unwrap_or_default() {
            "-o" => options.output = value("-o")?.into(),
            "-t" => duration = Some(Duration::from_secs_f64(number(value("-t")?, "-t")?)),
            "--tree" => scope = Scope::Tree,
            "--pid" => pids.push(number(value("--pid")?, "--pid")?),
            "--buffer-kb" => options.buffer_kb = number(value("--buffer-kb")?, "--buffer-kb")?,
            "--level" => {
                let level = number(value("--level")?, "--level")?;
                options.write.version = FileVersion::V7(Compression::Zstd(level));
            }
            "--anonymise" => {
                options.anonymise = Some(match value("--anonymise")?.as_str() {
                    "rename" => Others::Rename,
                    "drop" => Others::Drop,
                    other => return Err(format!("--anonymise is {other:?}, expected rename or drop")),
                });
            }
            "--ftrace" => options.backend = Backend::Ftrace,
            "--bpf" => options.backend = Backend::Bpf,
            "--irq" => events.irq = true,
            "--softirq" => events.softirq = true,
            "--stat-runtime" => events.stat_runtime = true,
            "--objects" => events.objects = true,
            "--locks" => events.locks = true,
            "--no-syscalls" => events.syscalls = false,
            "--" => argv.extend(words.by_ref()),
            _ => return Err(format!("unknown word {word:?}")),
        }
    }
    options.events = events;
    options.what = match (argv.is_empty(), pids.is_empty()) {
        (false, true) => RecordRequest::Command { argv, duration, scope },
        (true, false) => RecordRequest::Processes { pids, duration, scope },
        (true, true) => RecordRequest::System { duration },
        (false, false) => return Err("--pid and a command exclude each other".to_owned()),
    };
    let recorded = record(&options, &mut |_| {}).map_err(|e| e.to_string())?;
    eprint!("{recorded}");
    if let Some(pid) = recorded.command_pid {
        eprintln!("command pid {pid}");
    }
    if let Some(done) = &recorded.anonymised {
        let names: Vec<&str> = done.names.iter().map(String::as_str).collect();
        eprintln!("{} events kept; names that stay: {}", done.events, names.join(", "));
    }
    Ok(ExitCode::from(recorded.status() as u8))
}
