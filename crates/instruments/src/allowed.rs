//! Where may each task run now, and is it held back?
//!
//! ```text
//!   header       task t0 affinity=0         t0 may use cpu0
//!   5 ms         note SET t9 of t0: "affinity=0-3"
//!   5 ms         params t0 ... affinity     t0 may use cpu0 to cpu3
//!   7 ms         params t1 ... affinity     nothing said to what: where t1 may run is unknown from here on
//!   8 ms         note HELD t0 value=1       its group's cpu.max is used up: t0 does not wait for a CPU
//! ```
//!
//! A task may use the CPUs of its affinity that are in its group's cpuset; those of the cpuset if no CPU is
//! in both, as the kernel has it. A [`note::ALLOWED`] says it outright. A child begins with what its parent
//! may use at that moment, unless the header has its own.

use schedlab_log::{Fact, Kind, LogGroup, LogHeader, Record, Row, SetWords, Slots, note};
use schedlab_units::{CpuId, CpuSet, SchedPolicy};
use std::collections::BTreeMap;

/// What is known of where a task may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct May {
    /// Where it may run; if that is not known, where it may run at most.
    pub cpus: CpuSet,
    /// Whether that is known.
    pub is_known: bool,
    /// Why it must not run for now: `value` of a [`note::HELD`].
    pub held: u64,
}

#[derive(Clone)]
struct Task {
    /// `None`: all CPUs.
    affinity: Option<CpuSet>,
    group: Option<u32>,
    /// By a note: instead of both.
    stated: Option<CpuSet>,
    is_known: bool,
    held: u64,
    /// What has been announced and not yet taken effect.
    announced: Option<CpuSet>,
    born_ns: Option<u64>,
}

/// The whole machine's tasks. Kernel threads are bound to their CPUs by themselves and are not kept.
pub struct Allowed {
    everywhere: CpuSet,
    /// Per group; `None`: all CPUs.
    cpusets: Vec<Option<CpuSet>>,
    groups: BTreeMap<String, u32>,
    tasks: Vec<Task>,
    /// The header's own affinities and groups.
    own: Vec<(Option<CpuSet>, Option<u32>)>,
    words: SetWords,
    /// Words of a [`note::ALLOWED`] so far.
    masks: Vec<u64>,
}

impl Allowed {
    /// As the header has it.
    pub fn new(header: &LogHeader) -> Allowed {
        let own: Vec<_> = header.tasks.iter().map(|task| (task.affinity.clone(), task.group)).collect();
        let is_hidden = header.hidden.has(Fact::Affinity);
        let task = |(affinity, group): &(Option<CpuSet>, Option<u32>)| Task {
            affinity: affinity.clone(),
            group: *group,
            stated: None,
            is_known: affinity.is_some() || !is_hidden,
            held: note::HELD_NOT,
            announced: None,
            born_ns: None,
        };
        let groups =
            header.groups.iter().enumerate().map(|(place, group)| (group.path.clone(), place as u32));
        Allowed {
            everywhere: CpuSet::first(header.nr_cpus),
            cpusets: cpusets(header),
            groups: groups.collect(),
            tasks: own.iter().map(task).collect(),
            own,
            words: SetWords::default(),
            masks: Vec::new(),
        }
    }

    /// `None` for a thread of the kernel.
    pub fn may(&self, row: Row) -> Option<May> {
        let task = self.tasks.get(row.index())?;
        let cpuset = task.group.and_then(|group| self.cpusets.get(group as usize)?.as_ref());
        let cpuset = cpuset.unwrap_or(&self.everywhere);
        let cpus = match (&task.stated, &task.affinity) {
            (Some(stated), _) => stated.intersection(&self.everywhere),
            (None, None) => cpuset.clone(),
            (None, Some(affinity)) => affinity.intersection(cpuset),
        };
        let cpus = if cpus.is_empty() { cpuset.clone() } else { cpus };
        let cpus = if task.is_known { cpus } else { cpuset.clone() };
        Some(May { cpus, is_known: task.is_known, held: task.held })
    }

    /// The group that a task is in.
    pub fn group(&self, row: Row) -> Option<u32> {
        self.tasks.get(row.index())?.group
    }

    /// Takes a record; the task of which something has changed.
    pub fn record(&mut self, record: &Record, kind: Kind, slots: &Slots) -> Option<Row> {
        match kind {
            Kind::Note => self.note(record, slots),
            Kind::Params if record.flags & 1 != 0 => self.params(record, slots),
            Kind::Fork => self.fork(record, slots),
            _ => None,
        }
    }

    fn row(&self, id: schedlab_units::TaskId, slots: &Slots) -> Option<Row> {
        slots.row(id).filter(|row| row.index() < self.tasks.len())
    }

