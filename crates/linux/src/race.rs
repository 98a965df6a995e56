//! How does a kernel of the flavour `race` stop at points, and say what does not hold?
//!
//! Such a kernel counts, per CPU, the accesses of kernel/sched and its neighbours (`linux/arch-warp/kernel/race.c`).
//! A CPU that comes to the point that it is to stop before goes back to the simulator: [`crate::State::Point`].
//!
//! ```text
//! control.set_on(true); control.stop_before(cpu0, Some(812))
//! resume(cpu0) -> Point          kernel.point(cpu0): a read of rq->nr_running in pick_next_task()
//! resume(cpu1) -> Idle           meanwhile
//! resume(cpu0) -> User(t3)       the read is made now
//! ```

use std::ffi::{CStr, c_char, c_void};

use schedlab_units::CpuId;

const VERSION: u32 = 6;

#[repr(C)]
struct RaceCpu {
    at: u64,
    stop_at: u64,
    must_at: u64,
    late_at: u64,
    late: *const LateStore,
    nr_late: u64,
    waits_for: *const c_void,
}

/// A store that others do not see yet (`linux/arch-warp/kernel/race_late.c`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateStore {
    /// The CPU's point that stores, from 1.
    pub at: u64,
    /// 1: that store alone; 0: those behind it, too.
    pub one: u64,
}

/// What a store of the kernel's may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RaceModel {
    /// Seen at once.
    Sc = 0,
    /// Late, in order, until the next atomic operation or full barrier.
    Tso = 1,
    /// Late in any order that barriers and releases leave; atomic operations without a result, too.
    Lkmm = 2,
}

/// Something that a CPU did at a point, as the kernel writes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RaceEvent {
    /// The memory concerned; 0: none.
    pub address: u64,
    /// The code behind it, as an offset into the kernel object's text.
    pub code: u64,
    /// The CPU's points so far.
    pub at: u32,
    /// Which CPU.
    pub cpu: u16,
    /// [`PointKind`](schedlab_machine::kernel::PointKind)'s number, or one of [`SAYS_LOCKED`] and its neighbours; with
    /// [`SAID`] within `data_race()`, with [`LATE`] a store that others do not see yet, with
    /// [`RELAXED`] an atomic operation without a result.
    pub kind: u8,
    /// Bytes; 255: more.
    pub size: u8,
    /// What was there before, up to 8 bytes of it.
    pub value: u64,
}

/// [`RaceEvent::kind`]: the lock is taken.
pub const SAYS_LOCKED: u8 = 16;
/// [`RaceEvent::kind`]: the lock is about to be free.
pub const SAYS_RELEASE: u8 = 17;
/// [`RaceEvent::kind`]: `ASSERT_EXCLUSIVE_WRITER()`: nobody else writes there.
pub const SAYS_WRITER: u8 = 18;
/// [`RaceEvent::kind`]: `ASSERT_EXCLUSIVE_ACCESS()`: nobody else touches it.
pub const SAYS_ACCESS: u8 = 19;
/// [`RaceEvent::kind`]: a full barrier; also where code without points orders anything.
pub const SAYS_MB: u8 = 20;
/// [`RaceEvent::kind`]: a write barrier.
pub const SAYS_WMB: u8 = 21;
/// [`RaceEvent::kind`]: `smp_store_release()`: the store comes next.
pub const SAYS_STORE_RELEASE: u8 = 24;
/// [`RaceEvent::kind`]: the CPU's late stores are seen from here on.
pub const SAYS_SEEN: u8 = 25;
/// On top of [`RaceEvent::kind`]: a store that others do not see yet.
pub const LATE: u8 = 0x20;
/// On top of [`RaceEvent::kind`]: the source says that this access may race.
pub const SAID: u8 = 0x40;
/// On top of [`RaceEvent::kind`]: an atomic operation without a result, which orders nothing.
pub const RELAXED: u8 = 0x80;

impl RaceEvent {
    /// The kind without [`LATE`], [`SAID`] and [`RELAXED`].
    pub fn what(&self) -> u8 {
        self.kind & !(LATE | SAID | RELAXED)
    }

    /// Whether memory is loaded, other than by a lock's own operations.
    pub fn loads(&self) -> bool {
        matches!(self.what(), 1 | 5 | 7)
    }

    /// Whether memory is stored to, other than by a lock's own operations.
    pub fn stores(&self) -> bool {
        matches!(self.what(), 1 | 6 | 8)
    }

    /// Whether a CPU can stop there.
    pub fn is_point(&self) -> bool {
        self.what() < SAYS_LOCKED
    }
}

