//! Log to text.

use super::MAGIC;
use crate::{Kind, Log, LogError, LogGroup, LogHeader, LogTask, ObservedBy, PrevState, Record, for_each};
use schedlab_units::{SchedPolicy, TaskId};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

/// Bytes gathered before each write.
const CHUNK: usize = 256 * 1024;

/// Writes the whole log in its canonical text form; `name` stands for the output in errors.
pub fn write_text(log: &dyn Log, out: &mut dyn Write, name: &Path) -> Result<(), LogError> {
    let fail = || LogError::io("write", name);
    out.write_all(header_text(log.header()).as_bytes()).map_err(fail())?;
    let mut buffer = Vec::with_capacity(CHUNK + 256);
    let mut count = 0u64;
    for_each(log, |_, record| -> Result<(), LogError> {
        format_record(&mut buffer, record);
        buffer.push(b'\n');
        count += 1;
        if buffer.len() >= CHUNK {
            out.write_all(&buffer).map_err(fail())?;
            buffer.clear();
        }
        Ok(())
    })?;
    buffer.extend_from_slice(format!("# end {count}\n").as_bytes());
    out.write_all(&buffer).and_then(|()| out.flush()).map_err(fail())
}

fn header_text(header: &LogHeader) -> String {
    let mut text = format!("{MAGIC}{}\n", header.version());
    let string = |s: &str| serde_json::Value::from(s).to_string();
    let mut line = |content: String| {
        text.push_str("# ");
        text.push_str(&content);
        text.push('\n');
    };
    line(format!("sched {}", string(&header.sched)));
    line(format!("sched_version {}", string(&header.sched_version)));
    line(format!("cpus {}", header.nr_cpus));
    line(format!("hz {}", header.hz));
    line(format!("duration_ns {}", header.duration.as_ns()));
    if header.observer != ObservedBy::default() {
        line(format!("observer {}", header.observer));
    }
    if !header.hidden.is_nothing() {
        line(format!("hidden {}", header.hidden));
    }
    for (name, value) in &header.params {
        line(format!("param {} {}", string(name), string(value)));
    }
    for (index, group) in header.groups.iter().enumerate() {
        line(group_text(index, group, &string(&group.path)));
    }
    for (index, task) in header.tasks.iter().enumerate() {
        line(task_text(TaskId(index as u32), task, &string(&task.name)));
    }
    for thread in &header.kernel_threads {
        line(format!("kernel_thread {} name={}", TaskId::kernel_thread(thread.pid), string(&thread.name)));
    }
    text
}

fn task_text(id: TaskId, task: &LogTask, name: &str) -> String {
    let params = &task.params;
    let mut text = format!("task {id} pid={} policy={} nice={}", task.pid, params.policy, params.nice);
    let mut field =
        |key: &str, value: String| write!(text, " {key}={value}").expect("a String takes everything");
    if params.rt_priority != 0 {
        field("rt_priority", params.rt_priority.to_string());
    }
    if let Some(deadline) = params.deadline {
        let [runtime, relative, period] =
            [deadline.runtime, deadline.deadline, deadline.period].map(|s| s.as_ns());
        field("deadline_ns", format!("{runtime}/{relative}/{period}"));
    }
    if let Some(affinity) = &task.affinity {
        field("affinity", affinity.to_string());
    }
    if let Some(parent) = task.parent {
        field("parent", parent.to_string());
    }
    if let Some(group) = task.group {
        field("group", format!("g{group}"));
    }
    field("name", name.to_string());
    text
}

fn group_text(index: usize, group: &LogGroup, path: &str) -> String {
    let max = group.max.map(|(quota, period)| format!(" max_ns={}/{}", quota.as_ns(), period.as_ns()));
    let cpuset = group.cpuset.as_ref().map(|cpus| format!(" cpuset={cpus}"));
    format!("group g{index}{}{} path={path}", max.unwrap_or_default(), cpuset.unwrap_or_default())
}

/// Appends the line of one record, without the line's end.
pub fn format_record(out: &mut Vec<u8>, record: &Record) {
    padded(out, record.time_ns, 13);
    out.extend_from_slice(b" cpu");
    number(out, record.cpu.into());
    out.push(b' ');
    let Some(kind) = record.kind() else {
        // never written by write_text (batches hold known kinds only); for error messages
        out.extend_from_slice(format!("kind={}", record.kind).as_bytes());
        return;
    };
    out.extend_from_slice(kind.name().as_bytes());
    out.push(b' ');
    task(out, record.task());
    match kind {
        Kind::Switch => {
            match PrevState::from_number(record.flags) {
                Some(PrevState::Preempted) if record.task().is_idle() => {}
                Some(state) => {
                    out.push(b' ');
                    out.extend_from_slice(state.name().as_bytes());
                }
                None => value(out, b"state", record.flags.into()),
            }
            out.extend_from_slice(b" -> ");
            task(out, record.other());
        }
        Kind::Waking => {
            out.extend_from_slice(b" by ");
            task(out, record.other());
            if record.flags & 1 != 0 {
                out.extend_from_slice(b" irq");
            }
        }
        Kind::Wakeup | Kind::New => cpu(out, record.arg),
        Kind::Migrate => {
            cpu(out, record.arg);
            out.extend_from_slice(b" ->");
            cpu(out, record.other);
        }
        Kind::Fork => {
            out.extend_from_slice(b" -> ");
            task(out, record.other());
        }
        Kind::Exit => {}
        Kind::Params => {
            match decode_params(record.value) {
                Some((policy, nice, rt_priority)) => {
                    let text = format!(" policy={policy} nice={nice} rt_priority={rt_priority}");
                    out.extend_from_slice(text.as_bytes());
                }
                None => value(out, b"value", record.value),
            }
            if record.flags & 1 != 0 {
                out.extend_from_slice(b" affinity");
            }
        }
        Kind::Note => {
            value(out, b"note", record.arg.into());
            out.extend_from_slice(b" other=");
            task(out, record.other());
            value(out, b"value", record.value);
            value(out, b"flags", record.flags.into());
        }
    }
}

/// Policy, nice and real-time priority of a [`Kind::Params`] record; `None` if the value holds anything else.
pub(crate) fn decode_params(value: u64) -> Option<(SchedPolicy, i8, u8)> {
    let policy = SchedPolicy::from_number((value & 0xff) as u32)?;
    (value >> 24 == 0).then_some((policy, (value >> 8) as u8 as i8, (value >> 16) as u8))
}

fn number(out: &mut Vec<u8>, n: u64) {
    padded(out, n, 0);
}

/// Right-aligned in `width` columns.
fn padded(out: &mut Vec<u8>, mut n: u64, width: usize) {
    let mut digits = [b' '; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at.min(digits.len() - width)..]);
}

fn task(out: &mut Vec<u8>, id: TaskId) {
    let (letter, n) = match id.kernel_pid() {
        _ if id.is_idle() => return out.extend_from_slice(b"idle"),
        Some(pid) => (b'k', pid),
        None => (b't', id.0),
    };
    out.push(letter);
    number(out, n.into());
}

fn cpu(out: &mut Vec<u8>, n: u32) {
    out.extend_from_slice(b" cpu");
    number(out, n.into());
}

fn value(out: &mut Vec<u8>, key: &[u8], n: u64) {
    out.push(b' ');
    out.extend_from_slice(key);
    out.push(b'=');
    number(out, n);
}
