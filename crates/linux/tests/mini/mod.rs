//! A minimal simulator around a kernel, to test the port by itself: an event queue, tasks that are closures, no costs.
//! Interrupts between CPUs arrive at once. Order at one instant: CPUs that have something to do, first in first out;
//! then timers before ends of bursts, each by CPU.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use schedlab_linux::abi::{self, Topo, irq, op};
use schedlab_linux::{BootOptions, KernelError, LoadedKernel, State};
use schedlab_log::Record;
use schedlab_units::{CpuId, TaskId, Time};

/// What a task does next.
pub enum Step {
    /// Compute this long, ns.
    Run(u64),
    /// Ask the kernel for something: op, flags, args.
    Op(u32, u32, [u64; 5]),
    /// Fork a child that runs this program.
    Fork(Program),
}
pub type Program = Box<dyn FnMut(u64) -> Step>;

pub const FOREVER: u64 = u64::MAX;

struct TaskState {
    program: Option<Program>,
    left_ns: u64,
}

pub struct Mini {
    pub kernel: LoadedKernel,
    pub now: u64,
    queue: BinaryHeap<Reverse<(u64, u8, u32, u64)>>,
    ready: VecDeque<CpuId>,
    relaxing: VecDeque<CpuId>,
    user: Vec<Option<(TaskId, u64)>>,
    generation: Vec<u64>,
    armed: Vec<u64>,
    tasks: Vec<TaskState>,
    pub keep_log: bool,
    pub log: Vec<Record>,
    pub records: u64,
    pub hash: u64,
    pub resumes: u64,
    pub timers: u64,
}

pub fn flat(n: u32) -> Vec<Topo> {
    (0..n).map(|c| Topo { core: c, cluster: c, llc: 0, package: 0, node: 0, capacity: 1024 }).collect()
}

impl Mini {
    pub fn boot(object: &std::path::Path, topology: &[Topo], max_tasks: u32, cmdline: &str) -> Mini {
        Mini::boot_for_groups(object, topology, max_tasks, cmdline, 16)
    }

    /// With memory for so many control groups.
    pub fn boot_for_groups(
        object: &std::path::Path,
        topology: &[Topo],
        max_tasks: u32,
        cmdline: &str,
        nr_groups: u32,
    ) -> Mini {
        let mut kernel = LoadedKernel::load(object).unwrap();
        let now = 1_000_000;
        kernel
            .boot(&BootOptions {
                topology,
                distances: &[],
                max_tasks,
                live_tasks: max_tasks.min(2000),
                nr_groups,
                nr_sessions: 0,
                command_line: cmdline,
                now: Time::from_ns(now),
            })
            .unwrap();
        let n = topology.len();
        let mut m = Mini {
            kernel,
            now,
            queue: BinaryHeap::new(),
            ready: VecDeque::from([CpuId(0)]),
            relaxing: VecDeque::new(),
            user: vec![None; n],
            generation: vec![0; n],
            armed: vec![u64::MAX; n],
            tasks: Vec::new(),
            keep_log: false,
            log: Vec::new(),
            records: 0,
            hash: 0,
            resumes: 0,
            timers: 0,
        };
        m.run_while(|m| !m.kernel.booted());
        m
    }

    fn resume(&mut self, cpu: CpuId) -> Result<(), KernelError> {
        let c = cpu.index();
        if let Some((task, since)) = self.user[c].take()
            && task.is_workload()
        {
            let left = &mut self.tasks[task.index()].left_ns;
            if *left != FOREVER {
                *left -= self.now - since;
            }
        }
        self.generation[c] += 1;
        self.resumes += 1;
        let (records, hash, log, keep) = (&mut self.records, &mut self.hash, &mut self.log, self.keep_log);
        let state = self.kernel.resume(cpu, &mut |window| {
            digest(window, records, hash);
            if keep {
                log.extend_from_slice(window);
            }
        });
        let state = state.map_err(|error| *error)?;
        self.kernel.drain_kicks(&mut self.ready);
        let deadline = self.kernel.deadline(cpu).map_or(u64::MAX, Time::as_ns);
        if deadline != self.armed[c] {
            self.armed[c] = deadline;
            if deadline != u64::MAX {
                self.queue.push(Reverse((deadline.max(self.now), 0, cpu.0, 0)));
            }
        }
        match state {
            State::Idle | State::Paused => {}
            State::Point => unreachable!("no points are asked for"),
            State::Relax => self.relaxing.push_back(cpu),
            State::User(task) => {
                self.user[c] = Some((task, self.now));
                self.in_user_mode(cpu, task);
            }
        }
        Ok(())
    }

