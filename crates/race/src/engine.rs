//! How are several CPUs run on one thread, so that any of them may go on at any point?
//!
//! Each CPU is a stack. Before each shared access the compiled code calls a hook ([`crate::abi::Table`]); the hook
//! asks the search who goes on, and switches to that stack. Only when its CPU goes on again does the hook return, and
//! the access is made:
//!
//! ```text
//! cpu0  ..hook(write x)=====switch=============================.. x = 1 ..hook
//! cpu1                      ..hook(read x) r = x ..hook(read y)==switch
//! ```
//!
//! A process has one engine and one target, for hooks have no other way to find them than a global variable.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_long};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::abi::{self, CPUS_MAX, Table};
use crate::memory::{self, Memory, MemoryModel};
use crate::object::Target;
use crate::schedule::{Choice, ChoiceKind};
use crate::story::{AtomicHow, Event, Happened};
use crate::strategy::{Fork, Pending, Search, StepKind};
use crate::switch::{self, Stacks};
use serde::{Deserialize, Serialize};

/// A schedule that has so many points is a livelock.
pub(crate) const BUDGET: u64 = 20_000;
/// Memory that a target may have at once.
const ARENA: usize = 1 << 20;
/// Blocks lie so far apart, so that an access past the end meets none.
const GAP: usize = 64;

/// What is done to a barrier, or to the order that a lock gives. Places are code addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Altered {
    /// It does nothing.
    Out(usize),
    /// There is one of this kind before this access.
    Before(usize, u32),
    /// There is one behind it.
    Behind(usize, u32),
}

impl Altered {
    /// The same with the place moved.
    pub(crate) fn moved_by(self, base: usize) -> Altered {
        match self {
            Altered::Out(at) => Altered::Out(at + base),
            Altered::Before(at, kind) => Altered::Before(at + base, kind),
            Altered::Behind(at, kind) => Altered::Behind(at + base, kind),
        }
    }
}

/// A barrier that was met, with the accesses beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Met {
    /// Where it is in the object.
    pub code: usize,
    /// `RACE_MB`, ..., or what a lock does.
    pub kind: u32,
    /// The CPU's last access before it, of each time.
    pub before: Vec<usize>,
    /// Its first access behind it.
    pub behind: Vec<usize>,
}

/// How a schedule went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    /// Code addresses: where each CPU stood, the one that found it first.
    pub(crate) sites: Vec<usize>,
}

/// How a schedule ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All calls were made, and nothing was found.
    Good,
    /// Given up: the search has seen its like.
    Redundant,
    /// A finding.
    Bad(Failure),
    /// The scenario asks for what the target does not have.
    Refused(String),
}

/// An operation with its arguments, ready to be called.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// Index into the target's operations.
    pub(crate) op: usize,
    pub(crate) args: Vec<c_long>,
    /// `FILE:LINE: 'set 0 10'`.
    pub(crate) place: String,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    sp: usize,
    /// Points so far.
    at: u32,
    /// Asleep, or about to be.
    asleep: bool,
    /// Memory had been written so often when it last waited, and the time before.
    waited: [u64; 2],
    /// What it waits for holds since here.
    locked_at: usize,
    /// Its last access; 0: none in this call.
    last: usize,
    /// A barrier of this kind and one is owed behind the last access.
    owed: u32,
    /// The event of a store that is being made, from 1; 0: none.
    stored: usize,
    /// Which of its calls it makes; alone: of the first ones.
    call: usize,
}

#[derive(Clone, Copy)]
struct Block {
    start: usize,
    end: usize,
    is_free: bool,
}

/// What is where in the target's memory, and how it was.
struct Snapshot {
    start: usize,
    bytes: Vec<u8>,
}

