//! What may code do to the host that a file brought? Two cages, each made of what the kernel has.
//!
//! ```text
//!                  a scheduler's process (Cell)                      a command that builds (Yard)
//! new processes    none                                              4,096 at once (root: by a control group)
//! files            read                                              read; write in its folder alone (Landlock)
//! network          none                                              none (no socket at all)
//! other processes  no signal, no ptrace                              none outside (Landlock, from Linux 6.12 on)
//! privileges       no new ones, and no use of root's                 no new ones
//! memory, disk     3/4 of the host's memory; 9/10 of what is free    the same
//! time             24 hours of CPU time                              24 hours of CPU time for each of its processes
//! ```
//!
//! A kernel object, and a scheduler in BPF C that is compiled beside one, is native code with the user's
//! rights: its process has only calls that are on a list ([`ALLOWED`]). Asking for another one ends it with
//! SIGSYS, and the report names the call. Native policies are a part of the program, and trusted.
//!
//! What is left: both may read what their user may read. A build may change modes and times of files that
//! belong to its user.

use crate::pids::{Group, PROCESSES_MAX, nr_user_threads};
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// System calls by their names: number and name.
macro_rules! calls {
    ($($name:ident)*) => { &[$((libc::$name, stringify!($name))),*] };
}

/// What a scheduler's process may ask for, whatever the arguments are: memory, reading, its log, the time, its
/// own signals and end.
#[rustfmt::skip]
const ALLOWED: &[(i64, &str)] = calls![
    SYS_mmap SYS_munmap SYS_mprotect SYS_mremap SYS_madvise SYS_brk SYS_membarrier SYS_read SYS_pread64
    SYS_readv SYS_preadv SYS_lseek SYS_close SYS_dup SYS_getdents64 SYS_stat SYS_fstat SYS_lstat
    SYS_newfstatat SYS_statx SYS_access SYS_faccessat SYS_faccessat2 SYS_readlink SYS_readlinkat SYS_getcwd
    SYS_statfs SYS_fstatfs SYS_write SYS_pwrite64 SYS_writev SYS_pwritev SYS_ftruncate SYS_fsync
    SYS_clock_gettime SYS_clock_getres SYS_gettimeofday SYS_time SYS_nanosleep SYS_clock_nanosleep SYS_times
    SYS_getrusage SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_sigaltstack SYS_restart_syscall
    SYS_getpid SYS_gettid SYS_getppid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_uname SYS_sysinfo
    SYS_getrandom SYS_getcpu SYS_sched_yield SYS_sched_getaffinity SYS_futex SYS_set_robust_list SYS_rseq
    SYS_set_tid_address SYS_arch_prctl SYS_poll SYS_ppoll SYS_getrlimit SYS_exit SYS_exit_group
];

/// Calls that are refused, with what a reader wants to know of them. The name comes from here; the number decides.
#[rustfmt::skip]
const KNOWN: &[(&str, &[(i64, &str)])] = &[
    ("new processes", calls![
        SYS_fork SYS_vfork SYS_clone SYS_clone3 SYS_execve SYS_execveat SYS_unshare SYS_setns SYS_setsid
        SYS_setpgid
    ]),
    ("other processes", calls![
        SYS_kill SYS_tkill SYS_tgkill SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_pidfd_open
        SYS_pidfd_send_signal SYS_pidfd_getfd SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev
        SYS_setpriority SYS_sched_setscheduler SYS_sched_setattr SYS_sched_setaffinity SYS_prlimit64
        SYS_fcntl
    ]),
    ("the network", calls![
        SYS_socket SYS_socketpair SYS_connect SYS_bind SYS_sendto SYS_sendmsg
    ]),
    ("writing files", calls![
        SYS_open SYS_openat SYS_openat2 SYS_creat SYS_truncate SYS_rename SYS_renameat SYS_renameat2
        SYS_unlink SYS_unlinkat SYS_mkdir SYS_mkdirat SYS_rmdir SYS_link SYS_linkat SYS_symlink
        SYS_symlinkat SYS_mknod SYS_mknodat SYS_chmod SYS_fchmod SYS_fchmodat SYS_chown SYS_fchown
        SYS_lchown SYS_fchownat SYS_utimensat SYS_setxattr SYS_fallocate SYS_memfd_create
    ]),
    ("the host's own state", calls![
        SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_bpf SYS_perf_event_open SYS_io_uring_setup
        SYS_init_module SYS_finit_module SYS_reboot SYS_kexec_load SYS_settimeofday SYS_clock_settime
        SYS_sethostname SYS_setuid SYS_setgid SYS_setresuid SYS_prctl SYS_personality SYS_ioctl SYS_iopl
        SYS_ioperm SYS_keyctl SYS_shmget SYS_semget SYS_msgget
    ]),
];

