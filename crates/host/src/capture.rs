//! By which way do events come from the kernel: ftrace's buffers, or programs of ours?
//!
//! ```text
//! ftrace   the instance's events on, Drain moves whole pages          everywhere
//! bpf      programs write into rings, readers make pages of them      about half the cost per event; see mod bpf
//! ```
//!
//! An event for which no program can be used (a kernel that lets none be put on a function, for system calls)
//! is left to ftrace, and what both have recorded of a CPU is merged by time. Both leave the same: an unnamed
//! file of pages per CPU, as trace.dat holds them, and counts.

use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;

use schedlab_stdx::aside::folder_of;
use schedlab_trace::EventFormat;

use crate::anonymise::merge;
use crate::bpf::{self, BpfRecorder};
use crate::cgroup::Cgroups;
use crate::drain::{CpuPages, Drain, DrainCost};
use crate::error::HostError;
use crate::events::{self, EnabledEvents};
use crate::record::{CpuCount, RecordOptions, RecordRequest, Scope, stat};
use crate::tracefs::{Instance, Tracefs, read_text};

/// The way in which events are taken from the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backend {
    /// Programs where the kernel takes them, else ftrace.
    #[default]
    Auto,
    /// ftrace.
    Ftrace,
    /// Programs; an error where the kernel does not take them.
    Bpf,
}

/// The way that a recording took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaptureMethod {
    /// ftrace, because programs could not be used, or were not asked for.
    Ftrace {
        /// Why not programs.
        why: String,
    },
    /// Programs.
    Bpf {
        /// Events that were left to ftrace, and why; empty if none was.
        rest: Vec<(String, String)>,
    },
}

/// A recording under way.
pub(crate) enum Capture {
    Ftrace(Drain),
    /// With what was left to ftrace, and the number of the wakeups that it records besides ([`wakings_besides`]).
    Bpf(BpfRecorder, Option<Drain>, Option<u16>),
}

/// What a recording leaves.
pub(crate) struct Collected {
    pub pages: Vec<CpuPages>,
    pub cost: DrainCost,
    pub counts: Vec<CpuCount>,
    /// Wakeups that programs are blind to here, and ftrace has recorded; `None`: programs see all.
    pub hidden_wakings: Option<u64>,
}

/// What was set up.
pub(crate) struct Started {
    pub capture: Capture,
    pub enabled: EnabledEvents,
    pub page_size: usize,
    pub method: CaptureMethod,
}

/// Sets up what was asked for; nothing is recorded yet.
pub(crate) fn start(
    tracefs: &Tracefs,
    instance: &Instance,
    options: &RecordOptions,
) -> Result<Started, HostError> {
    let why = match (options.backend, &options.what) {
        (Backend::Ftrace, _) => "ftrace was asked for".to_owned(),
        // set_event_pid is ftrace's
        (
            Backend::Auto,
            RecordRequest::Command { scope: Scope::Tree, .. }
            | RecordRequest::Processes { scope: Scope::Tree, .. },
        ) => "only ftrace follows some tasks".to_owned(),
        _ => match programs(tracefs, instance, options) {
            Ok(started) => return Ok(started),
            Err(why) if options.backend == Backend::Bpf => return Err(HostError::NoPrograms { why }),
            Err(why) => why,
        },
    };
    let (page_size, wait_mark) = configure(instance, options)?;
    let enabled = enable(instance, options)?;
    let drain = Drain::start(instance, folder_of(&options.output), page_size, wait_mark)?;
    Ok(Started { capture: Capture::Ftrace(drain), enabled, page_size, method: CaptureMethod::Ftrace { why } })
}

fn programs(tracefs: &Tracefs, instance: &Instance, options: &RecordOptions) -> Result<Started, String> {
    let folder = folder_of(&options.output);
    let (recorder, mut made) = BpfRecorder::new(
        tracefs,
        options.events.names(),
        hierarchy(),
        options.buffer_kb,
        options.buffer_percent,
        (folder, recorded_pids(&options.what)),
    )?;
    // The instance records what is left over; and the trace takes its description of clock and formats from it.
    let text = |e: HostError| e.to_string();
    let (page_size, wait_mark) = configure(instance, options).map_err(text)?;
    let mut enabled = EnabledEvents { enabled: made.enabled, missing: Vec::new() };
    let mut rest = None;
    // nobody else can record these
    let (own, others) = made.rest.into_iter().partition(|(name, _)| events::is_ours(name));
    (enabled.missing, made.rest) = (own, others);
    let mut besides = None;
    if !made.rest.is_empty() {
        if page_size != bpf::PAGE {
            return Err(format!("ftrace's pages have {page_size} bytes here"));
        }
        let names = made.rest.iter().map(|(name, _)| name.clone()).collect();
        let by_ftrace = events::enable_these(instance, names).map_err(text)?;
        // (behind what may fail: who falls back to ftrace alone must find no filter there)
        if made.rest.iter().any(|(_, why)| why.contains(&refusal())) {
            besides = wakings_besides(tracefs, instance, &recorder.first.threads);
        }
        if !by_ftrace.enabled.is_empty() || besides.is_some() {
            rest = Some(Drain::start(instance, folder, page_size, wait_mark).map_err(text)?);
        }
        enabled.enabled.extend(by_ftrace.enabled);
        enabled.missing.extend(by_ftrace.missing);
    }
    let missing = |name: &String| enabled.missing.iter().any(|(other, _)| other == name);
    let left: Vec<(String, String)> = made.rest.into_iter().filter(|(name, _)| !missing(name)).collect();
    Ok(Started {
        capture: Capture::Bpf(recorder, rest, besides),
        enabled,
        page_size: bpf::PAGE,
        method: CaptureMethod::Bpf { rest: left },
    })
}

