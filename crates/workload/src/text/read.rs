//! Reads the text form: lines to statements, REPEAT blocks expanded, statements to tasks and events.

use super::attributes::Attributes;
use super::error::{TextError, TextProblem};
use super::lex::{Word, split};
use super::lines::LineSource;
use super::objects::{Act, Name};
use super::statement::{
    self, Body, Eid, Event as Line, EventRef, Fault, Init, Instance, Length, Parsed, Pids, Statement, fault,
    is_statement, within,
};
use super::{TEXT_HEADER, TEXT_VERSION};
use crate::limits::{Account, Limits, REPEAT_DEPTH_MAX};
use crate::{
    Birth, Cgroup, CgroupId, Event, EventId, EventKind, Object, ObjectId, ObjectOp, ParamChange, Task,
    Wakeup, Workload, WorkloadError,
};
use schedlab_units::{Span, TaskId};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Labels are resolved when all is read, which takes memory: a text that has some is not streamed.
pub(super) const NEEDS_MEMORY: &str = "labels cannot be resolved line by line";

/// Reads a text and checks it ([`Workload::check`]); a broken rule is located at its line. `file` is named in errors.
pub fn read_text(file: &str, bytes: &[u8]) -> Result<Workload, Box<TextError>> {
    read_lines(file, LineSource::of_bytes(file, bytes)?, Limits::HELD)
}

/// As [`read_text`], line by line from a file.
pub(crate) fn read_text_file(path: &Path, limits: Limits) -> Result<Workload, Box<TextError>> {
    read_lines(&path.display().to_string(), LineSource::File(path), limits)
}

fn read_lines(file: &str, lines: LineSource<'_>, limits: Limits) -> Result<Workload, Box<TextError>> {
    let (workload, _) = Reader::read(file, lines, limits, Keep::Events)?.finish()?;
    match workload.check() {
        Ok(()) => Ok(workload),
        Err(error) => {
            drop(workload); // the text is read once more
            Err(locate(file, lines, limits, &error))
        }
    }
}

/// Reads a text without checking the rules of the model.
pub fn parse_text(file: &str, bytes: &[u8]) -> Result<Workload, Box<TextError>> {
    parse_text_within(file, bytes, Limits::HELD)
}

/// As [`parse_text`], with limits of the caller's.
pub fn parse_text_within(file: &str, bytes: &[u8], limits: Limits) -> Result<Workload, Box<TextError>> {
    let lines = LineSource::of_bytes(file, bytes)?;
    Reader::read(file, lines, limits, Keep::Events)?.finish().map(|(workload, _)| workload)
}

/// Whether a file that begins with these bytes is meant as a workload in text form.
pub fn looks_like_text(start: &[u8]) -> bool {
    let start = start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(start);
    let lines = start.split(|&b| b == b'\n');
    let mut words = lines
        .map(|line| line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()))
        .filter_map(|mut words| words.next().map(|first| (first, words.next())))
        .filter(|(first, _)| !first.starts_with(b"#"));
    let Some((first, second)) = words.next() else { return false };
    let text = |word| std::str::from_utf8(word).unwrap_or_default();
    first == TEXT_HEADER.as_bytes() || is_statement(text(first), second.map(text))
}

/// A mistake found by the check, as a mistake of a line: the text is read once more, with lines remembered.
fn locate(file: &str, source: LineSource<'_>, limits: Limits, error: &WorkloadError) -> Box<TextError> {
    let located = Reader::read(file, source, limits, Keep::EventsAndLines).and_then(|reader| reader.finish());
    let line = match &located {
        Ok((workload, lines)) => lines.of(&error.problems[0].place, &error.problems[0].flaw, workload),
        Err(_) => 1,
    };
    let source = source.line(line);
    let at = source.len() - source.trim_start().len();
    let mut remedy = String::new();
    if error.nr_problems > 1 {
        remedy = format!("and {} more such problems", error.nr_problems - 1);
    }
    Box::new(TextError {
        file: file.to_string(),
        line,
        column: at + 1,
        problem: TextProblem::Rule,
        value: String::new(),
        expected: error.problems[0].to_string(),
        remedy,
        source_line: source.trim_end().to_string(),
    })
}

