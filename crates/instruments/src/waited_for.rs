//! Whose CPU did tasks wait for? A recording's program waits for its own tasks, for the kernel's threads, or
//! for strangers: the last is the recording machine's business, not the program's.
//!
//! ```text
//!   ms    0    1    2    3
//!   cpu0  AAAAAXXXXX....BB      B waits on cpu0 from 0 to 3: 1 ms each for A,
//!                               for the stranger X, and beside an idle CPU
//! ```
//!
//! A CPU that is shown as idle while a task waits on its queue had something that the recording left out: a
//! stranger, as a rule, or an interrupt; or it was on its way out of a deep idle state, which takes
//! microseconds.

use crate::LogProblem;
use schedlab_log::{Log, Observer, Row, Run, Slots, Wait, WaitCause, replay};
use schedlab_units::CpuId;

/// Whose a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The program's that was recorded.
    Program,
    /// A thread of the kernel.
    Kernel,
    /// Somebody else's.
    #[default]
    Stranger,
}

/// Time that the program's tasks waited, by what ran on the CPU on whose queue they stood; a sum over tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitedFor {
    /// A task of the program.
    pub program_ns: u64,
    /// A kernel thread.
    pub kernel_ns: u64,
    /// A stranger.
    pub stranger_ns: u64,
    /// Nothing that the log shows, for more than [`IDLE_EXIT_NS`] at a time.
    pub idle_ns: u64,
    /// Nothing, for a moment: the way from the wakeup to the switch.
    pub exit_ns: u64,
    /// What CPUs those had of whom the recording says only that they had one; not of any waiting.
    pub strangers_cpu_ns: u64,
}

/// A CPU that leaves its idle state needs less than this before the task that woke it runs.
pub const IDLE_EXIT_NS: u64 = 200_000;

impl WaitedFor {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.program_ns + self.kernel_ns + self.stranger_ns + self.idle_ns + self.exit_ns
    }

    /// For CPUs that somebody else had, or that the recording shows as idle although somebody must have had them.
    pub fn others_ns(&self) -> u64 {
        self.stranger_ns + self.idle_ns
    }

    /// Share of [`WaitedFor::others_ns`], 0 to 1.
    pub fn others_share(&self) -> f64 {
        if self.total_ns() == 0 { 0.0 } else { self.others_ns() as f64 / self.total_ns() as f64 }
    }
}

/// Reads the log once; `owners` has an entry for each of the log's tasks (the kernel's own threads are the kernel's).
///
/// # Errors
/// [`LogProblem`] if the log is no schedule.
pub fn waited_for(log: &dyn Log, owners: &[Owner]) -> Result<WaitedFor, LogProblem> {
    watched(log, owners).map(|watch| watch.found)
}

/// When each CPU is shown as idle although somebody else had it, by the recording's own word, or must have had it: a
/// task of the program waited there for longer than the way out of idle takes. Stretches in ns, in order of time.
///
/// # Errors
/// [`LogProblem`] if the log is no schedule.
pub fn hidden_stays(log: &dyn Log, owners: &[Owner]) -> Result<Vec<Vec<(u64, u64)>>, LogProblem> {
    watched(log, owners).map(|watch| watch.cpus.into_iter().map(|place| place.hidden).collect())
}

fn watched<'a>(log: &dyn Log, owners: &'a [Owner]) -> Result<Watch<'a>, LogProblem> {
    let nr_cpus = log.header().nr_cpus as usize;
    let slots = Slots::new(log.header());
    let mut watch = Watch {
        owners,
        strangers: log.header().strangers(),
        nr_tasks: log.header().tasks.len(),
        now_ns: 0,
        cpus: vec![Place::default(); nr_cpus],
        found: WaitedFor::default(),
    };
    replay(log, &slots, &mut watch)?;
    Ok(watch)
}

#[derive(Clone, Debug, Default)]
struct Place {
    /// Who runs; `None`: nobody.
    runs: Option<Owner>,
    /// Tasks of the program on its queue.
    waiting: u64,
    since_ns: u64,
    /// Waiting beside an idle CPU, until that is over.
    beside_idle_ns: u64,
    idle_from_ns: u64,
    /// When it was shown as idle for so long beside a task that waits that somebody must have had it.
    hidden: Vec<(u64, u64)>,
}

struct Watch<'a> {
    owners: &'a [Owner],
    /// Per row: whether it stands for all whom the recording leaves out on a CPU.
    strangers: Vec<bool>,
    nr_tasks: usize,
    now_ns: u64,
    cpus: Vec<Place>,
    found: WaitedFor,
}

