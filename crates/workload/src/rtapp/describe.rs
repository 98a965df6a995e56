//! From JSON to tasks, phases and events, with the keys and defaults of rt-app's src/rt-app_parse_config.c.

use super::json::{Json, Place, What};
use schedlab_units::{CpuId, CpuSet, DeadlineParams, Nice, SchedParams, SchedPolicy, Span};
use std::collections::BTreeMap;

/// Something that cannot be.
pub(super) struct Fault {
    pub place: Place,
    pub what: String,
    pub value: String,
    pub expected: String,
}

/// A whole description.
#[derive(Debug, Default)]
pub(super) struct Description {
    /// `None`: until every task has done its loops.
    pub duration: Option<Span>,
    pub tasks: Vec<TaskDescription>,
    /// Resources by (kind, name); rows are used by the events.
    pub resources: Resources,
    /// What cannot be expressed, by reason.
    pub left_out: BTreeMap<String, u64>,
}

#[derive(Debug)]
pub(super) struct TaskDescription {
    pub name: String,
    /// How many are there at the start.
    pub instances: u64,
    pub delay: Span,
    pub params: SchedParams,
    pub cpus: Option<CpuSet>,
    pub group: Option<String>,
    /// `None`: for ever.
    pub loops: Option<u64>,
    pub phases: Vec<Phase>,
}

#[derive(Debug, Default)]
pub(super) struct Phase {
    pub loops: Option<u64>,
    pub params: Option<SchedParams>,
    pub cpus: Option<CpuSet>,
    pub group: Option<String>,
    pub events: Vec<Event>,
}

/// What a thread does next. Numbers are rows of the resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Run(Span),
    Runtime(Span),
    Sleep(Span),
    Timer {
        timer: usize,
        own: bool,
        period: Span,
    },
    Lock(usize),
    Unlock(usize),
    Wait {
        condition: usize,
        mutex: usize,
    },
    Sync {
        condition: usize,
        mutex: usize,
    },
    Signal(usize),
    Broadcast(usize),
    Barrier(usize),
    Yield,
    /// Row of the tasks, once all are known.
    Fork(String, usize),
    /// Takes time that the description does not tell.
    Unknown,
}

/// Mutexes, conditions, barriers and timers by name.
#[derive(Debug, Default)]
pub(super) struct Resources {
    pub mutexes: Names,
    pub conditions: Names,
    pub barriers: Names,
    pub timers: Names,
    /// Timers that keep their grid whatever happens.
    pub absolute: Vec<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, usize>);

impl Names {
    fn row(&mut self, name: &str) -> usize {
        let next = self.0.len();
        *self.0.entry(name.to_string()).or_insert(next)
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

type Result<T> = std::result::Result<T, Fault>;

fn fault<T>(json: &Json, what: &str, expected: &str) -> Result<T> {
    Err(Fault {
        place: json.place,
        what: format!("\"{what}\""),
        value: json.kind(),
        expected: expected.to_string(),
    })
}

fn object<'j>(json: &'j Json, what: &str) -> Result<&'j [(String, Json)]> {
    match &json.what {
        What::Object(members) => Ok(members),
        _ => fault(json, what, "an object, { ... }"),
    }
}

/// The last value of a key, as json-c keeps it.
fn get<'j>(members: &'j [(String, Json)], key: &str) -> Option<&'j Json> {
    members.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
}

fn int(json: &Json, what: &str) -> Result<i64> {
    match json.what {
        What::Int(value) => Ok(value),
        _ => fault(json, what, "a whole number"),
    }
}

fn text<'j>(json: &'j Json, what: &str) -> Result<&'j str> {
    match &json.what {
        What::Text(text) => Ok(text),
        _ => fault(json, what, "a text in quotes"),
    }
}

/// Microseconds, as all of rt-app's times.
fn us(json: &Json, what: &str) -> Result<Span> {
    match u64::try_from(int(json, what)?) {
        Ok(us) if us <= 1_000_000_000_000 => Ok(Span::from_us(us)),
        _ => fault(json, what, "a time in microseconds, 0 to 10^12"),
    }
}

/// -1: for ever.
fn loops(json: &Json, what: &str) -> Result<Option<u64>> {
    match int(json, what)? {
        -1 => Ok(None),
        count @ 0.. => Ok(Some(count as u64)),
        _ => fault(json, what, "a count, or -1 for ever"),
    }
}