/// A place in the text, for mistakes found later.
#[derive(Clone, Copy)]
pub(super) struct Location {
    pub line: usize,
    pub at: usize,
    pub len: usize,
}

/// A task under construction.
pub(super) struct Slot {
    pub pid: u32,
    /// Where it is first mentioned.
    pub mention: Location,
    /// Where it is declared (line), and its row if stated.
    pub declared: Option<(usize, Option<u32>)>,
    pub task: Task,
    since_wakeup: Span,
    /// Line of each event, if wanted.
    pub lines: Vec<u32>,
    /// Events without a number of their own, where they are only counted.
    pub unnumbered: u64,
}

/// A label: the line that carries it, and its events (slot, index) in order.
pub(super) struct Label {
    line: usize,
    pub events: Vec<(u32, u32)>,
}

/// A dependent wakeup on a label.
pub(super) struct Reference {
    pub slot: u32,
    pub index: u32,
    pub name: u32,
    pub instance: Instance,
    /// Of the REPEAT block around it.
    pub iteration: Option<u64>,
    /// Slot given as dpid, or none for `-`.
    pub waker: Option<u32>,
    pub location: Location,
}

/// A line of a REPEAT block.
enum Item {
    Line(Box<Line>, usize),
    Block(u64, Vec<Item>),
}

/// What becomes of the events read.
pub(super) enum Keep<'a> {
    /// They are kept.
    Events,
    /// They are kept, each with its line.
    EventsAndLines,
    /// Only FORKs are kept, to check births; the others are counted.
    Forks,
    /// They are handed on: slot and event, with slots for tasks.
    Emit(&'a mut Emit<'a>),
}

/// Takes an event of a slot.
pub(super) type Emit<'a> = dyn FnMut(u32, Event) -> std::ops::ControlFlow<()> + 'a;

pub(super) struct Reader<'a> {
    file: &'a str,
    source: LineSource<'a>,
    account: Account,
    keep: Keep<'a>,
    pub slots: Vec<Slot>,
    by_pid: HashMap<u32, u32>,
    recent: (u32, u32),
    /// Slots in the order of their declaration.
    pub order: Vec<u32>,
    pub workload: Workload,
    pub cgroup_lines: BTreeMap<String, (CgroupId, usize)>,
    /// Objects by name: which, and on which line.
    pub objects: BTreeMap<String, (ObjectId, usize)>,
    pub labels: Vec<Label>,
    pub label_names: BTreeMap<String, u32>,
    pub references: Vec<Reference>,
    /// The largest identifier of an event, where they are only counted.
    pub eid_max: u64,
}

/// More words than most lines have.
const WORDS: usize = 12;

impl<'a> Reader<'a> {
    pub(super) fn read(
        file: &'a str,
        source: LineSource<'a>,
        limits: Limits,
        keep: Keep<'a>,
    ) -> Result<Self, Box<TextError>> {
        let mut reader = Reader {
            file,
            source,
            account: Account::new(limits),
            keep,
            slots: Vec::new(),
            by_pid: HashMap::new(),
            recent: (0, 0),
            order: Vec::new(),
            workload: Workload::default(),
            cgroup_lines: BTreeMap::new(),
            objects: BTreeMap::new(),
            labels: Vec::new(),
            label_names: BTreeMap::new(),
            references: Vec::new(),
            eid_max: 0,
        };
        reader.lines()?;
        Ok(reader)
    }

