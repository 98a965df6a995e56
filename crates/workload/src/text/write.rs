//! Writes the text form: canonical, so that equal workloads give equal bytes.

use super::TEXT_HEADER;
use super::lex::quote;
use crate::{
    ALL, Birth, CgroupId, CpuMax, Event, EventKind, ExternalSource, Handover, InitState, Late, Object,
    ObjectId, ObjectKind, ObjectOp, ParamChange, Recorded, Task, WaitCosts, Wakes, Wakeup, Workload,
};
use schedlab_units::{CpuSet, SchedParams, Span, TaskId};
use std::io::{self, Write};

/// Bytes gathered before they go to the writer.
const BUFFER: usize = 1 << 16;

/// Writes a workload in canonical text form. Reading it gives the same workload again.
///
/// Fails with [`io::ErrorKind::InvalidInput`] on a workload that the text cannot hold: one that names a task
/// or control group that it lacks, or a task to be forked that no FORK creates ([`Workload::check`] tells
/// which).
pub fn write_text(workload: &Workload, out: &mut impl Write) -> io::Result<()> {
    let forks = workload.tasks.iter().flat_map(|task| &task.events).filter_map(|event| match event.kind {
        EventKind::Fork { child, .. } => Some(child),
        _ => None,
    });
    let mut writer = TextWriter::begin(workload, forks, workload.version(), &mut *out)?;
    for (row, task) in workload.tasks.iter().enumerate() {
        writer.events(TaskId(row as u32), &task.events)?;
    }
    writer.finish()
}

/// What a PRIO of this workload sets, in the words of the text form, without `target=`. A control group that
/// the workload lacks is left out.
pub fn change_words(change: &ParamChange, workload: &Workload) -> String {
    let mut writer = Writer { workload, line: Vec::new(), rows: false };
    let cgroup = change.cgroup.filter(|id| (id.0 as usize) < workload.cgroups.len());
    let whole = writer.change(&ParamChange { target: None, cgroup, ..change.clone() });
    debug_assert!(whole.is_ok(), "the group is there, and no target");
    String::from_utf8_lossy(writer.line.trim_ascii()).into_owned()
}

/// Writes a workload in text form, its events piece by piece.
pub(crate) struct TextWriter<'a, W: Write> {
    writer: Writer<'a>,
    out: W,
    forked: u64,
}

impl<'a, W: Write> TextWriter<'a, W> {
    /// Begins with all but the events of `workload`, which may be missing from it; `forks` are the children
    /// in the order in which the FORKs will come.
    pub fn begin(
        workload: &'a Workload,
        forks: impl Iterator<Item = TaskId>,
        version: u32,
        mut out: W,
    ) -> io::Result<Self> {
        let rows = rows_needed(workload, forks);
        let mut writer = Writer { workload, line: Vec::with_capacity(BUFFER + 512), rows };
        writer.word(TEXT_HEADER);
        writer.number(u64::from(version));
        writer.line.push(b'\n');
        writer.head();
        for task in &workload.tasks {
            if let Birth::Init { eid, parent, state } = task.birth {
                writer.number(eid.0);
                writer.word("INIT");
                writer.pid_or_zero(parent)?;
                writer.number(0);
                writer.number(u64::from(task.pid));
                writer.word(match state {
                    InitState::Runnable => "runnable",
                    InitState::Blocked => "blocked",
                });
                writer.attributes(task)?;
                writer.end_line(&mut out)?;
            }
        }
        Ok(TextWriter { writer, out, forked: 0 })
    }

    /// Appends events to a task's. The text is canonical if tasks come in order.
    pub fn events(&mut self, row: TaskId, events: &[Event]) -> io::Result<()> {
        let Some(task) = self.writer.workload.tasks.get(row.0 as usize) else {
            return Err(invalid(format!("events of task row {}, which is not there", row.0)));
        };
        for event in events {
            self.forked += u64::from(matches!(event.kind, EventKind::Fork { .. }));
            self.writer.event(row, task, event)?;
            self.writer.end_line(&mut self.out)?;
        }
        Ok(())
    }

