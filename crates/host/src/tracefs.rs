//! Where is the kernel's tracing interface, and how do we get a piece of it that is ours alone?
//!
//! tracefs is one folder of control files (usually `/sys/kernel/tracing`) that all tracers of a host share. A folder
//! made under `instances/` is a second, private set: its own ring buffers, clock and enabled events. We only ever
//! write inside our own:
//!
//! ```text
//! /sys/kernel/tracing/                      shared: read only by us (event formats, saved_cmdlines)
//!   instances/
//!     schedlab.4711.183204.0/               ours: pid 4711, started 183204 ticks after boot, first of its process
//!       trace_clock  buffer_size_kb  set_event_pid  tracing_on  events/...
//!       per_cpu/cpu0/trace_pipe_raw         what is drained
//! ```
//!
//! The instance is removed when [`Instance`] is dropped: at the normal end, on an error, on a panic, and on the signals
//! the recorder catches. After SIGKILL a second process does it (`keeper.rs`). If that was killed, too, the next start
//! removes the instances whose process is gone ([`Tracefs::remove_stale`]); pid *and* start time are in the name,
//! because pids come round again. A recorder that lives in another pid namespace looks gone too, but the kernel refuses
//! (EBUSY) to remove an instance whose files are open, and a recorder opens its files first.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::error::HostError;
use crate::keeper::{self, Keeper};

/// Instances of ours start with this.
pub const INSTANCE_PREFIX: &str = "schedlab.";

/// How long a folder may be in use when its recording is over.
const PATIENCE: Duration = Duration::from_millis(500);

/// Where tracefs is mounted when nobody has; the kernel makes this folder for the purpose.
const STANDARD_MOUNT: &str = "/sys/kernel/tracing";

/// The mounted tracing interface.
#[derive(Debug, Clone)]
pub struct Tracefs {
    root: PathBuf,
}

impl Tracefs {
    /// Finds tracefs where it is mounted (its own mount, or `tracing` under a debugfs), or mounts it at
    /// `/sys/kernel/tracing` and leaves it there, as every system that boots with systemd does.
    ///
    /// # Errors
    /// [`HostError::NotPermitted`] without root, [`HostError::NoTracefs`] where the kernel has none.
    pub fn open() -> Result<Tracefs, HostError> {
        let found = find_mounted(&read_text(Path::new("/proc/self/mounts")).unwrap_or_default());
        let root = match found {
            Some(root) => root,
            None => mount()?,
        };
        Tracefs::at(root)
    }

    /// Takes `root` as the tracing interface.
    ///
    /// # Errors
    /// As [`Tracefs::open`], when `root` is not one or may not be used.
    pub fn at(root: impl Into<PathBuf>) -> Result<Tracefs, HostError> {
        let root = root.into();
        let instances = root.join("instances");
        match fs::read_dir(&instances) {
            Ok(_) => {}
            Err(e) if is_refusal(&e) => return Err(refused(format!("reading {}", instances.display()), e)),
            Err(e) => {
                return Err(HostError::NoTracefs { reason: format!("{}: {e}", instances.display()) });
            }
        }
        Ok(Tracefs { root })
    }

    /// The folder it is mounted at.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Removes the instances that recorders of ours left behind when they were killed; gives their names.
    /// Instances of living recorders and of other tools stay.
    pub fn remove_stale(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.root.join("instances"))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| is_stale(name, process_start_ticks))
            .collect();
        names.sort();
        // A refusal means that somebody holds its files open: not stale after all.
        names.retain(|name| fs::remove_dir(self.root.join("instances").join(name)).is_ok());
        names
    }

    /// Makes a private instance. It records nothing until told to.
    ///
    /// # Errors
    /// [`HostError::NotPermitted`] or [`HostError::Io`].
    pub fn make_instance(&self) -> Result<Instance, HostError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let pid = std::process::id();
        let start = process_start_ticks(pid).unwrap_or(0);
        let name = format!("{INSTANCE_PREFIX}{pid}.{start}.{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let path = self.root.join("instances").join(&name);
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(e) if is_refusal(&e) => return Err(refused(format!("making {}", path.display()), e)),
            Err(source) => {
                return Err(HostError::Io { doing: "cannot make the tracing instance", path, source });
            }
        }
        let keeper = Keeper::of(&path);
        let instance = Instance { path, removed: false, _keeper: keeper };
        // A fresh instance records at once (tracing_on is 1); we choose the moment.
        instance.set("tracing_on", "0", "")?;
        Ok(instance)
    }
}