    fn in_user_mode(&mut self, cpu: CpuId, task: TaskId) {
        if !task.is_workload() {
            return;
        }
        while self.tasks[task.index()].left_ns == 0 {
            let mut program = self.tasks[task.index()].program.take().unwrap();
            let step = program(self.now);
            self.tasks[task.index()].program = Some(program);
            match step {
                Step::Run(ns) => self.tasks[task.index()].left_ns = ns,
                Step::Op(op, flags, arg) => {
                    self.kernel.operate(task, op, flags, arg);
                    self.ready.push_front(cpu);
                    return;
                }
                Step::Fork(child) => {
                    let id = self.add(child);
                    self.kernel.operate(task, op::FORK, 0, [u64::from(id.0), 0, 0, 0, 0]);
                    self.ready.push_front(cpu);
                    return;
                }
            }
        }
        let left = self.tasks[task.index()].left_ns;
        if left != FOREVER {
            self.queue.push(Reverse((self.now + left, 1, cpu.0, self.generation[cpu.index()])));
        }
    }

    fn add(&mut self, program: Program) -> TaskId {
        self.tasks.push(TaskState { program: Some(program), left_ns: 0 });
        TaskId(self.tasks.len() as u32 - 1)
    }

    pub fn run_while(&mut self, mut go_on: impl FnMut(&Mini) -> bool) {
        self.try_run_while(&mut go_on).unwrap();
    }

    pub fn try_run_while(&mut self, go_on: &mut dyn FnMut(&Mini) -> bool) -> Result<(), KernelError> {
        while go_on(self) {
            if let Some(cpu) = self.ready.pop_front() {
                self.resume(cpu)?;
                continue;
            }
            let next = self.queue.peek().map(|Reverse(e)| e.0);
            if next != Some(self.now)
                && let Some(cpu) = self.relaxing.pop_front()
            {
                self.resume(cpu)?;
                continue;
            }
            let Some(Reverse((time, class, cpu, generation))) = self.queue.pop() else {
                panic!("nothing will ever happen (at {} ns)", self.now);
            };
            let c = cpu as usize;
            if (class == 0 && self.armed[c].max(self.now) != time && self.armed[c] != time)
                || (class == 1 && self.generation[c] != generation)
            {
                continue;
            }
            if time > self.now {
                self.now = time;
                self.kernel.set_now(Time::from_ns(time));
            }
            if class == 0 {
                self.timers += 1;
                self.armed[c] = u64::MAX;
                self.kernel.raise(CpuId(cpu), irq::TIMER);
                self.ready.push_back(CpuId(cpu));
            } else if let Some((task, since)) = self.user[c].take() {
                self.generation[c] += 1;
                self.tasks[task.index()].left_ns -= self.now - since;
                assert_eq!(self.tasks[task.index()].left_ns, 0);
                self.user[c] = Some((task, self.now));
                self.in_user_mode(CpuId(cpu), task);
            }
        }
        Ok(())
    }

    pub fn run_until(&mut self, ns: u64) {
        // an event at the end belongs to the next run
        self.run_while(|m| {
            !m.ready.is_empty() || !m.relaxing.is_empty() || m.queue.peek().is_some_and(|Reverse(e)| e.0 < ns)
        });
        self.now = ns;
        self.kernel.set_now(Time::from_ns(ns));
    }

    /// The control task is about to do something.
    pub fn control_starts(&mut self, op: u32, arg: [u64; 5]) {
        let control = TaskId(abi::CONTROL);
        self.run_while(|m| !m.user.iter().flatten().any(|u| u.0 == control));
        let cpu = self.user.iter().position(|u| u.is_some_and(|u| u.0 == control)).unwrap();
        self.kernel.operate(control, op, 0, arg);
        self.ready.push_front(CpuId(cpu as u32));
    }