/// See the module.
pub(crate) struct Engine {
    /// Hooks do nothing: something runs alone.
    quiet: bool,
    private: [usize; 2],
    stacks_all: [usize; 2],
    cur: usize,
    nr: usize,
    cpus: [Cpu; CPUS_MAX + 1],
    pending: [Pending; CPUS_MAX + 1],
    steps: u64,
    writes: u64,
    dirty: bool,
    model: MemoryModel,
    memory: Memory,
    search: Search,
    /// Choices that differ from the rule.
    choices: Vec<Choice>,
    /// Switches away from a CPU that could have gone on.
    preemptions: u32,
    /// A schedule is being run.
    is_running: bool,
    /// Of 256 chances, how many a late store has to be flushed at a point.
    flush_chance: u64,
    end: Option<End>,
    host: usize,
    stacks: Stacks,
    target: Target,
    programs: Vec<Vec<Prepared>>,
    first: Vec<Prepared>,
    /// What the service stack is to do, and what came of it.
    service: Service,
    snapshots: Vec<Snapshot>,
    arena: usize,
    arena_used: usize,
    arena_base_used: usize,
    blocks: Vec<Block>,
    base_blocks: usize,
    /// What is done to barriers.
    altered: Vec<Altered>,
    /// Barriers that were met.
    pub(crate) barriers: Vec<Met>,
    counts_barriers: bool,
    /// Barriers with no access of their CPU behind them so far: the CPU, and which.
    fresh: Vec<(usize, usize)>,
    pub(crate) trace: Option<Vec<Event>>,
    /// gdb looks on.
    pub(crate) is_watched: bool,
    /// Schedules so far: for whoever watches whether there is progress.
    pub(crate) number: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Service {
    Init,
    Start,
    Rest,
}

struct Shared(UnsafeCell<*mut Engine>);
// SAFETY: only the one thread of a worker process uses it.
unsafe impl Sync for Shared {}
static ENGINE: Shared = Shared(UnsafeCell::new(ptr::null_mut()));

/// The engine; null before there is one.
pub(crate) fn engine() -> *mut Engine {
    // SAFETY: one thread.
    unsafe { *ENGINE.0.get() }
}

/// The stack for what is done alone.
const SERVICE: usize = CPUS_MAX;

impl Engine {
    /// Builds the engine around a target, and has that build its structure.
    ///
    /// # Errors
    /// The target refuses, in words.
    pub(crate) fn start(
        target: Target,
        programs: Vec<Vec<Prepared>>,
        first: Vec<Prepared>,
        model: MemoryModel,
    ) -> Result<*mut Engine, String> {
        let stacks = Stacks::new(CPUS_MAX + 1).map_err(|e| format!("no memory for stacks: {e}"))?;
        let arena = Box::leak(vec![0u8; ARENA].into_boxed_slice()).as_mut_ptr() as usize;
        let all = stacks.all();
        let engine = Box::new(Engine {
            quiet: true,
            private: target.private,
            stacks_all: [all.start, all.end - all.start],
            cur: SERVICE,
            nr: programs.len(),
            cpus: [Cpu::default(); CPUS_MAX + 1],
            pending: [Pending::default(); CPUS_MAX + 1],
            steps: 0,
            writes: 0,
            dirty: false,
            model,
            memory: Memory::new(model),
            search: Search::Given { choices: Vec::new() },
            choices: Vec::with_capacity(1024),
            preemptions: 0,
            is_running: false,
            flush_chance: 0,
            end: None,
            host: 0,
            stacks,
            target,
            programs,
            first,
            service: Service::Init,
            snapshots: Vec::new(),
            arena,
            arena_used: 0,
            arena_base_used: 0,
            blocks: Vec::new(),
            base_blocks: 0,
            altered: Vec::new(),
            barriers: Vec::new(),
            counts_barriers: false,
            fresh: Vec::new(),
            trace: None,
            is_watched: false,
            number: 0,
        });
        let engine = Box::into_raw(engine);
        // SAFETY: one thread; the engine lives as long as the process.
        unsafe {
            *ENGINE.0.get() = engine;
            let table = Table {
                access,
                atomic,
                barrier,
                lock,
                trylock,
                unlock,
                relax,
                sleep,
                fail,
                note,
                cpu,
                alloc,
                free,
                is_weak: u64::from(model != MemoryModel::Sc),
            };
            ptr::write((*engine).target.table, table);
            (*engine).service = Service::Init;
            (*engine).is_running = true;
            alone(engine);
            (*engine).is_running = false;
            match (*engine).end.take() {
                None => {}
                Some(End::Bad(failure)) => return Err(format!("the target's init(): {}", failure.text)),
                Some(End::Refused(text)) => return Err(text),
                Some(_) => return Err("init() did not end".into()),
            }
            (*engine).remember();
        }
        Ok(engine)
    }

    /// How memory is now is how each schedule finds it.
    fn remember(&mut self) {
        self.arena_base_used = self.arena_used;
        self.base_blocks = self.blocks.len();
        let mut ranges = self.target.writable.clone();
        ranges.push((self.arena, self.arena + self.arena_used));
        let copy = |(start, end): (usize, usize)| Snapshot {
            start,
            // SAFETY: the target's memory, or the arena's used part.
            bytes: unsafe { std::slice::from_raw_parts(start as *const u8, end - start) }.to_vec(),
        };
        self.snapshots = ranges.into_iter().map(copy).collect();
    }

    fn restore(&mut self) {
        for snapshot in &self.snapshots {
            // SAFETY: where it was taken from.
            unsafe {
                ptr::copy_nonoverlapping(
                    snapshot.bytes.as_ptr(),
                    snapshot.start as *mut u8,
                    snapshot.bytes.len(),
                );
            }
        }
        self.arena_used = self.arena_base_used;
        self.blocks.truncate(self.base_blocks);
        for block in &mut self.blocks {
            block.is_free = false;
        }
    }

    /// What is done to barriers from now on.
    pub(crate) fn alter(&mut self, altered: Vec<Altered>) {
        self.altered = altered;
    }

    fn is_out(&self, code: usize) -> bool {
        !self.altered.is_empty() && self.altered.contains(&Altered::Out(code))
    }

    /// Whether barriers that are met are noted.
    pub(crate) fn count_barriers(&mut self, on: bool) {
        self.counts_barriers = on;
    }

    /// What the search did: of an exhaustive one, whether there is another schedule.
    pub(crate) fn search(&mut self) -> &mut Search {
        &mut self.search
    }

    pub(crate) fn set_search(&mut self, search: Search) {
        self.search = search;
    }

    pub(crate) fn set_flush_chance(&mut self, of_256: u64) {
        self.flush_chance = of_256;
    }

    /// The choices of the schedule that was run last.
    pub(crate) fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// Points of the schedule that was run last.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Switches of it away from a CPU that could have gone on.
    pub(crate) fn preemptions(&self) -> u32 {
        self.preemptions
    }

    /// What is called from now on, on as many CPUs as before.
    pub(crate) fn set_programs(&mut self, programs: Vec<Vec<Prepared>>) {
        self.programs = programs;
    }

    /// What the target can be asked for, and its own scenario.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Whether a value is an address of the target's memory, or of a stack.
    pub(crate) fn is_address(&self, value: usize) -> bool {
        let within = |(start, end): (usize, usize)| (start..end).contains(&value);
        within((self.arena, self.arena + ARENA))
            || within((self.stacks_all[0], self.stacks_all[0] + self.stacks_all[1]))
            || self.target.writable.iter().copied().any(within)
            || within((self.private[0], self.private[0] + self.private[1]))
    }

