//! Text to log, with errors that name the line.

use super::{MAGIC, VERSION};
use crate::header::checked_cpus;
use crate::source::BATCH_RECORDS;
use crate::{
    Batches, KernelThread, Kind, Log, LogError, LogGroup, LogHeader, LogTask, MemLog, PrevState, Record,
};
use schedlab_stdx::limits::{LOG_HEADER_LINES_MAX, LOG_LINE_BYTES_MAX, LOG_RECORDS_MAX};
use schedlab_units::{DeadlineParams, SchedPolicy, Span, TaskId};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A log in a text file, read in batches.
#[derive(Debug)]
pub struct TextLog {
    file: File,
    path: PathBuf,
    header: LogHeader,
}

impl TextLog {
    /// Opens the file and reads its header.
    pub fn open(path: &Path) -> Result<TextLog, LogError> {
        let file = File::open(path).map_err(LogError::io("open", path))?;
        let header = Reader::new(BufReader::new(FromStart { file: &file, at: 0 }), path)?.header;
        Ok(TextLog { file, path: path.to_path_buf(), header })
    }

    /// A log that is in memory as text, for instance a golden; `name` stands for it in errors.
    pub fn parse(text: &str, name: &Path) -> Result<MemLog, LogError> {
        let mut reader = Reader::new(text.as_bytes(), name)?;
        let header = reader.header.clone();
        let mut records = Vec::new();
        while let Some(batch) = reader.next_batch()? {
            records.extend_from_slice(batch);
        }
        Ok(MemLog { header, records })
    }
}

impl Log for TextLog {
    fn header(&self) -> &LogHeader {
        &self.header
    }
    fn batches(&self) -> Result<Box<dyn Batches + '_>, LogError> {
        Ok(Box::new(Reader::new(BufReader::new(FromStart { file: &self.file, at: 0 }), &self.path)?))
    }
}

/// Reads a file from its start without moving its position, so that passes do not disturb each other.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

struct Reader<'a, R> {
    input: R,
    path: &'a Path,
    header: LogHeader,
    /// The current line, without its end, and its number.
    line: Vec<u8>,
    line_number: u64,
    /// The current line has been read but not yet interpreted (the first record, after the header).
    pending: bool,
    ended: bool,
    nr_records: u64,
    /// Records, and lines of the header, that there may be.
    most: (u64, u64),
    batch: Vec<Record>,
}

/// What is wrong with a line.
type Problem = String;