pub(super) fn describe(root: &Json) -> Result<Description> {
    let members = object(root, "the description")?;
    let mut description = Description::default();
    let mut default_policy = SchedPolicy::Normal;
    if let Some(global) = get(members, "global") {
        let global = object(global, "global")?;
        if let Some(duration) = get(global, "duration") {
            description.duration = match int(duration, "duration")? {
                -1 => None,
                seconds @ 0..=1_000_000 => Some(Span::from_s(seconds as u64)),
                _ => return fault(duration, "duration", "seconds up to 1000000, or -1"),
            };
        }
        if let Some(policy) = get(global, "default_policy") {
            default_policy = self::policy(policy)?;
        }
        if get(global, "pi_enabled").is_some_and(|value| value.what == What::Bool(true)) {
            description.leave_out("priority inheritance of mutexes (pi_enabled)", 1);
        }
    }
    let Some(tasks) = get(members, "tasks") else {
        return fault(root, "the description", "a member \"tasks\"");
    };
    for (name, task) in object(tasks, "tasks")? {
        let task = description.task(name, task, default_policy)?;
        description.tasks.push(task);
    }
    description.resolve_forks(tasks)?;
    if description.tasks.iter().all(|task| task.instances == 0) {
        return fault(tasks, "tasks", "at least one task that is there at the start");
    }
    Ok(description)
}

fn policy(json: &Json) -> Result<SchedPolicy> {
    Ok(match text(json, "policy")? {
        "SCHED_OTHER" | "SCHED_NORMAL" => SchedPolicy::Normal,
        "SCHED_BATCH" => SchedPolicy::Batch,
        "SCHED_IDLE" => SchedPolicy::Idle,
        "SCHED_FIFO" => SchedPolicy::Fifo,
        "SCHED_RR" => SchedPolicy::RoundRobin,
        "SCHED_DEADLINE" => SchedPolicy::Deadline,
        _ => {
            return fault(
                json,
                "policy",
                "SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR or SCHED_DEADLINE",
            );
        }
    })
}

/// DEFAULT_THREAD_PRIORITY (src/rt-app_types.h).
const DEFAULT_PRIORITY: i64 = 10;

/// Policy with its parameters; `inherited` is the policy where none is given.
fn params(members: &[(String, Json)], at: &Json, inherited: SchedPolicy) -> Result<SchedParams> {
    let policy = get(members, "policy").map_or(Ok(inherited), policy)?;
    let priority = get(members, "priority").map(|json| Ok((int(json, "priority")?, json))).transpose()?;
    let mut params = SchedParams { policy, ..SchedParams::default() };
    match policy {
        SchedPolicy::Fifo | SchedPolicy::RoundRobin => {
            let (value, json) = priority.unwrap_or((DEFAULT_PRIORITY, at));
            match u8::try_from(value) {
                Ok(value @ 1..=99) => params.rt_priority = value,
                _ => return fault(json, "priority", "1 to 99 for a real-time policy"),
            }
        }
        SchedPolicy::Deadline => {
            // "dl-*" are in us; the older keys in ns, of which "runtime" is also an event without phases.
            let span = |new: &str, old: &str| -> Result<Option<Span>> {
                if let Some(json) = get(members, new) {
                    return us(json, new).map(Some);
                }
                match get(members, old) {
                    Some(json) => match u64::try_from(int(json, old)?) {
                        Ok(ns) => Ok(Some(Span::from_ns(ns))),
                        Err(_) => fault(json, old, "a time in ns"),
                    },
                    None => Ok(None),
                }
            };
            let Some(runtime) = span("dl-runtime", "runtime")? else {
                return fault(at, "the task", "\"dl-runtime\" for SCHED_DEADLINE");
            };
            let period = span("dl-period", "period")?.unwrap_or(runtime);
            let deadline = span("dl-deadline", "deadline")?.unwrap_or(period);
            if runtime > deadline || deadline > period || runtime < Span::from_ns(1024) {
                let value = format!("runtime {runtime}, deadline {deadline}, period {period}");
                return Err(Fault {
                    place: at.place,
                    what: "SCHED_DEADLINE".to_string(),
                    value,
                    expected: "1024 ns <= dl-runtime <= dl-deadline <= dl-period".to_string(),
                });
            }
            params.deadline = Some(DeadlineParams { runtime, deadline, period });
        }
        _ => {
            if let Some((value, json)) = priority {
                match i32::try_from(value).ok().and_then(|value| Nice::new(value).ok()) {
                    Some(nice) => params.nice = nice,
                    None => return fault(json, "priority", "a nice value, -20 to 19"),
                }
            }
        }
    }
    Ok(params)
}