    /// What lies at an address: a variable and an offset, or a block of memory.
    pub(crate) fn name_of(&self, at: usize) -> String {
        match self.blocks.iter().position(|b| (b.start..b.end).contains(&at)) {
            Some(n) => format!("block{n}+{}", at - self.blocks[n].start),
            None => self.target.name_of(at),
        }
    }

    /// Where the target's object was loaded.
    pub(crate) fn base(&self) -> usize {
        self.target.base
    }

    fn prepare(&mut self) {
        self.restore();
        self.number += 1;
        self.choices.clear();
        self.fresh.clear();
        self.end = None;
        (self.steps, self.writes, self.dirty, self.preemptions) = (0, 0, false, 0);
        if self.model != MemoryModel::Sc {
            self.memory.reset();
        }
        for n in 0..self.nr {
            self.cpus[n] =
                Cpu { sp: self.stacks.fresh(n, cpu_entry), waited: [u64::MAX; 2], ..Cpu::default() };
            self.pending[n] = Pending::default();
        }
        for n in self.nr..CPUS_MAX {
            self.pending[n] = Pending { kind: StepKind::Over, ..Pending::default() };
        }
        self.cpus[CPUS_MAX].at = 0;
        if let Some(trace) = &mut self.trace {
            trace.clear();
        }
    }

    fn tell(&mut self, happened: Happened, code: usize) {
        if let Some(trace) = &mut self.trace {
            let cpu = self.cur as u8;
            trace.push(Event { cpu, at: self.cpus[self.cur].at, code, happened });
        }
    }

    #[inline(always)]
    fn can_go_on(&self, n: usize) -> bool {
        let pending = &self.pending[n];
        match pending.kind {
            StepKind::Over => false,
            // SAFETY: a lock of the target's.
            StepKind::Lock => unsafe { *(pending.at as *const u32) == 0 },
            StepKind::Sleep => !self.cpus[n].asleep,
            StepKind::Relax => self.writes != self.cpus[n].waited[0],
            _ => true,
        }
    }

    /// CPUs that can go on, a bit each.
    #[inline(always)]
    fn mask(&self) -> u32 {
        let mut mask = 0;
        for n in 0..self.nr {
            mask |= u32::from(self.can_go_on(n)) << n;
        }
        if mask == 0 {
            // who waits may look once more at what was written before it began to wait
            for n in 0..self.nr {
                let again = self.pending[n].kind == StepKind::Relax && self.writes != self.cpus[n].waited[1];
                mask |= u32::from(again) << n;
            }
        }
        mask
    }

    /// The CPU at the point goes on (`None`), or another one does; or it is over ([`HOST`]).
    #[inline(always)]
    fn decide(&mut self) -> Option<usize> {
        let cur = self.cur;
        let at = self.cpus[cur].at + 1;
        self.cpus[cur].at = at;
        self.steps += 1;
        if self.steps > BUDGET {
            return self.stop("livelock", format!("no end after {BUDGET} points"));
        }
        let mask = self.mask();
        if mask == 0 {
            return self.stuck();
        }
        let goes = mask >> cur & 1 == 1;
        let rule = if goes { cur } else { mask.trailing_zeros() as usize };
        let fork = Fork { cur, at, mask, pending: &self.pending, rule };
        let Some(to) = self.search.choose(&fork) else {
            self.end = Some(End::Redundant);
            return Some(HOST);
        };
        if to != rule {
            self.choices.push(Choice { cpu: cur as u8, at, what: ChoiceKind::To(to as u8) });
        }
        if to == cur {
            return None;
        }
        self.preemptions += u32::from(goes);
        Some(to)
    }

    fn stop(&mut self, kind: &'static str, text: String) -> Option<usize> {
        let mut sites = vec![self.pending[self.cur].code];
        sites.extend((0..self.nr).filter(|n| *n != self.cur).map(|n| self.pending[n].code));
        sites.retain(|site| *site != 0);
        self.end = Some(End::Bad(Failure { kind, text, sites }));
        Some(HOST)
    }

    /// Nobody can go on.
    fn stuck(&mut self) -> Option<usize> {
        let waiting: Vec<usize> = (0..self.nr).filter(|n| self.pending[*n].kind != StepKind::Over).collect();
        if waiting.is_empty() {
            return Some(HOST);
        }
        self.search.stuck(&self.pending);
        let locks = waiting.iter().filter(|n| self.pending[**n].kind == StepKind::Lock).count();
        let sleepers = waiting.iter().filter(|n| self.pending[**n].kind == StepKind::Sleep).count();
        let kind = match (locks, sleepers) {
            (1.., _) => "deadlock",
            (0, 1..) => "lost_wakeup",
            _ => "livelock",
        };
        let who = |&n: &usize| match self.pending[n].kind {
            StepKind::Lock => {
                let lock = self.pending[n].at;
                // SAFETY: the lock's word: its holder and one.
                let holder = unsafe { *(lock as *const u32) };
                format!(
                    "cpu{n} waits for the lock {} that cpu{} holds",
                    self.target.name_of(lock),
                    holder - 1
                )
            }
            StepKind::Sleep => format!("cpu{n} sleeps, and nobody is left to wake it"),
            _ => format!("cpu{n} waits in a loop for a store that does not come"),
        };
        let text = waiting.iter().map(who).collect::<Vec<_>>().join("; ");
        self.stop(kind, text)
    }

    fn is_own_stack(&self, at: usize) -> bool {
        at.wrapping_sub(self.stacks_all[0]) < self.stacks_all[1] && self.stacks.range(self.cur).contains(&at)
    }

