//! From a mix to one workload.

use super::overrides::{self, Override};
use super::repeat::{begin_at, begin_later, conduct, conductor, last_events, sets_instants};
use super::{Load, Mix, MixError, Origin, Part};
use crate::limits::{Account, Exceeded, Limits};
use crate::stream::Source;
use crate::tools::{Cut, Factor, Filter, Scale, collect};
use crate::{
    Birth, Cgroup, CgroupId, Event, EventId, EventKind, ExternalSource, Object, ObjectId, Wakeup, Workload,
};
use schedlab_units::{Span, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Pids stay below this, so that every program can print them.
const PID_MAX: u64 = 1 << 31;

impl Mix {
    /// The workload: `load` gives the parts', as a rule each path once. It may have [`Limits::HELD`]; a part
    /// whose copies would go beyond is refused before they are made.
    pub fn build(&self, load: &mut Load<'_>) -> Result<Workload, MixError> {
        self.build_within(load, Limits::HELD)
    }

    /// As [`Mix::build`], with limits of the caller's.
    pub fn build_within(&self, load: &mut Load<'_>, limits: Limits) -> Result<Workload, MixError> {
        let mut loaded = LoadedParts::new(self, limits);
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut account = Account::new(limits);
        for (index, part) in self.parts.iter().enumerate() {
            let workload = match &part.origin {
                Origin::Path(path) => {
                    loaded.get(index, path, load).map_err(|why| self.fault(&part.origin_at, why))?
                }
                Origin::Generate(spec) => {
                    spec.build().map_err(|error| self.fault(&part.origin_at, error.to_string()))?
                }
            };
            let prepared = self.prepared(part, workload)?;
            part.count(&prepared.0, &mut account).map_err(|error| {
                let at = match (part.copies, part.repeat) {
                    (1, 1) => &part.origin_at,
                    (copies, repeat) if copies < repeat => &part.repeat_at,
                    _ => &part.copies_at,
                };
                self.fault_with(at, error.to_string(), error.remedy())
            })?;
            parts.push(prepared);
        }
        drop(loaded);
        let mut assembly = Assembly::new(self, &parts)?;
        for (index, (part, (workload, overrides))) in self.parts.iter().zip(parts).enumerate() {
            assembly.add_part(index, part, workload, &overrides)?;
        }
        let workload = assembly.finish();
        // a rule broken only by the whole: times that add up to too much
        match workload.check() {
            Ok(()) => Ok(workload),
            Err(error) => Err(MixError::whole(&self.path, error.to_string())),
        }
    }

    fn fault(&self, at: &Range<usize>, why: impl Into<String>) -> MixError {
        self.fault_with(at, why, "")
    }

    fn fault_with(&self, at: &Range<usize>, why: impl Into<String>, remedy: &str) -> MixError {
        if self.text.is_empty() {
            return MixError::whole(&self.path, why);
        }
        MixError::at((&self.path, &self.text), at, why, remedy)
    }

    /// What a part asks of its workload: the window, other lengths, and per row the settings that override.
    fn prepared(&self, part: &Part, mut workload: Workload) -> Result<(Workload, Vec<Override>), MixError> {
        // rules are for tasks as they are in the workload; pids tell them when some have gone
        let mut of_pid: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, rule) in part.rules.iter().enumerate() {
            let meant = rule.select.rows(&workload);
            if !meant.contains(&true) && !rule.select.is_all() {
                return Err(self.fault(&rule.at, "no task of the workload fits this"));
            }
            for (task, _) in workload.tasks.iter().zip(meant).filter(|(_, meant)| *meant) {
                of_pid.entry(task.pid).or_default().push(i);
            }
        }
        let failed = |error: crate::stream::StreamError| self.fault(&part.at, error.to_string());
        if let Some((from, to)) = part.window {
            let source = Source::from(workload);
            workload =
                Cut::new(&source, from, to).and_then(|mut cut| collect(&source, &mut cut)).map_err(failed)?;
            if workload.tasks.is_empty() {
                return Err(self.fault(&part.at, format!("nothing happens from {from} to {to}")));
            }
        }
        let rules = |pid: u32| of_pid.get(&pid).into_iter().flatten().map(|&i| &part.rules[i]);
        let factors: Vec<(Factor, Factor)> = workload
            .tasks
            .iter()
            .map(|task| {
                rules(task.pid).fold((Factor::ONE, Factor::ONE), |(cpu, sleep), rule| {
                    (rule.cpu_scale.unwrap_or(cpu), rule.sleep_scale.unwrap_or(sleep))
                })
            })
            .collect();
        if factors.iter().any(|factors| *factors != (Factor::ONE, Factor::ONE)) {
            let source = Source::from(workload);
            let mut scale = Scale::with(source.head().clone(), factors);
            workload = collect(&source, &mut scale).map_err(failed)?;
        }
        let limits: Vec<Option<Span>> = workload
            .tasks
            .iter()
            .map(|task| rules(task.pid).fold(None, |limit, rule| rule.cpu_limit.or(limit)))
            .collect();
        if limits.iter().any(Option::is_some) {
            workload = limited(workload, &limits).map_err(failed)?;
        }
        let overrides = workload
            .tasks
            .iter()
            .map(|task| rules(task.pid).fold(Override::default(), |under, rule| rule.over.over(&under)))
            .collect();
        Ok((workload, overrides))
    }
}

