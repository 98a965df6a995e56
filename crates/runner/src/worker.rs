//! The worker: one thread, started by exec, that forks a child for each run.
//!
//! ```text
//! Hello ──>
//!       <── Job, program, spill     program known? object known?      both stay for the next
//!             fork ──> child        child::run ──> records, report
//!             watch it, and the line to the caller
//! Ended ──>
//! ```
//!
//! It ends when the line does. A child ends with it, and so does whatever a child has started.

use crate::child;
use crate::control::{ControlPage, SharedPage, memory_file};
use crate::crash;
use crate::store::{self, KEPT_BYTES, Stored};
use crate::watch::{Attention, end_descendants};
use crate::wire::{self, Ended, Hash, Hello, Job, Named, ObjectKey};
use crate::{ENGINE, Scheduler};
use schedlab_linux::KernelObject;
use schedlab_machine::Setup;
use schedlab_policies::{ParamInfo, PolicyInfo};
use schedlab_process::contain::{self, Cell};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering};

schedlab_process::entrance! {
    /// The way in.
    pub(crate) static RUNS = ("runs", serve);
}

/// Where a child leaves the text of a panic; negative in the worker itself.
static CHILD_ANSWER: AtomicI32 = AtomicI32::new(-1);

/// A workload that has been read.
struct Kept {
    hash: Hash,
    stored: Stored,
    bytes: u64,
}

struct Worker {
    /// `None` in a child.
    line: Option<UnixStream>,
    attention: Attention,
    page: &'static ControlPage,
    /// What the child of the time writes as its report.
    answer: File,
    /// Those used last are last.
    kept: Vec<Kept>,
    /// A kernel object that is in memory. Only one: two are twice the memory, and a caller prefers a worker
    /// that has its own.
    kernel: Option<(ObjectKey, KernelObject)>,
    /// The object that a child has loaded well.
    proven: Option<ObjectKey>,
    policies: Vec<&'static PolicyInfo>,
    /// Where kernel objects are run: prepared for the first, entered by each child; or why this host has none.
    cell: Option<Result<Cell, String>>,
}

/// How a worker ends if it cannot go on: EX_OSERR and EX_PROTOCOL of sysexits.h.
const EXIT_SYSTEM: i32 = 71;
const EXIT_PROTOCOL: i32 = 76;

fn serve(line: UnixStream) {
    become_worker();
    let status = match Worker::new(line).map(Worker::work) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Ok(Err(error)) => {
            eprintln!("schedlab: a worker does not understand its caller: {error}");
            EXIT_PROTOCOL
        }
        Err(error) => {
            eprintln!("schedlab: a worker cannot begin: {error}");
            EXIT_SYSTEM
        }
    };
    // SAFETY: ends the process at once; main() has not begun, so there is nothing to be flushed.
    unsafe { libc::_exit(status) }
}

/// Makes this process a worker.
fn become_worker() {
    // SAFETY: plain calls on this process, with constants. Ctrl-C is meant for the caller, which has its way
    // to stop a run: it ends the line. (Else a scheduler would be blamed for a run that its user stopped.)
    // Orphans among the descendants come here.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"schedlab-worker".as_ptr());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    let in_worker = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let answer = CHILD_ANSWER.load(Ordering::Relaxed);
        if answer < 0 {
            return in_worker(info);
        }
        // SAFETY: the descriptor is open in a child until it ends; ManuallyDrop leaves it open.
        let mut text = ManuallyDrop::new(unsafe { File::from_raw_fd(answer) });
        let _ = write!(text, "{info}"); // a failure here leaves the signal to tell the story
        std::process::abort();
    }));
}

impl Worker {
    fn new(line: UnixStream) -> io::Result<Worker> {
        let (page, shared) = SharedPage::create()?;
        let answer = memory_file("schedlab-report")?;
        let hello = Hello { engine: ENGINE.to_owned() };
        wire::send(&line, &hello, &wire::borrowed([&shared, &answer]))?;
        Ok(Worker {
            line: Some(line),
            attention: Attention::pay(),
            page: page.leak(),
            answer,
            kept: Vec::new(),
            kernel: None,
            proven: None,
            policies: Vec::new(),
            cell: None,
        })
    }

