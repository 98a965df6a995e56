//! What does a kernel do most? The first half of a profile-guided build.
//!
//! A flavour with the line `#! profile FILE` is compiled twice. The first kernel counts how often each branch
//! of it is taken (`CONFIG_GCOV_PROFILE_ALL`, the kernel's own), runs the workload `configs/profiles/FILE` on
//! 4 CPUs, and leaves its counts where gcc looks for them when it compiles the second (`-fprofile-use`),
//! which is the one that is kept. Both are the same source and the same configuration but for the counting;
//! the counts say which way a branch goes more often, never what it does.
//!
//! ```text
//! configure, compile, link -> counting.so ── run of 40 s ──> profile/kernel/sched/fair.gcda, ...
//! configure, compile, link -> linux.so       (with profile/ laid beside its objects)
//! ```
//!
//! What the workload never calls is compiled as without a profile (`-fprofile-partial-training`). gcc tells
//! what is hot by the largest count of the whole program, which the kernel does not write; without it gcc
//! takes no notice of the counts and says nothing.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use schedlab_machine::kernel::Kernel as _;
use schedlab_machine::{End, Machine, Program, Setup};
use schedlab_topology::Topology;
use schedlab_units::Span;
use schedlab_workload::parse_text;

use super::cache::{files_below, remove_dir, sha256_file, sorted_entries};
use super::{BuildError, BuildProgress, io};
use crate::{LinuxKernel, LoadedKernel};

/// Lines that make a kernel count all its branches.
pub(super) const COUNTING: &str = "CONFIG_GCOV_KERNEL=y\nCONFIG_GCOV_PROFILE_ALL=y\nCONFIG_CONSTRUCTORS=y\n";

/// For gcc: the counts that lie beside the objects are used; those of a function that has been edited since are not.
pub(super) const USING: &str =
    "-fprofile-use -fprofile-partial-training -Wno-missing-profile -Wno-coverage-mismatch";

/// CPUs of the training's machine.
const NR_CPUS: u32 = 4;

/// The workload ends by itself long before.
const DURATION_MAX: Span = Span::from_s(600);

/// So long may the training's process compute; it takes half a second. A scheduler that is being worked on
/// may have an endless loop.
const CPU_TIME_MAX_S: u64 = 120;

/// Counts up when something else here changes what the counts are.
const RECIPE: u32 = 1;

/// All that the result depends on apart from the sources and the configuration: part of the kernel's key.
pub(super) fn recipe(workload: &Path) -> Result<String, BuildError> {
    let counting = COUNTING.replace('\n', " ");
    Ok(format!("{} {RECIPE} {NR_CPUS} CPUs {counting}{USING}", sha256_file(workload)?))
}

/// Reads a training workload; the file is the port's own.
fn program(path: &Path) -> Result<Program, BuildError> {
    let damaged = |why: String| BuildError::Damaged { path: path.to_owned(), why };
    let text = fs::read(path).map_err(io("read", path))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let workload = parse_text(&name, &text).map_err(|e| damaged(e.to_string()))?;
    Program::new(&workload).map_err(|e| damaged(e.to_string()))
}