    /// An access to memory that was given back, or past a block's end.
    fn is_stray(&self, at: usize) -> Option<&'static str> {
        if at.wrapping_sub(self.arena) >= ARENA {
            return None;
        }
        match self.blocks.iter().rev().find(|b| b.start <= at) {
            Some(b) if at < b.end && !b.is_free => None,
            Some(b) if at < b.end => Some("access to memory that was given back"),
            _ => Some("access past the end of a block of memory"),
        }
    }
}

/// Of [`Engine::decide`]: back to whoever runs schedules.
const HOST: usize = usize::MAX;

/// Runs init, start or rest on the service stack.
///
/// # Safety
/// One thread, not called from a CPU's stack; so all below.
unsafe fn alone(e: *mut Engine) {
    // SAFETY: see the module: no reference to the engine is alive across a switch.
    unsafe {
        (*e).quiet = true;
        (*e).cur = SERVICE;
        let sp = (*e).stacks.fresh(SERVICE, service_entry);
        switch::switch(&raw mut (*e).host, sp);
    }
}

/// Leaves the running stack for good.
unsafe fn leave(e: *mut Engine) -> ! {
    // SAFETY: as above.
    unsafe {
        let mut dead = 0;
        switch::switch(&raw mut dead, (*e).host);
    }
    unreachable!("a stack that was left for good goes on")
}

/// gdb sets it when it is ready (`linux/gdb/race.py`).
#[unsafe(no_mangle)]
static SCHEDLAB_RACE_GO: AtomicU32 = AtomicU32::new(0);

/// Under gdb, at each point: the running CPU, which of its points, who goes on, and whether the schedule says so. gdb
/// stops here, on that CPU's stack.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn schedlab_race_stop(cpu: u64, at: u64, to: u64, is_choice: u64) {
    std::hint::black_box((cpu, at, to, is_choice));
}

