//! How long do calls of a function take in the running kernel? A program at its begin notes the time, one at its end
//! counts the difference.
//!
//! ```text
//! cpudl_set()        begin: start = now          end: counts[now - start] += 1, one place for each nanosecond
//! bpf_fentry_test1() the same two programs at a function that adds 1: what measuring itself takes
//! ```
//!
//! Both run on the CPU of the call, with interrupts off where the function has them off: a place for each CPU and
//! function is enough, and nothing is lost. Calls that take longer than there are places are counted together.
//!
//! The clock is `bpf_ktime_get_ns()`: the TSC, as nanoseconds. A program cannot read the TSC itself.

use super::insn::{Asm, Helper, If, R0, R1, R2, R7, R8, Size};
use super::programs::{Attach, Program};
use super::sys::{self, Attached, Mapping};
use super::{possible_cpus, refused};
use crate::error::HostError;
use schedlab_btf::{Btf, Named};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// log2 of the bytes that a function has on a CPU, and of all of them.
const SLOT_BITS: i32 = 15;
const CPU_BITS: i32 = 17;
/// Functions, with the one that does nothing.
const SLOTS: usize = 1 << (CPU_BITS - SLOT_BITS);
/// In a function's part: when the call began, how many there were, those that took too long for a place, their sum.
const START: i32 = 0;
const CALLS: i32 = 8;
const LONG: i32 = 16;
const SUM: i32 = 24;
const COUNTS: i32 = 32;
/// Places for counts, of four bytes each: so many nanoseconds.
const NS_PLACES: usize = ((1 << SLOT_BITS) - COUNTS as usize) / 4;
/// More CPUs than this would want more memory than the kernel ought to give for it.
const CPUS_MAX: u32 = 512;
/// It adds 1, and is called when a program is tried (net/bpf/test_run.c).
const NOTHING: &str = "bpf_fentry_test1";
/// CPUs and files as the kernel shows them.
const BTF_PATH: &str = "/sys/kernel/btf/vmlinux";

/// Programs at functions of the running kernel; detached when dropped.
pub struct CallTimer {
    counts: Mapping,
    cpus: u32,
    functions: Vec<String>,
    /// Of the function that does nothing: the program at its begin can be tried.
    nothing: Attached,
    _programs: Vec<Attached>,
}

/// How long calls of a function took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTimes {
    /// All calls.
    pub calls: u64,
    /// Those that took longer than any of `by_ns`.
    pub long: u64,
    /// Of all of them together, in ns.
    pub sum_ns: u64,
    /// How many took so many ns.
    pub by_ns: Vec<u32>,
}

impl CallTimes {
    /// What came since an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &CallTimes) -> CallTimes {
        let before = |at: usize| earlier.by_ns.get(at).copied().unwrap_or(0);
        CallTimes {
            calls: self.calls.saturating_sub(earlier.calls),
            long: self.long.saturating_sub(earlier.long),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            by_ns: (0..).zip(&self.by_ns).map(|(at, n)| n.wrapping_sub(before(at))).collect(),
        }
    }

    /// These and others.
    pub fn add(&mut self, others: &CallTimes) {
        self.calls += others.calls;
        self.long += others.long;
        self.sum_ns += others.sum_ns;
        self.by_ns.resize(self.by_ns.len().max(others.by_ns.len()), 0);
        for (count, more) in self.by_ns.iter_mut().zip(&others.by_ns) {
            *count += more;
        }
    }

    /// So many thousandths of the calls take no longer than this many ns; `None` without calls, or if it is longer than
    /// there are places for.
    pub fn quantile_ns(&self, per_mille: u32) -> Option<u64> {
        let counted: u64 = self.by_ns.iter().copied().map(u64::from).sum::<u64>() + self.long;
        let wanted = schedlab_stdx::percentile::rank(counted, per_mille);
        let mut seen = 0;
        (0..).zip(&self.by_ns).find_map(|(ns, count)| {
            seen += u64::from(*count);
            (seen >= wanted).then_some(ns)
        })
    }
}