    /// Completes the text; it must have had a FORK for every task to be forked.
    pub fn finish(mut self) -> io::Result<()> {
        let forked = |task: &&Task| matches!(task.birth, Birth::Fork { .. });
        let to_fork = self.writer.workload.tasks.iter().filter(forked).count();
        if self.forked != to_fork as u64 {
            let message =
                format!("{to_fork} tasks are to be forked, but there are {} FORK events", self.forked);
            return Err(invalid(message));
        }
        self.out.write_all(&self.writer.line)?;
        self.out.flush()
    }
}

impl Workload {
    /// The canonical text; see [`write_text`].
    pub fn to_text(&self) -> io::Result<String> {
        let mut text = Vec::new();
        write_text(self, &mut text)?;
        String::from_utf8(text).map_err(|error| invalid(error.to_string()))
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Whether the order of the lines (INITs, then children in the order of the FORKs) differs from the order of
/// the tasks, so that forked tasks must state their row.
fn rows_needed(workload: &Workload, forks: impl Iterator<Item = TaskId>) -> bool {
    let inits = workload.tasks.iter().take_while(|task| matches!(task.birth, Birth::Init { .. })).count();
    forks.enumerate().any(|(i, child)| child.0 as usize != inits + i)
        || workload.tasks[inits..].iter().any(|task| matches!(task.birth, Birth::Init { .. }))
}

struct Writer<'a> {
    workload: &'a Workload,
    line: Vec<u8>,
    rows: bool,
}

impl Writer<'_> {
    fn end_line(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.line.push(b'\n');
        if self.line.len() >= BUFFER {
            out.write_all(&self.line)?;
            self.line.clear();
        }
        Ok(())
    }

    /// A space, except at the start of a line.
    fn space(&mut self) {
        if !matches!(self.line.last(), None | Some(b'\n')) {
            self.line.push(b' ');
        }
    }

    fn word(&mut self, word: &str) {
        self.space();
        self.line.extend_from_slice(word.as_bytes());
    }

    fn digits(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.line.extend_from_slice(&digits[at..]);
    }

    fn number(&mut self, number: u64) {
        self.space();
        self.digits(number);
    }

    /// A duration in the shortest exact unit, as `Span` prints it; zero is `0`.
    fn span(&mut self, span: Span) {
        self.space();
        self.bare_span(span);
    }

    fn bare_span(&mut self, span: Span) {
        let ns = span.as_ns();
        let (number, unit) = match ns {
            0 => (0, ""),
            _ if !ns.is_multiple_of(1_000) => (ns, "ns"),
            _ if !ns.is_multiple_of(1_000_000) => (ns / 1_000, "us"),
            _ if !ns.is_multiple_of(1_000_000_000) => (ns / 1_000_000, "ms"),
            _ => (ns / 1_000_000_000, "s"),
        };
        self.digits(number);
        self.line.extend_from_slice(unit.as_bytes());
    }

    fn key(&mut self, key: &str, value: &str) {
        self.word(key);
        self.line.push(b'=');
        quote(value, &mut self.line);
    }

    fn key_span(&mut self, key: &str, span: Span) {
        self.word(key);
        self.line.push(b'=');
        self.bare_span(span);
    }

    fn pid(&mut self, id: TaskId) -> io::Result<()> {
        let Some(task) = self.workload.tasks.get(id.0 as usize) else {
            return Err(invalid(format!(
                "task row {} is named, but there are {}",
                id.0,
                self.workload.tasks.len()
            )));
        };
        self.number(u64::from(task.pid));
        Ok(())
    }

    fn pid_or_zero(&mut self, id: Option<TaskId>) -> io::Result<()> {
        match id {
            Some(id) => self.pid(id),
            None => {
                self.number(0);
                Ok(())
            }
        }
    }