impl<'a, R: BufRead> Reader<'a, R> {
    fn new(input: R, path: &'a Path) -> Result<Reader<'a, R>, LogError> {
        Reader::within(input, path, (LOG_RECORDS_MAX, LOG_HEADER_LINES_MAX))
    }

    fn within(input: R, path: &'a Path, most: (u64, u64)) -> Result<Reader<'a, R>, LogError> {
        let mut reader = Reader {
            input,
            path,
            header: LogHeader::default(),
            line: Vec::new(),
            line_number: 0,
            pending: false,
            ended: false,
            nr_records: 0,
            most,
            batch: Vec::with_capacity(BATCH_RECORDS),
        };
        reader.read_header()?;
        Ok(reader)
    }

    /// Reads a line into `self.line`; false at the end of the file.
    fn read_line(&mut self) -> Result<bool, LogError> {
        self.line.clear();
        self.line_number += 1;
        let mut limited = (&mut self.input).take(LOG_LINE_BYTES_MAX);
        let count = limited.read_until(b'\n', &mut self.line).map_err(LogError::io("read", self.path))?;
        if count as u64 == LOG_LINE_BYTES_MAX && self.line.last() != Some(&b'\n') {
            return Err(self.wrong(format!("a line of more than {LOG_LINE_BYTES_MAX} bytes")));
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(count > 0)
    }

    fn wrong(&self, problem: Problem) -> LogError {
        let text: String = String::from_utf8_lossy(&self.line).trim().chars().take(100).collect();
        LogError::Line { path: self.path.to_path_buf(), line: self.line_number, text, problem }
    }

    fn truncated(&self, problem: String) -> LogError {
        LogError::Truncated { path: self.path.to_path_buf(), problem }
    }

    fn read_header(&mut self) -> Result<(), LogError> {
        self.read_line()?;
        let Some(version) = self.line.strip_prefix(MAGIC.as_bytes()) else {
            let found = if self.line.is_empty() {
                "nothing".to_string()
            } else {
                format!(
                    "'{}'",
                    self.line
                        .iter()
                        .take(40)
                        .flat_map(|b| std::ascii::escape_default(*b))
                        .map(char::from)
                        .collect::<String>()
                )
            };
            return Err(LogError::NotALog { path: self.path.to_path_buf(), found });
        };
        if !parse_bytes(version.trim_ascii()).is_some_and(|version| (1..=VERSION).contains(&version)) {
            let found = String::from_utf8_lossy(version).trim().to_string();
            return Err(LogError::UnknownVersion {
                path: self.path.to_path_buf(),
                found,
                supported: VERSION,
            });
        }
        let mut missing: Vec<&str> = vec!["sched", "cpus", "duration_ns"];
        while self.read_line()? {
            if self.line_number > self.most.1 + 1 {
                let most = self.most.1;
                return Err(self.wrong(format!("more than {most} lines of a header (docs/results.md)")));
            }
            let Some(comment) = self.line.strip_prefix(b"#") else {
                if self.line.trim_ascii().is_empty() {
                    continue;
                }
                self.pending = true;
                break;
            };
            let Ok(text) = std::str::from_utf8(comment) else {
                return Err(self.wrong("expected UTF-8".to_string()));
            };
            let text = text.trim().to_string();
            let (key, rest) = text.split_once(' ').unwrap_or((&text, ""));
            if key == "end" {
                self.pending = true;
                break;
            }
            let mut header = std::mem::take(&mut self.header);
            header_line(&mut header, key, rest.trim()).map_err(|problem| self.wrong(problem))?;
            self.header = header;
            missing.retain(|name| *name != key);
        }
        match missing.first() {
            None => Ok(()),
            Some(name) if self.pending => Err(self.wrong(format!(
                "before the first record a header line '# {name} ...' is expected; none found"
            ))),
            Some(name) => Err(self.truncated(format!("the header ends before '# {name}'"))),
        }
    }

    /// Interprets the current line: a record, or nothing (comment, end).
    fn record(&mut self) -> Result<Option<Record>, LogError> {
        let text = self.line.trim_ascii();
        if text.is_empty() {
            return Ok(None);
        }
        if let Some(comment) = text.strip_prefix(b"#") {
            if let Some(count) = comment.trim_ascii().strip_prefix(b"end ") {
                let found = self.nr_records;
                if parse_bytes::<u64>(count.trim_ascii()) != Some(found) {
                    return Err(self.wrong(format!(
                        "the number of records is {found}; lines are missing or were added"
                    )));
                }
                self.ended = true;
            }
            return Ok(None);
        }
        if self.ended {
            return Err(self.wrong("a record after '# end'".to_string()));
        }
        let record = record_line(text).map_err(|problem| self.wrong(problem))?;
        if self.nr_records == self.most.0 {
            let most = self.most.0;
            return Err(self.wrong(format!(
                "more than {most} records, which is the most that is read (docs/results.md)"
            )));
        }
        self.nr_records += 1;
        Ok(Some(record))
    }
}

impl<R: BufRead> Batches for Reader<'_, R> {
    fn next_batch(&mut self) -> Result<Option<&[Record]>, LogError> {
        self.batch.clear();
        while self.batch.len() < BATCH_RECORDS {
            if !std::mem::take(&mut self.pending) && !self.read_line()? {
                break;
            }
            if let Some(record) = self.record()? {
                self.batch.push(record);
            }
        }
        if self.batch.len() < BATCH_RECORDS && !self.ended {
            let count = self.nr_records;
            return Err(
                self.truncated(format!("after {count} records the last line '# end {count}' is missing"))
            );
        }
        Ok((!self.batch.is_empty()).then_some(&self.batch))
    }
}

fn header_line(header: &mut LogHeader, key: &str, rest: &str) -> Result<(), Problem> {
    match key {
        "sched" => header.sched = string(rest)?,
        "sched_version" => header.sched_version = string(rest)?,
        "cpus" => header.nr_cpus = checked_cpus(number(rest, "number of CPUs")?)?,
        "hz" => header.hz = number(rest, "tick rate")?,
        "duration_ns" => header.duration = Span::from_ns(number(rest, "time in ns")?),
        "observer" => header.observer = rest.parse()?,
        "hidden" => header.hidden = rest.parse()?,
        "param" => {
            let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<String>();
            let mut next = || match strings.next() {
                Some(Ok(text)) => Ok(text),
                _ => Err("expected two JSON strings, name and value".to_string()),
            };
            header.params.push((next()?, next()?));
        }
        "task" => {
            let (id, fields) = rest.split_once(' ').unwrap_or((rest, ""));
            let expected = TaskId(header.tasks.len() as u32);
            if id != expected.to_string() {
                return Err(format!("expected task {expected}: tasks are numbered from t0 without gaps"));
            }
            let task = task_fields(fields)?;
            if let Some(group) = task.group.filter(|group| *group as usize >= header.groups.len()) {
                return Err(format!("group g{group} is not described in a line before this one"));
            }
            header.tasks.push(task);
        }
        "group" => {
            let (id, fields) = rest.split_once(' ').unwrap_or((rest, ""));
            let expected = format!("g{}", header.groups.len());
            if id != expected {
                return Err(format!("expected group {expected}: groups are numbered from g0 without gaps"));
            }
            header.groups.push(group_fields(fields)?);
        }
        "kernel_thread" => {
            let (id, name) = rest.split_once(" name=").ok_or("expected kN name=\"...\"")?;
            let pid = id
                .parse::<TaskId>()?
                .kernel_pid()
                .ok_or_else(|| format!("'{id}' is not a kernel thread, kN"))?;
            header.kernel_threads.push(KernelThread { pid, name: string(name)? });
        }
        _ => {} // a comment
    }
    Ok(())
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, Problem> {
    text.parse().map_err(|_| format!("'{text}' is not a {what}"))
}

fn string(text: &str) -> Result<String, Problem> {
    serde_json::from_str(text).map_err(|error| format!("expected a JSON string: {error}"))
}

fn group_number(text: &str) -> Result<u32, Problem> {
    let digits = text.strip_prefix('g').ok_or_else(|| format!("'{text}' is not a group, gN"))?;
    number(digits, "group's number")
}

fn group_fields(text: &str) -> Result<LogGroup, Problem> {
    let mut group = LogGroup::default();
    let (fields, path) = text.split_once("path=").ok_or("expected path=\"...\" at the end")?;
    group.path = string(path)?;
    for field in fields.split_whitespace() {
        match field.split_once('=') {
            Some(("max_ns", value)) => {
                let (quota, period) = value.split_once('/').ok_or("expected max_ns=QUOTA/PERIOD")?;
                let span = |text| number(text, "time in ns").map(Span::from_ns);
                group.max = Some((span(quota)?, span(period)?));
            }
            Some(("cpuset", value)) => {
                let set = value.parse();
                group.cpuset =
                    Some(set.map_err(|error: schedlab_units::ParseCpuSetError| error.to_string())?);
            }
            _ => return Err(format!("unknown field '{field}'; expected max_ns= or cpuset=")),
        }
    }
    Ok(group)
}

fn task_fields(text: &str) -> Result<LogTask, Problem> {
    let mut task = LogTask::default();
    let (fields, name) = text.split_once("name=").ok_or("expected name=\"...\" at the end")?;
    task.name = string(name)?;
    for field in fields.split_whitespace() {
        let (key, value) = field.split_once('=').ok_or_else(|| format!("'{field}' is not key=value"))?;
        let params = &mut task.params;
        match key {
            "pid" => task.pid = number(value, "pid")?,
            "policy" => params.policy = value.parse()?,
            "nice" => {
                params.nice = value.parse().map_err(|error: schedlab_units::NiceError| error.to_string())?
            }
            "rt_priority" => params.rt_priority = number(value, "priority")?,
            "deadline_ns" => {
                let mut parts = value.split('/').map(|part| number(part, "time in ns").map(Span::from_ns));
                let mut next =
                    || parts.next().unwrap_or_else(|| Err("expected runtime/deadline/period".to_string()));
                params.deadline =
                    Some(DeadlineParams { runtime: next()?, deadline: next()?, period: next()? });
            }
            "affinity" => {
                let set =
                    value.parse().map_err(|error: schedlab_units::ParseCpuSetError| error.to_string())?;
                task.affinity = Some(set);
            }
            "parent" => task.parent = Some(value.parse()?),
            "group" => task.group = Some(group_number(value)?),
            _ => return Err(format!("unknown field '{key}'")),
        }
    }
    Ok(task)
}

fn parse_bytes<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    // a leading '+' is accepted by parse, but is not canonical
    if bytes.first() == Some(&b'+') { None } else { std::str::from_utf8(bytes).ok()?.parse().ok() }
}

fn record_line(line: &[u8]) -> Result<Record, Problem> {
    let mut words = Words { rest: line };
    let time_ns =
        parse_bytes(words.take("time in ns")?).ok_or("the time is not a number of ns below 2^64")?;
    let cpu = words.cpu()?;
    let cpu = u16::try_from(cpu).map_err(|_| format!("cpu{cpu} is beyond cpu65535"))?;
    let kind = words.take("kind")?;
    let kind = std::str::from_utf8(kind).ok().and_then(Kind::from_name).ok_or_else(|| {
        format!(
            "unknown kind '{}'; expected one of {}",
            String::from_utf8_lossy(kind),
            Kind::ALL.map(Kind::name).join(" ")
        )
    })?;
    let task = words.task()?;
    let mut record =
        Record { time_ns, cpu, kind: kind as u8, task: task.0, other: TaskId::IDLE.0, ..Record::default() };
    match kind {
        Kind::Switch => {
            let mut word = words.take("why it stopped, or ->")?;
            if word != b"->" {
                record.flags = state(word)?;
                word = words.take("->")?;
            } else if !task.is_idle() {
                return Err(format!(
                    "why did {task} stop? expected preempted, yielded, sleeping, disk or dead"
                ));
            }
            if word != b"->" {
                return Err("expected -> and the next task".to_string());
            }
            record.other = words.task()?.0;
        }
        Kind::Waking => {
            words.word(b"by")?;
            record.other = words.task()?.0;
            record.flags = words.flag(b"irq").into();
        }
        Kind::Wakeup | Kind::New => record.arg = words.cpu()?,
        Kind::Migrate => {
            record.arg = words.cpu()?;
            words.word(b"->")?;
            record.other = words.cpu()?;
        }
        Kind::Fork => {
            words.word(b"->")?;
            record.other = words.task()?.0;
        }
        Kind::Exit => {}
        Kind::Params => {
            if let Some(value) = words.rest.strip_prefix(b"value=") {
                words.rest = value;
                record.value = words.number("value")?;
            } else {
                let policy = std::str::from_utf8(words.keyed(b"policy=")?).map_err(|_| "expected UTF-8")?;
                let policy: SchedPolicy = policy.parse()?;
                let nice: i8 = parse_bytes(words.keyed(b"nice=")?).ok_or("nice is not a number")?;
                let rt_priority: u8 =
                    parse_bytes(words.keyed(b"rt_priority=")?).ok_or("rt_priority is not 0..=255")?;
                record.value =
                    u64::from(policy.number()) | u64::from(nice as u8) << 8 | u64::from(rt_priority) << 16;
            }
            record.flags = words.flag(b"affinity").into();
        }
        Kind::Note => {
            record.arg = parse_bytes(words.keyed(b"note=")?).ok_or("note is not a number")?;
            record.other = task_id(words.keyed(b"other=")?)?.0;
            record.value = parse_bytes(words.keyed(b"value=")?).ok_or("value is not a number")?;
            record.flags = parse_bytes(words.keyed(b"flags=")?).ok_or("flags is not 0..=255")?;
        }
    }
    match words.rest {
        b"" => Ok(record),
        rest => Err(format!("unexpected '{}' at the end", String::from_utf8_lossy(rest))),
    }
}

fn state(word: &[u8]) -> Result<u8, Problem> {
    if let Some(number) = word.strip_prefix(b"state=") {
        return parse_bytes(number).ok_or_else(|| "state is not 0..=255".to_string());
    }
    let named = std::str::from_utf8(word).ok().and_then(PrevState::from_name);
    named.map(|state| state as u8).ok_or_else(|| {
        format!(
            "'{}' is not preempted, yielded, sleeping, disk, dead or unknown",
            String::from_utf8_lossy(word)
        )
    })
}

fn task_id(word: &[u8]) -> Result<TaskId, Problem> {
    let text = std::str::from_utf8(word).map_err(|_| "expected idle, tN or kN")?;
    if text.contains('+') { Err(format!("'{text}': expected idle, tN or kN")) } else { text.parse() }
}

/// The words of a line, from left to right.
struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    fn take(&mut self, expected: &str) -> Result<&'a [u8], Problem> {
        if self.rest.is_empty() {
            return Err(format!("the line ends where {expected} is expected"));
        }
        let end = self.rest.iter().position(|b| *b == b' ').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_ascii_start();
        Ok(word)
    }
    fn word(&mut self, expected: &[u8]) -> Result<(), Problem> {
        let name = String::from_utf8_lossy(expected);
        match self.take(&name)? {
            word if word == expected => Ok(()),
            word => Err(format!("expected {name}, found '{}'", String::from_utf8_lossy(word))),
        }
    }
    /// Takes the word if it is next.
    fn flag(&mut self, word: &[u8]) -> bool {
        let is_next = self.rest == word;
        if is_next {
            self.rest = b"";
        }
        is_next
    }
    fn keyed(&mut self, key: &[u8]) -> Result<&'a [u8], Problem> {
        let name = String::from_utf8_lossy(key);
        let word = self.take(&name)?;
        word.strip_prefix(key)
            .ok_or_else(|| format!("expected {name}, found '{}'", String::from_utf8_lossy(word)))
    }
    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, Problem> {
        let word = self.take(what)?;
        parse_bytes(word).ok_or_else(|| format!("'{}' is not a {what}", String::from_utf8_lossy(word)))
    }
    fn cpu(&mut self) -> Result<u32, Problem> {
        let word = self.take("a CPU (cpuN)")?;
        word.strip_prefix(b"cpu")
            .and_then(parse_bytes)
            .ok_or_else(|| format!("'{}' is not a CPU (cpuN)", String::from_utf8_lossy(word)))
    }
    fn task(&mut self) -> Result<TaskId, Problem> {
        task_id(self.take("a task (tN, kN or idle)")?)
    }
}

