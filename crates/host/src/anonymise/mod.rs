//! How is a recording made fit to be given away?
//!
//! A system-wide recording tells who else worked on the host. [`anonymise`] reads a trace and its snapshot and writes
//! both anew, with the names of the recorded command's tasks and of the kernel threads that every Linux has, and
//! nothing else that tells of the host:
//!
//! | what | becomes |
//! |---|---|
//! | names of other tasks, in events, saved names and snapshot | other-1, other-2, ... (one per pid), or they go altogether |
//! | paths of executed programs | the file's name |
//! | control groups | /cgroup-1, /cgroup-1/cgroup-2, ...: what lies in what is still told; / stays |
//! | host name, kernel build | localhost, version and patch level (6.18) |
//! | kernel symbols, printk formats, unknown events and options, old bytes in pages | left out |
//!
//! Numbers stay: times, pids, priorities, nice, policies, affinities.

mod events;
pub(crate) mod merge;
mod names;
pub(crate) mod pages;
mod strangers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use schedlab_stdx::whereabouts;
use schedlab_trace::write::{TraceDatWriter, TraceMeta, WriteOptions};
use schedlab_trace::{Buffer, CpuPages, EventFormat, Mode, TraceFile};

use crate::cgroup::{GroupTable, lineage};
use crate::error::HostError;
use crate::record::stat;
use crate::snapshot::{Snapshot, SnapshotRow};
use events::{Seen, Shapes};
use names::{Tasks, rename_groups};
use schedlab_trace::write::PageBuilder;
use strangers::{Said, StrangerEvent, StrangersHere};

pub use pages::walk as page_events;
pub use schedlab_trace::standard_kernel_thread;

/// What becomes of tasks that are neither the command's nor the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// They stay, under another name: who competed for the CPUs is still told.
    Rename,
    /// They go, and their time is shown as idle: the command as if it had been alone, but for the times at which it got
    /// a CPU. Its CPU time, blocks and wakes are those recorded; the workload derived from it is the same. An event of
    /// ours says when one of them had a CPU, and nothing else of them.
    Drop,
}

/// Whose names stay: these tasks' and those of all tasks that they fork.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ours {
    /// Threads that are there at the start: a command, processes with the processes below them.
    pub pids: BTreeSet<i32>,
    /// Control groups: what is moved to one of them, or to a group below one, is ours too.
    pub cgroups: Vec<String>,
}

/// What [`anonymise`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Anonymised {
    /// Names left in the result, without other-N.
    pub names: BTreeSet<String>,
    /// Events in the result.
    pub events: u64,
    /// Of these, how many say when somebody left out had a CPU.
    pub events_told: u64,
    /// Events left out.
    pub events_dropped: u64,
    /// With [`Others::Drop`]: CPU time of those left out, over all CPUs.
    pub strangers_ns: u64,
    /// Tasks called other-N.
    pub others: usize,
    /// Tasks of the command.
    pub kept: usize,
    /// Ids that the command shared with strangers in turn; all their tasks are strangers in the result.
    pub reused_pids: BTreeSet<i32>,
    /// First and last event.
    pub span_ns: (u64, u64),
    /// Bytes of the trace file.
    pub bytes: u64,
}

