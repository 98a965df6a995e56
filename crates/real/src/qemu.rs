//! How is the guest booted so that it does the same again? QEMU counts instructions for a clock, sees no
//! time, network or disk of the host, and says everything through one port.
//!
//! The traps behind the options: with several CPUs, 6.1 hangs at bring-up under icount, so that the guest's
//! program brings them up; tracing is on from boot (started later, it patches code at a time that varies);
//! the kernel leaves the HPET alone, which bounds the turns of the CPUs (see `interleave()` in `init.c`); the
//! delay loop's calibration, seconds per CPU, is spared.

use crate::emulator::{Emulator, QEMU};
use crate::initramfs::{Content, Extra};
use crate::{GuestKernel, Options, RealError, RunStage, cache, initramfs, notes, program};
use schedlab_machine::{Code, Program};
use schedlab_process::contain::Yard;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Change it when the meaning of cached output changes.
const OUTPUT_VERSION: &[u8] = b"1";

const EVENTS: [&str; 7] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_wakeup_new",
    "sched/sched_migrate_task",
    "sched/sched_process_fork",
    "sched/sched_process_exit",
];
/// On a real CPU a boot takes a second or two; QEMU waits for ever if its KVM does not work.
const KVM_BOOT: Duration = Duration::from_secs(30);
/// Makes every system call a little slower, so it is recorded only where tasks yield.
const YIELD_EVENT: &str = "syscalls/sys_enter_sched_yield";
/// When a task asks for a new program, and when it has it: where the kernel moves it lies between.
const EXEC_EVENTS: [&str; 2] = ["sched/sched_process_exec", "syscalls/sys_enter_execve"];

/// A guest ready to boot.
pub(crate) struct Guest {
    arguments: Vec<String>,
    initramfs: Vec<u8>,
    kernel: PathBuf,
    emulator: Emulator,
    pub command_line: String,
    pub key: String,
    pub asked: GuestRequest,
}

/// What a guest is given besides kernel and program.
struct Contents {
    events: Vec<&'static str>,
    settings: String,
    program: Vec<u8>,
    /// What the guest's program is to be able to do.
    extras: Vec<Extra>,
}

impl Contents {
    fn new(program: &Program, options: &Options) -> Result<Contents, RealError> {
        let mut events = EVENTS.to_vec();
        if program.steps.iter().any(|step| step.code() == Code::Yield) {
            events.push(YIELD_EVENT);
        }
        let settings = options.settings.iter().map(|(path, value)| format!("{path}={value}\n")).collect();
        let mut extras = Vec::new();
        if program::executes(program) {
            events.extend(EXEC_EVENTS);
            extras.push(Extra::Exec);
        }
        if notes::are_wanted(program, options) {
            extras.push(Extra::Notes);
        }
        let program = program::encode(program, options, program::FIRST_PID)?;
        Ok(Contents { events, settings, program, extras })
    }

    fn event_list(&self) -> String {
        self.events.join("\n") + "\n"
    }
}

/// What this version of schedlab asks of a guest, whatever kernel, QEMU and compiler there are. Runs that
/// were asked the same are comparable; what is kept of a run (`schedlab validate`) says what was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GuestRequest {
    /// Names the guest's own program, by its source.
    pub guest_program: String,
    /// Names what that program is to do: the workload's steps, duration, phase, events and settings.
    pub workload: String,
}

impl GuestRequest {
    /// What [`crate::run`] would ask.
    ///
    /// # Errors
    /// A workload that guests cannot run.
    pub fn of(workload: &schedlab_workload::Workload, options: &Options) -> Result<GuestRequest, RealError> {
        Ok(GuestRequest::of_contents(&Contents::new(&Program::new(workload)?, options)?))
    }

    fn of_contents(contents: &Contents) -> GuestRequest {
        let parts = [contents.event_list().into_bytes(), contents.settings.clone().into_bytes()];
        GuestRequest {
            guest_program: initramfs::source_sum(&contents.extras),
            workload: cache::key(&[&contents.program, &parts[0], &parts[1]]),
        }
    }
}

/// QEMU's command line for a run, but for the size of memory (`-m`), which follows from the compiled program's size.
///
/// # Errors
/// A workload that guests cannot run.
pub fn command_line(
    workload: &schedlab_workload::Workload,
    options: &Options,
    hz: u32,
) -> Result<String, RealError> {
    let contents = Contents::new(&Program::new(workload)?, options)?;
    Ok(without_memory(&joined(&arguments(options, hz, &contents.events, 0))))
}