/// In words: a call that a scheduler's process may not make, by its number.
///
/// ```
/// assert_eq!(schedlab_process::contain::refused_call(57), "fork (system call 57: new processes)");
/// ```
pub fn refused_call(number: u64) -> String {
    let found = KNOWN.iter().find_map(|(about, calls)| {
        let (_, name) = calls.iter().find(|(known, _)| *known as u64 == number)?;
        Some((name.strip_prefix("SYS_").unwrap_or(name), about))
    });
    match found {
        Some((name, about)) => format!("{name} (system call {number}: {about})"),
        None => format!("system call {number}"),
    }
}

/// Why this host cannot contain something.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Uncontained {
    /// What the kernel should do.
    what: &'static str,
    /// Its answer.
    why: String,
}

fn uncontained<E: ToString>(what: &'static str) -> impl FnOnce(E) -> Uncontained {
    move |why| Uncontained { what, why: why.to_string() }
}

const SECCOMP: &str = "the host's kernel filters no system calls (seccomp)";
const GROUP: &str = "this host does not count root's processes (a control group with pids.max)";
const LANDLOCK: &str = "the host's kernel keeps no process to a folder (Landlock)";

fn condition(argument: u8, operation: SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value)
        .expect("there are six arguments")
}

fn rule(conditions: Vec<SeccompCondition>) -> SeccompRule {
    SeccompRule::new(conditions).expect("there is a condition")
}

/// The calls that a scheduler's process may make, and with which arguments.
fn cell_rules(own_pid: u32) -> BTreeMap<i64, Vec<SeccompRule>> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|(call, _)| (*call, Vec::new())).collect();
    // for reading, and making nothing
    let writes = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u32;
    let reading = |argument| vec![rule(vec![condition(argument, SeccompCmpOp::MaskedEq(writes.into()), 0)])];
    rules.insert(libc::SYS_open, reading(1));
    rules.insert(libc::SYS_openat, reading(2));
    // to itself: abort() and raise()
    let own = |_| vec![rule(vec![condition(0, SeccompCmpOp::Eq, own_pid.into())])];
    rules.extend([libc::SYS_kill, libc::SYS_tgkill].map(|call| (call, own(call))));
    // reading limits; the third argument points to new ones
    let none = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
        .expect("there are six arguments");
    rules.insert(libc::SYS_prlimit64, vec![rule(vec![none])]);
    // flags of a descriptor; not whom its signals go to, and which
    let flags = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_DUPFD_CLOEXEC];
    let is = |value: i32| rule(vec![condition(1, SeccompCmpOp::Eq, value as u32 as u64)]);
    rules.insert(libc::SYS_fcntl, flags.map(is).to_vec());
    // "is it a terminal?"
    rules.insert(libc::SYS_ioctl, vec![is(libc::TCGETS as i32)]);
    rules
}

fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, Uncontained> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(uncontained(SECCOMP))?;
    let filter = SeccompFilter::new(rules, otherwise, matched, architecture);
    filter.and_then(SeccompFilter::try_into).map_err(uncontained(SECCOMP))
}

/// Most CPU time of one process.
const CPU_TIME_S: u64 = 24 * 3600;

/// Lowers a limit of this process, for good.
fn limit(resource: libc::__rlimit_resource_t, most: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or fill a local.
    unsafe {
        libc::getrlimit(resource, &raw mut limit);
        limit.rlim_max = limit.rlim_max.min(most);
        limit.rlim_cur = limit.rlim_cur.min(limit.rlim_max);
        libc::setrlimit(resource, &raw const limit);
    }
}