fn cpus(members: &[(String, Json)]) -> Result<Option<CpuSet>> {
    let Some(json) = get(members, "cpus") else { return Ok(None) };
    let What::List(items) = &json.what else { return fault(json, "cpus", "a list of CPUs, [0, 1]") };
    let mut set = CpuSet::default();
    for item in items {
        match int(item, "cpus")? {
            cpu @ 0..=4095 => set.insert(CpuId(cpu as u32)),
            _ => return fault(item, "cpus", "CPUs from 0 to 4095"),
        };
    }
    if set.is_empty() { fault(json, "cpus", "at least one CPU") } else { Ok(Some(set)) }
}

fn group(members: &[(String, Json)]) -> Result<Option<String>> {
    let Some(json) = get(members, "taskgroup") else { return Ok(None) };
    let path = text(json, "taskgroup")?.trim_end_matches('/');
    if path.is_empty() {
        return Ok(None);
    }
    let plain =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(char::is_whitespace);
    if path.strip_prefix('/').is_none_or(|rest| !rest.split('/').all(plain)) {
        return fault(json, "taskgroup", "a path from the root, /name/name");
    }
    Ok(Some(path.to_string()))
}

/// rt-app takes a key for an event if it begins with one of these; the first that fits (src/rt-app_parse_config.c).
const EVENTS: [&str; 17] = [
    "lock", "unlock", "wait", "signal", "broad", "sync", "sleep", "runtime", "run", "timer", "suspend",
    "resume", "mem", "iorun", "yield", "barrier", "fork",
];
/// Keys that tell nothing that a scheduler sees, or are read elsewhere.
const OTHERS: [&str; 14] = [
    "loop",
    "phases",
    "instance",
    "policy",
    "priority",
    "cpus",
    "delay",
    "taskgroup",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "period",
    "deadline",
    "comment",
];

impl Description {
    fn leave_out(&mut self, reason: &str, count: u64) {
        *self.left_out.entry(reason.to_string()).or_default() += count;
    }

    fn task(&mut self, name: &str, json: &Json, default_policy: SchedPolicy) -> Result<TaskDescription> {
        let members = object(json, name)?;
        let params = params(members, json, default_policy)?;
        let instances = match get(members, "instance") {
            None => 1,
            Some(json) => match int(json, "instance")? {
                count @ 0..=100_000 => count as u64,
                _ => return fault(json, "instance", "a count up to 100000"),
            },
        };
        let mut task = TaskDescription {
            name: name.to_string(),
            instances,
            delay: get(members, "delay").map_or(Ok(Span::ZERO), |json| us(json, "delay"))?,
            params,
            cpus: cpus(members)?,
            group: group(members)?,
            loops: None,
            phases: Vec::new(),
        };
        match get(members, "phases") {
            None => {
                // Without phases the task is its only phase, and goes on for ever; "loop" is the phase's.
                let mut phase = self.phase(name, members, params.policy == SchedPolicy::Deadline)?;
                (phase.cpus, phase.group) = (None, None);
                task.phases.push(phase);
            }
            Some(phases) => {
                task.loops = get(members, "loop").map_or(Ok(None), |json| loops(json, "loop"))?;
                for (_, json) in object(phases, "phases")? {
                    let members = object(json, "a phase")?;
                    let mut phase = self.phase(name, members, false)?;
                    if get(members, "policy").is_some() || get(members, "priority").is_some() {
                        phase.params = Some(self::params(members, json, params.policy)?);
                    }
                    phase.cpus = cpus(members)?;
                    phase.group = group(members)?;
                    task.phases.push(phase);
                }
                for (key, value) in members {
                    self.unknown_key(key, value);
                }
            }
        }
        Ok(task)
    }

    fn unknown_key(&mut self, key: &str, value: &Json) {
        let is_nothing = matches!(value.what, What::Null);
        if !is_nothing && !OTHERS.contains(&key) {
            self.leave_out(&format!("key \"{key}\" of a task or phase"), 1);
        }
    }