impl CallTimer {
    /// Puts programs at these functions: at most three.
    ///
    /// # Errors
    /// [`HostError::NoCalls`]: the function is not there, or the kernel takes no programs.
    pub fn attach(functions: &[&str]) -> Result<CallTimer, HostError> {
        assert!(functions.len() < SLOTS, "at most {} functions", SLOTS - 1);
        // (a refusal may have a verifier's log behind it, and an empty one here)
        let untimed = |function: &str, why: String| {
            let (function, why) = (function.to_owned(), why.trim_end().to_owned());
            HostError::NoCalls { function, why }
        };
        let first = functions.first().copied().unwrap_or_default();
        if !cfg!(target_arch = "x86_64") {
            return Err(untimed(first, "programs are written for x86-64".to_owned()));
        }
        let cpus = possible_cpus().map_err(|why| untimed(first, why))?;
        if cpus > CPUS_MAX {
            let why = format!("{cpus} CPUs are possible here, this knows {CPUS_MAX}");
            return Err(untimed(first, why));
        }
        let data =
            std::fs::read(Path::new(BTF_PATH)).map_err(|e| untimed(first, format!("{BTF_PATH}: {e}")))?;
        let btf = Btf::parse(&data).map_err(|e| untimed(first, format!("{BTF_PATH}: {e}")))?;
        let ids = ids(&btf, &[functions, &[NOTHING]].concat())?;
        let bytes = (cpus as usize) << CPU_BITS;
        let no_memory = |e| untimed(first, refused("the kernel gives no shared memory")(e));
        let shared = sys::shared(bytes as u32).map_err(no_memory)?;
        let counts = Mapping::new(&shared, 0, bytes, false).map_err(no_memory)?;
        let mut programs = Vec::new();
        for (slot, (name, id)) in (0..).zip(ids) {
            let of = |attach, code| sys::attach(&Program { attach, code }).map_err(|why| untimed(&name, why));
            // the end first: it counts nothing until there is a begin
            programs.push(of(Attach::Exit(id), at_end(shared.as_raw_fd(), cpus, slot))?);
            programs.push(of(Attach::Enter(id), at_begin(shared.as_raw_fd(), cpus, slot))?);
        }
        let nothing = programs.pop().expect("there is one at the function that does nothing");
        let functions = functions.iter().map(ToString::to_string).collect();
        Ok(CallTimer { counts, cpus, functions, nothing, _programs: programs })
    }

    /// Calls of each function so far.
    pub fn times(&self) -> Vec<CallTimes> {
        (0..self.functions.len()).map(|slot| self.of(slot)).collect()
    }

    /// What was measured of the function that does nothing.
    pub fn itself(&self) -> CallTimes {
        self.of(self.functions.len())
    }

    /// Calls the function that does nothing, so often.
    ///
    /// # Errors
    /// The kernel does not try programs.
    pub fn call_nothing(&self, times: u32) -> Result<(), HostError> {
        let refused =
            |source| HostError::System { doing: "cannot call a function that does nothing", source };
        (0..times).try_for_each(|_| self.nothing.try_once()).map_err(refused)
    }

    fn of(&self, slot: usize) -> CallTimes {
        let mut all = CallTimes::default();
        for cpu in 0..self.cpus as usize {
            let base = (cpu << CPU_BITS) + (slot << SLOT_BITS);
            let long = |at: i32| self.counts.long(base + at as usize).load(Ordering::Relaxed);
            let count = |ns: usize| self.counts.word(base + COUNTS as usize + 4 * ns).load(Ordering::Relaxed);
            all.add(&CallTimes {
                calls: long(CALLS),
                long: long(LONG),
                sum_ns: long(SUM),
                by_ns: (0..NS_PLACES).map(count).collect(),
            });
        }
        all
    }
}

/// How fast the TSC runs, in Hz, by the kernel's clock over 100 ms; `None` where there is none.
pub fn tsc_hz() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a register that every process may read.
        let both = || (Instant::now(), unsafe { std::arch::x86_64::_rdtsc() });
        let (begin, first) = both();
        std::thread::sleep(Duration::from_millis(100));
        let (end, last) = both();
        Some(last.wrapping_sub(first) as f64 / (end - begin).as_secs_f64())
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Functions and their numbers in the kernel's description.
fn ids(btf: &Btf, functions: &[&str]) -> Result<Vec<(String, u32)>, HostError> {
    let wanted: Vec<(Named, &str)> = functions.iter().map(|name| (Named::Function, *name)).collect();
    let found = btf.find(&wanted);
    let id = |name: &&str| match found.get(&(Named::Function, (*name).to_owned())) {
        Some(id) => Ok(((*name).to_owned(), *id)),
        None => Err(HostError::NoCalls {
            function: (*name).to_owned(),
            why: format!("{BTF_PATH} has no such function"),
        }),
    };
    functions.iter().map(id).collect()
}

/// r7 = this CPU's part of a function; goes to `out` on a CPU that has none.
fn find_part(asm: &mut Asm, map: i32, cpus: u32, slot: i32, out: super::insn::Label) {
    asm.call(Helper::SmpProcessorId);
    asm.jump(If::Ge(cpus as i32), R0, out);
    asm.shift_left(R0, CPU_BITS);
    asm.map_value(R7, map);
    asm.add_reg(R7, R0);
    asm.add(R7, slot << SLOT_BITS);
}