/// Three quarters of the host's memory.
fn memory_bytes() -> u64 {
    // SAFETY: asks for two numbers.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    (pages.max(1) as u64) * (page.max(1) as u64) / 4 * 3
}

/// Nine tenths of what is free where this file lies.
fn file_bytes(file: BorrowedFd<'_>) -> u64 {
    // SAFETY: the call fills a local, for which all zeroes is a value; the descriptor is borrowed.
    unsafe {
        let mut system: libc::statvfs = std::mem::zeroed();
        match libc::fstatvfs(file.as_raw_fd(), &raw mut system) {
            0 => system.f_bavail.saturating_mul(system.f_frsize) / 10 * 9,
            _ => u64::MAX,
        }
    }
}

/// Stands for the number of the process that will enter, which is not known when the filter is compiled.
const SOMEBODY: u32 = 0x5ced_1ab5;

/// The cage of a scheduler's process. Its filter is compiled once, by whoever starts such processes; a process that
/// is to be inside installs it ([`Cell::enter`]).
pub struct Cell {
    /// [`SOMEBODY`] may signal itself.
    filter: BpfProgram,
}

impl Cell {
    /// Compiles the filter.
    ///
    /// # Errors
    /// There is no filter for this host's processor.
    pub fn prepare() -> Result<Cell, Uncontained> {
        let filter = program(cell_rules(SOMEBODY), SeccompAction::Trap, SeccompAction::Allow)?;
        Ok(Cell { filter })
    }

    /// From now on this process can only compute, read, and write what is open. `log` is the largest file that it
    /// writes. To be called before a scheduler's code is loaded, by a process with one thread.
    ///
    /// # Errors
    /// The host's kernel cannot do it; then the limits hold all the same ([`limit_resources`]).
    pub fn enter(&self, log: BorrowedFd<'_>) -> Result<(), Uncontained> {
        limit_resources(log);
        if is_under_valgrind() {
            return Ok(()); // whose own work is done in this process: it writes its findings to a file
        }
        seccompiler::apply_filter(&self.filter_of(std::process::id())).map_err(uncontained(SECCOMP))
    }

    /// The filter for the process of this number.
    fn filter_of(&self, pid: u32) -> BpfProgram {
        let mut filter = self.filter.clone();
        let mut named = 0;
        for step in filter.iter_mut().filter(|step| step.k == SOMEBODY) {
            step.k = pid;
            named += 1;
        }
        assert_eq!(named, 2, "kill and tgkill name their process, and nothing else does");
        filter
    }
}

/// Most memory, disk and CPU time of this process, for good; `log` is the largest file that it writes.
pub fn limit_resources(log: BorrowedFd<'_>) {
    limit(libc::RLIMIT_CORE, 0);
    limit(libc::RLIMIT_CPU, CPU_TIME_S);
    limit(libc::RLIMIT_FSIZE, file_bytes(log));
    // what is mapped already counts
    limit(libc::RLIMIT_AS, memory_bytes().saturating_add(mapped_bytes()));
    // SAFETY: a disposition: a log that is too long is an error of the write, as on a full disk.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// [`Cell::prepare`] and [`Cell::enter`], for a process that starts no others.
///
/// # Errors
/// As theirs; the limits hold all the same.
pub fn enter_cell(log: BorrowedFd<'_>) -> Result<(), Uncontained> {
    match Cell::prepare() {
        Ok(cell) => cell.enter(log),
        Err(why) => {
            limit_resources(log);
            Err(why)
        }
    }
}

/// The address space in use: the first number of /proc/self/statm, in pages.
fn mapped_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    pages * 4096
}

/// Valgrind says that it is there by what it preloads.
fn is_under_valgrind() -> bool {
    std::env::var_os("LD_PRELOAD").is_some_and(|list| list.to_string_lossy().contains("vgpreload"))
}