    fn lines(&mut self) -> Result<(), Box<TextError>> {
        let mut begun = false;
        // open REPEAT blocks, innermost last: line, count, what is in them
        let mut open: Vec<(usize, u64, Vec<Item>)> = Vec::new();
        let source = self.source;
        let file = self.file;
        let end = source.each(file, &mut |number, line| {
            let mut words = Vec::with_capacity(WORDS);
            split(line, &mut words).map_err(|error| self.located(number, *Box::from(error)))?;
            if words.is_empty() {
                return Ok(());
            }
            if !begun {
                begun = true;
                if header(&words).map_err(|fault| self.located(number, *fault))? {
                    return Ok(());
                }
            }
            let statement = statement::parse(&words).map_err(|fault| self.located(number, *fault))?;
            self.statement(statement, number, words[0], &mut open)
                .map_err(|fault| self.located(number, *fault))
        })?;
        if let Some((line, ..)) = open.last() {
            return Err(self.late(
                Location { line: *line, at: 0, len: 6 },
                TextProblem::Repeat,
                "this block is never closed; expected } on a line of its own".into(),
                "",
            ));
        }
        if !begun {
            let expected = format!("the file holds no event; expected {TEXT_HEADER} 1");
            let remedy = "then one event per line, for example: - INIT 0 0 1 runnable";
            return Err(self.late(
                Location { line: end, at: 0, len: 0 },
                TextProblem::Missing,
                expected,
                remedy,
            ));
        }
        Ok(())
    }

    fn statement(
        &mut self,
        statement: Statement,
        number: usize,
        first: Word<'_>,
        open: &mut Vec<(usize, u64, Vec<Item>)>,
    ) -> Parsed<()> {
        match statement {
            Statement::Event(line) => {
                if line.pids.count() > 1
                    && let Eid::Number(_) | Eid::Label(_) = line.eid
                {
                    let expected = "one identifier cannot stand for several events; expected -";
                    return fault(first, TextProblem::Value, expected, "");
                }
                let labelled = matches!(line.eid, Eid::Label(_))
                    || matches!(line.body, Body::Dependent { event: EventRef::Label { .. }, .. });
                if labelled && matches!(self.keep, Keep::Forks | Keep::Emit(_)) {
                    return fault(first, TextProblem::Label, NEEDS_MEMORY, "");
                }
                let depth = open.len();
                let Some((_, _, items)) = open.last_mut() else {
                    return self.event(&line, number, None);
                };
                if let Eid::Number(_) = line.eid {
                    let expected = "a repeated event cannot have a fixed number; expected - or a label @name";
                    return fault(first, TextProblem::Repeat, expected, "");
                }
                if depth > 1 && labelled {
                    let expected = "labels work in a REPEAT block, but not in one within another";
                    return fault(first, TextProblem::Repeat, expected, "");
                }
                items.push(Item::Line(Box::new(line), number));
                Ok(())
            }
            Statement::Repeat { count } => {
                if open.len() == REPEAT_DEPTH_MAX {
                    let expected = format!("blocks are nested more than {REPEAT_DEPTH_MAX} deep");
                    return fault(first, TextProblem::Repeat, expected, "");
                }
                open.push((number, count, Vec::new()));
                Ok(())
            }
            Statement::End => {
                let Some((_, count, items)) = open.pop() else {
                    return fault(
                        first,
                        TextProblem::Repeat,
                        "there is no REPEAT that this } could close",
                        "",
                    );
                };
                if items.is_empty() {
                    return Ok(()); // nothing, however often: it would only take time
                }
                let block = Item::Block(count, items);
                if let Some((_, _, outer)) = open.last_mut() {
                    outer.push(block);
                    return Ok(());
                }
                // refused before it is expanded; each event is counted when it comes
                let mut whole = self.account;
                within(first, whole.add_events(block.nr_events()))?;
                self.expand(&block, 0)
            }
            _ if !open.is_empty() => fault(
                first,
                TextProblem::Repeat,
                "a REPEAT block holds events only",
                "put this line above it",
            ),
            Statement::Init(init) => self.init(*init, number, first),
            Statement::Cgroup { path, weight, max, cpuset } => {
                let id = CgroupId(self.workload.cgroups.len() as u32);
                if let Some((_, line)) = self.cgroup_lines.insert(path.clone(), (id, number)) {
                    let expected = format!("group {path} is declared on line {line} already");
                    return fault(first, TextProblem::Declaration, expected, "merge the two lines");
                }
                self.workload.cgroups.push(Cgroup { path, weight, max, cpuset });
                Ok(())
            }
            Statement::Object(object) => self.object(object, number, first),
            Statement::Note { key, value } => {
                if self.workload.notes.contains_key(&key) {
                    let expected = format!("note {key} stands here for the second time");
                    return fault(first, TextProblem::Declaration, expected, "keep one");
                }
                self.workload.notes.insert(key, value);
                Ok(())
            }
            Statement::Dropped { count, reason } => {
                if self.workload.dropped.contains_key(&reason) {
                    let expected = format!("reason \"{reason}\" stands here for the second time");
                    return fault(first, TextProblem::Declaration, expected, "add the two counts");
                }
                self.workload.dropped.insert(reason, count);
                Ok(())
            }
        }
    }