/// Lets gdb into this process. Before containment: inside, `prctl` ends the process.
pub(crate) fn admit_debugger() {
    // SAFETY: names who may look into this process; no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}

/// How long gdb may take to read this program.
const GDB_COMES_IN: Duration = Duration::from_secs(600);

/// Waits until gdb is there, which stops at points from now on.
///
/// # Errors
/// It did not come.
pub(crate) fn watch() -> Result<(), String> {
    let until = Instant::now() + GDB_COMES_IN;
    while SCHEDLAB_RACE_GO.load(Ordering::Relaxed) == 0 {
        std::hint::spin_loop();
        if Instant::now() > until {
            return Err("gdb did not come".into());
        }
    }
    Ok(())
}

#[cold]
fn show(me: &Engine, to: Option<usize>) {
    let (cpu, at) = (me.cur, me.cpus[me.cur].at);
    let to = to.unwrap_or(cpu);
    let is_choice = me.choices.last().is_some_and(|c| usize::from(c.cpu) == cpu && c.at == at);
    let to = if to == HOST { cpu } else { to };
    schedlab_race_stop(cpu as u64, u64::from(at), to as u64, u64::from(is_choice));
}

/// To another CPU's stack, and back when this one's turn comes.
unsafe fn hop(e: *mut Engine, to: usize) {
    // SAFETY: as above.
    unsafe {
        let from = (*e).cur;
        if to == HOST {
            leave(e);
        }
        if (*e).model != MemoryModel::Sc {
            if from < CPUS_MAX {
                (*e).memory.retract(from);
            }
            (*e).memory.apply(to);
        }
        (*e).cur = to;
        switch::switch(&raw mut (*e).cpus[from].sp, (*e).cpus[to].sp);
    }
}

/// A point: what is about to be done, who goes on, and when this CPU does, what the model has to say.
#[inline(always)]
unsafe fn point(e: *mut Engine, pending: Pending) {
    // SAFETY: as above.
    unsafe {
        let cur = (*e).cur;
        (*e).pending[cur] = pending;
        if (*e).trace.is_some() {
            (*e).note_stored();
        }
        if (*e).model != MemoryModel::Sc {
            drain_stores(e);
        }
        if (*e).dirty {
            check(e);
        }
        let to = (*e).decide();
        if (*e).is_watched {
            show(&*e, to);
        }
        if let Some(to) = to {
            hop(e, to);
        }
    }
}

/// The last access is over; some late stores may become visible.
unsafe fn drain_stores(e: *mut Engine) {
    // SAFETY: as above; the CPU at the point is running.
    unsafe {
        let me = &mut *e;
        let cpu = me.cur;
        me.memory.drain_stores(cpu);
        let at = me.cpus[cpu].at + 1;
        let given: Vec<u8> = me
            .search
            .given(cpu, at)
            .filter_map(|what| match what {
                ChoiceKind::Flush(place) => Some(place),
                _ => None,
            })
            .collect();
        for place in given {
            if me.memory.flushable(cpu).any(|f| f == usize::from(place)) {
                flush(e, cpu, usize::from(place), at);
            }
        }
        let me = &mut *e;
        while me.memory.nr_late(cpu) > 0 {
            let n = me.memory.flushable(cpu).count();
            let Some(nth) = me.search.flush(n, me.flush_chance) else { break };
            let place = me.memory.flushable(cpu).nth(nth).unwrap_or(0);
            flush(e, cpu, place, at);
        }
    }
}

unsafe fn flush(e: *mut Engine, cpu: usize, place: usize, at: u32) {
    // SAFETY: as above.
    let me = unsafe { &mut *e };
    if let Some(late) = me.memory.late(cpu, place) {
        let (address, value) = (late.at, late.value);
        me.tell(Happened::Flush { address, value }, 0);
    }
    me.memory.flush(cpu, place);
    me.writes += 1;
    me.choices.push(Choice { cpu: cpu as u8, at, what: ChoiceKind::Flush(place as u8) });
}

/// What must hold at every point is looked at after each store.
unsafe fn check(e: *mut Engine) {
    // SAFETY: as above.
    unsafe {
        (*e).dirty = false;
        let Some(check) = (*e).target.check else { return };
        if (*e).model != MemoryModel::Sc && !(*e).memory.is_settled() {
            return;
        }
        (*e).quiet = true;
        let r15 = (*e).target.cpu_register((*e).cur);
        switch::call(check as usize, [0; 3], r15);
        (*e).quiet = false;
    }
}

/// The first frame of a CPU.
extern "C" fn cpu_entry() -> ! {
    let e = engine();
    // SAFETY: as above.
    unsafe {
        let cpu = (*e).cur;
        let nr = (&(*e).programs)[cpu].len();
        for n in 0..nr {
            if n > 0 {
                point(e, Pending::default());
            }
            let (op, args, nr_args) = {
                let call = &(&(*e).programs)[cpu][n];
                (call.op, call.args.as_ptr(), call.args.len())
            };
            begins(e, n);
            (*e).tell(Happened::Begin { call: n }, 0);
            (*e).cpus[cpu].last = 0;
            let result = invoke(e, op, cpu, args, nr_args);
            (*e).tell(Happened::End { call: n, result }, 0);
            owe(e, 0);
            (*e).fresh.retain(|(other, _)| *other != cpu);
        }
        // what is late becomes visible at last, in an order that others may see
        while (*e).model != MemoryModel::Sc && {
            (*e).memory.drain_stores(cpu);
            (*e).memory.nr_late(cpu) > 0
        } {
            point(e, Pending { kind: StepKind::Drain, ..Pending::default() });
            let me = &mut *e;
            if me.memory.nr_late(cpu) == 0 {
                continue;
            }
            let at = me.cpus[cpu].at;
            let given = me.search.given(cpu, at).find_map(|what| match what {
                ChoiceKind::Flush(place) => Some(usize::from(place)),
                _ => None,
            });
            let n = me.memory.flushable(cpu).count();
            let nth = me.search.pick(n);
            let may = |place: &usize| me.memory.flushable(cpu).any(|f| f == *place);
            let place = given.filter(may).or_else(|| me.memory.flushable(cpu).nth(nth)).unwrap_or(0);
            flush(e, cpu, place, at);
        }
        point(e, Pending { kind: StepKind::Over, ..Pending::default() });
        unreachable!("a CPU goes on after its end")
    }
}

/// The running CPU, or who runs alone, begins its nth call.
unsafe fn begins(e: *mut Engine, n: usize) {
    // SAFETY: as above.
    unsafe { (*e).cpus[(*e).cur].call = n };
}

unsafe fn invoke(e: *mut Engine, op: usize, cpu: usize, args: *const c_long, nr_args: usize) -> i64 {
    // SAFETY: an operation of the target, with as many arguments as it takes.
    unsafe {
        let r15 = (*e).target.cpu_register(cpu);
        let function = (&(*e).target.ops)[op].code;
        let result = match (&(*e).target.ops)[op].is_hook {
            true => switch::call(function, [cpu, if nr_args > 0 { *args as usize } else { 0 }, 0], r15),
            false => switch::call(function, [cpu, args as usize, nr_args], r15),
        };
        result as i64
    }
}

extern "C" fn service_entry() -> ! {
    let e = engine();
    // SAFETY: as above.
    unsafe {
        let call = |function: abi::Alone| {
            if let Some(function) = function {
                switch::call(function as usize, [0; 3], (*e).target.cpu_register(0));
            }
        };
        match (*e).service {
            Service::Init => {
                if let Some(init) = (*e).target.init {
                    let done =
                        switch::call(init as usize, [(*e).nr, 0, 0], (*e).target.cpu_register(0)) as c_int;
                    if done != 0 {
                        let text = format!("the target's init({}) returned {done}", (*e).nr);
                        (*e).end = Some(End::Refused(text));
                    }
                }
            }
            Service::Start => {
                call((*e).target.start);
                let first: &Vec<Prepared> = &(*e).first;
                let nr = first.len();
                for n in 0..nr {
                    let (op, args, nr_args) = {
                        let call = &(&(*e).first)[n];
                        (call.op, call.args.as_ptr(), call.args.len())
                    };
                    begins(e, n);
                    invoke(e, op, 0, args, nr_args);
                }
                call((*e).target.begin);
            }
            Service::Rest => {
                call((*e).target.check);
                call((*e).target.rest);
                call((*e).target.cleanup);
            }
        }
        leave(e)
    }
}

/// Runs one schedule, chosen by the engine's search.
///
/// # Safety
/// `e` is the engine, and nothing of it runs.
pub(crate) unsafe fn run(e: *mut Engine) -> End {
    // SAFETY: as above.
    unsafe {
        (*e).is_running = true;
        let end = one(e);
        (*e).is_running = false;
        end
    }
}

unsafe fn one(e: *mut Engine) -> End {
    // SAFETY: as above.
    unsafe {
        (*e).prepare();
        (*e).service = Service::Start;
        alone(e);
        if let Some(end) = (*e).end.take() {
            return end;
        }
        (*e).quiet = false;
        (*e).cur = CPUS_MAX;
        (*e).pending[CPUS_MAX] = Pending { kind: StepKind::Over, ..Pending::default() };
        match (*e).decide() {
            Some(HOST) | None => {}
            Some(to) => {
                if (*e).model != MemoryModel::Sc {
                    (*e).memory.apply(to);
                }
                (*e).cur = to;
                switch::switch(&raw mut (*e).host, (*e).cpus[to].sp);
            }
        }
        if let Some(end) = (*e).end.take() {
            (*e).quiet = true;
            return end;
        }
        (*e).service = Service::Rest;
        alone(e);
        (*e).end.take().unwrap_or(End::Good)
    }
}

/// Ends the schedule from a signal handler's doing: a crash, or code that does not come back.
pub(crate) extern "C" fn abandon() -> ! {
    let e = engine();
    // SAFETY: the handler has put us on the stack of what went wrong, which is left for good.
    unsafe { leave(e) }
}

impl Engine {
    /// For the signal handler: notes what happened; `false`: nothing of the target runs.
    pub(crate) fn crashed(&mut self, kind: &'static str, text: String, code: usize) -> bool {
        if self.end.is_some() || !self.is_running {
            return false;
        }
        let code = if schedlab_process::offset_of_address(code).is_some() {
            self.pending[self.cur].code
        } else {
            code
        };
        let sites = if code == 0 { Vec::new() } else { vec![code] };
        self.end = Some(End::Bad(Failure { kind, text, sites }));
        true
    }

    /// The stack on which the target runs, from its lowest byte to one past its last.
    pub(crate) fn stack(&self) -> std::ops::Range<usize> {
        self.stacks.range(self.cur)
    }

    /// What a call refuses, with the call.
    fn refused(&self, text: &str) -> String {
        let calls = match (self.cur, self.service) {
            (cpu, _) if cpu < CPUS_MAX => self.programs.get(cpu),
            (_, Service::Start) => Some(&self.first),
            _ => None,
        };
        let call = calls.and_then(|calls| calls.get(self.cpus[self.cur].call));
        call.map_or_else(|| text.to_owned(), |call| format!("{}: {text}", call.place))
    }

    /// What changes as long as there is progress.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.number, self.steps)
    }

    /// The store before this point has been made: what it left there.
    fn note_stored(&mut self) {
        let place = std::mem::take(&mut self.cpus[self.cur].stored);
        let Some(event) = place.checked_sub(1).and_then(|n| self.trace.as_mut()?.get_mut(n)) else { return };
        if let Happened::Access { address, size, new, .. } = &mut event.happened {
            // SAFETY: the target has just written there.
            *new = Some(unsafe { memory::load(*address, *size) });
        }
    }

    fn note_barrier(&mut self, code: usize, kind: u32) {
        let before = self.cpus[self.cur].last;
        let at =
            self.barriers.iter().position(|met| met.code == code && met.kind == kind).unwrap_or_else(|| {
                self.barriers.push(Met { code, kind, before: Vec::new(), behind: Vec::new() });
                self.barriers.len() - 1
            });
        if before != 0 && !self.barriers[at].before.contains(&before) {
            self.barriers[at].before.push(before);
        }
        self.fresh.push((self.cur, at));
    }

    /// An access of the running CPU: what stands beside barriers.
    fn note_access(&mut self, code: usize) {
        let cur = self.cur;
        self.cpus[cur].last = code;
        for (_, at) in self.fresh.iter().filter(|(cpu, _)| *cpu == cur) {
            if !self.barriers[*at].behind.contains(&code) {
                self.barriers[*at].behind.push(code);
            }
        }
        self.fresh.retain(|(cpu, _)| *cpu != cur);
    }
}