#[repr(C)]
struct Race {
    version: u32,
    sizeof_race: u32,
    sizeof_cpu: u32,
    sizeof_event: u32,
    on: u32,
    reserved: u32,
    model: *mut u32,
    pinned: u64,
    waits: u64,
    mutex: u64,
    cpus: *mut RaceCpu,
    trace: *mut RaceEvent,
    trace_max: u64,
    trace_len: u64,
    private: *const u64,
    private_mask: u64,
    check: unsafe extern "C" fn(u32) -> *const c_char,
}

/// Words of 8 bytes by their numbers, address / 8: a table with free places, which the kernel looks into.
#[derive(Clone, Debug)]
pub struct PrivateWords {
    table: Vec<u64>,
}

impl PrivateWords {
    /// These words.
    pub fn new(words: &[u64]) -> PrivateWords {
        let mut table = vec![0; (2 * words.len() + 1).next_power_of_two()];
        for &word in words.iter().filter(|word| **word != 0) {
            let at = PrivateWords::places(word, table.len()).find(|at| [0, word].contains(&table[*at]));
            table[at.expect("half of it is free")] = word;
        }
        PrivateWords { table }
    }

    /// Whether this one is among them, as the kernel looks.
    #[cfg(test)]
    fn contains(&self, word: u64) -> bool {
        let mut there = PrivateWords::places(word, self.table.len()).map(|at| self.table[at]);
        word != 0 && there.find(|found| [0, word].contains(found)) == Some(word)
    }

    /// Where a word may stand, best place first (`warp_race_passes()`).
    fn places(word: u64, len: usize) -> impl Iterator<Item = usize> {
        let first = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (first..first + len as u64).map(move |at| (at % len as u64) as usize)
    }
}

/// The points of one loaded kernel. Valid as long as that is loaded; of no use while a CPU is being resumed.
#[derive(Clone, Copy, Debug)]
pub struct RaceControl {
    race: *mut Race,
    nr_cpus: u32,
}

impl RaceControl {
    /// From what `warp_race_get()` returned; `None`: of another version of the boundary.
    ///
    /// # Safety
    /// `race` is that function's result, and the kernel stays loaded.
    pub(crate) unsafe fn new(race: *mut c_void, nr_cpus: u32) -> Option<RaceControl> {
        let race = race.cast::<Race>();
        // SAFETY: version and sizes are the first words in every version.
        let fits = unsafe {
            let r = &*race;
            [r.version, r.sizeof_race, r.sizeof_cpu, r.sizeof_event]
                == [
                    VERSION,
                    size_of::<Race>() as u32,
                    size_of::<RaceCpu>() as u32,
                    size_of::<RaceEvent>() as u32,
                ]
        };
        fits.then_some(RaceControl { race, nr_cpus })
    }

    fn cpu(&self, cpu: CpuId) -> *mut RaceCpu {
        assert!(cpu.0 < self.nr_cpus, "a CPU of this machine");
        // SAFETY: the table has an entry for each CPU that the kernel is built for.
        unsafe { (*self.race).cpus.add(cpu.index()) }
    }

    /// Whether points count from now on. The counts begin at 0.
    pub fn set_on(&self, on: bool) {
        for cpu in 0..self.nr_cpus {
            let c = self.cpu(CpuId(cpu));
            // SAFETY: `c` points into the table; nothing runs.
            unsafe {
                ((*c).at, (*c).stop_at, (*c).must_at) = (0, u64::MAX, u64::MAX);
                ((*c).late_at, (*c).late, (*c).nr_late) = (u64::MAX, std::ptr::null(), 0);
                (*c).waits_for = std::ptr::null();
            };
        }
        // SAFETY: the table is valid; nothing runs.
        unsafe { (*self.race).on = u32::from(on) };
    }

    /// The CPU's points since they count.
    pub fn points(&self, cpu: CpuId) -> u64 {
        // SAFETY: `cpu()` points into the table.
        unsafe { (*self.cpu(cpu)).at }
    }

    /// The CPU is to stop before its point of this number, from 1; one that is past: before the next. `None`: nowhere.
    pub fn stop_before(&self, cpu: CpuId, at: Option<u64>) {
        // SAFETY: `cpu()` points into the table; nothing runs.
        unsafe {
            let c = self.cpu(cpu);
            (*c).stop_at = at.unwrap_or(u64::MAX);
            (*c).must_at = (*c).stop_at;
        };
    }

    /// The CPU is to stop before its next point that touches other memory than what [`Self::pass`] names, and before
    /// the point of this number.
    pub fn stop_before_next(&self, cpu: CpuId, at: Option<u64>) {
        // SAFETY: `cpu()` points into the table; nothing runs.
        unsafe {
            let c = self.cpu(cpu);
            (*c).stop_at = (*c).at + 1;
            (*c).must_at = at.unwrap_or(u64::MAX);
        };
    }