    fn head(&mut self) {
        let workload = self.workload;
        for (key, value) in &workload.notes {
            self.word("NOTE");
            self.line.push(b' ');
            quote(key, &mut self.line);
            self.line.push(b' ');
            quote(value, &mut self.line);
            self.line.push(b'\n');
        }
        for (reason, count) in &workload.dropped {
            self.word("DROPPED");
            self.number(*count);
            self.line.push(b' ');
            quote(reason, &mut self.line);
            self.line.push(b'\n');
        }
        for cgroup in &workload.cgroups {
            self.word("CGROUP");
            self.line.push(b' ');
            quote(&cgroup.path, &mut self.line);
            if let Some(weight) = cgroup.weight {
                self.word("weight=");
                self.digits(u64::from(weight));
            }
            if let Some(CpuMax { quota, period }) = cgroup.max {
                self.key_span("max", quota);
                self.line.push(b'/');
                self.bare_span(period);
            }
            if let Some(cpuset) = &cgroup.cpuset {
                self.word("cpuset=");
                self.line.extend_from_slice(cpuset.to_string().as_bytes());
            }
            self.line.push(b'\n');
        }
        for object in &workload.objects {
            self.word("OBJECT");
            self.line.push(b' ');
            quote(&object.name, &mut self.line);
            self.object(object);
            self.line.push(b'\n');
        }
    }

    fn object(&mut self, object: &Object) {
        self.word(object.kind.name());
        let (word, numbers) = match object.kind {
            ObjectKind::Channel { capacity, start, low } | ObjectKind::Stream { capacity, start, low } => {
                let start = Some(start).filter(|&start| start > 0);
                ("", [("capacity=", capacity), ("start=", start), ("low=", low)])
            }
            ObjectKind::Semaphore { start } => ("", [("start=", Some(start)), ("", None), ("", None)]),
            ObjectKind::Mutex(Handover::Fifo) => ("fifo", [("", None); 3]),
            ObjectKind::Mutex(Handover::Competing) | ObjectKind::Condition => ("", [("", None); 3]),
            ObjectKind::Barrier { parties } => ("", [("parties=", Some(parties)), ("", None), ("", None)]),
            ObjectKind::Timer(Late::Restart) => ("restart", [("", None); 3]),
            ObjectKind::Timer(Late::Grid) => ("", [("", None); 3]),
        };
        for (key, number) in numbers {
            if let Some(number) = number {
                self.word(key);
                self.digits(u64::from(number));
            }
        }
        let WaitCosts { sleep, wake, tail } = object.costs;
        for (key, cost) in [("sleep=", sleep), ("wake=", wake), ("tail=", tail)] {
            if cost > Span::ZERO {
                self.word(key);
                self.line.extend_from_slice(cost.to_string().as_bytes());
            }
        }
        let sync = if object.wakes == Wakes::Sync { "sync" } else { "" };
        let closed = if object.is_closed { "closed" } else { "" };
        let polled = if object.is_polled { "polled" } else { "" };
        [word, sync, polled, closed]
            .into_iter()
            .filter(|word| !word.is_empty())
            .for_each(|word| self.word(word));
    }

    /// The name of an object.
    fn object_name(&mut self, id: ObjectId) -> io::Result<()> {
        let Some(object) = self.workload.objects.get(id.0 as usize) else {
            let nr = self.workload.objects.len();
            return Err(invalid(format!("object {} is named, but there are {nr}", id.0)));
        };
        self.line.push(b' ');
        quote(&object.name, &mut self.line);
        Ok(())
    }

    fn op(&mut self, op: ObjectOp, recorded: Recorded) -> io::Result<()> {
        self.object_name(op.object())?;
        match op {
            ObjectOp::Receive { amount: ALL, .. } => self.word("all"),
            ObjectOp::Send { amount, .. } | ObjectOp::Receive { amount, .. } => {
                self.number(u64::from(amount))
            }
            ObjectOp::Wait { mutex, .. } => self.object_name(mutex)?,
            ObjectOp::Tick { period, .. } => self.span(period),
            _ => {}
        }
        if recorded != Recorded::Nothing {
            self.word(recorded.name());
        }
        Ok(())
    }