/// Before a point: a barrier that is owed, and one that stands before this access.
#[inline(always)]
unsafe fn owe(e: *mut Engine, code: usize) {
    // SAFETY: as below.
    unsafe {
        if !(*e).altered.is_empty() {
            pay(e, code);
        }
    }
}

unsafe fn pay(e: *mut Engine, code: usize) {
    // SAFETY: as below.
    unsafe {
        let cur = (*e).cur;
        let owed = std::mem::take(&mut (*e).cpus[cur].owed);
        if owed > 0 {
            barrier_here(e, owed - 1, code);
        }
        for n in 0..(*e).altered.len() {
            match (&(*e).altered)[n] {
                Altered::Before(at, kind) if at == code => barrier_here(e, kind, code),
                Altered::Behind(at, kind) if at == code => (*e).cpus[cur].owed = kind + 1,
                _ => {}
            }
        }
    }
}

// What the target's code calls. `e` is a raw pointer throughout: these functions are left in their midst, and come
// back much later.

extern "C" fn access(at: usize, kind: u64, code: usize) {
    let e = engine();
    // SAFETY: as above.
    unsafe {
        if (*e).quiet || at.wrapping_sub((*e).private[0]) < (*e).private[1] || (*e).is_own_stack(at) {
            return;
        }
        owe(e, code);
        if (*e).counts_barriers {
            (*e).note_access(code);
        }
        let (size, is_write) = ((kind & 0xff) as u32, kind & abi::WRITE != 0);
        let kind_of = if is_write { StepKind::Write } else { StepKind::Read };
        point(e, Pending { at, size, kind: kind_of, code });
        if let Some(why) = (*e).is_stray(at) {
            fail_here(e, why.into());
        }
        if (*e).model != MemoryModel::Sc {
            before(e, at, size, is_write);
        }
        if is_write {
            (*e).dirty = true;
            (*e).writes += 1;
        }
        if (*e).trace.is_some() {
            let value = memory::load(at, size);
            let marked = kind & abi::MARKED != 0;
            let late = (*e).model != MemoryModel::Sc && is_write;
            let new = None;
            (*e).tell(Happened::Access { address: at, size, is_write, marked, value, late, new }, code);
            if is_write {
                let cur = (*e).cur;
                (*e).cpus[cur].stored = (*e).trace.as_ref().map_or(0, Vec::len);
            }
        }
    }
}