/// What no build needs, with root's rights least of all: `EPERM`. (make sets its user to what it is, before
/// each command.)
#[rustfmt::skip]
const NOT_FOR_BUILDS: &[(i64, &str)] = calls![
    SYS_socket SYS_io_uring_setup SYS_ptrace SYS_process_vm_writev SYS_bpf SYS_perf_event_open SYS_mount
    SYS_umount2 SYS_pivot_root SYS_chroot SYS_move_mount SYS_open_tree SYS_fsopen SYS_mount_setattr
    SYS_setns SYS_unshare SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load
    SYS_kexec_file_load SYS_reboot SYS_swapon SYS_swapoff SYS_settimeofday SYS_clock_settime SYS_adjtimex
    SYS_clock_adjtime SYS_sethostname SYS_setdomainname SYS_iopl SYS_ioperm SYS_keyctl SYS_add_key
    SYS_request_key SYS_open_by_handle_at SYS_acct SYS_quotactl SYS_userfaultfd SYS_mknod SYS_mknodat
    SYS_chown SYS_lchown SYS_fchown SYS_fchownat
    SYS_capset
];

/// A cage for commands that run what a file brought, such as the build of a user's kernel tree.
pub struct Yard {
    filter: Option<BpfProgram>,
    ruleset: Option<RulesetCreated>,
    /// Root's; `None` for others, and where the host has none.
    group: Option<Group>,
    /// The user's threads and [`PROCESSES_MAX`] more.
    processes: Option<u64>,
    file_bytes: u64,
    memory_bytes: u64,
}