/// Writes `trace` and `snapshot` anew as `out` and the snapshot beside it, keeping the names of `ours` and all tasks
/// they forked. Without a snapshot none is written, and kernel threads are
/// others too: nothing says that they are not programs that call themselves so.
///
/// # Errors
/// [`HostError::Trace`], [`HostError::Snapshot`] or [`HostError::Io`]; nothing half-written stays.
pub fn anonymise(
    trace: &Path,
    snapshot: Option<&Path>,
    ours: &Ours,
    others: Others,
    out: &Path,
    options: WriteOptions,
) -> Result<Anonymised, HostError> {
    let bad = |problem: String| HostError::Trace { path: trace.to_owned(), problem };
    if !trace.exists() {
        let expected = "there is no such file; expected a trace.dat, as `schedlab record` writes one";
        return Err(bad(format!("{expected}; {}", whereabouts(trace))));
    }
    let file = TraceFile::open(trace, Mode::Strict).map_err(|e| bad(e.to_string()))?;
    let index = (0..file.buffers().len())
        .max_by_key(|index| file.buffers()[*index].stored_bytes())
        .ok_or_else(|| bad("it has no ring buffer".to_owned()))?;
    let buffer = &file.buffers()[index];
    let has_snapshot = snapshot.is_some();
    let snapshot = snapshot.map(Snapshot::read).transpose()?.unwrap_or_default();
    let mut bytes = File::open(trace).map_err(HostError::io("cannot read", trace))?;

    let (shapes, formats) = described(&file, index).map_err(bad)?;
    let mut seen = Seen::default();
    for cpu in &buffer.cpus {
        for_each_chunk(&mut bytes, buffer, cpu, trace, |chunk| {
            for page in chunk.chunks(buffer.page_size) {
                pages::walk(page, |time, data| shapes.look(time, data, &mut seen)).map_err(bad)?;
            }
            Ok(())
        })?;
    }
    let alive: BTreeMap<i32, Option<i32>> = snapshot.rows.iter().map(|row| (row.tid, row.ppid)).collect();
    let moved_here =
        |(_, group): &&(i32, String)| lineage(group).any(|path| ours.cgroups.iter().any(|g| g == path));
    let mut roots = ours.pids.clone();
    roots.extend(seen.moves.iter().filter(moved_here).map(|(pid, _)| *pid));
    let mut tasks = Tasks::new(&roots, &seen.forks, &alive, &seen.pids);
    let groups = snapshot.groups.rows.keys().map(String::as_str);
    let groups = groups.chain(snapshot.rows.iter().filter_map(|row| row.cgroup.path.as_deref()));
    tasks.groups = rename_groups(groups.chain(seen.moves.iter().map(|(_, group)| group.as_str())));

    let stranger = (others == Others::Drop).then(|| StrangerEvent::new(&formats)).flatten();
    let rewriting = Rewriting { shapes: &shapes, tasks: &tasks, others, stranger };
    let written =
        |e: schedlab_trace::WriteError| HostError::Trace { path: out.to_owned(), problem: e.to_string() };
    let options = WriteOptions { page_size: buffer.page_size, ..options };
    let mut writer = TraceDatWriter::create(out, options).map_err(written)?;
    let mut result = Anonymised { span_ns: (u64::MAX, 0), ..Anonymised::default() };
    let mut per_cpu: BTreeMap<u32, u64> = BTreeMap::new();
    let mut read_back = Seen::default();
    for cpu in &buffer.cpus {
        let mut builder = PageBuilder::new(buffer.page_size);
        let mut here = StrangersHere::default();
        let mut last_ns = 0;
        for_each_chunk(&mut bytes, buffer, cpu, trace, |chunk| {
            for page in chunk.chunks(buffer.page_size) {
                let mut kept = Vec::new();
                let missed = pages::walk(page, |time, data| {
                    last_ns = time;
                    kept.extend(rewriting.event(cpu.cpu.0, time, data, &mut here, &mut result));
                })
                .map_err(bad)?;
                if let Some(missed) = missed {
                    builder.lost(missed);
                }
                for (time, data) in kept {
                    shapes.look(time, &data, &mut read_back);
                    builder.push(time, &data);
                    *per_cpu.entry(cpu.cpu.0).or_default() += 1;
                    result.span_ns = (result.span_ns.0.min(time), result.span_ns.1.max(time));
                }
                writer.append_pages(cpu.cpu, &builder.take_whole_pages()).map_err(written)?;
            }
            Ok(())
        })?;
        writer.append_pages(cpu.cpu, &builder.finish()).map_err(written)?;
        here.end(last_ns);
        result.strangers_ns += here.busy_ns;
    }
    let mut meta = clean_meta(file.meta(index), &seen, &tasks, &read_back, others, &per_cpu);
    if let Some(stranger) = rewriting.stranger {
        stranger.describe(&mut meta.systems);
    }
    result.bytes = writer.finish(&meta).map_err(written)?.file_bytes;
    let rows = clean_snapshot(snapshot, &tasks, &read_back, others);
    if has_snapshot {
        rows.write(&Snapshot::path_beside(out))?;
    }

    result.events = per_cpu.values().sum();
    let names = read_back.names.into_values().map(|(_, name)| name);
    let names: BTreeSet<String> = names.chain(rows.rows.into_iter().map(|row| row.comm)).collect();
    result.others = names.iter().filter(|name| name.starts_with("other-")).count();
    result.names = names.into_iter().filter(|name| !name.starts_with("other-")).collect();
    result.kept = tasks.kept.len();
    result.reused_pids = tasks.reused;
    Ok(result)
}

/// What the trace's events mean, and the formats that say so, of ftrace's own events too.
fn described(file: &TraceFile, index: usize) -> Result<(Shapes, Vec<EventFormat>), String> {
    let mut shapes = Shapes::default();
    let mut formats = Vec::new();
    for system in file.systems() {
        for text in &system.formats {
            let format = EventFormat::parse(text).map_err(|e| e.to_string())?;
            shapes.add(&system.name, &format);
            formats.push(format);
        }
    }
    formats.extend(file.meta(index).ftrace_events.iter().filter_map(|text| EventFormat::parse(text).ok()));
    Ok((shapes, formats))
}