/// A weak model, before an access: which value a load sees.
unsafe fn before(e: *mut Engine, at: usize, size: u32, is_write: bool) {
    // SAFETY: as above.
    unsafe {
        let me = &mut *e;
        let cpu = me.cur;
        if is_write {
            return me.memory.will_store(cpu, at, size);
        }
        let older = me.memory.nr_older(cpu, at, size);
        let mut age = 0;
        if older > 0 {
            let here = me.cpus[cpu].at;
            let given = me.search.given(cpu, here).find_map(|what| match what {
                ChoiceKind::Stale(age) => Some(usize::from(age)),
                _ => None,
            });
            age = given.unwrap_or_else(|| me.search.age(older));
            age = age.min(older);
        }
        if age > 0 {
            let at = me.cpus[cpu].at;
            me.choices.push(Choice { cpu: cpu as u8, at, what: ChoiceKind::Stale(age as u8) });
            me.tell(Happened::Stale { age: age as u8 }, 0);
        }
        me.memory.will_load(cpu, at, size, age);
    }
}

unsafe fn fail_here(e: *mut Engine, text: String) -> ! {
    // SAFETY: as above; the text moves into the engine.
    unsafe {
        (*e).stop("invariant", text);
        leave(e)
    }
}

extern "C" fn atomic(at: usize, how: u32, value: u64, expected: u64, code: usize) -> u64 {
    let e = engine();
    let (size, op, order, has_result) = (how & 0xff, how >> 8 & 0xff, how >> 16 & 0xff, how >> 24 != 0);
    // SAFETY: as above.
    unsafe {
        let is_private = at.wrapping_sub((*e).private[0]) < (*e).private[1];
        let is_point = !(*e).quiet && !is_private && !(*e).is_own_stack(at);
        if is_point {
            owe(e, code);
            if (*e).counts_barriers {
                (*e).note_access(code);
                if has_result && order != 0 {
                    (*e).note_barrier(code, abi::ATOMIC_ORDER);
                }
            }
            point(e, Pending { at, size, kind: StepKind::Atomic, code });
            if let Some(why) = (*e).is_stray(at) {
                fail_here(e, why.into());
            }
            (*e).dirty = true;
            (*e).writes += 1;
        }
        let old = if is_point && (*e).model != MemoryModel::Sc {
            let cpu = (*e).cur;
            let order = if (*e).is_out(code) { 0 } else { order };
            (*e).memory.atomic(cpu, (at, size), (op, value, expected), order, has_result)
        } else {
            let old = memory::load(at, size);
            memory::store(at, size, memory::operate(op, old, value, expected, size));
            old
        };
        if is_point && (*e).trace.is_some() {
            let new = memory::load(at, size);
            let how = AtomicHow { op, order, has_result, argument: value, expected };
            (*e).tell(Happened::Atomic { address: at, size, old, new, how }, code);
        }
        old
    }
}

extern "C" fn barrier(kind: u32, code: usize) {
    let e = engine();
    // SAFETY: as above.
    unsafe {
        if (*e).quiet {
            return;
        }
        owe(e, 0);
        if (*e).counts_barriers {
            (*e).note_barrier(code, kind);
        }
        if !(*e).is_out(code) {
            barrier_here(e, kind, code);
        }
    }
}

unsafe fn barrier_here(e: *mut Engine, kind: u32, code: usize) {
    // SAFETY: as above.
    unsafe {
        if (*e).model == MemoryModel::Sc {
            (*e).tell(Happened::Barrier { kind }, code);
            return;
        }
        let cpu = (*e).cur;
        match kind {
            // directly behind its load: no point between them
            abi::ACQUIRE => (*e).memory.drain_stores(cpu),
            abi::LOCK_ACQUIRE => (*e).memory.locked(cpu),
            _ => point(e, Pending { at: 0, size: 0, kind: StepKind::Barrier, code }),
        }
        match kind {
            abi::LOCK_ACQUIRE => {}
            abi::UNLOCK_RELEASE => (*e).memory.flush_all(cpu),
            _ => (*e).memory.barrier(cpu, kind),
        }
        (*e).tell(Happened::Barrier { kind }, code);
    }
}

extern "C" fn lock(at: usize, code: usize) {
    let e = engine();
    // SAFETY: as above; the lock is a word of the target's.
    unsafe {
        let word = at as *mut u32;
        let holder = ((*e).cur + 1) as u32;
        if !(*e).quiet {
            owe(e, 0);
            if (*e).counts_barriers {
                (*e).note_barrier(code, abi::LOCK_ACQUIRE);
            }
            point(e, Pending { at, size: 4, kind: StepKind::Lock, code });
            let cpu = (*e).cur;
            if (*e).model != MemoryModel::Sc && !(*e).is_out(code) {
                (*e).memory.locked(cpu);
            }
            (*e).writes += 1;
            (*e).cpus[cpu].locked_at = code;
            (*e).tell(Happened::Lock { address: at }, code);
        }
        *word = holder;
    }
}

extern "C" fn trylock(at: usize, code: usize) -> c_int {
    let e = engine();
    // SAFETY: as above.
    unsafe {
        let word = at as *mut u32;
        if !(*e).quiet {
            owe(e, 0);
            point(e, Pending { at, size: 4, kind: StepKind::Atomic, code });
            if *word != 0 {
                return 0;
            }
            let cpu = (*e).cur;
            if (*e).counts_barriers {
                (*e).note_barrier(code, abi::LOCK_ACQUIRE);
            }
            if (*e).model != MemoryModel::Sc && !(*e).is_out(code) {
                (*e).memory.locked(cpu);
            }
            (*e).writes += 1;
            (*e).tell(Happened::Lock { address: at }, code);
        }
        *word = ((*e).cur + 1) as u32;
        1
    }
}