/// The same of one that was kept.
#[must_use]
pub fn without_memory(command_line: &str) -> String {
    let mut words: Vec<&str> = command_line.split(' ').collect();
    if let Some(at) = words.iter().position(|word| *word == "-m") {
        words.drain(at..(at + 2).min(words.len()));
    }
    words.join(" ")
}

/// What a run would be made with here, as far as that is known without downloading anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    /// The kernel's package version.
    pub kernel: Option<String>,
    /// What QEMU says of its version.
    pub qemu: Option<String>,
}

impl Present {
    /// For guests of this series with so many CPUs.
    #[must_use]
    pub fn of(series: &str, cpus: u32) -> Present {
        let kernel = crate::kernel::newest_kept(series);
        Present { kernel, qemu: Emulator::here(cpus).map(|emulator| emulator.version) }
    }
}

fn joined(arguments: &[String]) -> String {
    format!("{QEMU} {}", arguments.join(" "))
}

/// What a guest said.
pub(crate) struct Output {
    pub bytes: Vec<u8>,
    pub wall_ms: u64,
}

impl Guest {
    pub fn new(kernel: &GuestKernel, program: &Program, options: &Options) -> Result<Guest, RealError> {
        let emulator = Emulator::find(options.cpus)?;
        let contents = Contents::new(program, options)?;
        let list = contents.event_list();
        let files = [
            Content::data("program", &contents.program),
            Content::data("events", list.as_bytes()),
            Content::data("settings", contents.settings.as_bytes()),
        ];
        let init = initramfs::init_binary(initramfs::Runs::Guest, &contents.extras)?;
        let initramfs = initramfs::archive(&init, &files)?;
        let asked = GuestRequest::of_contents(&contents);
        Ok(Guest::with(kernel, options, (emulator, initramfs), &contents.events, asked))
    }