/// How events come into the result.
struct Rewriting<'a> {
    shapes: &'a Shapes,
    tasks: &'a Tasks,
    others: Others,
    /// The event that tells of strangers.
    stranger: Option<StrangerEvent>,
}

impl Rewriting<'_> {
    /// What the result has of this event, with what is said of strangers before it and behind it.
    fn event(
        &self,
        cpu: u32,
        time: u64,
        data: &[u8],
        here: &mut StrangersHere,
        result: &mut Anonymised,
    ) -> impl Iterator<Item = (u64, Vec<u8>)> + use<> {
        let said = match &self.stranger {
            Some(_) => here.at(time, data, self.shapes, self.tasks),
            None => Said::default(),
        };
        let told = |busy: Option<bool>| Some(self.stranger.as_ref()?.record(busy?));
        let [before, behind] = [told(said.before), told(said.behind)];
        result.events_told += [&before, &behind].into_iter().flatten().count() as u64;
        let is_said_anew = self.stranger.is_some() && self.shapes.told(data).is_some();
        let kept = self.shapes.rewrite(data, cpu, self.tasks, self.others).filter(|_| !is_said_anew);
        result.events_dropped += u64::from(kept.is_none());
        [before, kept, behind].into_iter().flatten().map(move |data| (time, data))
    }
}

/// Reads a CPU's pages from the file, some at a time.
fn for_each_chunk(
    file: &mut File,
    buffer: &Buffer,
    cpu: &CpuPages,
    path: &Path,
    mut chunk: impl FnMut(&[u8]) -> Result<(), HostError>,
) -> Result<(), HostError> {
    let io = |source| HostError::Io { doing: "cannot read", path: path.to_owned(), source };
    file.seek(SeekFrom::Start(cpu.offset)).map_err(io)?;
    if !cpu.compressed {
        let mut left = cpu.bytes;
        let mut pages = vec![0; buffer.page_size * 16];
        while left > 0 {
            let count = left.min(pages.len() as u64) as usize;
            file.read_exact(&mut pages[..count]).map_err(io)?;
            chunk(&pages[..count])?;
            left -= count as u64;
        }
        return Ok(());
    }
    for _ in 0..read_u32(file).map_err(io)? {
        let (stored, raw) = (read_u32(file).map_err(io)?, read_u32(file).map_err(io)?);
        let mut packed = vec![0; stored as usize];
        file.read_exact(&mut packed).map_err(io)?;
        let pages = zstd::bulk::decompress(&packed, raw as usize).map_err(io)?;
        chunk(&pages)?;
    }
    Ok(())
}