fn at_begin(map: i32, cpus: u32, slot: i32) -> Vec<u8> {
    let mut asm = Asm::default();
    let out = asm.label();
    find_part(&mut asm, map, cpus, slot, out);
    asm.call(Helper::KtimeGetNs);
    asm.store(Size::Long, R7, START, R0);
    asm.here(out);
    asm.set(R0, 0);
    asm.exit();
    asm.finish()
}

fn at_end(map: i32, cpus: u32, slot: i32) -> Vec<u8> {
    let mut asm = Asm::default();
    let (out, long) = (asm.label(), asm.label());
    asm.call(Helper::KtimeGetNs);
    asm.mov(R8, R0);
    find_part(&mut asm, map, cpus, slot, out);
    asm.load(Size::Long, R1, R7, START);
    asm.jump(If::Eq(0), R1, out);
    asm.store_value(Size::Long, R7, START, 0);
    asm.sub_reg(R8, R1);
    let add = |asm: &mut Asm, at: i32, value| {
        asm.load(Size::Long, R2, R7, at);
        match value {
            Some(register) => asm.add_reg(R2, register),
            None => asm.add(R2, 1),
        }
        asm.store(Size::Long, R7, at, R2);
    };
    add(&mut asm, CALLS, None);
    add(&mut asm, SUM, Some(R8));
    asm.jump(If::Ge(NS_PLACES as i32), R8, long);
    asm.shift_left(R8, 2);
    asm.add_reg(R7, R8);
    asm.load(Size::Word, R2, R7, COUNTS);
    asm.add(R2, 1);
    asm.store(Size::Word, R7, COUNTS, R2);
    asm.jump(If::Always, R0, out);
    asm.here(long);
    add(&mut asm, LONG, None);
    asm.here(out);
    asm.set(R0, 0);
    asm.exit();
    asm.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_btf::TypeKind;

    fn times(counts: &[(usize, u32)], long: u64) -> CallTimes {
        let mut by_ns = vec![0; NS_PLACES];
        counts.iter().for_each(|(ns, count)| by_ns[*ns] = *count);
        let calls = counts.iter().map(|(_, count)| u64::from(*count)).sum::<u64>() + long;
        CallTimes { calls, long, sum_ns: 0, by_ns }
    }

    #[test]
    fn quantiles_are_of_counts_and_what_is_too_long_has_none() {
        let some = times(&[(10, 1), (20, 2), (30, 1)], 0);
        assert_eq!([250, 500, 750, 1000].map(|q| some.quantile_ns(q)), [10, 20, 20, 30].map(Some));
        let long = times(&[(10, 1)], 3);
        assert_eq!([250, 500].map(|q| long.quantile_ns(q)), [Some(10), None]);
        assert_eq!(CallTimes::default().quantile_ns(500), None);
    }

    #[test]
    fn what_came_since_is_a_difference_and_adds_up_again() {
        let (before, after) = (times(&[(10, 1)], 1), times(&[(10, 3), (40, 2)], 5));
        let since = after.since(&before);
        assert_eq!((since.calls, since.long, since.by_ns[10], since.by_ns[40]), (8, 4, 2, 2));
        let mut whole = before;
        whole.add(&since);
        assert_eq!(whole, after);
    }

    /// The kernel's own description of a function is asked for by name; one that it lacks is named.
    #[test]
    fn a_function_that_the_kernel_lacks_is_named() {
        let function = |name: &str| TypeKind::Function { name: name.to_owned(), prototype: 1 };
        let btf = Btf::of(vec![TypeKind::Opaque, TypeKind::Prototype(Vec::new()), function("cpudl_set")]);
        assert_eq!(ids(&btf, &["cpudl_set"]).unwrap(), [("cpudl_set".to_owned(), 2)]);
        let error = ids(&btf, &["cpudl_set", "cpudl_find"]).unwrap_err().to_string();
        assert!(error.contains("cpudl_find() ") && error.contains("no such function"), "{error}");
    }

    /// Calls of a function that is called when a program is tried: as many as were made, and none of them is long.
    #[test]
    fn calls_are_counted_and_timed_in_this_kernel() {
        let timer = match CallTimer::attach(&["bpf_fentry_test2"]) {
            Ok(timer) => timer,
            Err(error) => {
                eprintln!("SKIPPED: {error}");
                return;
            }
        };
        assert_eq!(timer.times()[0].calls, 0);
        timer.call_nothing(500).unwrap();
        for found in [timer.itself(), timer.times()[0].clone()] {
            assert_eq!(found.calls, 500);
            assert_eq!(found.by_ns.iter().sum::<u32>() as u64 + found.long, 500);
            // an empty function between two looks at the clock: less than 2 us, also where an emulator runs it
            assert!(found.quantile_ns(500).is_some_and(|ns| ns < 2000), "{:?}", found.quantile_ns(500));
        }
    }
}