impl Part {
    /// Takes what this part will add to the whole into account: its copies, the tasks that repeat them, the
    /// waits before they begin.
    fn count(&self, workload: &Workload, account: &mut Account) -> Result<(), Exceeded> {
        let (copies, repeat) = (u64::from(self.copies), u64::from(self.repeat));
        account.add_copies(workload, copies.saturating_mul(repeat))?;
        let nr_tasks = workload.tasks.len() as u64;
        if repeat > 1 {
            // the conductor waits for each task's end, and each task for the conductor (two events at most, either way)
            account.add_tasks(copies)?;
            account.add_events(copies.saturating_mul(repeat).saturating_mul(4 * nr_tasks))?;
        }
        if self.start > Span::ZERO || (copies > 1 && self.every > Span::ZERO) {
            account.add_events(copies.saturating_mul(nr_tasks))?;
        }
        Ok(())
    }
}

/// What parts name, kept for those that name the same, as far as there is room.
struct LoadedParts {
    kept: BTreeMap<PathBuf, Workload>,
    /// The last part that names it.
    last: BTreeMap<PathBuf, usize>,
    account: Account,
}

impl LoadedParts {
    fn new(mix: &Mix, limits: Limits) -> LoadedParts {
        let last = mix.parts.iter().enumerate().filter_map(|(index, part)| match &part.origin {
            Origin::Path(path) => Some((path.clone(), index)),
            Origin::Generate(_) => None,
        });
        LoadedParts { kept: BTreeMap::new(), last: last.collect(), account: Account::new(limits) }
    }

    fn get(&mut self, part: usize, path: &Path, load: &mut Load<'_>) -> Result<Workload, String> {
        let is_last = self.last.get(path).is_none_or(|&last| last == part);
        let known = if is_last { self.kept.remove(path) } else { self.kept.get(path).cloned() };
        if let Some(workload) = known {
            return Ok(workload);
        }
        let workload = load(path)?;
        if !is_last && self.account.add_copies(&workload, 1).is_ok() {
            self.kept.insert(path.to_path_buf(), workload.clone());
        }
        Ok(workload)
    }
}