    /// A guest whose program performs an errand ([`crate::errand()`]).
    pub fn on_errand(
        kernel: &GuestKernel,
        options: &Options,
        files: &[Content<'_>],
    ) -> Result<Guest, RealError> {
        let emulator = Emulator::find(options.cpus)?;
        let init = initramfs::init_binary(initramfs::Runs::Guest, &[Extra::Errand])?;
        let initramfs = initramfs::archive(&init, files)?;
        Ok(Guest::with(kernel, options, (emulator, initramfs), &[], GuestRequest::default()))
    }

    fn with(
        kernel: &GuestKernel,
        options: &Options,
        (emulator, initramfs): (Emulator, Vec<u8>),
        events: &[&str],
        asked: GuestRequest,
    ) -> Guest {
        let arguments = arguments(options, kernel.hz, events, initramfs.len());
        let command_line = joined(&arguments);
        let key = cache::key(&[
            OUTPUT_VERSION,
            kernel.sha256.as_bytes(),
            &initramfs,
            emulator.version.as_bytes(),
            command_line.as_bytes(),
        ]);
        Guest { arguments, initramfs, kernel: kernel.image.clone(), emulator, command_line, key, asked }
    }

    /// What `--version` says of the emulator.
    pub fn version(&self) -> &str {
        &self.emulator.version
    }

    /// Boots it, or takes what it said from the cache.
    pub fn output(&self, options: &Options, progress: &mut dyn FnMut(RunStage)) -> Result<Output, RealError> {
        let kept = cache::directory().join("runs").join(format!("{}.zst", self.key));
        if !options.fresh && options.counts_instructions() && kept.is_file() {
            let packed = fs::read(&kept).map_err(RealError::io("read", &kept))?;
            let bytes = zstd::decode_all(packed.as_slice()).map_err(RealError::io("unpack", &kept))?;
            progress(RunStage::Done);
            return Ok(Output { bytes, wall_ms: 0 });
        }
        let work = tempfile::Builder::new()
            .prefix(&schedlab_process::prefix_in(&std::env::temp_dir(), WORK))
            .tempdir()
            .map_err(RealError::io("make a directory in", &std::env::temp_dir()))?;
        let started = Instant::now();
        let bytes = self.boot(work.path(), options, progress)?;
        let wall_ms = started.elapsed().as_millis() as u64;
        if options.counts_instructions() {
            let packed = zstd::encode_all(bytes.as_slice(), 3).map_err(RealError::io("pack", &kept))?;
            cache::write(&kept, &packed)?;
        }
        progress(RunStage::Done);
        Ok(Output { bytes, wall_ms })
    }

    fn boot(
        &self,
        work: &Path,
        options: &Options,
        progress: &mut dyn FnMut(RunStage),
    ) -> Result<Vec<u8>, RealError> {
        fs::copy(&self.kernel, work.join("kernel")).map_err(RealError::io("copy", &self.kernel))?;
        cache::write(&work.join("initramfs"), &self.initramfs)?;
        let log = work.join("qemu.log");
        let stderr = fs::File::create(&log).map_err(RealError::io("write", &log))?;
        // in the background: a guest is nothing to wait for
        let mut command = Command::new("nice");
        command
            .args(["-n", "10"])
            .arg(&self.emulator.program)
            .args(&self.emulator.firmware)
            .args(&self.arguments)
            .current_dir(work)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        schedlab_process::ends_with_us(&mut command, libc::SIGKILL);
        // a guest that gets out of its machine finds itself in this folder, without a network
        let (yard, _) = Yard::around(work).map_err(RealError::io("open", work))?;
        yard.hold(&mut command);
        let child = command.spawn().map_err(RealError::io("start", Path::new(QEMU)))?;
        let mut child = Reaper(child);
        let started = Instant::now();
        progress(RunStage::Booting);
        let mut watch = Watch::new(work.join("output"), options);
        loop {
            let ended = child.0.try_wait().map_err(RealError::io("wait for", Path::new(QEMU)))?;
            watch.look(progress)?;
            let died = |how: String| {
                let mut console = tail(&work.join("console"));
                console.push_str(&tail(&log));
                let wall_s = started.elapsed().as_secs();
                match options.kvm && !watch.begun() {
                    true => RealError::Kvm { how, wall_s, console },
                    false => RealError::Died { how, wall_s, console },
                }
            };
            if let Some(message) = watch.error() {
                return Err(RealError::Inside(message));
            }
            if watch.complete() {
                return Ok(watch.bytes);
            }
            if let Some(status) = ended {
                return Err(died(format!("ended ({status})")));
            }
            let silent = options.kvm && !watch.begun() && started.elapsed() > KVM_BOOT;
            if silent {
                return Err(died("said nothing".to_string()));
            }
            if started.elapsed() > Duration::from_secs(options.wall_limit_s) {
                return Err(died(format!("was stopped at the limit of {} s", options.wall_limit_s)));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Bare file names: QEMU runs in its own directory, so that the command line is the same everywhere.
fn arguments(options: &Options, hz: u32, events: &[&str], initramfs_bytes: usize) -> Vec<String> {
    let trace_events: Vec<String> = events.iter().map(|event| event.replace('/', ":")).collect();
    let traces = format!("trace_event={}", trace_events.join(","));
    let mut append = vec![
        "console=ttyS0".to_string(),
        "quiet".to_string(),
        "panic=-1".to_string(),
        "noautogroup".to_string(),
        "nokaslr".to_string(),
        "norandmaps".to_string(),
        "random.trust_cpu=on".to_string(),
        "random.trust_bootloader=on".to_string(),
        "tsc=reliable".to_string(),
        // self-tests of the kernel's ciphers would run into the workload
        "cryptomgr.notests".to_string(),
    ];
    if !events.is_empty() {
        append.extend([traces, format!("trace_buf_size={}M", options.trace_buffer_mb)]);
    }
    append.push("hpet=disable".to_string());
    if options.cpus > 1 && options.counts_instructions() {
        append.push("maxcpus=1".to_string());
        append.push(format!("nr_cpus={}", options.cpus));
        // spares each CPU's calibration, which takes seconds here: the emulated TSC counts nanoseconds
        append.extend(1_000_000_000u32.checked_div(hz).map(|lpj| format!("lpj={lpj}")));
    }
    append.extend(options.kernel_args.iter().cloned());
    let memory_mb = 384
        + u64::from(options.cpus) * (u64::from(options.trace_buffer_mb) + 8)
        + 3 * (initramfs_bytes as u64 >> 20)
        + u64::from(options.trace_buffer_mb);
    let text = |s: &str| s.to_string();
    let icount = format!("tcg,thread=single -icount shift={},sleep=off -cpu qemu64", options.shift);
    let processor = match (options.kvm, options.host_clock) {
        (true, _) => "kvm -cpu host",
        (false, true) => "tcg,thread=single -cpu qemu64",
        (false, false) => &icount,
    };
    let mut arguments: Vec<String> =
        ["-machine", "pc", "-accel"].into_iter().chain(processor.split(' ')).map(text).collect();
    arguments.extend([
        text("-smp"),
        format!("{0},sockets=1,cores={0},threads=1", options.cpus),
        text("-m"),
        format!("{}M", memory_mb.next_multiple_of(64)),
        text("-rtc"),
        text("base=2026-01-01T00:00:00,clock=vm"),
        text("-seed"),
        text("1"),
        text("-nodefaults"),
        text("-no-user-config"),
        text("-display"),
        text("none"),
        text("-no-reboot"),
        text("-kernel"),
        text("kernel"),
        text("-initrd"),
        text("initramfs"),
        text("-chardev"),
        text("file,id=output,path=output"),
        text("-device"),
        text("isa-debugcon,iobase=0x502,chardev=output"),
        text("-serial"),
        text("file:console"),
        text("-device"),
        text("isa-debug-exit,iobase=0xf4,iosize=4"),
        text("-append"),
        append.join(" "),
    ]);
    arguments
}

/// What the folders of guests are called, before the number of their process.
const WORK: &str = "schedlab-guest-";

/// Ends the child whatever happens here.
struct Reaper(Child);

impl Drop for Reaper {
    fn drop(&mut self) {
        // both fail only if it has ended already
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Follows the output file.
struct Watch {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Start of the first frame that was not complete.
    at: usize,
    duration: schedlab_units::Span,
    last: Option<crate::frames::Frame>,
}

impl Watch {
    fn new(path: PathBuf, options: &Options) -> Watch {
        Watch { path, bytes: Vec::new(), at: 0, duration: options.duration, last: None }
    }

    fn look(&mut self, progress: &mut dyn FnMut(RunStage)) -> Result<(), RealError> {
        use crate::frames::FrameKind;
        let Ok(mut file) = fs::File::open(&self.path) else { return Ok(()) };
        let io = || RealError::io("read", &self.path);
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(self.bytes.len() as u64)).map_err(io())?;
        file.read_to_end(&mut self.bytes).map_err(io())?;
        while let Some((frame, next)) = crate::frames::next(&self.bytes, self.at)? {
            match (frame.kind, &self.bytes[frame.name.clone()]) {
                (FrameKind::State, b"booted") => progress(RunStage::Starting),
                (FrameKind::State, b"started") => progress(RunStage::Running(self.duration)),
                (FrameKind::State, b"ended") | (FrameKind::Pages, _) => {
                    progress(RunStage::Receiving(next as u64))
                }
                _ => {}
            }
            self.at = next;
            self.last = Some(frame);
        }
        Ok(())
    }

    /// Whether the guest's program has said anything.
    fn begun(&self) -> bool {
        self.last.is_some()
    }

    fn complete(&self) -> bool {
        self.last.as_ref().is_some_and(|frame| frame.kind == crate::frames::FrameKind::End)
    }

    fn error(&self) -> Option<String> {
        let frame = self.last.as_ref().filter(|frame| frame.kind == crate::frames::FrameKind::Error)?;
        Some(String::from_utf8_lossy(&self.bytes[frame.data.clone()]).into_owned())
    }
}

fn tail(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().rev().take(15).collect();
    lines.into_iter().rev().map(|line| format!("\n  {}", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_depends_on_workload_phase_and_cpus_alone() {
        let duration = schedlab_units::Span::from_s(1);
        let hogs = crate::workloads::named("hogs:0,0", duration).unwrap();
        let options = Options { cpus: 2, duration, ..Options::default() };
        let asked = GuestRequest::of(&hogs, &options).unwrap();
        assert_eq!(asked, GuestRequest::of(&hogs, &options).unwrap());
        let other = crate::workloads::named("hogs:0,1", duration).unwrap();
        assert_ne!(asked.workload, GuestRequest::of(&other, &options).unwrap().workload);
        let late = Options { phase: schedlab_units::Span::from_us(1), ..options.clone() };
        assert_ne!(asked.workload, GuestRequest::of(&hogs, &late).unwrap().workload);
        assert_eq!(asked.guest_program, GuestRequest::of(&other, &late).unwrap().guest_program);
        let line = command_line(&hogs, &options, 250).unwrap();
        assert!(line.contains("-smp 2,") && !line.contains(" -m "), "{line}");
        let whole = joined(&arguments(&options, 250, &EVENTS, 900_000));
        assert!(whole.contains(" -m ") && without_memory(&whole) == line, "{whole}");
    }
}