    fn object(&mut self, object: Object, number: usize, first: Word<'_>) -> Parsed<()> {
        let id = ObjectId(self.workload.objects.len() as u32);
        let bytes = size_of::<Object>() as u64 + object.name.len() as u64;
        within(first, self.account.add_bytes(bytes))?;
        if let Some((_, line)) = self.objects.insert(object.name.clone(), (id, number)) {
            let expected = format!("object {} is declared on line {line} already", object.name);
            let remedy = "give each object a name of its own";
            return fault(first, TextProblem::Declaration, expected, remedy);
        }
        self.workload.objects.push(object);
        Ok(())
    }

    fn at_object(&self, act: &Act, length: Span) -> Parsed<EventKind> {
        let object = |name: &Name| {
            self.objects.get(&name.text).map(|(id, _)| *id).ok_or_else(|| {
                Box::new(Fault {
                    line: None,
                    at: name.at,
                    len: name.len,
                    problem: TextProblem::Declaration,
                    expected: format!("no line above declares the object {}", name.text),
                    remedy: "add an OBJECT line with this name above",
                })
            })
        };
        let (own, mutex) = (object(&act.object)?, act.mutex.as_ref().map(object).transpose()?);
        let op = match act.op {
            ObjectOp::Wait { .. } => ObjectOp::Wait { object: own, mutex: mutex.unwrap_or(own) },
            op => op.mapped(|_| own),
        };
        Ok(EventKind::Object { length, op, recorded: act.recorded })
    }

    fn expand(&mut self, item: &Item, iteration: u64) -> Parsed<()> {
        match item {
            Item::Line(line, number) => self.event(line, *number, Some(iteration)).map_err(|mut fault| {
                fault.line = Some(*number);
                fault
            }),
            Item::Block(count, items) => {
                (0..*count).try_for_each(|i| items.iter().try_for_each(|item| self.expand(item, i)))
            }
        }
    }

    fn init(&mut self, init: Init, number: usize, first: Word<'_>) -> Parsed<()> {
        let Init { eid, parent, pids, state, attributes } = init;
        if pids.count() > 1 && !matches!(eid, Eid::Auto) {
            let expected = "one identifier cannot stand for several events; expected -";
            return fault(first, TextProblem::Value, expected, "");
        }
        let eid = match eid {
            Eid::Auto => EventId(0),
            Eid::Number(eid) => EventId(eid),
            Eid::Label(_) => {
                let expected =
                    "an INIT cannot carry a label: no wakeup can depend on it; expected a number or -";
                return fault(first, TextProblem::Label, expected, "");
            }
        };
        let parent = match parent.first {
            0 => None,
            pid => Some(TaskId(self.slot(pid, parent, number)?)),
        };
        self.enough(pids, pids.count())?;
        self.enough_for(pids, &attributes)?;
        pids.within(self.account.add_events(pids.count()))?;
        for pid in pids.first..=pids.last {
            self.declare(pid, pids, number, Birth::Init { eid, parent, state }, &attributes)?;
        }
        Ok(())
    }

