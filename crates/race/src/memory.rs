//! What does a load see when stores may be late? Three models of memory behind the same hooks; no store of the
//! compiled code is rewritten.
//!
//! A CPU's late stores are in memory only while that CPU runs. When another one goes on they are taken out, and what
//! was there before comes back:
//!
//! ```text
//! cpu0 runs: x = 1, late      memory x=1     buffer of cpu0: x=1 (below it 0)
//! cpu1 goes on                memory x=0     it loads 0
//! cpu0 goes on                memory x=1     it loads its own 1
//! cpu0's store is flushed     memory x=1     and stays when cpu1 goes on
//! ```
//!
//! * `sc`: each store is seen by all at once.
//! * `tso`: stores are flushed in order; atomic operations and full barriers flush all. Loads see the newest. (x86)
//! * `lkmm`: a part of the Linux kernel's model. Stores to different places are flushed in any order that barriers
//!   and releases leave; atomic operations without a result may be late, too, and are then kept as operations. A
//!   load may see an older value, but none older than what the CPU has seen or stored there, than its last read
//!   barrier or acquire, or than the address it comes from.
//!   Not there: a load that gets its value later than a store behind it is seen (and so load buffering), stores that
//!   reach two CPUs in different order, and an atomic operation with a result whose store comes later than its load.

use serde::{Deserialize, Serialize};

use crate::abi::CPUS_MAX;

/// Which model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryModel {
    /// Sequentially consistent.
    #[default]
    Sc,
    /// Total store order, as x86.
    Tso,
    /// A part of the Linux kernel memory model.
    Lkmm,
}

impl MemoryModel {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            MemoryModel::Sc => "sc",
            MemoryModel::Tso => "tso",
            MemoryModel::Lkmm => "lkmm",
        }
    }

    /// From the command line's word.
    pub fn parse(name: &str) -> Option<MemoryModel> {
        [MemoryModel::Sc, MemoryModel::Tso, MemoryModel::Lkmm].into_iter().find(|model| model.name() == name)
    }
}

/// A buffer is flushed when it has so many entries.
pub(crate) const LATE_MAX: usize = 24;
/// Older values than these are forgotten.
const HISTORY_MAX: usize = 64;
/// An address that is so little above a loaded value comes from it: a member of a structure.
const MEMBER: u64 = 4096;

/// Reads `size` bytes, at most 8.
///
/// # Safety
/// They are readable.
#[inline(always)]
pub(crate) unsafe fn load(at: usize, size: u32) -> u64 {
    // SAFETY: the caller's promise; unaligned is fine.
    unsafe {
        match size {
            1 => u64::from(*(at as *const u8)),
            2 => u64::from((at as *const u16).read_unaligned()),
            4 => u64::from((at as *const u32).read_unaligned()),
            8 => (at as *const u64).read_unaligned(),
            _ => {
                let mut bytes = [0u8; 8];
                std::ptr::copy_nonoverlapping(at as *const u8, bytes.as_mut_ptr(), (size as usize).min(8));
                u64::from_le_bytes(bytes)
            }
        }
    }
}

/// Writes the low `size` bytes of `value`.
///
/// # Safety
/// They are writable, and the target's.
#[inline(always)]
pub(crate) unsafe fn store(at: usize, size: u32, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => *(at as *mut u8) = value as u8,
            2 => (at as *mut u16).write_unaligned(value as u16),
            4 => (at as *mut u32).write_unaligned(value as u32),
            8 => (at as *mut u64).write_unaligned(value),
            _ => {
                let bytes = value.to_le_bytes();
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, (size as usize).min(8));
            }
        }
    }
}

/// The low `size` bytes.
pub(crate) fn cut(value: u64, size: u32) -> u64 {
    if size >= 8 { value } else { value & ((1 << (8 * size)) - 1) }
}

/// What an atomic operation (`RACE_ADD`, ...) leaves.
pub(crate) fn operate(op: u32, old: u64, value: u64, expected: u64, size: u32) -> u64 {
    let new = match op {
        0 => old.wrapping_add(value),
        1 => old & value,
        2 => old | value,
        3 => old ^ value,
        4 => value,
        SWAP_IF => {
            if old == cut(expected, size) {
                value
            } else {
                old
            }
        }
        _ => !(old & value),
    };
    cut(new, size)
}