    fn phase(&mut self, task: &str, members: &[(String, Json)], runtime_is_deadline: bool) -> Result<Phase> {
        let mut phase = Phase { loops: Some(1), ..Phase::default() };
        if let Some(json) = get(members, "loop") {
            phase.loops = loops(json, "loop")?;
        }
        for (key, json) in members {
            let known = EVENTS.iter().find(|event| key.starts_with(**event));
            match known {
                // The old form of SCHED_DEADLINE's parameter, which rt-app runs as an event too.
                Some(_) if runtime_is_deadline && key == "runtime" => {}
                Some(event) => self.event(task, event, key, json, &mut phase.events)?,
                None => self.unknown_key(key, json),
            }
        }
        Ok(phase)
    }

    fn event(
        &mut self,
        task: &str,
        event: &str,
        key: &str,
        json: &Json,
        events: &mut Vec<Event>,
    ) -> Result<()> {
        let member = |name: &str| -> Result<String> {
            let members = object(json, key)?;
            get(members, name).map_or(Ok("unknown".to_string()), |json| text(json, name).map(str::to_string))
        };
        let event = match event {
            "run" => Event::Run(us(json, key)?),
            "runtime" => Event::Runtime(us(json, key)?),
            "sleep" => Event::Sleep(us(json, key)?),
            "lock" => Event::Lock(self.resources.mutexes.row(text(json, key)?)),
            "unlock" => Event::Unlock(self.resources.mutexes.row(text(json, key)?)),
            "signal" => Event::Signal(self.resources.conditions.row(text(json, key)?)),
            "broad" => Event::Broadcast(self.resources.conditions.row(text(json, key)?)),
            "wait" | "sync" => {
                let condition = self.resources.conditions.row(&member("ref")?);
                let mutex = self.resources.mutexes.row(&member("mutex")?);
                if event == "wait" {
                    Event::Wait { condition, mutex }
                } else {
                    Event::Sync { condition, mutex }
                }
            }
            "suspend" | "resume" => {
                // A mutex and a condition of the same name. Without one it is the task's own.
                let name = if json.what == What::Null { task } else { text(json, key)? };
                let (mutex, condition) =
                    (self.resources.mutexes.row(name), self.resources.conditions.row(name));
                events.push(Event::Lock(mutex));
                let own = if event == "suspend" {
                    Event::Wait { condition, mutex }
                } else {
                    Event::Broadcast(condition)
                };
                events.push(own);
                Event::Unlock(mutex)
            }
            "barrier" => Event::Barrier(self.resources.barriers.row(text(json, key)?)),
            "timer" => {
                let name = member("ref")?;
                let members = object(json, key)?;
                let period = get(members, "period").map_or(Ok(Span::ZERO), |json| us(json, "period"))?;
                // every "unique" of a task is one timer, its own; its mode is nobody else's
                let own = name.starts_with("unique");
                let timer = if own { format!("unique {task}") } else { name };
                let timer = self.resources.timers.row(&timer);
                if member("mode")?.starts_with("absolute") {
                    self.resources.absolute.push(timer);
                }
                Event::Timer { timer, own, period }
            }
            "yield" => Event::Yield,
            "fork" => Event::Fork(text(json, key)?.to_string(), usize::MAX),
            "mem" | "iorun" => {
                let what = if event == "mem" { "memory" } else { "a device" };
                self.leave_out(
                    &format!("writing to {what} (\"{event}\"), whose time the description does not tell"),
                    1,
                );
                Event::Unknown
            }
            _ => unreachable!("every name of the list is above"),
        };
        events.push(event);
        Ok(())
    }

    fn resolve_forks(&mut self, tasks: &Json) -> Result<()> {
        let rows: BTreeMap<String, usize> =
            self.tasks.iter().enumerate().map(|(row, task)| (task.name.clone(), row)).collect();
        for task in &mut self.tasks {
            for event in task.phases.iter_mut().flat_map(|phase| &mut phase.events) {
                if let Event::Fork(name, row) = event {
                    match rows.get(name) {
                        Some(found) => *row = *found,
                        None => {
                            return Err(Fault {
                                place: tasks.place,
                                what: format!("\"fork\" of task \"{}\"", task.name),
                                value: format!("\"{name}\""),
                                expected: "the name of a task".to_string(),
                            });
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
