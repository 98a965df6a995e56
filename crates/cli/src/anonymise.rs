//! `schedlab anonymise`: a recording that can be given away.

use crate::failure::{Failure, Result};
use crate::ui::Ui;
use clap::Args;
use schedlab_host::{Others, Ours, Snapshot, anonymise as rewrite};
use schedlab_trace::write::{Compression, FileVersion, WriteOptions};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct AnonymiseArgs {
    /// The recording, a trace.dat; its snapshot is taken in if it lies beside it.
    pub trace: PathBuf,
    /// The trace to write; the snapshot goes beside it.
    #[arg(short, long)]
    pub output: PathBuf,
    /// Names of these threads, and of all that they forked, stay. All others, the host's name, paths and
    /// groups go; so do kernel threads' names that not every Linux has.
    #[arg(long, value_name = "PID")]
    pub pid: Vec<i32>,
    /// Leave others out, and show their time as idle; else they are called other-1, other-2, ...
    #[arg(long)]
    pub drop: bool,
    /// Compression by zstd, 1 (fast) to 19 (small).
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=19))]
    pub level: i32,
}

pub(crate) fn anonymise(args: &AnonymiseArgs, ui: &Ui) -> Result<()> {
    let snapshot = Some(Snapshot::path_beside(&args.trace)).filter(|path| path.exists());
    let ours = Ours { pids: args.pid.iter().copied().collect(), ..Ours::default() };
    let others = if args.drop { Others::Drop } else { Others::Rename };
    let options =
        WriteOptions { version: FileVersion::V7(Compression::Zstd(args.level)), ..WriteOptions::default() };
    let step = ui.step("reading the recording and writing it anew");
    let done = rewrite(&args.trace, snapshot.as_deref(), &ours, others, &args.output, options)
        .map_err(Failure::input)?;
    drop(step);
    println!(
        "{} events kept, {} left out, {:.3} s, {} bytes: {}",
        done.events,
        done.events_dropped,
        done.span_ns.1.saturating_sub(done.span_ns.0) as f64 / 1e9,
        done.bytes,
        args.output.display()
    );
    println!("{} tasks keep their names, {} are called other-N", done.kept, done.others);
    if !done.reused_pids.is_empty() {
        let pids: Vec<String> = done.reused_pids.iter().map(i32::to_string).collect();
        println!("called other-N because strangers had their pid too: {}", pids.join(", "));
    }
    println!("names in it, to look through: {}", done.names.into_iter().collect::<Vec<_>>().join(", "));
    Ok(())
}