    /// What [`Self::stop_before_next`] passes: these words, and points without memory.
    ///
    /// # Safety
    /// They stay where they are as long as this kernel is resumed.
    pub unsafe fn pass(&self, words: &PrivateWords) {
        // SAFETY: the table is valid; nothing runs.
        unsafe {
            (*self.race).private = words.table.as_ptr();
            (*self.race).private_mask = words.table.len() as u64 - 1;
        }
    }

    /// The kernel's stores are late as this model has it.
    pub fn set_model(&self, model: RaceModel) {
        // SAFETY: the table is valid; nothing runs.
        unsafe { *(*self.race).model = model as u32 };
    }

    /// These stores of the CPU are late, in the order of their points.
    ///
    /// # Safety
    /// They stay where they are as long as this kernel is resumed.
    pub unsafe fn make_late(&self, cpu: CpuId, stores: &[LateStore]) {
        let c = self.cpu(cpu);
        // SAFETY: `c` points into the table; nothing runs.
        unsafe {
            ((*c).late, (*c).nr_late) = (stores.as_ptr(), stores.len() as u64);
            (*c).late_at = stores.first().map_or(u64::MAX, |first| first.at);
        }
    }

    /// The tasks of these ids, below 64, sleep and compute in `migrate_disable()` sections, every other time.
    pub fn pin(&self, ids: u64) {
        // SAFETY: the table is valid; nothing runs.
        unsafe { (*self.race).pinned = ids };
    }

    /// The tasks of these ids, below 64, sleep uninterruptibly, and as if a device were to wake them.
    pub fn wait(&self, ids: u64) {
        // SAFETY: the table is valid; nothing runs.
        unsafe { (*self.race).waits = ids };
    }

    /// The tasks of these ids, below 64, sleep and compute with a mutex that lends priority, every other time.
    pub fn share_mutex(&self, ids: u64) {
        // SAFETY: the table is valid; nothing runs.
        unsafe { (*self.race).mutex = ids };
    }

    /// All that happens at points is written there from now on, from its beginning; `None`: nothing is.
    ///
    /// # Safety
    /// The memory stays, and nobody else uses it while a CPU is resumed.
    pub unsafe fn trace(&self, into: Option<(*mut RaceEvent, usize)>) {
        let (start, len) = into.unwrap_or((std::ptr::null_mut(), 0));
        // SAFETY: the table is valid; nothing runs.
        unsafe {
            ((*self.race).trace, (*self.race).trace_max, (*self.race).trace_len) = (start, len as u64, 0);
        }
    }

    /// Events so far, those that found no room included.
    pub fn traced(&self) -> u64 {
        // SAFETY: the table is valid.
        unsafe { (*self.race).trace_len }
    }

    /// What does not hold among queues whose locks are free; more is asked when all CPUs are at rest.
    pub fn check(&self, at_rest: bool) -> Option<String> {
        self.ask(u32::from(at_rest))
    }

    /// The same when all CPUs are at rest and the scenario is over: what is given back at last has been.
    pub fn check_end(&self) -> Option<String> {
        self.ask(2)
    }

    /// CPUs that spin for each other's locks: who waits for whom.
    pub fn deadlock(&self) -> Option<String> {
        self.ask(3)
    }

    /// A CPU that spins for a lock, and who has it.
    pub fn spinner(&self) -> Option<String> {
        self.ask(4)
    }

    fn ask(&self, when: u32) -> Option<String> {
        // SAFETY: a function of the kernel's that reads, and takes no lock; its text lies in the kernel. It runs on no
        // CPU, so that what it reads is no point, and its barriers order nothing.
        unsafe {
            let on = std::mem::replace(&mut (*self.race).on, 0);
            let why = ((*self.race).check)(when);
            (*self.race).on = on;
            (!why.is_null()).then(|| CStr::from_ptr(why).to_string_lossy().into_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many words as places allow, among them neighbours and such that want the same place.
    #[test]
    fn private_words_are_found_and_no_others() {
        let words: Vec<u64> = (1..2000).map(|n| n * 64 / 3).collect();
        let private = PrivateWords::new(&words);
        for word in 0..43_000 {
            assert_eq!(private.contains(word), words.contains(&word), "{word}");
        }
        assert!(!PrivateWords::new(&[]).contains(0) && !PrivateWords::new(&[]).contains(1));
        assert!(PrivateWords::new(&[7, 7]).contains(7));
    }
}