    /// Refuses tasks with these words that would take too much room, before the first of them is made.
    fn enough_for(&self, pids: Pids, attributes: &Attributes) -> Parsed<()> {
        let mut whole = self.account;
        pids.within(whole.add_bytes(attributes.nr_bytes().saturating_mul(pids.count())))
    }

    /// Refuses a range that alone has too many tasks, or that would make too many events, before the first of
    /// them is looked up.
    fn enough(&self, pids: Pids, nr_events: u64) -> Parsed<()> {
        pids.within(self.account.check_tasks(pids.count()))?;
        let mut whole = self.account;
        pids.within(whole.add_events(nr_events))
    }

    /// The slot of a pid, new if it is mentioned for the first time.
    fn slot(&mut self, pid: u32, place: Pids, line: usize) -> Parsed<u32> {
        if self.recent.0 == pid && !self.slots.is_empty() {
            return Ok(self.recent.1);
        }
        let next = self.slots.len() as u32;
        let slot = *self.by_pid.entry(pid).or_insert(next);
        if slot == next {
            place.within(self.account.add_tasks(1))?;
            let task = Task {
                pid,
                name: String::new(),
                birth: Birth::Init { eid: EventId(0), parent: None, state: crate::InitState::Runnable },
                params: None,
                affinity: None,
                cgroup: None,
                kernel_thread: false,
                events: Vec::new(),
            };
            let mention = Location { line, at: place.at, len: place.len };
            let since_wakeup = Span::ZERO;
            let lines = Vec::new();
            self.slots.push(Slot { pid, mention, declared: None, task, since_wakeup, lines, unnumbered: 0 });
        }
        self.recent = (pid, slot);
        Ok(slot)
    }

    fn declare(
        &mut self,
        pid: u32,
        place: Pids,
        line: usize,
        birth: Birth,
        attributes: &Attributes,
    ) -> Parsed<u32> {
        let cgroup = self.cgroup(attributes)?;
        let slot = self.slot(pid, place, line)?;
        place.within(self.account.add_bytes(attributes.nr_bytes()))?;
        let entry = &mut self.slots[slot as usize];
        if let Some((declared, _)) = entry.declared {
            let expected = format!("task {pid} is created on line {declared} already");
            return place.fault(TextProblem::Declaration, expected, "give each task a number of its own");
        }
        entry.declared = Some((line, attributes.row));
        let task = &mut entry.task;
        task.birth = birth;
        task.name = attributes.name.clone().unwrap_or_else(|| format!("task-{pid}"));
        task.params = attributes.params;
        task.affinity = attributes.affinity.clone();
        task.cgroup = cgroup;
        task.kernel_thread = attributes.kernel_thread;
        self.order.push(slot);
        Ok(slot)
    }

    fn cgroup(&self, attributes: &Attributes) -> Parsed<Option<CgroupId>> {
        let Some((path, at, len)) = &attributes.cgroup else { return Ok(None) };
        match self.cgroup_lines.get(path) {
            Some(&(id, _)) => Ok(Some(id)),
            None => Err(Box::new(Fault {
                line: None,
                at: *at,
                len: *len,
                problem: TextProblem::Declaration,
                expected: format!("no line above declares the group {path}"),
                remedy: "add a CGROUP line with this path above",
            })),
        }
    }

    /// Adds the events of a line, in an iteration of a REPEAT block or outside.
    fn event(&mut self, line: &Line, number: usize, iteration: Option<u64>) -> Parsed<()> {
        if line.pids.count() > 1 {
            self.enough(line.pids, line.nr_events())?;
        }
        for pid in line.pids.first..=line.pids.last {
            let slot = self.slot(pid, line.pids, number)?;
            let entry = &mut self.slots[slot as usize];
            let length = match line.length {
                Length::SinceWakeup(span) => span,
                Length::SincePrevious(span) => match entry.since_wakeup.checked_add(span) {
                    Some(length) => length,
                    None => {
                        let expected = "the lengths since the last wakeup add up to more than 2^64 ns";
                        return line.pids.fault(TextProblem::Duration, expected, "");
                    }
                },
            };
            let woken = matches!(line.body, Body::External(_) | Body::Dependent { .. });
            entry.since_wakeup = if woken { Span::ZERO } else { length };
            self.body(line, slot, length, number, iteration)?;
        }
        Ok(())
    }