/// How the kernel's refusal of a program reads.
fn refusal() -> String {
    std::io::Error::from_raw_os_error(libc::EPERM).to_string()
}

/// Lets ftrace record the wakeups that come while one of these threads has the CPU; the event's number.
///
/// A kernel that refuses programs may also run none while process 1 has the CPU. Seen: 6.18 of a cloud's, where fio
/// waited 105 times for a disk whose interrupts came in such moments, and no program saw who woke it.
fn wakings_besides(tracefs: &Tracefs, instance: &Instance, threads: &[i32]) -> Option<u16> {
    let (system, event) = events::split(events::WAKING);
    let folder = format!("events/{system}/{event}");
    let text = read_text(&tracefs.root().join(&folder).join("format")).ok()?;
    let id = EventFormat::parse(text.as_bytes()).ok()?.id;
    let has_cpu: Vec<String> = threads.iter().map(|pid| format!("common_pid == {pid}")).collect();
    instance.set(&format!("{folder}/filter"), &has_cpu.join(" || "), "").ok()?;
    instance.set(&format!("{folder}/enable"), "1", "").ok()?;
    Some(id)
}

/// Processes that run already and are recorded.
fn recorded_pids(what: &RecordRequest) -> &[i32] {
    match what {
        RecordRequest::Processes { pids, .. } => pids,
        _ => &[],
    }
}

/// Kinds of events that would be left to ftrace; `None` where the kernel takes no programs at all.
pub(crate) fn rest_for_ftrace() -> Option<usize> {
    let tracefs = Tracefs::open().ok()?;
    let names = events::EventChoice::default().names();
    let folder = std::env::temp_dir();
    let (recorder, made) = BpfRecorder::new(&tracefs, names, None, 64, 50, (&folder, &[])).ok()?;
    drop(recorder);
    Some(made.rest.len())
}

impl Capture {
    /// Events are taken from now on, or no longer.
    pub(crate) fn record(&self, instance: &Instance, on: bool) -> Result<(), HostError> {
        match self {
            Capture::Ftrace(_) => {}
            Capture::Bpf(recorder, None, _) => {
                recorder.record(on);
                return Ok(());
            }
            Capture::Bpf(recorder, Some(_), _) => recorder.record(on),
        }
        instance.set("tracing_on", if on { "1" } else { "0" }, "")
    }

    /// They become readable when a thread has given up: [`Capture::finish`] says why.
    pub(crate) fn failed_fds(&self) -> Vec<RawFd> {
        match self {
            Capture::Ftrace(drain) => vec![drain.failed_fd()],
            Capture::Bpf(recorder, rest, _) => {
                std::iter::once(recorder.failed_fd()).chain(rest.as_ref().map(Drain::failed_fd)).collect()
            }
        }
    }