/// A private set of ring buffers and control files; gone when dropped, and when its maker is killed.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    removed: bool,
    /// Goes when the instance has been removed.
    _keeper: Option<Keeper>,
}

impl Instance {
    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name under `instances/`.
    pub fn name(&self) -> String {
        self.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Writes `value` to the control file `file`; `remedy` goes into the error.
    ///
    /// # Errors
    /// [`HostError::Setting`].
    pub fn set(&self, file: &str, value: &str, remedy: &'static str) -> Result<(), HostError> {
        let path = self.path.join(file);
        write_control(&path, value).map_err(|source| HostError::Setting {
            path,
            value: value.to_owned(),
            source,
            remedy,
        })
    }

    /// Adds to a control file that holds a list (`set_event_pid`).
    ///
    /// # Errors
    /// [`HostError::Setting`].
    pub fn append(&self, file: &str, value: &str, remedy: &'static str) -> Result<(), HostError> {
        let path = self.path.join(file);
        OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut f| f.write_all(value.as_bytes()))
            .map_err(|source| HostError::Setting { path, value: value.to_owned(), source, remedy })
    }

    /// Reads a control file.
    ///
    /// # Errors
    /// [`HostError::Io`].
    pub fn get(&self, file: &str) -> Result<String, HostError> {
        let path = self.path.join(file);
        read_text(&path).map_err(HostError::io("cannot read", path))
    }

    /// True when the control file or folder exists on this kernel.
    pub fn has(&self, file: &str) -> bool {
        self.path.join(file).exists()
    }

    /// The CPUs that have a buffer, in order of number.
    ///
    /// # Errors
    /// [`HostError::Io`].
    pub fn cpus(&self) -> Result<Vec<u32>, HostError> {
        let path = self.path.join("per_cpu");
        let entries = fs::read_dir(&path).map_err(HostError::io("cannot list", &path))?;
        let mut cpus: Vec<u32> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
            .collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// Opens a CPU's raw pages for reading without blocking; `None` when the kernel has no buffer for it (a CPU that
    /// could exist but does not).
    ///
    /// # Errors
    /// [`HostError::Io`].
    pub fn open_raw(&self, cpu: u32) -> Result<Option<File>, HostError> {
        let path = self.path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => Ok(None),
            Err(source) => Err(HostError::Io { doing: "cannot open", path, source }),
        }
    }

    /// Removes the instance now, with every setting in it, and says whether that worked.
    ///
    /// # Errors
    /// [`HostError::Io`]; EBUSY when one of its files is still open.
    pub fn remove(mut self) -> Result<(), HostError> {
        self.remove_now().map_err(HostError::io("cannot remove the tracing instance", self.path.clone()))
    }

    fn remove_now(&mut self) -> io::Result<()> {
        if self.removed {
            return Ok(());
        }
        let result = keeper::remove(&self.path, PATIENCE);
        self.removed = result.is_ok();
        result
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(e) = self.remove_now() {
            eprintln!(
                "schedlab: the tracing instance {} could not be removed ({e}); `rmdir` it as root, or the next \
                 recording does",
                self.path.display()
            );
        }
    }
}

/// tracefs files take one write as one command and must not be truncated or created.
pub(crate) fn write_control(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes())
}

/// Reads a file of the kernel's: their length is not known beforehand, and bytes need not be UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn is_refusal(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::PermissionDenied || e.raw_os_error() == Some(libc::EROFS)
}

fn refused(doing: String, source: io::Error) -> HostError {
    // SAFETY: geteuid only reads the process's credentials and cannot fail.
    let euid = unsafe { libc::geteuid() };
    HostError::NotPermitted { doing, euid, source }
}

/// The tracing folder in a table of mounts as in /proc/self/mounts; a tracefs mount is preferred to debugfs.
fn find_mounted(mounts: &str) -> Option<PathBuf> {
    let mount_of = |kind: &str| {
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (_device, at, fs) = (words.next()?, words.next()?, words.next()?);
            (fs == kind).then(|| PathBuf::from(unescape_mount(at)))
        })
    };
    mount_of("tracefs").or_else(|| {
        mount_of("debugfs").map(|at| at.join("tracing")).filter(|at| at.join("instances").exists())
    })
}