/// Runs the workload on the kernel that counts, in a child of its own, which writes the counts below `to`:
/// for the object `OBJECTS/kernel/fork.o` into `TO/kernel/fork.gcda`. `to` is complete or not there.
pub(super) fn train(
    counting: &Path,
    workload: &Path,
    objects: &Path,
    to: &Path,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<(), BuildError> {
    progress(BuildProgress { step: "training", done: 0, total: 0 });
    let program = program(workload)?;
    let aside = to.with_extension("new");
    remove_dir(&aside)?;
    fs::create_dir_all(&aside).map_err(io("create", &aside))?;
    let why = aside.join("why");
    // the kernel runs here, and it may be anybody's
    let (mut yard, _) = schedlab_process::contain::Yard::around(&aside).map_err(io("open", &aside))?;
    // SAFETY: the child runs code of this program only, keeps panics to itself, and leaves by _exit.
    // Allocation after fork is safe with glibc's and musl's allocators, which handle fork; no other lock of
    // the parent's is taken.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io("start a child for", counting)(std::io::Error::last_os_error())),
        0 => {
            let most = libc::rlimit { rlim_cur: CPU_TIME_MAX_S, rlim_max: CPU_TIME_MAX_S };
            // SAFETY: asks the kernel to end this process with its parent, and after this much CPU time;
            // `most` outlives the call.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::setrlimit(libc::RLIMIT_CPU, &raw const most);
            }
            let entered = yard.enter().map_err(|error| format!("it cannot be contained: {error}"));
            let counted =
                AssertUnwindSafe(|| entered.and_then(|()| count(counting, program, objects, &aside)));
            let result = catch_unwind(counted)
                .unwrap_or_else(|panic| Err(format!("this program failed: {}", text_of(&*panic))));
            let code = match &result {
                Ok(()) => 0,
                // the parent says what can be said if this cannot be written either
                Err(reason) => fs::write(&why, reason).map_or(2, |()| 1),
            };
            // SAFETY: _exit ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
        pid => {
            let status = wait(pid).map_err(io("wait for the training of", counting))?;
            if status != 0 {
                let reason = fs::read_to_string(&why).unwrap_or_else(|_| ended_by(status));
                return Err(BuildError::Training { object: counting.to_owned(), reason });
            }
            remove_dir(to)?;
            fs::rename(&aside, to).map_err(io("write", to))
        }
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic")
}

/// What a child that left no word came to.
fn ended_by(status: i32) -> String {
    match libc::WTERMSIG(status) {
        libc::SIGXCPU | libc::SIGKILL if libc::WIFSIGNALED(status) => {
            format!(
                "it computed for more than {CPU_TIME_MAX_S} s (an endless loop in the kernel), or was killed"
            )
        }
        signal if libc::WIFSIGNALED(status) => format!("it ended by signal {signal}"),
        _ => format!("wait status {status:#x}"),
    }
}

fn wait(pid: libc::pid_t) -> std::io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } == pid {
            return Ok(status);
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// In the child.
fn count(counting: &Path, program: Program, objects: &Path, to: &Path) -> Result<(), String> {
    // gcc names the counts by the real path
    let objects =
        &fs::canonicalize(objects).map_err(|e| format!("cannot find {}: {e}", objects.display()))?;
    let kernel = LoadedKernel::load(counting).map_err(|e| e.to_string())?;
    let kernel = LinuxKernel::new(kernel, "noautogroup", Vec::new());
    let topology = Topology::flat(NR_CPUS).map_err(|e| e.to_string())?;
    let setup = Setup { topology, duration: Some(DURATION_MAX), params: Vec::new() };
    let mut machine = Machine::new(kernel, program, setup);
    let outcome = machine.run();
    if outcome.end != End::AllDone {
        return Err(format!("the training's workload did not come to its end: {:?}", outcome.end));
    }
    let counts = machine.kernel().read_out().coverage;
    if counts.is_empty() {
        return Err("the kernel did not count".into());
    }
    let parsed: Option<Vec<Counts>> = counts.iter().map(|(_, data)| Counts::read(data)).collect();
    let Some(parsed) = parsed else { return Err("the counts are in no format of gcc's".into()) };
    let most = parsed.iter().map(|counts| counts.most).max().unwrap_or(0);
    if most == 0 {
        return Err("the kernel counted nothing".into());
    }
    for ((name, data), counts) in counts.iter().zip(parsed) {
        let data = counts.with_summary(data, most);
        // gcc names it after the object, wherever that was made
        let Ok(name) = Path::new(name).strip_prefix(objects) else {
            return Err(format!("{name} is not below {}", objects.display()));
        };
        write_below(to, name, &data).map_err(|e| format!("cannot write {}: {e}", name.display()))?;
    }
    Ok(())
}

/// A file of counts, as far as its summary needs: gcc/gcov-io.h.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counts {
    /// Bytes before the first record.
    header: usize,
    /// Lengths are in bytes (from gcc 12 on), not in words of 4.
    bytes: bool,
    /// The largest count.
    most: u64,
}

impl Counts {
    /// `gcda` in the order of this machine's bytes.
    const MAGIC: u32 = 0x6763_6461;
    const TAG_ARCS: u32 = 0x01a1_0000;
    const TAG_SUMMARY: u32 = 0xa100_0000;

    fn read(data: &[u8]) -> Option<Counts> {
        let words: Vec<u32> =
            data.chunks_exact(4).map(|w| u32::from_ne_bytes([w[0], w[1], w[2], w[3]])).collect();
        // "B22*": gcc 12.2
        let [tens, ones, ..] = words.get(1)?.to_be_bytes();
        let version = 10 * u32::from(tens.checked_sub(b'A')?) + u32::from(ones.checked_sub(b'0')?);
        let bytes = version >= 12;
        let header = if bytes { 4 } else { 3 };
        if words[0] != Counts::MAGIC {
            return None;
        }
        let (mut at, mut most) = (header, 0);
        while let (Some(tag), Some(length)) = (words.get(at), words.get(at + 1)) {
            if *tag == 0 {
                break;
            }
            let length = if bytes { *length as usize / 4 } else { *length as usize };
            let record = words.get(at + 2..at + 2 + length)?;
            if *tag == Counts::TAG_ARCS {
                // the low half of each comes first
                let counts = record.chunks_exact(2).map(|c| u64::from(c[0]) | u64::from(c[1]) << 32);
                most = counts.fold(most, u64::max);
            }
            at += 2 + length;
        }
        Some(Counts { header: 4 * header, bytes, most })
    }

    /// The file with the summary that libgcov puts in front: one run, and the largest count of all files.
    fn with_summary(self, data: &[u8], most: u64) -> Vec<u8> {
        let length = if self.bytes { 8 } else { 2 };
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let (header, records) = data.split_at(self.header);
        let summary = [Counts::TAG_SUMMARY, length, 1, most].map(u32::to_ne_bytes).concat();
        [header, &summary, records].concat()
    }
}