/// Ends tasks when they have had their CPU time; children that are not forked then are gone, and so are
/// wakeups from there.
fn limited(mut workload: Workload, limits: &[Option<Span>]) -> Result<Workload, crate::stream::StreamError> {
    // events at which a task now ends: by how much earlier; and the events that do not come any more
    let mut ends: BTreeMap<EventId, (Span, Span)> = BTreeMap::new();
    let mut gone: BTreeSet<EventId> = BTreeSet::new();
    let mut keep = vec![true; workload.tasks.len()];
    let mut unborn: Vec<TaskId> = Vec::new();
    let mut closed: BTreeSet<ObjectId> = BTreeSet::new();
    for (task, limit) in workload.tasks.iter_mut().zip(limits) {
        let Some(limit) = *limit else { continue };
        let (mut used, mut since_wakeup) = (Span::ZERO, Span::ZERO);
        let over = task.events.iter().position(|event| match event.kind.length() {
            Some(length) => {
                since_wakeup = length;
                used.checked_add(length).is_none_or(|total| total > limit)
            }
            None => {
                used = used.checked_add(since_wakeup).unwrap_or(Span::MAX);
                since_wakeup = Span::ZERO;
                false
            }
        });
        let Some(over) = over else { continue };
        closed.extend(task.events[over].kind.objects());
        for event in task.events.drain(over + 1..) {
            gone.insert(event.eid);
            closed.extend(event.kind.objects());
            if let EventKind::Fork { child, .. } = event.kind {
                unborn.push(child);
            }
        }
        let last = &mut task.events[over];
        let (old, length) = (last.kind.length().unwrap_or_default(), limit.saturating_sub(used));
        if let EventKind::Fork { child, .. } = last.kind {
            unborn.push(child);
        }
        ends.insert(last.eid, (old.saturating_sub(length), length));
        last.kind = EventKind::Exit { length };
    }
    while let Some(child) = unborn.pop() {
        if std::mem::replace(&mut keep[child.index()], false) {
            let forks = workload.tasks[child.index()].events.iter().filter_map(|event| match event.kind {
                EventKind::Fork { child, .. } => Some(child),
                _ => None,
            });
            unborn.extend(forks);
        }
    }
    let mut external = 0;
    for event in workload.tasks.iter_mut().flat_map(|task| &mut task.events) {
        let EventKind::Wakeup(wakeup) = &mut event.kind else { continue };
        let Wakeup::Dependent { recorded_after, event, distance, .. } = wakeup else { continue };
        let left = match ends.get(event) {
            // the wakeup's place is nearer to the new end, if it still lies before it
            Some((earlier, length)) => {
                let left = distance.as_ns().checked_sub(earlier.as_ns()).map(Span::from_ns);
                left.filter(|left| left <= length)
            }
            None => (!gone.contains(event)).then_some(*distance),
        };
        match left {
            Some(left) => *distance = left,
            None => {
                external += 1;
                *wakeup = Wakeup::External { after: *recorded_after, source: ExternalSource::Timer };
            }
        }
    }
    let nr_closed = workload.close_objects(|object| closed.contains(&object));
    workload.count_dropped("object closed, since a task that ended at its CPU limit used it", nr_closed);
    workload.count_dropped("task ended at its CPU limit", ends.len() as u64);
    workload.count_dropped("wakeup by a task that has ended at its CPU limit, made external", external);
    if keep.iter().all(|keep| *keep) {
        return Ok(workload);
    }
    let nr_unborn = keep.iter().filter(|keep| !**keep).count() as u64;
    let source = Source::from(workload);
    let mut workload = collect(&source, &mut Filter::new(&source, &keep)?)?;
    workload.dropped.remove("task filtered out");
    workload.count_dropped("task whose parent ended at its CPU limit before it, left out", nr_unborn);
    Ok(workload)
}

/// The workload that grows part by part.
struct Assembly<'m> {
    mix: &'m Mix,
    out: Workload,
    groups: BTreeMap<String, CgroupId>,
    /// Paths whose settings the mix itself states.
    stated: BTreeSet<String>,
    object_names: BTreeSet<String>,
    pids: BTreeSet<u32>,
    /// A power of ten above all pids.
    band: u64,
    /// Bands tried last; no instance finds room in one below.
    next_band: u64,
    last_eid: u64,
}