#[cfg(test)]
mod limits {
    use super::*;

    fn read(most: (u64, u64), records: usize) -> Result<usize, LogError> {
        let log = crate::MemLog {
            header: LogHeader {
                sched: "x".into(),
                nr_cpus: 1,
                duration: Span::from_ns(5),
                ..LogHeader::default()
            },
            records: vec![Record { kind: Kind::Note as u8, ..Record::default() }; records],
        };
        let mut text = Vec::new();
        crate::write_text(&log, &mut text, Path::new("x.txt")).unwrap();
        let mut reader = Reader::within(&text[..], Path::new("x.txt"), most)?;
        Ok(reader.next_batch()?.map_or(0, <[Record]>::len))
    }

    /// As many records, and lines of the header, as there may be, and one more of either.
    #[test]
    fn records_and_lines_of_the_header_are_counted() {
        assert_eq!(read((3, 100), 3).unwrap(), 3);
        let error = read((2, 100), 3).unwrap_err().to_string();
        assert!(error.contains("more than 2 records, which is the most that is read"), "{error}");
        let lines = (0..100).find(|lines| read((3, *lines), 3).is_ok()).unwrap();
        let error = read((3, lines - 1), 3).unwrap_err().to_string();
        assert!(
            lines > 2 && error.contains(&format!("more than {} lines of a header", lines - 1)),
            "{error}"
        );
    }

    /// A line as long as it may be, with its end, and one that is a byte longer.
    #[test]
    fn lines_have_an_end() {
        let text = |name: usize| {
            let task = crate::LogTask { name: "x".repeat(name), pid: 1, ..crate::LogTask::default() };
            let header =
                LogHeader { sched: "x".into(), nr_cpus: 1, tasks: vec![task], ..LogHeader::default() };
            let mut text = Vec::new();
            crate::write_text(&crate::MemLog { header, records: Vec::new() }, &mut text, Path::new("x.txt"))
                .unwrap();
            text
        };
        let longest =
            |text: &[u8]| text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap();
        let rest = longest(&text(100)) - 100;
        let fits = text(LOG_LINE_BYTES_MAX as usize - rest);
        assert_eq!(longest(&fits) as u64, LOG_LINE_BYTES_MAX);
        Reader::new(&fits[..], Path::new("x.txt")).unwrap();
        let beyond = text(LOG_LINE_BYTES_MAX as usize - rest + 1);
        let error = Reader::new(&beyond[..], Path::new("x.txt")).map(drop).unwrap_err().to_string();
        assert!(error.contains("a line of more than 1048576 bytes"), "{error}");
    }
}