fn write_below(to: &Path, name: &Path, data: &[u8]) -> std::io::Result<()> {
    let path = to.join(name);
    fs::create_dir_all(path.parent().unwrap_or(to))?;
    fs::write(path, data)
}

/// Lays the counts beside the objects that are about to be compiled.
pub(super) fn lay_beside(profile: &Path, objects: &Path) -> Result<(), BuildError> {
    for path in files_below(profile)? {
        let name: PathBuf = path.strip_prefix(profile).unwrap_or(&path).to_owned();
        let data = fs::read(&path).map_err(io("read", &path))?;
        if fs::read(objects.join(&name)).ok().as_ref() != Some(&data) {
            write_below(objects, &name, &data).map_err(io("write", &objects.join(&name)))?;
        }
    }
    Ok(())
}

/// gcc is silent about counts that it does not use; where it does, what is often executed has a section of its own.
pub(super) fn check_use(objects: &Path) -> Result<(), BuildError> {
    let scheduler = objects.join("kernel/sched");
    for path in sorted_entries(&scheduler)?.iter().filter(|path| path.extension().is_some_and(|e| e == "o")) {
        let data = fs::read(path).map_err(io("read", path))?;
        if data.windows(HOT.len()).any(|name| name == HOT) {
            return Ok(());
        }
    }
    let reason = "gcc took no notice of the counts: no function of kernel/sched is hot".into();
    Err(BuildError::Training { object: scheduler, reason })
}

const HOT: &[u8] = b".text.hot";

#[cfg(test)]
mod tests {
    use super::*;

    /// The port's own workloads can be read. (That they end by themselves each training checks.)
    #[test]
    fn profiles_are_workloads() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/configs/profiles");
        let files = super::super::cache::sorted_entries(&dir).unwrap();
        assert!(!files.is_empty());
        for file in files {
            let program = program(&file).unwrap();
            assert!(program.nr_tasks() > NR_CPUS, "{}", file.display());
        }
    }

    #[test]
    fn counts_lie_where_the_objects_will() {
        let dir = tempfile::tempdir().unwrap();
        let (profile, objects) = (dir.path().join("profile"), dir.path().join("build"));
        write_below(&profile, Path::new("kernel/sched/fair.gcda"), b"counts").unwrap();
        lay_beside(&profile, &objects).unwrap();
        assert_eq!(fs::read(objects.join("kernel/sched/fair.gcda")).unwrap(), b"counts");
    }

    #[test]
    fn a_build_that_uses_no_counts_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let object = dir.path().join("kernel/sched/fair.o");
        write_below(dir.path(), Path::new("kernel/sched/fair.o"), b"\x7fELF .text .text.unlikely").unwrap();
        let error = check_use(dir.path()).unwrap_err().to_string();
        assert!(error.contains("no function of kernel/sched is hot"), "{error}");
        fs::write(object, b"\x7fELF .rela.text.hot .text.unlikely").unwrap();
        check_use(dir.path()).unwrap();
    }

    /// As gcc 12 and gcc 10 lay them out: one function of two branches, taken 3 and 2^32 + 1 times.
    #[test]
    fn the_summary_has_the_largest_count() {
        let file = |version: &[u8; 4], checksum: &[u32], unit: u32| {
            let arcs = [0x0100_0000, 3 * unit, 7, 8, 9, 0x01a1_0000, 4 * unit, 3, 0, 1, 1];
            let words =
                [&[Counts::MAGIC, u32::from_be_bytes(*version), 5][..], checksum, &arcs, &[0]].concat();
            words.into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<u8>>()
        };
        for (data, header, bytes) in [(file(b"B22*", &[0], 4), 16, true), (file(b"B02*", &[], 1), 12, false)]
        {
            let counts = Counts::read(&data).unwrap();
            assert_eq!(counts, Counts { header, bytes, most: (1 << 32) + 1 });
            let whole = counts.with_summary(&data, 77);
            let summary = [0xa100_0000, if bytes { 8 } else { 2 }, 1, 77_u32].map(u32::to_ne_bytes).concat();
            assert_eq!((&whole[..header], &whole[header..header + 16]), (&data[..header], &summary[..]));
            assert_eq!(whole[header + 16..], data[header..]);
            assert_eq!(Counts::read(&whole).unwrap().most, counts.most);
        }
        assert_eq!(Counts::read(b"no counts"), None);
        assert_eq!(Counts::read(b""), None);
    }

    /// A file that is no kernel fails the training, in words; nothing is left that looks like counts.
    #[test]
    fn a_training_that_fails_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let counting = dir.path().join("counting.so");
        fs::write(&counting, "no kernel").unwrap();
        let workload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/configs/profiles/mix.txt");
        let to = dir.path().join("profile");
        let error = train(&counting, &workload, dir.path(), &to, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("counting.so") && error.contains("cannot load the kernel object"), "{error}");
        assert!(!to.exists());
    }
}