extern "C" fn unlock(at: usize, code: usize) {
    let e = engine();
    // SAFETY: as above.
    unsafe {
        if !(*e).quiet {
            owe(e, 0);
            if (*e).counts_barriers {
                (*e).note_barrier(code, abi::UNLOCK_RELEASE);
            }
            point(e, Pending { at, size: 4, kind: StepKind::Unlock, code });
            let cpu = (*e).cur;
            if (*e).model != MemoryModel::Sc && !(*e).is_out(code) {
                (*e).memory.flush_all(cpu);
            }
            (*e).writes += 1;
            (*e).dirty = true;
            (*e).tell(Happened::Unlock { address: at }, code);
        }
        *(at as *mut u32) = 0;
    }
}

extern "C" fn relax(code: usize) {
    let e = engine();
    // SAFETY: as above.
    unsafe {
        if (*e).quiet {
            return;
        }
        let cpu = (*e).cur;
        if (*e).model != MemoryModel::Sc {
            (*e).memory.drain_stores(cpu);
            (*e).memory.catch_up(cpu);
            (*e).memory.flush_all(cpu);
        }
        let writes = (*e).writes;
        (*e).cpus[cpu].waited = [writes, (*e).cpus[cpu].waited[0]];
        point(e, Pending { at: 0, size: 0, kind: StepKind::Relax, code });
    }
}

extern "C" fn sleep(what: u32, other: c_int, code: usize) {
    let e = engine();
    // SAFETY: as above.
    unsafe {
        if (*e).quiet {
            return;
        }
        let cpu = (*e).cur;
        if (*e).model != MemoryModel::Sc {
            (*e).memory.drain_stores(cpu);
        }
        let state = |kind, of: usize| {
            let at = (&raw const (*e).cpus[of].asleep) as usize;
            Pending { at, size: 1, kind, code }
        };
        match what {
            0 => {
                // set_current_state(): the state, then a full barrier
                point(e, state(StepKind::State, cpu));
                (*e).cpus[cpu].asleep = true;
                if (*e).model != MemoryModel::Sc {
                    (*e).memory.flush_all(cpu);
                    (*e).memory.catch_up(cpu);
                }
                (*e).tell(Happened::Sleep { what: "will sleep".into() }, code);
            }
            1 => {
                point(e, state(StepKind::Sleep, cpu));
                (*e).tell(Happened::Sleep { what: "is awake".into() }, code);
            }
            2 => (*e).cpus[cpu].asleep = false,
            _ => {
                let other = usize::try_from(other).ok().filter(|other| *other < (*e).nr);
                // one that there is not: nobody's state
                point(e, state(StepKind::State, other.unwrap_or(CPUS_MAX)));
                if (*e).model != MemoryModel::Sc {
                    (*e).memory.flush_all(cpu);
                }
                let whom = other.map_or_else(|| "nobody".into(), |other| format!("cpu{other}"));
                (*e).tell(Happened::Sleep { what: format!("wakes {whom}") }, code);
                if let Some(other) = other {
                    (*e).cpus[other].asleep = false;
                }
            }
        }
    }
}

extern "C" fn fail(kind: u32, text: *const c_char, code: usize) {
    let e = engine();
    // SAFETY: as above; a text that ends in 0.
    unsafe {
        let text = CStr::from_ptr(text).to_string_lossy().into_owned();
        if kind == abi::FAIL_REFUSE {
            (*e).end = Some(End::Refused((*e).refused(&text)));
        } else if kind == abi::FAIL_ENDS {
            (*e).end = Some(End::Bad(Failure { kind: "crash", text, sites: vec![code] }));
        } else {
            let kind = if kind == abi::FAIL_WARN { "warn" } else { "invariant" };
            (*e).stop(kind, text);
        }
        (*e).quiet = true;
        leave(e)
    }
}

extern "C" fn note(text: *const c_char) {
    let e = engine();
    // SAFETY: as above.
    unsafe {
        if (*e).trace.is_some() && !(*e).quiet {
            let text = CStr::from_ptr(text).to_string_lossy().into_owned();
            (*e).tell(Happened::Note { text }, 0);
        }
    }
}

extern "C" fn cpu() -> c_int {
    let e = engine();
    // SAFETY: as above.
    unsafe { if (*e).cur < CPUS_MAX { (*e).cur as c_int } else { -1 } }
}

extern "C" fn alloc(bytes: usize, code: usize) -> usize {
    let e = engine();
    // SAFETY: as above; the arena's unused part is nobody's.
    unsafe {
        let start = (*e).arena + (*e).arena_used;
        let end = start + bytes;
        if end + GAP > (*e).arena + ARENA {
            let me = &mut *e;
            me.stop("invariant", format!("the target wants more than {} KiB of memory", ARENA >> 10));
            if let Some(End::Bad(failure)) = &mut me.end {
                failure.sites = vec![code];
            }
            leave(e);
        }
        ptr::write_bytes(start as *mut u8, 0, bytes);
        (*e).arena_used += (bytes + GAP).next_multiple_of(GAP);
        (*e).blocks.push(Block { start, end, is_free: false });
        start
    }
}

extern "C" fn free(at: usize, _code: usize) {
    let e = engine();
    // SAFETY: as above.
    unsafe {
        if at == 0 {
            return;
        }
        match (*e).blocks.iter_mut().find(|b| b.start == at) {
            Some(block) if !block.is_free => block.is_free = true,
            Some(_) => fail_here(e, "memory is given back twice".into()),
            None => fail_here(e, "memory is given back that was not given out".into()),
        }
    }
}