impl<'m> Assembly<'m> {
    fn new(mix: &'m Mix, parts: &[(Workload, Vec<Override>)]) -> Result<Assembly<'m>, MixError> {
        let pids = parts.iter().flat_map(|(workload, _)| &workload.tasks).map(|task| u64::from(task.pid));
        let max = pids.max().unwrap_or(0);
        let band = (1..20).map(|n| 10u64.pow(n)).find(|&band| band > max).unwrap_or(u64::MAX);
        let mut assembly = Assembly {
            mix,
            out: Workload::default(),
            groups: BTreeMap::new(),
            object_names: BTreeSet::new(),
            stated: BTreeSet::new(),
            pids: BTreeSet::new(),
            band,
            next_band: 1,
            last_eid: 0,
        };
        for (group, at) in &mix.groups {
            if !assembly.stated.insert(group.path.clone()) {
                return Err(mix.fault(at, "this group stands here twice"));
            }
            let id = assembly.group(&group.path);
            assembly.out.cgroups[id.0 as usize] = group.clone();
        }
        Ok(assembly)
    }

    /// The group of a path, made with its parents if it is not there.
    fn group(&mut self, path: &str) -> CgroupId {
        if let Some(&id) = self.groups.get(path) {
            return id;
        }
        if let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
            self.group(parent);
        }
        let id = CgroupId(self.out.cgroups.len() as u32);
        self.out.cgroups.push(Cgroup { path: path.to_string(), ..Cgroup::default() });
        self.groups.insert(path.to_string(), id);
        id
    }

    fn eid(&mut self) -> EventId {
        self.last_eid += 1;
        EventId(self.last_eid)
    }

    fn add_part(
        &mut self,
        index: usize,
        part: &Part,
        workload: Workload,
        overrides: &[Override],
    ) -> Result<(), MixError> {
        for (reason, count) in &workload.dropped {
            self.out
                .count_dropped(reason, count.saturating_mul(u64::from(part.copies) * u64::from(part.repeat)));
        }
        let name = match &part.origin {
            Origin::Path(path) => path.display().to_string(),
            Origin::Generate(spec) => format!("generated: {}", spec.to_toml().replace('\n', "; ")),
        };
        let times = |n: u32, what: &str| if n > 1 { format!(", {n} {what}") } else { String::new() };
        let note = format!("{name}{}{}", times(part.copies, "copies"), times(part.repeat, "times"));
        self.out.notes.insert(format!("part {}", index + 1), note);
        for (key, value) in &workload.notes {
            self.out.notes.insert(format!("part {}: {key}", index + 1), value.clone());
        }
        if part.repeat > 1 && sets_instants(&workload) {
            let why = "this workload sets timers for an instant (absolute, grid), which count from its start: it \
                cannot begin anew at a time that is not known beforehand";
            let remedy = "use copies and every instead";
            return Err(MixError::at((&self.mix.path, &self.mix.text), &part.repeat_at, why, remedy));
        }
        let numbers = Numbers::of(&workload);
        for copy in 1..=part.copies {
            let late = || self.mix.fault(&part.at, "the copies' starts add up to more than 2^64 ns");
            let start = part
                .every
                .as_ns()
                .checked_mul(u64::from(copy - 1))
                .and_then(|ns| ns.checked_add(part.start.as_ns()));
            let start = start.map(Span::from_ns).ok_or_else(late)?;
            let mut gate: Option<(TaskId, EventId)> = None;
            let named = |text: &str| text.replace("{copy}", &copy.to_string());
            for turn in 1..=part.repeat {
                let first = self.out.tasks.len();
                self.add_instance(part, &workload, overrides, &numbers, copy)?;
                for row in first..self.out.tasks.len() {
                    let last_eid = &mut self.last_eid;
                    let eid = || {
                        *last_eid += 1;
                        EventId(*last_eid)
                    };
                    let task = &mut self.out.tasks[row];
                    match gate {
                        None => begin_later(task, start, eid).ok_or_else(late)?,
                        Some((conductor, event)) => begin_at(task, conductor, event, eid),
                    }
                }
                if turn == part.repeat {
                    break;
                }
                let awaited = last_events(&self.out, first..self.out.tasks.len());
                if awaited.is_empty() {
                    return Err(self.mix.fault(
                        &part.repeat_at,
                        "no task of this workload does anything, so that it is never over",
                    ));
                }
                let row = match gate {
                    Some((row, _)) => row,
                    None => {
                        let (pid, eid) = (self.free_pid()?, self.eid());
                        let mut task = conductor(format!("{}repeat", named(&part.prefix)), pid, eid);
                        task.cgroup = part.cgroup_root.as_ref().map(|(path, _)| self.group(&named(path)));
                        self.out.tasks.push(task);
                        TaskId(self.out.tasks.len() as u32 - 1)
                    }
                };
                let mut task = std::mem::replace(
                    &mut self.out.tasks[row.index()],
                    conductor(String::new(), 0, EventId(0)),
                );
                let event = conduct(&mut task, &awaited, turn + 1 == part.repeat, || self.eid());
                self.out.tasks[row.index()] = task;
                gate = Some((row, event));
            }
        }
        Ok(())
    }

