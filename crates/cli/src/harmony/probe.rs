//! `harmony probe LOG`: what do the paper's probes see in any log? Queue lengths, dispatches, moves, CPU time.
//!
//! ```text
//!   ms    0    1    2    3      A, B and C begin on cpu0; cpu1 pulls B and C at 1 ms
//!   cpu0  AAAABBBBAAAAAAAA      queues.csv      0,3,0   1,1,2   ...
//!   cpu1  ........BBBBCCCC      moves.csv       1000000,...,B,0,1,balance,target,1,2     (a batch of 2)
//!                               dispatches.csv  0,0,...,A,500000   ...
//! ```

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use crate::wasted::open;
use clap::Args;
use schedlab_instruments::{LogProblem, Move, MoveKind, for_each_move, for_each_queue};
use schedlab_log::{Kind, Log, LogHeader, Observer, Record, Row, Run, Slots, note, replay};
use schedlab_report::units::time;
use schedlab_stdx::csv::field;
use schedlab_units::{Span, TaskId};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct ProbeArgs {
    /// A schedule log, text or Arrow; or a recording (trace.dat, perf.data, ...), as it happened.
    #[arg(value_name = "LOG|TRACE")]
    pub log: PathBuf,
    /// How far apart samples of the queues lie.
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub grid: Span,
    /// Write queues.csv, dispatches.csv, moves.csv, priorities.csv and cpu.csv into this folder; it is made.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Moves of a batch: those that one CPU makes at one instant from the same CPU to the same CPU.
type Batches = BTreeMap<(u64, u32, u32, Option<u32>), u32>;

/// What is seen in a log.
#[derive(Default)]
struct Seen {
    moves: Vec<Move>,
    batches: Batches,
    /// The longest queue, and when it was so for the first time.
    longest: (u64, u32),
    dispatches: u64,
    /// CPU time of each task.
    cpu_ns: Vec<u64>,
    /// Each new dynamic priority: when, whose, which.
    priorities: Vec<(u64, TaskId, u64)>,
}

pub(super) fn probe(args: &ProbeArgs, ui: &Ui) -> Result<()> {
    if args.grid == Span::ZERO {
        return Err(Failure::Input("--grid 0ns: samples lie apart; expected 1ns or more, e.g. 1ms".into()));
    }
    let log = open(&args.log, ui)?;
    if let Some(folder) = &args.output {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::Input(format!("{}: cannot be made: {error}", folder.display())))?;
    }
    let step = ui.step("reading the log");
    let (mut moves, mut batches) = (Vec::new(), Batches::new());
    for_each_move(&*log, |one| {
        if one.task.is_workload() {
            *batches.entry(batch(one)).or_default() += 1;
            moves.push(*one);
        }
    })
    .map_err(|problem| Failure::of_log(args.log.display(), problem))?;
    let longest = queues(&*log, args)?;
    let mut seen = Seen { moves, batches, longest, ..dispatches(&*log, args)? };
    drop(step);
    seen.priorities.retain(|(_, task, _)| task.is_workload());
    if let Some(folder) = &args.output {
        output::file(&folder.join("moves.csv"), |out| seen.write_moves(log.header(), out))?;
        output::file(&folder.join("priorities.csv"), |out| seen.write_priorities(log.header(), out))?;
        output::file(&folder.join("cpu.csv"), |out| seen.write_cpu_time(log.header(), out))?;
    }
    print!("{}", seen.text(log.header(), args.grid));
    Ok(())
}

/// Which batch a move is of.
fn batch(one: &Move) -> (u64, u32, u32, Option<u32>) {
    (one.time_ns, one.from.0, one.to.0, one.mover.map(|cpu| cpu.0))
}

/// Reads the log and writes a table of it where one is wanted. Of a log that cannot be read to its end no table is
/// left.
fn table<T>(
    args: &ProbeArgs,
    name: &str,
    read: impl FnOnce(&mut dyn Write) -> io::Result<std::result::Result<T, LogProblem>>,
) -> Result<T> {
    let mut seen = None;
    let content = |out: &mut dyn Write| {
        let all = seen.insert(read(out)?);
        if all.is_ok() { Ok(()) } else { Err(io::Error::other("the log cannot be read to its end")) }
    };
    let written = match &args.output {
        Some(folder) => output::file(&folder.join(name), content),
        None => content(&mut io::sink()).map_err(Failure::input),
    };
    match seen {
        Some(Err(problem)) => Err(Failure::of_log(args.log.display(), problem)),
        Some(Ok(all)) => written.map(|()| all),
        None => Err(written.expect_err("what was not read is not written")),
    }
}

/// Writes queues.csv where it is wanted; the longest queue.
fn queues(log: &dyn Log, args: &ProbeArgs) -> Result<(u64, u32)> {
    table(args, "queues.csv", |out| {
        let names: String = (0..log.header().nr_cpus).map(|cpu| format!(",cpu{cpu}")).collect();
        writeln!(out, "time_ns{names}")?;
        let (mut longest, mut written) = ((0, 0), Ok(()));
        let sampled = for_each_queue(log, args.grid, |ns, row| {
            let most = row.iter().map(|queue| queue.total()).max().unwrap_or(0);
            if most > longest.1 {
                longest = (ns, most);
            }
            let mut line = ns.to_string();
            row.iter().for_each(|queue| line.push_str(&format!(",{}", queue.total())));
            if written.is_ok() {
                written = writeln!(out, "{line}");
            }
        });
        written.map(|()| sampled.map(|()| longest))
    })
}