    fn push(&mut self, slot: u32, eid: EventId, kind: EventKind, place: Pids, number: usize) -> Parsed<()> {
        place.within(self.account.add_event(&kind))?;
        let entry = &mut self.slots[slot as usize];
        let event = Event { eid, kind };
        match &mut self.keep {
            Keep::Events => entry.task.events.push(event),
            Keep::EventsAndLines => {
                entry.task.events.push(event);
                entry.lines.push(number as u32);
            }
            Keep::Forks => {
                entry.unnumbered += u64::from(eid.0 == 0);
                self.eid_max = self.eid_max.max(eid.0);
                if matches!(event.kind, EventKind::Fork { .. }) {
                    entry.task.events.push(event);
                }
            }
            Keep::Emit(emit) => {
                if emit(slot, event).is_break() {
                    return place.fault(TextProblem::Reading, "nobody wants the rest", "");
                }
            }
        }
        Ok(())
    }

    fn body(
        &mut self,
        line: &Line,
        slot: u32,
        length: Span,
        number: usize,
        iteration: Option<u64>,
    ) -> Parsed<()> {
        let index = self.slots[slot as usize].task.events.len() as u32;
        let eid = match &line.eid {
            Eid::Auto => EventId(0),
            Eid::Number(eid) => EventId(*eid),
            Eid::Label(name) => {
                let id = self.label(name);
                let label = &mut self.labels[id as usize];
                if label.line != 0 && label.line != number {
                    let expected = format!("label @{name} is on line {} already", label.line);
                    let first = Word { text: name, at: 0 };
                    return fault(first, TextProblem::Label, expected, "give each line a label of its own");
                }
                label.line = number;
                line.pids.within(self.account.add_bytes(size_of::<(u32, u32)>() as u64))?;
                label.events.push((slot, index));
                EventId(0)
            }
        };
        let kind = match &line.body {
            Body::Fork { children, attributes } => {
                self.enough(*children, children.count())?;
                self.enough_for(*children, attributes)?;
                for pid in children.first..=children.last {
                    let birth = Birth::Fork { parent: TaskId(slot) };
                    let child = self.declare(pid, *children, number, birth, attributes)?;
                    let kind = EventKind::Fork { length, child: TaskId(child) };
                    let eid = if pid == children.first { eid } else { EventId(0) };
                    self.push(slot, eid, kind, *children, number)?;
                }
                return Ok(());
            }
            Body::Prio(attributes) => {
                let target = match attributes.target {
                    Some(target) => Some(TaskId(self.slot(target.first, target, number)?)),
                    None => None,
                };
                let change = ParamChange {
                    target,
                    params: attributes.params,
                    nice: attributes.nice,
                    affinity: attributes.affinity.clone(),
                    cgroup: self.cgroup(attributes)?,
                };
                EventKind::Prio { length, change: Box::new(change) }
            }
            Body::Yield => EventKind::Yield { length },
            Body::Exec => EventKind::Exec { length },
            Body::Call => EventKind::Call { length },
            Body::Block => EventKind::Block { length },
            Body::Exit => EventKind::Exit { length },
            Body::Object(act) => self.at_object(act, length)?,
            Body::External(source) => EventKind::Wakeup(Wakeup::External { after: length, source: *source }),
            Body::Dependent { event, waker, distance } => {
                let waker = match waker {
                    Some(pid) => Some(self.slot(pid.first, *pid, number)?),
                    None => None,
                };
                let event = match event {
                    EventRef::Number(eid) => EventId(*eid),
                    EventRef::Label { name, instance, at, len } => {
                        let name = self.label(name);
                        let location = Location { line: number, at: *at, len: *len };
                        let instance = *instance;
                        let bytes = size_of::<Reference>() as u64;
                        line.pids.within(self.account.add_bytes(bytes))?;
                        self.references.push(Reference {
                            slot,
                            index,
                            name,
                            instance,
                            iteration,
                            waker,
                            location,
                        });
                        EventId(0)
                    }
                };
                let task = TaskId(waker.unwrap_or(0));
                EventKind::Wakeup(Wakeup::Dependent {
                    recorded_after: length,
                    event,
                    task,
                    distance: *distance,
                })
            }
        };
        self.push(slot, eid, kind, line.pids, number)
    }