    fn free_pid(&mut self) -> Result<u32, MixError> {
        let last = self.pids.last().copied().unwrap_or(0);
        let free = last.checked_add(1).filter(|&pid| u64::from(pid) < PID_MAX);
        let free = free.or_else(|| (1..).find(|pid| !self.pids.contains(pid)));
        let pid = free.ok_or_else(|| MixError::whole(&self.mix.path, "there are more tasks than pids"))?;
        self.pids.insert(pid);
        Ok(pid)
    }

    /// How much is added to the pids of an instance; none if they must be numbered anew.
    fn shift(&mut self, workload: &Workload) -> Option<u32> {
        let free = |pids: &BTreeSet<u32>, shift: u64| {
            workload.tasks.iter().all(|task| {
                let pid = u64::from(task.pid) + shift;
                pid < PID_MAX && !pids.contains(&(pid as u32))
            })
        };
        if free(&self.pids, 0) {
            return Some(0);
        }
        let shift = self.band.checked_mul(self.next_band).filter(|&shift| free(&self.pids, shift))?;
        self.next_band += 1;
        u32::try_from(shift).ok()
    }

    fn add_instance(
        &mut self,
        part: &Part,
        workload: &Workload,
        overrides: &[Override],
        numbers: &Numbers,
        copy: u32,
    ) -> Result<(), MixError> {
        let named = |text: &str| text.replace("{copy}", &copy.to_string());
        let mut instance = Workload { tasks: workload.tasks.clone(), ..Workload::default() };
        // groups first: the workload's own below the root, then those that override
        let root = part.cgroup_root.as_ref().map(|(path, _)| named(path)).filter(|path| path != "/");
        let mut groups = Vec::with_capacity(workload.cgroups.len());
        for group in &workload.cgroups {
            let path = match (&root, group.path.as_str()) {
                (Some(root), "/") => root.clone(),
                (root, path) => format!("{}{path}", root.as_deref().unwrap_or_default()),
            };
            let there = self.groups.contains_key(&path);
            let id = self.group(&path);
            let known = &mut self.out.cgroups[id.0 as usize];
            let wanted = Cgroup { path: path.clone(), ..group.clone() };
            if !there || *known == (Cgroup { path: path.clone(), ..Cgroup::default() }) {
                if !self.stated.contains(&path) {
                    *known = wanted;
                }
            } else if *known != wanted && !self.stated.contains(&path) {
                let why = format!("group {path} has other settings here than in a part before");
                let at = part.cgroup_root.as_ref().map_or(&part.origin_at, |(_, at)| at);
                let remedy =
                    "keep them apart with cgroup_root = \"/part-N\", or state the settings in a [[cgroup]]";
                return Err(MixError::at((&self.mix.path, &self.mix.text), at, why, remedy));
            }
            groups.push(id);
        }
        let moved = |id: CgroupId| groups.get(id.0 as usize).copied().unwrap_or(id);
        let root_id = root.as_ref().map(|path| self.group(path));
        for task in &mut instance.tasks {
            task.cgroup = task.cgroup.map(moved);
            if matches!(task.birth, Birth::Init { .. }) {
                task.cgroup = task.cgroup.or(root_id);
            }
            for event in &mut task.events {
                if let EventKind::Prio { change, .. } = &mut event.kind {
                    change.cgroup = change.cgroup.map(moved);
                }
            }
        }
        let over: Vec<Override> = overrides
            .iter()
            .map(|over| Override { cgroup: over.cgroup.as_deref().map(named), ..over.clone() })
            .collect();
        for path in over.iter().filter_map(|over| over.cgroup.as_deref()) {
            if path != "/" {
                self.group(path);
            }
        }
        if over.iter().any(|over| over.cgroup.as_deref() == Some("/")) {
            self.group("/");
        }
        overrides::apply(&mut instance, &over, |path| self.groups.get(path).copied().unwrap_or(CgroupId(0)));
        // then identifiers: rows, pids, events
        let shift = self.shift(workload);
        let (offset, rows) = (self.last_eid, self.out.tasks.len() as u32);
        let eid = |old: EventId| EventId(offset + numbers.of_event(old));
        let row = |id: TaskId| TaskId(id.0 + rows);
        let prefix = named(&part.prefix);
        let objects = self.objects(workload, &prefix);
        for mut task in instance.tasks {
            task.pid = match shift {
                Some(shift) => task.pid + shift,
                None => self.free_pid()?,
            };
            self.pids.insert(task.pid);
            if !prefix.is_empty() {
                task.name.insert_str(0, &prefix);
            }
            task.birth = match task.birth {
                Birth::Init { eid: old, parent, state } => {
                    Birth::Init { eid: eid(old), parent: parent.map(row), state }
                }
                Birth::Fork { parent } => Birth::Fork { parent: row(parent) },
            };
            for Event { eid: own, kind } in &mut task.events {
                *own = eid(*own);
                match kind {
                    EventKind::Fork { child, .. } => *child = row(*child),
                    EventKind::Prio { change, .. } => change.target = change.target.map(row),
                    EventKind::Object { op, .. } => *op = op.mapped(|id| objects[id.0 as usize]),
                    EventKind::Wakeup(Wakeup::Dependent { event, task, .. }) => {
                        (*event, *task) = (eid(*event), row(*task));
                    }
                    _ => {}
                }
            }
            self.out.tasks.push(task);
        }
        self.last_eid += numbers.max();
        Ok(())
    }