/// Writes dispatches.csv where it is wanted; how many there are, each task's CPU time, and dynamic priorities.
fn dispatches(log: &dyn Log, args: &ProbeArgs) -> Result<Seen> {
    table(args, "dispatches.csv", |out| {
        writeln!(out, "time_ns,cpu,task,pid,name,ran_ns")?;
        let (header, slots) = (log.header(), Slots::new(log.header()));
        let seen = Seen { cpu_ns: vec![0; header.tasks.len()], ..Seen::default() };
        let mut dispatcher = Dispatcher { header, slots: &slots, out, written: Ok(()), seen };
        let read = replay(log, &slots, &mut dispatcher);
        let Dispatcher { written, seen, .. } = dispatcher;
        written.map(|()| read.map(|()| seen))
    })
}

struct Dispatcher<'a> {
    header: &'a LogHeader,
    slots: &'a Slots,
    out: &'a mut dyn Write,
    written: io::Result<()>,
    seen: Seen,
}

impl Observer for Dispatcher<'_> {
    fn run_end(&mut self, run: &Run) {
        let task = self.slots.id(run.row);
        if !task.is_workload() {
            return;
        }
        let ran_ns = run.until_ns - run.since_ns;
        self.seen.dispatches += 1;
        self.seen.cpu_ns[task.index()] += ran_ns;
        if self.written.is_ok() {
            let who = who(self.header, task);
            self.written = writeln!(self.out, "{},{},{who},{ran_ns}", run.since_ns, run.cpu.0);
        }
    }
    fn record(&mut self, record: &Record, kind: Kind, _row: Option<Row>) {
        if kind == Kind::Note && record.arg == note::PRIORITY {
            self.seen.priorities.push((record.time_ns, record.task(), record.value));
        }
    }
}

/// Number, pid and name, as three fields.
fn who(header: &LogHeader, task: TaskId) -> String {
    let about = &header.tasks[task.index()];
    format!("{},{},{}", task.0, about.pid, field(&about.name))
}

fn kind(kind: MoveKind) -> &'static str {
    match kind {
        MoveKind::Wake => "wake",
        MoveKind::Fork => "fork",
        MoveKind::Exec => "exec",
        MoveKind::Balance => "balance",
    }
}

/// Who made it, seen from the task.
fn mover(one: &Move) -> &'static str {
    match one.mover {
        None => "unknown",
        Some(cpu) if cpu == one.to => "target",
        Some(cpu) if cpu == one.from => "source",
        Some(_) => "third",
    }
}

impl Seen {
    fn write_moves(&self, header: &LogHeader, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "time_ns,task,pid,name,from,to,kind,mover,mover_cpu,batch")?;
        for one in &self.moves {
            let by = one.mover.map_or_else(String::new, |cpu| cpu.0.to_string());
            let (from, to, size) = (one.from.0, one.to.0, self.batches[&batch(one)]);
            let (kind, mover) = (kind(one.kind), mover(one));
            writeln!(
                out,
                "{},{},{from},{to},{kind},{mover},{by},{size}",
                one.time_ns,
                who(header, one.task)
            )?;
        }
        Ok(())
    }

    fn write_priorities(&self, header: &LogHeader, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "time_ns,task,pid,name,priority")?;
        for (time_ns, task, priority) in &self.priorities {
            writeln!(out, "{time_ns},{},{priority}", who(header, *task))?;
        }
        Ok(())
    }

    fn write_cpu_time(&self, header: &LogHeader, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "task,pid,name,cpu_ns")?;
        for (task, cpu_ns) in self.cpu_ns.iter().enumerate() {
            writeln!(out, "{},{cpu_ns}", who(header, TaskId(task as u32)))?;
        }
        Ok(())
    }

    fn text(&self, header: &LogHeader, grid: Span) -> String {
        let mut text = format!(
            "{} \u{b7} {} CPUs \u{b7} {}\n\n",
            header.sched,
            header.nr_cpus,
            time(header.duration.as_ns())
        );
        let (at_ns, longest) = self.longest;
        let at = time(at_ns);
        let _ = writeln!(text, "longest queue   {longest} tasks at {at}, of samples {grid} apart");
        let _ = writeln!(text, "dispatches      {}", self.dispatches);
        let cpu = time(self.cpu_ns.iter().sum());
        let _ = writeln!(text, "CPU time        {cpu} of {} tasks", self.cpu_ns.len());
        let levels = self.priorities.iter().map(|(_, _, priority)| priority);
        let range = levels.clone().min().zip(levels.max());
        let said =
            range.map_or("none: no such policy, or the log does not say".to_string(), |(low, high)| {
                format!("{} changes, between {low} and {high}; lower is served first", self.priorities.len())
            });
        let _ = writeln!(text, "dynamic prio    {said}");
        let mut rows: BTreeMap<(&str, &str), (u32, u32)> = BTreeMap::new();
        for one in &self.moves {
            let row = rows.entry((kind(one.kind), mover(one))).or_default();
            *row = (row.0 + 1, row.1.max(self.batches[&batch(one)]));
        }
        let _ = writeln!(text, "moves           {}", self.moves.len());
        for ((kind, mover), (count, largest)) in rows {
            let _ = writeln!(text, "  {count:>8} {kind:<8} by {mover:<8} largest batch {largest}");
        }
        let balance = self.moves.iter().filter(|one| one.kind == MoveKind::Balance);
        let (all, unmade) =
            balance.fold((0, 0), |(all, unmade), one| (all + 1, unmade + i32::from(one.mover.is_none())));
        if unmade * 2 >= all && all > 0 {
            text.push_str(
                "half of the moves of runnable tasks or more were made by nobody: one queue for all CPUs. A queue's \
                length says where tasks were put last, not who will run them: go by the dispatches\n",
            );
        }
        text
    }
}