    /// Bytes of pages so far.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Capture::Ftrace(drain) => drain.bytes(),
            Capture::Bpf(recorder, rest, _) => recorder.bytes() + rest.as_ref().map_or(0, Drain::bytes),
        }
    }

    /// Takes what is left; recording must be off.
    pub(crate) fn finish(
        self,
        instance: &Instance,
        page_size: usize,
        folder: &Path,
    ) -> Result<Collected, HostError> {
        match self {
            Capture::Ftrace(drain) => {
                let (mut pages, cost) = drain.finish()?;
                let counts = count(instance, &mut pages, page_size)?;
                Ok(Collected { pages, cost, counts, hidden_wakings: None })
            }
            Capture::Bpf(recorder, rest, besides) => {
                let first = Arc::clone(&recorder.first);
                let (mut pages, mut cost, mut events) = recorder.finish()?;
                // what programs have seen themselves must not come twice
                let sees_all = first.is_seen();
                let mut hidden_wakings = besides.filter(|_| !sees_all).map(|_| 0);
                if let Some(rest) = rest {
                    let (mut others, more) = rest.finish()?;
                    let counts = count(instance, &mut others, page_size)?;
                    cost.cpu += more.cpu;
                    cost.wakes += more.wakes;
                    for (other, count) in others.into_iter().zip(counts) {
                        let Some(own) = pages.iter_mut().find(|own| own.cpu == other.cpu) else { continue };
                        let (mut nr_wakings, mut nr_kept) = (0, 0);
                        if count.events > 0 {
                            *own = merge::merge(own, other, page_size, folder, |data| {
                                let is_waking = besides.is_some_and(|id| data.starts_with(&id.to_le_bytes()));
                                nr_wakings += u64::from(is_waking);
                                nr_kept += u64::from(!is_waking || !sees_all);
                                !is_waking || !sees_all
                            })?;
                        }
                        hidden_wakings = hidden_wakings.map(|nr| nr + nr_wakings);
                        if let Some(events) = events.iter_mut().find(|own| own.cpu == count.cpu) {
                            events.written += nr_kept;
                            events.lost += count.lost();
                        }
                    }
                }
                // CPUs that could exist and do not have neither pages nor a count.
                let there = instance.cpus()?;
                pages.retain(|page| there.contains(&page.cpu) || page.bytes > 0);
                let mut counts = Vec::new();
                for cpu in &mut pages {
                    let own = events.iter().find(|own| own.cpu == cpu.cpu);
                    counts.push(CpuCount {
                        cpu: cpu.cpu,
                        events: own.map_or(0, |own| own.written),
                        overrun: 0,
                        dropped: own.map_or(0, |own| own.lost),
                        pages: cpu.loss(page_size)?,
                        bytes: cpu.bytes,
                    });
                }
                Ok(Collected { pages, cost, counts, hidden_wakings })
            }
        }
    }
}

impl CpuCount {
    /// As per_cpu/cpuN/stats has it, for the trace's own record of what was lost.
    pub(crate) fn to_stats(&self) -> String {
        format!(
            "CPU: {}\nentries: 0\noverrun: {}\ncommit overrun: 0\nbytes: 0\ndropped events: {}\nread events: {}\n",
            self.cpu, self.overrun, self.dropped, self.events
        )
    }
}

/// Clock, buffer size and fill mark; gives the size of a buffer page and whether poll waits for the mark.
fn configure(instance: &Instance, options: &RecordOptions) -> Result<(usize, bool), HostError> {
    instance.set("trace_clock", "mono", "The clock mono is in every kernel since 3.17; use a newer one")?;
    let size = options.buffer_kb.to_string();
    instance.set("buffer_size_kb", &size, "It is per CPU and must fit into memory: ask for less")?;
    let wait_mark = instance.has("buffer_percent");
    if wait_mark {
        instance.set("buffer_percent", &options.buffer_percent.to_string(), "Use 0 to 100")?;
    }
    // Kernels before 6.8 have no choice: a buffer page is a memory page.
    let sub_buffer =
        instance.get("buffer_subbuf_size_kb").ok().and_then(|kb| kb.trim().parse::<usize>().ok());
    let page_size = sub_buffer.map_or(page_size_of_memory() as usize, |kb| kb * 1024);
    Ok((page_size, wait_mark))
}

/// The events, and which moves between control groups are recorded: those in the hierarchy that has the cpu controller.
fn enable(instance: &Instance, options: &RecordOptions) -> Result<EnabledEvents, HostError> {
    let enabled = events::enable(instance, options.events)?;
    if let Some(hierarchy) = hierarchy()
        && enabled.enabled.iter().any(|name| name == events::CGROUP)
    {
        let (system, event) = events::split(events::CGROUP);
        let filter = format!("dst_root == {hierarchy}");
        instance.set(&format!("events/{system}/{event}/filter"), &filter, "Record without it")?;
    }
    Ok(enabled)
}

/// The kernel's number of the hierarchy of control groups that has the cpu controller.
fn hierarchy() -> Option<u32> {
    Cgroups::hierarchy(&read_text(Path::new("/proc/self/cgroup")).unwrap_or_default())
}

pub(crate) fn page_size_of_memory() -> u32 {
    // SAFETY: a plain query; the page size is positive and small.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u32 }
}

/// Each CPU's counters, after everything has been read.
fn count(instance: &Instance, pages: &mut [CpuPages], page_size: usize) -> Result<Vec<CpuCount>, HostError> {
    let mut counts = Vec::new();
    for cpu in pages {
        let stats = instance.get(&format!("per_cpu/cpu{}/stats", cpu.cpu))?;
        let value = |name: &str| stat(&stats, name).unwrap_or(0);
        counts.push(CpuCount {
            cpu: cpu.cpu,
            events: value("read events"),
            overrun: value("overrun"),
            dropped: value("commit overrun") + value("dropped events"),
            pages: cpu.loss(page_size)?,
            bytes: cpu.bytes,
        });
    }
    Ok(counts)
}