    /// The objects of one more instance, under names that are free.
    fn objects(&mut self, workload: &Workload, prefix: &str) -> Vec<ObjectId> {
        let of = |object: &Object| {
            let wanted = format!("{prefix}{}", object.name);
            let mut name = wanted.clone();
            for number in 2.. {
                if self.object_names.insert(name.clone()) {
                    break;
                }
                name = format!("{wanted}-{number}");
            }
            self.out.add_object(Object { name, ..object.clone() })
        };
        workload.objects.iter().map(of).collect()
    }

    fn finish(mut self) -> Workload {
        let parts = self.mix.parts.len();
        self.out.notes.insert("mix".into(), format!("{} ({parts} parts)", self.mix.path.display()));
        self.out
    }
}

/// Numbers of a workload's events from 1 without large gaps.
enum Numbers {
    /// As they are, up to this.
    Dense(u64),
    /// Anew.
    Anew(BTreeMap<EventId, u64>),
}

impl Numbers {
    fn of(workload: &Workload) -> Numbers {
        let max = workload.eids().max().unwrap_or_default().0;
        if max <= workload.nr_events().saturating_mul(1000).max(1 << 20) {
            return Numbers::Dense(max);
        }
        let sorted: BTreeSet<EventId> = workload.eids().collect();
        Numbers::Anew(sorted.into_iter().zip(1..).collect())
    }

    fn of_event(&self, old: EventId) -> u64 {
        match self {
            Numbers::Dense(_) => old.0,
            Numbers::Anew(map) => map.get(&old).copied().unwrap_or(0),
        }
    }

    fn max(&self) -> u64 {
        match self {
            Numbers::Dense(max) => *max,
            Numbers::Anew(map) => map.len() as u64,
        }
    }
}