/// `Late::op` of a plain store.
const STORED: u32 = 99;
/// `RACE_SWAP_IF`.
const SWAP_IF: u32 = 5;

/// A store that others do not see yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    pub(crate) at: usize,
    pub(crate) size: u32,
    pub(crate) value: u64,
    /// What is in memory without it.
    under: u64,
    /// Write barriers before it.
    epoch: u32,
    op: u32,
    argument: u64,
}

#[derive(Clone, Copy, Debug)]
struct Old {
    at: usize,
    size: u32,
    value: u64,
    /// When it was overwritten.
    time: u64,
}

/// What one CPU has seen.
#[derive(Clone, Debug, Default)]
struct View {
    late: Vec<Late>,
    epoch: u32,
    /// Loads see nothing that was overwritten before.
    floor: u64,
    seen: Vec<(usize, u64)>,
    loaded: Vec<u64>,
    /// A store that is about to be executed: what was there.
    pending: Option<(usize, u32, u64)>,
    /// A load that sees an old value: what is there really.
    stale: Option<(usize, u32, u64)>,
}

/// Memory under a weak model. Without one, nothing here is used.
pub(crate) struct Memory {
    model: MemoryModel,
    now: u64,
    history: Vec<Old>,
    views: Vec<View>,
}

fn overlap(a: usize, a_size: u32, b: usize, b_size: u32) -> bool {
    a < b + b_size as usize && b < a + a_size as usize
}

impl Memory {
    pub(crate) fn new(model: MemoryModel) -> Memory {
        Memory { model, now: 1, history: Vec::new(), views: vec![View::default(); CPUS_MAX] }
    }

    /// A new schedule.
    pub(crate) fn reset(&mut self) {
        self.now = 1;
        self.history.clear();
        for view in &mut self.views {
            view.late.clear();
            view.seen.clear();
            view.loaded.clear();
            (view.epoch, view.floor, view.pending, view.stale) = (0, 0, None, None);
        }
    }

    /// This CPU goes on: its late stores come into memory.
    ///
    /// # Safety
    /// As [`store`]; so all below.
    pub(crate) unsafe fn apply(&mut self, cpu: usize) {
        for late in &mut self.views[cpu].late {
            // SAFETY: the target has written there.
            unsafe {
                late.under = load(late.at, late.size);
                if late.op != STORED {
                    late.value = operate(late.op, late.under, late.argument, 0, late.size);
                }
                store(late.at, late.size, late.value);
            }
        }
    }

    /// It stops: they go out of it.
    pub(crate) unsafe fn retract(&mut self, cpu: usize) {
        for late in self.views[cpu].late.iter().rev() {
            // SAFETY: as above.
            unsafe { store(late.at, late.size, late.under) };
        }
    }

    fn changed(&mut self, at: usize, size: u32, old: u64) {
        if self.history.len() == HISTORY_MAX {
            self.history.remove(0);
        }
        self.now += 1;
        self.history.push(Old { at, size, value: old, time: self.now });
    }

    fn saw(&mut self, cpu: usize, at: usize, time: u64) {
        let seen = &mut self.views[cpu].seen;
        match seen.iter_mut().find(|(a, _)| *a == at) {
            Some((_, t)) => *t = time,
            None => seen.push((at, time)),
        }
    }

    /// The access before this point has been executed.
    pub(crate) unsafe fn drain_stores(&mut self, cpu: usize) {
        if let Some((at, size, value)) = self.views[cpu].stale.take() {
            // SAFETY: it was read from there.
            unsafe { store(at, size, value) };
        }
        let Some((at, size, old)) = self.views[cpu].pending.take() else { return };
        // SAFETY: the store has just been executed.
        let value = unsafe { load(at, size) };
        let view = &mut self.views[cpu];
        if view.late.len() >= LATE_MAX {
            self.flush_all(cpu);
        }
        let epoch = self.views[cpu].epoch;
        self.views[cpu].late.push(Late { at, size, value, under: old, epoch, op: STORED, argument: 0 });
    }