impl Yard {
    /// Made for one command, which may write below `folder`; with what this host's kernel cannot do of it.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn around(folder: &Path) -> io::Result<(Yard, Vec<Uncontained>)> {
        Yard::bounded(folder, PROCESSES_MAX)
    }

    /// As [`Yard::around`], with so many processes.
    fn bounded(folder: &Path, processes_max: u64) -> io::Result<(Yard, Vec<Uncontained>)> {
        let opened = File::open(folder)?;
        let mut missing = Vec::new();
        let refused = NOT_FOR_BUILDS.iter().map(|(call, _)| (*call, Vec::new())).collect();
        let filter = program(refused, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32));
        let filter = filter.map_err(|why| missing.push(why)).ok();
        let ruleset = ruleset(folder).map_err(|why| missing.push(why)).ok();
        // SAFETY: asks for a number.
        let is_root = unsafe { libc::geteuid() } == 0;
        let group = is_root
            .then(|| Group::new(processes_max).map_err(|why| missing.push(uncontained(GROUP)(why))).ok())
            .flatten();
        let processes = nr_user_threads().map(|nr| nr + processes_max);
        use std::os::fd::AsFd;
        let (file_bytes, memory_bytes) = (file_bytes(opened.as_fd()), memory_bytes());
        Ok((Yard { filter, ruleset, group, processes, file_bytes, memory_bytes }, missing))
    }

    /// The command starts inside. It may be started once.
    pub fn hold(mut self, command: &mut Command) {
        // SAFETY: after fork: plain system calls with what has been prepared. Landlock's crate allocates
        // nothing on the way to its two calls but for an error's text; glibc's allocator is safe after fork.
        unsafe {
            command.pre_exec(move || self.enter());
        }
    }

    /// This process, and all that it starts from now on, is inside.
    ///
    /// # Errors
    /// The kernel's answer, to what it said before that it can do.
    pub fn enter(&mut self) -> io::Result<()> {
        // first: from then on no file can be written that is not below the folder
        if let Some(group) = &self.group {
            group.enter()?;
        }
        if let Some(processes) = self.processes {
            limit(libc::RLIMIT_NPROC, processes);
        }
        limit(libc::RLIMIT_CORE, 0);
        limit(libc::RLIMIT_CPU, CPU_TIME_S);
        limit(libc::RLIMIT_FSIZE, self.file_bytes);
        limit(libc::RLIMIT_AS, self.memory_bytes);
        if let Some(ruleset) = self.ruleset.take() {
            ruleset.restrict_self().map_err(io::Error::other)?;
        }
        if let Some(filter) = &self.filter {
            seccompiler::apply_filter(filter).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// Read and execute everything, write below the folder and what holds nothing; signals stay inside.
fn ruleset(folder: &Path) -> Result<RulesetCreated, Uncontained> {
    // the first version is a must; what came later is used where it is there
    let abi = ABI::V6;
    let read = AccessFs::from_read(abi);
    let make = || -> Result<RulesetCreated, Box<dyn std::error::Error>> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))?
            .scope(Scope::from_all(abi))?;
        let mut created = ruleset.create()?.add_rule(PathBeneath::new(PathFd::new("/")?, read))?;
        created = created.add_rule(PathBeneath::new(PathFd::new(folder)?, AccessFs::from_all(abi)))?;
        for device in ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/kvm"] {
            if let Ok(opened) = PathFd::new(device) {
                created = created.add_rule(PathBeneath::new(opened, AccessFs::from_file(abi)))?;
            }
        }
        Ok(created)
    };
    make().map_err(uncontained(LANDLOCK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    /// What a child that is in the cell does last decides how it ends.
    fn in_cell(act: fn()) -> std::process::ExitStatus {
        let log = tempfile::tempfile().unwrap();
        // SAFETY: the child enters the cell, makes plain calls and leaves by _exit.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                use std::os::fd::AsFd;
                if enter_cell(log.as_fd()).is_ok() {
                    act();
                }
                libc::_exit(7);
            }
            let mut status = 0;
            libc::waitpid(pid, &raw mut status, 0);
            std::process::ExitStatus::from_raw(status)
        }
    }

    #[test]
    fn a_cell_lets_out_nothing_but_what_is_read_and_computed() {
        let refused: [(&str, fn()); 12] = [
            ("fork", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::syscall(libc::SYS_fork) };
            }),
            ("clone", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::syscall(libc::SYS_clone, 17, 0, 0, 0, 0) };
            }),
            ("socket", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
            }),
            ("open to write", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::open(c"/tmp/x".as_ptr(), libc::O_WRONLY) };
            }),
            ("open to make", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::open(c"/tmp/x".as_ptr(), libc::O_CREAT, 0o600) };
            }),
            ("unlink", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::unlink(c"/tmp/x".as_ptr()) };
            }),
            ("kill of the parent", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::kill(libc::getppid(), 0) };
            }),
            ("kill of all", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::kill(-1, 0) };
            }),
            ("ptrace", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::ptrace(libc::PTRACE_ATTACH, libc::getppid(), 0, 0) };
            }),
            ("own signals to others", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::fcntl(0, libc::F_SETOWN, 1) };
            }),
            ("typing", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr()) };
            }),
            ("x32's getpid", || {
                // SAFETY: a call with constants; it never returns, or is judged a failure.
                unsafe { libc::syscall(0x4000_0000 | libc::SYS_getpid) };
            }),
        ];
        for (name, act) in refused {
            assert_eq!(in_cell(act).signal(), Some(libc::SIGSYS), "{name}");
        }
        let status = in_cell(|| {
            assert!(std::fs::read("/proc/self/status").is_ok());
            assert!(vec![1_u8; 10 << 20].iter().all(|byte| *byte == 1));
            // SAFETY: ends this process.
            unsafe { libc::_exit(3) }
        });
        assert_eq!(status.code(), Some(3));
    }

    /// A filter that was compiled before is the one that is compiled for this process.
    #[test]
    fn a_prepared_cell_is_that_of_the_process() {
        let cell = Cell::prepare().unwrap();
        for pid in [1, 77, 4_194_304] {
            let fresh = program(cell_rules(pid), SeccompAction::Trap, SeccompAction::Allow).unwrap();
            assert!(cell.filter_of(pid) == fresh, "{pid}");
        }
    }

    #[test]
    fn memory_has_an_end_in_a_cell() {
        let status = in_cell(|| {
            // SAFETY: a mapping that nobody uses; its failure is the answer.
            let all = unsafe {
                let size = memory_bytes() as usize + (1 << 30);
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
                libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ, flags, -1, 0)
            };
            // SAFETY: ends this process.
            unsafe { libc::_exit(if all == libc::MAP_FAILED { 3 } else { 4 }) }
        });
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn a_yard_is_written_in_and_nothing_else() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (yard, missing) = Yard::around(inside.path()).unwrap();
        assert!(missing.is_empty(), "this host cannot: {missing:?}");
        let mut command = Command::new("sh");
        let script = "echo 1 > here && (echo 2 | cat > also); echo 3 > $OUT/there; rm -f $OUT/kept; kill -9 $PARENT; \
                      python3 -c 'import socket; socket.socket()' 2>/dev/null && touch network; exit 5";
        std::fs::write(outside.path().join("kept"), "").unwrap();
        let mut victim = Command::new("sleep").arg("60").spawn().unwrap();
        command.args(["-c", script]).env("OUT", outside.path()).env("PARENT", victim.id().to_string());
        command.current_dir(inside.path()).stderr(std::process::Stdio::null());
        yard.hold(&mut command);
        assert_eq!(command.status().unwrap().code(), Some(5));
        let names = |folder: &Path| -> Vec<_> {
            let mut names: Vec<_> =
                std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(inside.path()), ["also", "here"]);
        assert_eq!(names(outside.path()), ["kept"]);
        assert!(victim.try_wait().unwrap().is_none(), "a signal went outside");
        victim.kill().unwrap();
        victim.wait().unwrap();
    }

    /// How many processes a fork bomb in this yard comes to. It stops at a few thousand, and ends what it
    /// started.
    fn bomb(yard: &mut Yard, user: Option<u32>) -> u64 {
        use std::io::Read;
        let (mut read, write) = io::pipe().unwrap();
        // SAFETY: the child makes plain calls, and those of [`Yard::enter`], and leaves by a signal or _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let mut nr = 0_u64;
            // SAFETY: as above.
            unsafe {
                libc::setpgid(0, 0);
                if user.is_some_and(|user| libc::setuid(user) != 0) || yard.enter().is_err() {
                    libc::_exit(7);
                }
                while nr < PROCESSES_MAX {
                    match libc::fork() {
                        -1 => break,
                        0 => loop {
                            libc::pause();
                        },
                        _ => nr += 1,
                    }
                }
                libc::write(write.as_raw_fd(), (&raw const nr).cast(), 8);
                libc::kill(0, libc::SIGKILL);
                libc::_exit(8)
            }
        }
        drop(write);
        let mut nr = [0; 8];
        let got = read.read_exact(&mut nr);
        let mut status = 0;
        // SAFETY: waits for the child that was started above.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        got.unwrap_or_else(|error| panic!("{error}, status {status:x}"));
        u64::from_ne_bytes(nr)
    }

    /// C9: a fork bomb comes to an end, whoever builds: root's by its control group, others' by their limit.
    #[test]
    fn processes_have_an_end_in_a_yard() {
        const MOST: u64 = 200;
        let inside = tempfile::tempdir().unwrap();
        let (mut yard, missing) = Yard::bounded(inside.path(), MOST).unwrap();
        // SAFETY: asks for a number.
        let is_root = unsafe { libc::getuid() } == 0;
        match &yard.group {
            Some(group) => {
                let folder = group.folder().to_owned();
                let nr = bomb(&mut yard, None);
                // it counts itself
                assert_eq!(nr, MOST - 1, "root's");
                drop(yard);
                assert!(!folder.exists(), "{} is left", folder.display());
            }
            None if is_root => {
                let all: Vec<String> = missing.iter().map(ToString::to_string).collect();
                assert!(all.iter().any(|why| why.starts_with(GROUP)), "nothing is said: {all:?}");
                eprintln!("not tried: {all:?}");
            }
            None => {}
        }
        let (mut yard, _) = Yard::bounded(inside.path(), MOST).unwrap();
        yard.group = None;
        let most = yard.processes.unwrap();
        let nobody = 65534;
        let nr = bomb(&mut yard, is_root.then_some(nobody));
        assert!(nr >= MOST / 2 && nr <= most, "{nr} of {most}");
    }

    /// What a build leaves running ends with it, where the host has groups.
    #[test]
    fn nothing_stays_of_a_yard_with_a_group() {
        let inside = tempfile::tempdir().unwrap();
        let (yard, _) = Yard::around(inside.path()).unwrap();
        if yard.group.is_none() {
            return eprintln!("not tried: this user or host makes no groups");
        }
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sleep 300 & echo $! > here"]).current_dir(inside.path());
        yard.hold(&mut command);
        assert!(command.status().unwrap().success());
        drop(command);
        let pid = std::fs::read_to_string(inside.path().join("here")).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
        assert!(status.is_empty() || status.contains("Z (zombie)"), "{status}");
    }
}