fn read_u32(file: &mut File) -> io::Result<u32> {
    let mut bytes = [0; 4];
    file.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

/// What stands beside the pages, without what tells of the host.
fn clean_meta(
    meta: TraceMeta,
    seen: &Seen,
    tasks: &Tasks,
    read_back: &Seen,
    others: Others,
    per_cpu: &BTreeMap<u32, u64>,
) -> TraceMeta {
    let saved = seen.names.iter().filter(|(pid, _)| read_back.pids.contains(pid) && **pid != 0);
    let saved = saved.filter(|(pid, _)| tasks.stays(**pid, others));
    let saved: String =
        saved.map(|(pid, (_, name))| format!("{pid} {}\n", tasks.name(*pid, name, 0))).collect();
    let counts = |cpu: u32, old: &str| {
        let number = |name: &str| stat(old, name).unwrap_or(0);
        format!(
            "CPU: {cpu}\nentries: 0\noverrun: {}\ncommit overrun: {}\nbytes: 0\ndropped events: {}\nread events: {}\n",
            number("overrun"),
            number("commit overrun"),
            number("dropped events"),
            per_cpu.get(&cpu).copied().unwrap_or(0)
        )
    };
    TraceMeta {
        kallsyms: Vec::new(),
        printk_formats: Vec::new(),
        saved_cmdlines: saved.into_bytes(),
        buffer_name: String::new(),
        uname: meta.uname.as_deref().map(clean_uname),
        cpu_stats: (0..).zip(&meta.cpu_stats).map(|(cpu, old)| counts(cpu, old)).collect(),
        options: Vec::new(),
        ..meta
    }
}

/// "Linux HOST 6.18.44-vendor x86_64" as "Linux localhost 6.18 x86_64".
fn clean_uname(uname: &str) -> String {
    let words: Vec<&str> = uname.trim_end_matches('\0').split_whitespace().collect();
    let release = words.get(2).copied().unwrap_or_default();
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    let version = [parts.next().unwrap_or_default(), parts.next().unwrap_or_default()].join(".");
    format!("Linux localhost {version} {}", words.last().copied().unwrap_or_default())
}

fn clean_snapshot(snapshot: Snapshot, tasks: &Tasks, read_back: &Seen, others: Others) -> Snapshot {
    let rows = snapshot.rows.into_iter().filter(|row| tasks.stays(row.tid, others)).map(|mut row| {
        row.comm = tasks.name(row.tid, &row.comm, 0);
        row.cgroup.path = row.cgroup.path.map(|path| tasks.group(&path));
        row
    });
    let rows: Vec<SnapshotRow> = rows.collect();
    // with strangers left out, so are groups that only they were in (but not those that tasks were moved to)
    let in_use = |path: &str| {
        let rows = rows.iter().filter_map(|row| row.cgroup.path.as_deref());
        let mut used = rows.chain(read_back.moves.iter().map(|(_, group)| group.as_str()));
        others == Others::Rename || used.any(|group| lineage(group).any(|above| above == path))
    };
    let mut groups = GroupTable::default();
    for (path, mut group) in snapshot.groups.rows {
        let path = tasks.group(&path);
        if in_use(&path) {
            group.path = Some(path.clone());
            groups.rows.insert(path, group);
        }
    }
    Snapshot { rows, groups }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::CgroupCpu;

    #[test]
    fn a_kernel_release_keeps_version_and_patch_level_only() {
        assert_eq!(clean_uname("Linux box 6.18.44-acme-v5 x86_64\0"), "Linux localhost 6.18 x86_64");
        assert_eq!(clean_uname("Linux box 6.1 aarch64"), "Linux localhost 6.1 aarch64");
    }

    #[test]
    fn a_snapshot_loses_strangers_names_and_groups_and_keeps_their_parameters() {
        let csv = "pid,tid,comm,policy,nice,rt_priority,affinity,cgroup,cpu_weight,ppid\n\
                   2,2,kthreadd,normal,0,0,0-1,/,,0\n\
                   15,15,rcu_preempt,normal,0,0,0-1,/,,2\n\
                   50,50,secret,fifo,0,7,1,/hidden/place,300,1\n\
                   100,100,gzip,normal,5,0,0-1,/mine,100,50\n";
        let snapshot = Snapshot::from_csv(csv, Path::new("x")).expect("csv");
        let alive = snapshot.rows.iter().map(|row| (row.tid, row.ppid)).collect();
        let mut tasks = Tasks::new(&BTreeSet::from([100]), &BTreeSet::new(), &alive, &BTreeSet::new());
        tasks.groups = rename_groups(["/hidden/place", "/mine"].into_iter());
        let none = Seen::default();
        let mut snapshot = snapshot;
        for (path, weight) in [("/hidden", 50), ("/hidden/place", 300), ("/mine", 100)] {
            let group =
                CgroupCpu { path: Some(path.to_owned()), weight: Some(weight), ..CgroupCpu::default() };
            snapshot.groups.rows.insert(path.to_owned(), group);
        }
        let renamed = clean_snapshot(snapshot.clone(), &tasks, &none, Others::Rename);
        let names: Vec<&str> = renamed.rows.iter().map(|row| row.comm.as_str()).collect();
        assert!(names[2].starts_with("other-"), "{names:?}");
        assert_eq!([names[0], names[1], names[3]], ["kthreadd", "rcu_preempt", "gzip"]);
        let stranger = &renamed.rows[2];
        assert_eq!((stranger.policy.as_deref(), stranger.rt_priority), (Some("fifo"), Some(7)));
        // /hidden, /hidden/place, /mine: the second still lies in the first
        let group = (stranger.cgroup.path.as_deref(), stranger.cgroup.weight);
        assert_eq!(group, (Some("/cgroup-1/cgroup-2"), Some(300)));
        let text = renamed.to_csv() + &renamed.groups.to_csv();
        assert!(!text.contains("secret") && !text.contains("hidden") && !text.contains("mine"));
        assert_eq!(
            renamed.groups.to_csv(),
            "path,cpu_weight,cpu_max,cpuset\n/cgroup-1,50,,\n/cgroup-1/cgroup-2,300,,\n/cgroup-3,100,,\n"
        );
        let dropped = clean_snapshot(snapshot, &tasks, &none, Others::Drop);
        assert_eq!(dropped.rows.len(), 3);
        assert_eq!(dropped.groups.rows.into_keys().collect::<Vec<_>>(), ["/cgroup-3"]);
    }
}