    fn attributes(&mut self, task: &Task) -> io::Result<()> {
        self.key("name", &task.name);
        if let Some(params) = &task.params {
            self.params(params);
        }
        self.placement(task.affinity.as_ref(), task.cgroup)?;
        if task.kernel_thread {
            self.word("kernel=yes");
        }
        Ok(())
    }

    fn params(&mut self, params: &SchedParams) {
        self.word("policy=");
        self.line.extend_from_slice(params.policy.name().as_bytes());
        if params.nice.get() != 0 {
            self.key("nice", &params.nice.to_string());
        }
        if params.rt_priority != 0 {
            self.word("prio=");
            self.digits(u64::from(params.rt_priority));
        }
        if let Some(deadline) = params.deadline {
            self.key_span("runtime", deadline.runtime);
            self.key_span("deadline", deadline.deadline);
            self.key_span("period", deadline.period);
        }
    }

    fn placement(&mut self, affinity: Option<&CpuSet>, cgroup: Option<CgroupId>) -> io::Result<()> {
        if let Some(affinity) = affinity {
            self.word("affinity=");
            self.line.extend_from_slice(affinity.to_string().as_bytes());
        }
        if let Some(id) = cgroup {
            let Some(cgroup) = self.workload.cgroups.get(id.0 as usize) else {
                let nr = self.workload.cgroups.len();
                return Err(invalid(format!("control group {} is named, but there are {nr}", id.0)));
            };
            self.key("cgroup", &cgroup.path);
        }
        Ok(())
    }

    fn event(&mut self, row: TaskId, task: &Task, event: &Event) -> io::Result<()> {
        self.number(event.eid.0);
        self.word(event.kind.name());
        self.number(u64::from(task.pid));
        match &event.kind {
            EventKind::Fork { length, child } => {
                self.span(*length);
                self.pid(*child)?;
                let Some(born) = self.workload.tasks.get(child.0 as usize) else {
                    return Err(invalid(format!("task {} forks a task that is not there", task.pid)));
                };
                if born.birth != (Birth::Fork { parent: row }) {
                    return Err(invalid(format!("task {} forks task {}, not its child", task.pid, born.pid)));
                }
                self.attributes(born)?;
                if self.rows {
                    self.word("row=");
                    self.digits(u64::from(child.0));
                }
            }
            EventKind::Prio { length, change } => {
                self.span(*length);
                self.change(change)?;
            }
            EventKind::Yield { length }
            | EventKind::Exec { length }
            | EventKind::Call { length }
            | EventKind::Block { length }
            | EventKind::Exit { length } => {
                self.span(*length);
            }
            EventKind::Object { length, op, recorded } => {
                self.span(*length);
                self.op(*op, *recorded)?;
            }
            EventKind::Wakeup(Wakeup::External { after, source }) => {
                self.span(*after);
                self.word("0 0 0");
                if *source != ExternalSource::default() {
                    self.word(source.name());
                }
            }
            EventKind::Wakeup(Wakeup::Dependent { recorded_after, event, task, distance }) => {
                self.span(*recorded_after);
                self.number(event.0);
                self.pid(*task)?;
                self.span(*distance);
            }
        }
        Ok(())
    }

    fn change(&mut self, change: &ParamChange) -> io::Result<()> {
        if let Some(params) = &change.params {
            self.params(params);
        }
        if let Some(nice) = change.nice {
            self.key(if change.params.is_some() { "renice" } else { "nice" }, &nice.to_string());
        }
        self.placement(change.affinity.as_ref(), change.cgroup)?;
        if change.target.is_some() {
            self.word("target=");
            let target = change.target.and_then(|id| self.workload.tasks.get(id.0 as usize));
            let target =
                target.ok_or_else(|| invalid("a PRIO's target is no task of the workload".into()))?;
            self.digits(u64::from(target.pid));
        }
        Ok(())
    }
}
