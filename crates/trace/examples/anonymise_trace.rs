//! Copies a trace without names that are nobody's business: `anonymise_trace [--v6|--plain] [--keep NAME]... IN OUT`.
//!
//! Kernel threads that every machine has and the names given keep theirs; every other task becomes `task-PID`.

use schedlab_trace::edit::{Rewrite, rewrite};
use schedlab_trace::write::{Compression, FileVersion, WriteOptions};
use schedlab_trace::{Mode, Pid, TraceFile};

struct Names {
    keep: Vec<String>,
}

const KERNEL: [&str; 8] =
    ["swapper/", "kworker/", "ksoftirqd/", "migration/", "rcu_", "kthreadd", "kcompactd", "cpuhp/"];

impl Rewrite for Names {
    fn comm(&mut self, pid: Pid, comm: &str) -> Option<String> {
        let kept = self.keep.iter().any(|keep| keep == comm) || KERNEL.iter().any(|k| comm.starts_with(k));
        (!kept).then(|| format!("task-{pid}"))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options =
        WriteOptions { version: FileVersion::V7(Compression::Zstd(19)), ..WriteOptions::default() };
    let (mut names, mut paths) = (Names { keep: Vec::new() }, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--v6" => options.version = FileVersion::V6,
            "--plain" => options.version = FileVersion::V7(Compression::None),
            "--keep" => names.keep.extend(arguments.next()),
            _ => paths.push(argument),
        }
    }
    let [source, target] = paths.as_slice() else {
        return Err("usage: anonymise_trace [--v6|--plain] [--keep NAME]... IN OUT".into());
    };
    let file = TraceFile::open(source.as_ref(), Mode::Strict)?;
    let done = rewrite(&file, file.sched_buffer_index()?, target.as_ref(), options, &mut names)?;
    println!("{} events, {} bytes, {} pages", done.events_kept, done.written.file_bytes, done.written.pages);
    for (reason, count) in done.counts {
        println!("{count} x {reason}");
    }
    Ok(())
}