    /// The control task does something; returns the result.
    pub fn control(&mut self, op: u32, arg: [u64; 5]) -> i64 {
        let control = TaskId(abi::CONTROL);
        let (_, done) = self.kernel.result(control);
        self.control_starts(op, arg);
        self.run_while(|m| m.kernel.result(control).1 == done && op != op::BLOCK);
        self.kernel.result(control).0
    }

    /// A new task, a child of the control task.
    pub fn spawn(&mut self, program: Program) -> TaskId {
        let id = self.add(program);
        let pid = self.control(op::FORK, [u64::from(id.0), 0, 0, 0, 0]);
        assert!(pid > 0, "fork: {pid}");
        id
    }

    pub fn write(&mut self, path: &str, text: &str) -> i64 {
        let path = std::ffi::CString::new(path).unwrap();
        self.control(op::WRITE, [path.as_ptr() as u64, text.as_ptr() as u64, text.len() as u64, 0, 0])
    }

    pub fn read(&mut self, path: &str) -> Result<String, i64> {
        let path = std::ffi::CString::new(path).unwrap();
        let mut buffer = vec![0u8; 1 << 16];
        let n = self
            .control(op::READ, [path.as_ptr() as u64, buffer.as_mut_ptr() as u64, buffer.len() as u64, 0, 0]);
        if n < 0 { Err(n) } else { Ok(String::from_utf8_lossy(&buffer[..n as usize]).into_owned()) }
    }

    pub fn mkdir(&mut self, path: &str) -> i64 {
        let path = std::ffi::CString::new(path).unwrap();
        self.control(op::MKDIR, [path.as_ptr() as u64, 0o755, 0, 0, 0])
    }

    pub fn mount(&mut self, kind: &str, dir: &str) -> i64 {
        let (kind, dir) = (std::ffi::CString::new(kind).unwrap(), std::ffi::CString::new(dir).unwrap());
        self.control(op::MOUNT, [kind.as_ptr() as u64, dir.as_ptr() as u64, 0, 0, 0])
    }

    /// The control task sleeps for good: from now on only the workload runs.
    pub fn control_sleeps(&mut self) {
        self.control(op::BLOCK, [u64::MAX, 0, 0, 0, 0]);
        self.run_while(|m| {
            m.user.iter().flatten().any(|u| u.0 == TaskId(abi::CONTROL)) || !m.ready.is_empty()
        });
    }

    pub fn start_log(&mut self) {
        self.kernel.start_log(Time::from_ns(self.now));
    }

    pub fn flush_log(&mut self) {
        let (records, hash, log, keep) = (&mut self.records, &mut self.hash, &mut self.log, self.keep_log);
        self.kernel.flush_log(&mut |window| {
            digest(window, records, hash);
            if keep {
                log.extend_from_slice(window);
            }
        });
    }

    pub fn cpu_s(&self, task: TaskId) -> f64 {
        self.kernel.stats(task).cpu_ns as f64 * 1e-9
    }
}

/// Count and hash every byte of the log.
fn digest(window: &[Record], records: &mut u64, hash: &mut u64) {
    *records += window.len() as u64;
    for r in window {
        for word in [
            r.time_ns,
            u64::from(r.kind) | u64::from(r.flags) << 8 | u64::from(r.cpu) << 16 | u64::from(r.task) << 32,
            u64::from(r.other) | u64::from(r.arg) << 32,
            r.value,
        ] {
            *hash = (*hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29);
        }
    }
}

pub fn hog() -> Program {
    Box::new(|_| Step::Run(FOREVER))
}

/// Run, sleep until a multiple after its own wake time, over and over.
pub fn sleeper(run_ns: u64, sleep_ns: u64) -> Program {
    let mut running = false;
    Box::new(move |now| {
        running = !running;
        if running { Step::Run(run_ns) } else { Step::Op(op::BLOCK, 0, [now + sleep_ns, 0, 0, 0, 0]) }
    })
}