    /// The number of a label.
    fn label(&mut self, name: &str) -> u32 {
        if let Some(&id) = self.label_names.get(name) {
            return id;
        }
        let id = self.labels.len() as u32;
        self.labels.push(Label { line: 0, events: Vec::new() });
        self.label_names.insert(name.to_string(), id);
        id
    }

    /// Events so far, INITs included.
    pub fn nr_events(&self) -> u64 {
        self.account.nr_events()
    }

    /// A fault of this line as an error.
    fn located(&self, line: usize, fault: Fault) -> Box<TextError> {
        let Fault { line: inner, at, len, problem, expected, remedy } = fault;
        self.late(Location { line: inner.unwrap_or(line), at, len }, problem, expected, remedy)
    }

    /// An error at a place read earlier.
    pub fn late(
        &self,
        location: Location,
        problem: TextProblem,
        expected: String,
        remedy: &str,
    ) -> Box<TextError> {
        let source = self.source.line(location.line);
        let source = source.strip_suffix('\r').unwrap_or(&source);
        let at =
            (0..=location.at.min(source.len())).rev().find(|&at| source.is_char_boundary(at)).unwrap_or(0);
        let to = (at + location.len).min(source.len());
        let to = (to..=source.len()).find(|&to| source.is_char_boundary(to)).unwrap_or(source.len());
        Box::new(TextError {
            file: self.file.to_string(),
            line: location.line,
            column: source[..at].chars().count() + 1,
            problem,
            value: source[at..to].to_string(),
            expected,
            remedy: remedy.to_string(),
            source_line: source.to_string(),
        })
    }
}

impl Item {
    fn nr_events(&self) -> u64 {
        match self {
            Item::Line(line, _) => line.nr_events(),
            Item::Block(count, items) => {
                let sum = items.iter().fold(0u64, |sum, item| sum.saturating_add(item.nr_events()));
                count.saturating_mul(sum)
            }
        }
    }
}

/// Whether the first line is the header. (An event instead: version 1.)
fn header(words: &[Word<'_>]) -> Parsed<bool> {
    if words[0].text != TEXT_HEADER {
        if is_statement(words[0].text, words.get(1).map(|word| word.text)) {
            return Ok(false);
        }
        let expected = format!("expected the header, {TEXT_HEADER} 1, or an event");
        let remedy = "is this a workload in text form? a line is: eid TYPE pid length ...";
        return fault(words[0], TextProblem::Header, expected, remedy);
    }
    let Some(&version) = words.get(1) else {
        let expected = format!("expected a version, 1 to {TEXT_VERSION}");
        return fault(words[0], TextProblem::Header, expected, "");
    };
    match version.text.parse::<u32>() {
        Ok(1..=TEXT_VERSION) => {}
        Ok(_) => {
            let expected = format!("this program reads versions 1 to {TEXT_VERSION} of the text form");
            return fault(
                version,
                TextProblem::Version,
                expected,
                "use a newer schedlab, or convert the file",
            );
        }
        Err(_) => {
            let expected = format!("expected a version, 1 to {TEXT_VERSION}");
            return fault(version, TextProblem::Header, expected, "");
        }
    }
    match words.get(2) {
        Some(&extra) => {
            fault(extra, TextProblem::Extra, "expected the end of the line", "begin a comment with #")
        }
        None => Ok(true),
    }
}