impl Watch<'_> {
    fn owner(&self, row: Row) -> Owner {
        let is_own_thread = row.index() >= self.nr_tasks;
        match is_own_thread {
            _ if self.are_strangers(row) => Owner::Stranger,
            true => Owner::Kernel,
            false => self.owners.get(row.index()).copied().unwrap_or_default(),
        }
    }

    fn are_strangers(&self, row: Row) -> bool {
        self.strangers.get(row.index()) == Some(&true)
    }

    /// What was so on this CPU up to now is counted.
    fn bring_up_to_date(&mut self, cpu: CpuId, now_ns: u64) {
        let place = &mut self.cpus[cpu.index()];
        let ns = place.waiting * (now_ns - place.since_ns);
        place.since_ns = now_ns;
        match place.runs {
            Some(Owner::Program) => self.found.program_ns += ns,
            Some(Owner::Kernel) => self.found.kernel_ns += ns,
            Some(Owner::Stranger) => self.found.stranger_ns += ns,
            None => place.beside_idle_ns += ns,
        }
    }

    fn change(&mut self, row: Row, cpu: CpuId, now_ns: u64, begins: bool) {
        if self.owner(row) != Owner::Program {
            return;
        }
        self.bring_up_to_date(cpu, now_ns);
        let place = &mut self.cpus[cpu.index()];
        if begins {
            if place.waiting == 0 {
                place.idle_from_ns = now_ns;
            }
            place.waiting += 1;
        } else {
            place.waiting -= 1;
            if place.waiting == 0 {
                self.idle_over(cpu, now_ns);
            }
        }
    }

    /// A wait beside an idle CPU is over: it was the way out of idle, or too long for that.
    fn idle_over(&mut self, cpu: CpuId, now_ns: u64) {
        let place = &mut self.cpus[cpu.index()];
        let ns = std::mem::take(&mut place.beside_idle_ns);
        let is_exit = now_ns - place.idle_from_ns <= IDLE_EXIT_NS;
        if ns > 0 && !is_exit {
            place.hidden.push((place.idle_from_ns, now_ns));
        }
        *(if is_exit { &mut self.found.exit_ns } else { &mut self.found.idle_ns }) += ns;
    }
}

impl Observer for Watch<'_> {
    fn elapse(&mut self, _from_ns: u64, to_ns: u64) {
        self.now_ns = to_ns;
    }
    fn wait_begin(&mut self, row: Row, cpu: CpuId, _cause: WaitCause) {
        self.change(row, cpu, self.now_ns, true);
    }
    fn wait_moved(&mut self, row: Row, from: CpuId, to: CpuId) {
        self.change(row, from, self.now_ns, false);
        self.change(row, to, self.now_ns, true);
    }
    fn wait_end(&mut self, wait: &Wait) {
        self.change(wait.row, wait.cpu, wait.until_ns, false);
    }
    fn run_begin(&mut self, row: Row, cpu: CpuId) {
        self.bring_up_to_date(cpu, self.now_ns);
        self.idle_over(cpu, self.now_ns);
        self.cpus[cpu.index()].runs = Some(self.owner(row));
    }
    fn run_end(&mut self, run: &Run) {
        self.bring_up_to_date(run.cpu, run.until_ns);
        if self.are_strangers(run.row) && run.until_ns > run.since_ns {
            self.found.strangers_cpu_ns += run.until_ns - run.since_ns;
            self.cpus[run.cpu.index()].hidden.push((run.since_ns, run.until_ns));
        }
        let place = &mut self.cpus[run.cpu.index()];
        (place.runs, place.idle_from_ns) = (None, run.until_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_log::{LogHeader, LogTask, MemLog, TextLog};
    use std::path::Path;

    /// The drawing at the top of this module; then the same with nothing idle.
    #[test]
    fn waiting_is_known_by_who_had_the_cpu() {
        let header = "# schedlab log 1\n# sched \"x\"\n# sched_version \"1\"\n# cpus 1\n# hz 250\n\
                      # duration_ns 4000000\n\
                      # task t0 pid=1 policy=normal nice=0 name=\"a\"\n\
                      # task t1 pid=2 policy=normal nice=0 name=\"x\"\n\
                      # task t2 pid=3 policy=normal nice=0 name=\"b\"\n";
        let text = format!(
            "{header}0 cpu0 new t0 cpu0\n0 cpu0 switch idle -> t0\n0 cpu0 new t2 cpu0\n1000000 cpu0 wakeup t1 cpu0\n\
             1000000 cpu0 switch t0 sleeping -> t1\n2000000 cpu0 switch t1 sleeping -> idle\n\
             3000000 cpu0 switch idle -> t2\n# end 7\n"
        );
        let log = TextLog::parse(&text, Path::new("drawn")).unwrap();
        let owners = [Owner::Program, Owner::Stranger, Owner::Program];
        let found = waited_for(&log, &owners).unwrap();
        let ms = 1_000_000;
        let expected = WaitedFor { program_ns: ms, stranger_ns: ms, idle_ns: ms, ..WaitedFor::default() };
        assert_eq!(found, expected);
        assert_eq!(hidden_stays(&log, &owners).unwrap(), [[(2 * ms, 3 * ms)]], "nobody is shown from 2 to 3");
        assert_eq!((found.others_ns(), (found.others_share() * 3.0).round()), (2 * ms, 2.0));
    }

    #[test]
    fn a_short_way_out_of_idle_is_nobody_s_fault() {
        let tasks = vec![LogTask::default()];
        let header =
            LogHeader { nr_cpus: 1, duration: "1ms".parse().unwrap(), tasks, ..LogHeader::default() };
        let text = "50000 cpu0 wakeup t0 cpu0\n90000 cpu0 switch idle -> t0\n";
        let mut whole = String::from(
            "# schedlab log 1\n# sched \"x\"\n# sched_version \"1\"\n# cpus 1\n# hz 250\n# duration_ns 1000000\n\
             # task t0 pid=1 policy=normal nice=0 name=\"a\"\n",
        );
        whole.push_str(text);
        whole.push_str("# end 2\n");
        let log = TextLog::parse(&whole, Path::new("drawn")).unwrap();
        let records = MemLog::read(&log).unwrap().records;
        let found = waited_for(&MemLog { header, records }, &[Owner::Program]).unwrap();
        assert_eq!(found, WaitedFor { exit_ns: 40_000, ..WaitedFor::default() });
    }
}
