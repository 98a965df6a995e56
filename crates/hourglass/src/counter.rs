//! Which number grows all the time, and how is it read in a few nanoseconds?
//!
//! ```text
//! rdtscp        13 ns   x86-64 with an invariant time-stamp counter; tells the CPU with the time, in one instruction
//! cntvct_el0     9 ns   aarch64 (written, not tried)
//! clock_gettime 30 ns   everywhere else; each result says that it was used, and why
//! ```
//!
//! The CPU stands in the instruction's second result because Linux keeps it there (`MSR_TSC_AUX`: node << 12 | CPU).

use std::fs;

/// No CPU came with the time; the caller asks the kernel when it needs to know.
pub(crate) const NO_CPU: u32 = u32::MAX;

/// A number that grows with time, and the CPU it was read on.
pub(crate) trait Counter: Copy + Send + Sync + 'static {
    /// The number, and the CPU or [`NO_CPU`].
    fn read(self) -> (u64, u32);
}

/// The time-stamp counter of x86-64, which tells the CPU too.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Native;

#[cfg(target_arch = "x86_64")]
impl Counter for Native {
    #[inline(always)]
    fn read(self) -> (u64, u32) {
        let mut aux = 0;
        // SAFETY: made only where /proc/cpuinfo lists rdtscp; the instruction reads two registers.
        let ticks = unsafe { std::arch::x86_64::__rdtscp(&mut aux) };
        (ticks, aux & 0xfff)
    }
}

/// The virtual counter of aarch64. Written by the manual, not tried on a machine.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Native;

#[cfg(target_arch = "aarch64")]
impl Counter for Native {
    #[inline(always)]
    fn read(self) -> (u64, u32) {
        let ticks: u64;
        // SAFETY: Linux lets user code read the virtual counter (CNTKCTL_EL1.EL0VCTEN); nothing else is touched.
        unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        (ticks, NO_CPU)
    }
}

/// The kernel's clock, in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock;

impl Counter for Clock {
    #[inline(always)]
    fn read(self) -> (u64, u32) {
        (clock_ns(libc::CLOCK_MONOTONIC_RAW), NO_CPU)
    }
}

/// A clock of the kernel, in ns.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Which counter is used, and why not a better one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The processor's own.
    Native,
    /// The kernel's clock, for this reason.
    Clock(String),
}

impl Choice {
    /// The best counter of this machine.
    pub(crate) fn detect() -> Choice {
        if cfg!(target_arch = "aarch64") {
            return Choice::Native;
        }
        if !cfg!(target_arch = "x86_64") {
            return Choice::Clock("this processor's counter is not known here".into());
        }
        Choice::of_flags(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
    }

    /// By the flags in a `/proc/cpuinfo` of x86.
    fn of_flags(cpuinfo: &str) -> Choice {
        let line = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
        let has = |flag: &str| line.split_whitespace().any(|word| word == flag);
        match (has("rdtscp"), has("constant_tsc"), has("nonstop_tsc")) {
            (false, ..) => Choice::Clock("this processor has no rdtscp".into()),
            (_, false, _) => Choice::Clock("the time-stamp counter follows the CPU's frequency".into()),
            (.., false) => Choice::Clock("the time-stamp counter stops in sleep states".into()),
            _ => Choice::Native,
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Choice::Native if cfg!(target_arch = "aarch64") => "cntvct_el0",
            Choice::Native => "rdtscp",
            Choice::Clock(_) => "clock_gettime",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_not_invariant_is_not_taken() {
        assert_eq!(Choice::of_flags("flags\t: fpu rdtscp constant_tsc nonstop_tsc\n"), Choice::Native);
        for (flags, why) in [
            ("flags : fpu constant_tsc nonstop_tsc", "rdtscp"),
            ("flags : rdtscp nonstop_tsc", "frequency"),
            ("flags : rdtscp constant_tsc", "sleep"),
            ("", "rdtscp"),
        ] {
            assert!(matches!(Choice::of_flags(flags), Choice::Clock(text) if text.contains(why)), "{flags}");
        }
    }

    #[test]
    fn the_kernels_clock_does_not_go_back() {
        let (first, _) = Clock.read();
        let (second, _) = Clock.read();
        assert!(second >= first);
    }
}