    fn note(&mut self, record: &Record, slots: &Slots) -> Option<Row> {
        match record.arg {
            note::SET => {
                let words = self.words.piece(record)?;
                let row = self.row(record.other(), slots)?;
                let (change, group) = schedlab_workload::text::parse_change_words(&words)?;
                let task = &mut self.tasks[row.index()];
                task.announced = change.affinity.or(task.announced.take());
                let group = group.and_then(|path| self.groups.get(&path))?;
                (task.group, task.stated) = (Some(*group), None);
                Some(row)
            }
            note::HELD => {
                let row = self.row(record.task(), slots)?;
                self.tasks[row.index()].held = record.value;
                Some(row)
            }
            note::ALLOWED => {
                let row = self.row(record.task(), slots)?;
                self.masks.truncate(usize::from(record.flags));
                self.masks.resize(usize::from(record.flags), 0);
                self.masks.push(record.value);
                let nr_words = self.everywhere.words().len();
                if self.masks.len() < nr_words {
                    return None;
                }
                let bits = self.masks.iter().enumerate().flat_map(|(word, bits)| {
                    (0..64)
                        .filter(move |bit| bits >> bit & 1 == 1)
                        .map(move |bit| CpuId(word as u32 * 64 + bit))
                });
                let stated: CpuSet = bits.filter(|cpu| self.everywhere.contains(*cpu)).collect();
                self.masks.clear();
                let task = &mut self.tasks[row.index()];
                (task.stated, task.is_known) = (Some(stated), true);
                Some(row)
            }
            _ => None,
        }
    }

    fn params(&mut self, record: &Record, slots: &Slots) -> Option<Row> {
        let row = self.row(record.task(), slots)?;
        let task = &mut self.tasks[row.index()];
        task.stated = None;
        match task.announced.take() {
            Some(affinity) => (task.affinity, task.is_known) = (Some(affinity), true),
            // what a child is given at its birth is the header's
            None if task.born_ns == Some(record.time_ns) => {
                (task.affinity, task.is_known) = (self.own[row.index()].0.clone(), true);
            }
            None => task.is_known = false,
        }
        Some(row)
    }

    fn fork(&mut self, record: &Record, slots: &Slots) -> Option<Row> {
        let child = self.row(record.other(), slots)?;
        let parent = self.row(record.task(), slots);
        let (own_affinity, own_group) = self.own[child.index()].clone();
        if let Some(parent) = parent {
            let (parents, its) = (self.tasks[parent.index()].clone(), &self.own[parent.index()]);
            let task = &mut self.tasks[child.index()];
            // the header has what it would inherit if nothing had changed since the parent's birth
            if own_affinity == its.0 {
                (task.affinity, task.stated, task.is_known) =
                    (parents.affinity, parents.stated, parents.is_known);
            }
            if own_group == its.1 {
                task.group = parents.group;
            }
        }
        self.tasks[child.index()].born_ns = Some(record.time_ns);
        Some(child)
    }
}

/// Each group's CPUs: its own that are its parent's, too.
fn cpusets(header: &LogHeader) -> Vec<Option<CpuSet>> {
    let mut cpusets: Vec<Option<CpuSet>> = Vec::with_capacity(header.groups.len());
    for group in &header.groups {
        let is_above = |path: &str| {
            group.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')) || path == "/"
        };
        let above =
            header.groups[..cpusets.len()].iter().zip(&cpusets).filter(|(above, _)| is_above(&above.path));
        let parent = above.max_by_key(|(above, _)| above.path.len()).and_then(|(_, cpuset)| cpuset.clone());
        let both = match (&group.cpuset, parent) {
            (Some(own), Some(parent)) => {
                let both = own.intersection(&parent);
                Some(if both.is_empty() { parent } else { both })
            }
            (own, parent) => own.clone().or(parent),
        };
        cpusets.push(both);
    }
    cpusets
}

/// What may hold a task back besides a budget of its own. Tasks under one limit share what it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    /// `cpu.max` of a group: its place in the header.
    Group(u32),
    /// Of all real-time tasks.
    RealTime,
}

/// The innermost limit of a task of this policy and group.
pub(crate) fn limit(header: &LogHeader, policy: SchedPolicy, group: Option<u32>) -> Option<Limit> {
    if matches!(policy, SchedPolicy::Fifo | SchedPolicy::RoundRobin) {
        return Some(Limit::RealTime);
    }
    if policy == SchedPolicy::Deadline {
        return None;
    }
    let group = header.groups.get(group? as usize)?;
    let holds = |above: &LogGroup| {
        let rest = group.path.strip_prefix(above.path.as_str());
        above.max.is_some() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let limited = header.groups.iter().enumerate().filter(|(_, above)| holds(above));
    let innermost = limited.max_by_key(|(_, above)| above.path.len());
    innermost.map(|(place, _)| Limit::Group(place as u32))
}