    fn line(&self) -> &UnixStream {
        self.line.as_ref().expect("only a child has none")
    }

    fn work(mut self) -> io::Result<()> {
        while let Some((job, files)) = wire::receive::<Job>(self.line())? {
            let [program, spill] = wire::two(files)?;
            let ended = self.perform(&job, &program, spill)?;
            end_descendants();
            let Some(ended) = ended else { return Ok(()) };
            wire::send(self.line(), &ended, &[])?;
        }
        Ok(())
    }

    /// `None`: the caller has gone.
    fn perform(&mut self, job: &Job, program: &File, spill: File) -> io::Result<Option<Ended>> {
        self.keep(job.workload, program)?;
        let scheduler = match self.scheduler(&job.scheduler) {
            Some(scheduler) => scheduler,
            None => {
                let Named::Registered(name) = &job.scheduler else {
                    return Err(io::Error::from(io::ErrorKind::InvalidData));
                };
                return Ok(Some(Ended::NoPolicy(name.clone())));
            }
        };
        let object = match &scheduler {
            Scheduler::Linux(linux) => ObjectKey::of(linux),
            Scheduler::Native(_) => None,
        };
        self.open_kernel(object.as_ref(), &scheduler);
        if matches!(scheduler, Scheduler::Linux(_)) {
            self.cell.get_or_insert_with(|| Cell::prepare().map_err(|why| why.to_string()));
        }
        self.page.clear();
        self.answer.set_len(0)?;
        self.answer.rewind()?;
        let me = std::process::id();
        // SAFETY: this process has one thread (checked when it began; nothing here starts another), so no
        // lock is held that the child needs. The child leaves by _exit.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => {
                let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
                Ok(Some(Ended::NotStarted { doing: "start a child process".into(), errno }))
            }
            0 => {
                let code = self.in_child(me, job, &scheduler, object.as_ref(), spill);
                // SAFETY: _exit ends the child at once.
                unsafe { libc::_exit(code) }
            }
            pid => {
                drop(spill);
                let ended = self.attention.watch(pid, self.page, job.stall_limit, self.line().as_fd());
                if ended == Some(Ended::Exited(0)) {
                    self.proven = object;
                }
                Ok(ended)
            }
        }
    }

    /// Has the workload as the last of those that are kept.
    fn keep(&mut self, hash: Hash, program: &File) -> io::Result<()> {
        if let Some(at) = self.kept.iter().position(|kept| kept.hash == hash) {
            let kept = self.kept.remove(at);
            self.kept.push(kept);
            return Ok(());
        }
        let (stored, bytes) = store::read(program)?;
        self.kept.push(Kept { hash, stored, bytes });
        let mut total: u64 = self.kept.iter().map(|kept| kept.bytes).sum();
        while total > KEPT_BYTES && self.kept.len() > 1 {
            total -= self.kept.remove(0).bytes;
        }
        Ok(())
    }

    fn scheduler(&mut self, named: &Named) -> Option<Scheduler> {
        match named {
            Named::Linux(object) => Some(Scheduler::Linux(object.clone())),
            Named::Registered(name) => Some(Scheduler::Native(schedlab_policies::find(name)?)),
            Named::Own { name, params, maker } => {
                let maker = schedlab_process::address_of_offset(*maker)?;
                let known = self.policies.iter().find(|info| info.name == *name && info.maker() == maker);
                if let Some(info) = known {
                    return Some(Scheduler::Native(info));
                }
                let leak = |text: &String| &*String::leak(text.clone());
                let param = |[name, default, help]: &[String; 3]| ParamInfo {
                    name: leak(name),
                    default: leak(default),
                    help: leak(help),
                };
                let params: Vec<ParamInfo> = params.iter().map(param).collect();
                // SAFETY: the caller is this very executable (Entrance::start has compared the files), in
                // which this is the function.
                let info = unsafe { PolicyInfo::with_maker(leak(name), params.leak(), maker) };
                let info: &'static PolicyInfo = Box::leak(Box::new(info));
                self.policies.push(info);
                Some(Scheduler::Native(info))
            }
        }
    }

    /// Has the kernel object in memory if a child has loaded it well: what is wrong with it then happens to a
    /// child, and is reported as that of any other run.
    fn open_kernel(&mut self, object: Option<&ObjectKey>, scheduler: &Scheduler) {
        let (Some(object), Scheduler::Linux(linux)) = (object, scheduler) else { return };
        let is_open = self.kernel.as_ref().is_some_and(|(open, _)| open == object);
        if is_open || self.proven.as_ref() != Some(object) || !schedlab_linux::loads_quietly(&linux.object) {
            return;
        }
        self.kernel = None; // closed before the next is opened
        self.kernel = KernelObject::open(&linux.object).ok().map(|opened| (object.clone(), opened));
    }

    /// Runs in the child; its exit status.
    fn in_child(
        &mut self,
        worker: u32,
        job: &Job,
        scheduler: &Scheduler,
        object: Option<&ObjectKey>,
        spill: File,
    ) -> i32 {
        // SAFETY: asks the kernel to end this process with its parent, whose one thread started it; no memory
        // is involved.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if std::os::unix::process::parent_id() != worker {
            return EXIT_SYSTEM; // it ended before it was asked for
        }
        self.line = None;
        self.attention.end();
        crash::watch(self.page.scene());
        // a panic (a policy's or ours) ends here: from now on the hook leaves its text for the report and aborts
        CHILD_ANSWER.store(self.answer.as_raw_fd(), Ordering::Relaxed);
        let Kept { stored, .. } = self.kept.pop().expect("it has just been kept");
        let kernel = match self.kernel.take() {
            Some((open, kernel)) if Some(&open) == object => Some(kernel),
            other => {
                std::mem::forget(other); // (closing it takes longer than leaving it)
                None
            }
        };
        let Stored { mut program, real_time } = stored;
        program.restrict_to(job.topology.nr_cpus());
        program.place(&job.placement, job.topology.nr_cpus());
        if let Some(perturb) = &job.perturb {
            program.perturb(perturb, |task| real_time[task.index()]);
        }
        program.costs = job.costs.unwrap_or_default();
        // what native code from a file may do ends here; a policy is a part of this program
        let mut scheduler = scheduler.clone();
        let uncontained = match &mut scheduler {
            Scheduler::Linux(linux) => {
                // (what cannot be copied cannot be loaded either, and is reported then)
                let _ = linux.scx.as_mut().map(|compiled| compiled.copy_subs());
                hush();
                match self.cell.as_ref().expect("it was prepared for kernel objects") {
                    Ok(cell) => cell.enter(spill.as_fd()).err().map(|why| why.to_string()),
                    Err(why) => {
                        contain::limit_resources(spill.as_fd());
                        Some(why.clone())
                    }
                }
            }
            Scheduler::Native(_) => None,
        };
        let setup =
            Setup { topology: job.topology.clone(), duration: job.duration, params: job.params.clone() };
        let mut report = child::run(&scheduler, kernel, program, setup, &job.actions, spill, self.page);
        report.uncontained = uncontained;
        let json = serde_json::to_vec(&report).map_err(io::Error::from);
        self.page.leaves.store(1, Ordering::Release);
        match json.and_then(|json| (&self.answer).write_all(&json)) {
            Ok(()) => 0,
            Err(_) => 4,
        }
    }
}

/// Results go to the caller's standard output: a scheduler must not write there, or read the keyboard.
fn hush() {
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
            // SAFETY: both descriptors are open; the child's own copies are replaced.
            unsafe { libc::dup2(nothing.as_raw_fd(), stream) };
        }
    }
}