/// The kernel writes space, tab, newline and backslash in a mount point as three octal digits.
fn unescape_mount(text: &str) -> String {
    let mut out = Vec::new();
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let octal = (bytes[i] == b'\\')
            .then(|| text.get(i + 1..i + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok()))
            .flatten();
        match octal {
            Some(byte) => {
                out.push(byte);
                i += 4;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn mount() -> Result<PathBuf, HostError> {
    let filesystems = read_text(Path::new("/proc/filesystems")).unwrap_or_default();
    if !filesystems.lines().any(|line| line.split_whitespace().last() == Some("tracefs")) {
        return Err(HostError::NoTracefs { reason: "/proc/filesystems does not list tracefs".to_owned() });
    }
    // SAFETY: all pointers are NUL-terminated literals; data may be null for tracefs.
    let rc = unsafe {
        libc::mount(
            c"nodev".as_ptr(),
            c"/sys/kernel/tracing".as_ptr(),
            c"tracefs".as_ptr(),
            libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC,
            std::ptr::null(),
        )
    };
    let error = io::Error::last_os_error();
    // EBUSY: another recorder mounted it between our look and our call.
    if rc == 0 || error.raw_os_error() == Some(libc::EBUSY) {
        Ok(PathBuf::from(STANDARD_MOUNT))
    } else if is_refusal(&error) {
        Err(refused(format!("mounting tracefs at {STANDARD_MOUNT}"), error))
    } else {
        Err(HostError::NoTracefs { reason: format!("mounting it at {STANDARD_MOUNT} failed: {error}") })
    }
}

/// When a process started, in clock ticks after boot (field 22 of /proc/PID/stat), or `None` when it is not there.
pub(crate) fn process_start_ticks(pid: u32) -> Option<u64> {
    let stat = read_text(Path::new(&format!("/proc/{pid}/stat"))).ok()?;
    // The name in parentheses may hold spaces and parentheses: fields are counted after the last one.
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(19)?.parse().ok()
}

/// Is this the name of an instance of ours whose process is gone?
fn is_stale(name: &str, start_of: impl Fn(u32) -> Option<u64>) -> bool {
    let Some(rest) = name.strip_prefix(INSTANCE_PREFIX) else { return false };
    let mut parts = rest.split('.');
    let (Some(pid), Some(start)) = (parts.next(), parts.next()) else { return false };
    let (Ok(pid), Ok(start)) = (pid.parse::<u32>(), start.parse::<u64>()) else { return false };
    start_of(pid) != Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_tracefs_mount_before_a_debugfs_one() {
        let mounts = "debugfs /sys/kernel/debug debugfs rw 0 0\ntracefs /sys/kernel/tracing tracefs rw 0 0\n";
        assert_eq!(find_mounted(mounts), Some(PathBuf::from("/sys/kernel/tracing")));
        assert_eq!(find_mounted("proc /proc proc rw 0 0\n"), None);
        assert_eq!(find_mounted("x /mnt/a\\040b tracefs rw 0 0\n"), Some(PathBuf::from("/mnt/a b")));
    }

    #[test]
    fn stale_means_that_pid_and_start_time_match_no_process() {
        // pid 7 runs since tick 100; pid 8 does not exist.
        let start_of = |pid| (pid == 7).then_some(100);
        assert!(!is_stale("schedlab.7.100.0", start_of));
        assert!(is_stale("schedlab.7.99.0", start_of), "the pid was used again");
        assert!(is_stale("schedlab.8.100.3", start_of));
        for foreign in ["foo", "schedlab.", "schedlab.x.1.0", "schedlab.8", "trace-cmd.8.100.0"] {
            assert!(!is_stale(foreign, start_of), "{foreign} is not ours to remove");
        }
    }

    #[test]
    fn our_own_start_time_is_found_and_stable() {
        let pid = std::process::id();
        assert!(process_start_ticks(pid).is_some());
        assert_eq!(process_start_ticks(pid), process_start_ticks(pid));
        assert_eq!(process_start_ticks(u32::MAX), None);
    }
}