    /// The entries that may be flushed now, of the running CPU.
    pub(crate) fn flushable(&self, cpu: usize) -> impl Iterator<Item = usize> + '_ {
        let late = &self.views[cpu].late;
        let tso = self.model == MemoryModel::Tso;
        (0..late.len()).filter(move |&i| {
            if tso {
                return i == 0;
            }
            let this = &late[i];
            late[..i].iter().all(|e| e.epoch == this.epoch && !overlap(e.at, e.size, this.at, this.size))
        })
    }

    pub(crate) fn nr_late(&self, cpu: usize) -> usize {
        self.views[cpu].late.len()
    }

    pub(crate) fn late(&self, cpu: usize, place: usize) -> Option<&Late> {
        self.views[cpu].late.get(place)
    }

    /// Whether any CPU, this one included, has late stores.
    pub(crate) fn is_settled(&self) -> bool {
        self.views.iter().all(|view| view.late.is_empty() && view.pending.is_none() && view.stale.is_none())
    }

    /// An entry of the running CPU becomes visible to all.
    pub(crate) fn flush(&mut self, cpu: usize, place: usize) {
        let late = self.views[cpu].late.remove(place);
        self.changed(late.at, late.size, late.under);
        let now = self.now;
        self.saw(cpu, late.at, now);
        // entries above it lie upon its value already
    }

    pub(crate) fn flush_all(&mut self, cpu: usize) {
        while !self.views[cpu].late.is_empty() {
            self.flush(cpu, 0);
        }
    }

    /// Stores of the running CPU to this place become visible, those before its last write barrier, and those that must
    /// come before them.
    fn flush_up_to(&mut self, cpu: usize, at: usize, size: u32) {
        let now = self.views[cpu].epoch;
        let late = &self.views[cpu].late;
        let mut needed: Vec<usize> = Vec::new();
        for (n, this) in late.iter().enumerate().rev() {
            let comes_first = |&m: &usize| {
                let later = &late[m];
                this.epoch != later.epoch || overlap(this.at, this.size, later.at, later.size)
            };
            let is_before = this.epoch != now || overlap(this.at, this.size, at, size);
            if is_before || needed.iter().any(comes_first) {
                needed.push(n);
            }
        }
        for (gone, n) in needed.into_iter().rev().enumerate() {
            self.flush(cpu, n - gone);
        }
    }

    /// Before a store of the running CPU.
    pub(crate) unsafe fn will_store(&mut self, cpu: usize, at: usize, size: u32) {
        if self.views[cpu].late.iter().any(|e| e.at != at && overlap(e.at, e.size, at, size)) {
            self.flush_all(cpu);
        }
        // SAFETY: the target is about to write there.
        self.views[cpu].pending = Some((at, size, unsafe { load(at, size) }));
    }

    /// How many older values a load of the running CPU may see.
    pub(crate) fn nr_older(&mut self, cpu: usize, at: usize, size: u32) -> usize {
        if self.model != MemoryModel::Lkmm {
            return 0;
        }
        self.settle_operations(cpu, at, size);
        let view = &self.views[cpu];
        if view.late.iter().any(|e| overlap(e.at, e.size, at, size))
            || view.loaded.iter().any(|&v| v != 0 && (at as u64).wrapping_sub(v) < MEMBER)
        {
            return 0;
        }
        let floor = self.floor(cpu, at);
        self.history.iter().filter(|o| o.at == at && o.size == size && o.time > floor).count()
    }

    /// What a late operation leaves is known when it is done, and not before.
    fn settle_operations(&mut self, cpu: usize, at: usize, size: u32) {
        if self.views[cpu].late.iter().any(|e| e.op != STORED && overlap(e.at, e.size, at, size)) {
            self.flush_up_to(cpu, at, size);
        }
    }

    fn floor(&self, cpu: usize, at: usize) -> u64 {
        let view = &self.views[cpu];
        let seen = view.seen.iter().find(|(a, _)| *a == at).map_or(0, |(_, t)| *t);
        view.floor.max(seen)
    }

    /// The load is about to be executed, and sees the value that is `age` stores old (0: the newest).
    pub(crate) unsafe fn will_load(&mut self, cpu: usize, at: usize, size: u32, age: usize) {
        if age > 0 {
            let floor = self.floor(cpu, at);
            let old = self
                .history
                .iter()
                .rev()
                .filter(|o| o.at == at && o.size == size && o.time > floor)
                .nth(age - 1)
                .copied();
            if let Some(old) = old {
                // SAFETY: the target is about to read there; put back at the next point.
                unsafe {
                    self.views[cpu].stale = Some((at, size, load(at, size)));
                    store(at, size, old.value);
                }
                self.saw(cpu, at, old.time - 1);
                return self.note_loaded(cpu, size, old.value);
            }
        }
        let now = self.now;
        self.saw(cpu, at, now);
        if size == 8 {
            // SAFETY: as above.
            self.note_loaded(cpu, size, unsafe { load(at, size) });
        }
    }

    fn note_loaded(&mut self, cpu: usize, size: u32, value: u64) {
        if size == 8 && self.model == MemoryModel::Lkmm && value > MEMBER {
            let loaded = &mut self.views[cpu].loaded;
            if loaded.len() == 16 {
                loaded.remove(0);
            }
            loaded.push(value);
        }
    }

    fn read_barrier(&mut self, cpu: usize) {
        let view = &mut self.views[cpu];
        view.floor = self.now;
        view.loaded.clear();
    }

    /// `RACE_MB` and so on. A barrier after a load waits for that load: [`settle`](Memory::settle) first.
    pub(crate) fn barrier(&mut self, cpu: usize, kind: u32) {
        use crate::abi::{ACQUIRE, MB, RELEASE, RMB, WMB};
        match (self.model, kind) {
            (MemoryModel::Sc, _) => {}
            (MemoryModel::Tso, MB) => self.flush_all(cpu),
            (MemoryModel::Tso, _) => {}
            (MemoryModel::Lkmm, MB) => {
                self.flush_all(cpu);
                self.read_barrier(cpu);
            }
            (MemoryModel::Lkmm, RMB | ACQUIRE) => self.read_barrier(cpu),
            (MemoryModel::Lkmm, WMB | RELEASE) => self.views[cpu].epoch += 1,
            (MemoryModel::Lkmm, _) => {}
        }
    }

    /// A lock is taken: what its holder did is seen.
    pub(crate) fn locked(&mut self, cpu: usize) {
        if self.model == MemoryModel::Tso {
            self.flush_all(cpu);
        }
        self.read_barrier(cpu);
    }

    /// Carries out an atomic operation of the running CPU; returns the old value.
    pub(crate) unsafe fn atomic(
        &mut self,
        cpu: usize,
        (at, size): (usize, u32),
        (op, value, expected): (u32, u64, u64),
        order: u32,
        has_result: bool,
    ) -> u64 {
        use crate::abi::{ORDER_ACQ, ORDER_FULL, ORDER_REL};
        if self.model == MemoryModel::Lkmm && !has_result && order != ORDER_FULL && op < 4 {
            // late as an operation
            if self.views[cpu].late.len() >= LATE_MAX
                || self.views[cpu].late.iter().any(|e| e.at != at && overlap(e.at, e.size, at, size))
            {
                self.flush_all(cpu);
            }
            // SAFETY: the target's operation.
            unsafe {
                let under = load(at, size);
                let value_now = operate(op, under, value, expected, size);
                store(at, size, value_now);
                let epoch = self.views[cpu].epoch;
                self.views[cpu].late.push(Late {
                    at,
                    size,
                    value: value_now,
                    under,
                    epoch,
                    op,
                    argument: value,
                });
                return under;
            }
        }
        if self.model == MemoryModel::Lkmm && op == SWAP_IF {
            self.settle_operations(cpu, at, size);
            // SAFETY: the target's operation.
            let old = unsafe { load(at, size) };
            if old != cut(expected, size) {
                // it fails: a load that orders nothing
                let now = self.now;
                self.saw(cpu, at, now);
                return old;
            }
        }
        if self.model == MemoryModel::Tso || order >= ORDER_REL {
            self.flush_all(cpu);
        } else {
            // what it is done upon must be there
            self.flush_up_to(cpu, at, size);
        }
        // SAFETY: the target's operation.
        let old = unsafe { load(at, size) };
        let new = operate(op, old, value, expected, size);
        // SAFETY: as above.
        unsafe { store(at, size, new) };
        if new != old || op == 4 {
            self.changed(at, size, old);
        }
        let now = self.now;
        self.saw(cpu, at, now);
        if order == ORDER_FULL || order == ORDER_ACQ {
            self.read_barrier(cpu);
        }
        old
    }

    /// A CPU waits for others: it sees what is newest from now on, so that no loop waits for ever.
    pub(crate) fn catch_up(&mut self, cpu: usize) {
        self.read_barrier(cpu);
    }
}
