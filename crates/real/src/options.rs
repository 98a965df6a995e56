//! What can be chosen about a guest? Everything here is part of what names a run.

use crate::RealError;
use schedlab_units::Span;
use std::path::PathBuf;

const KVM: &str = "/dev/kvm";

/// How to run a guest.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Virtual CPUs, 1..=64. They are cores of one socket with a common last-level cache.
    pub cpus: u32,
    /// Ends the run after this much of the guest's time; it ends earlier when every task has done all.
    pub duration: Span,
    /// Moves time 0 within the tick (and all longer periods of the kernel), in place of the noise that a
    /// deterministic guest does not have: vary it for statistics. Below 100 ms.
    pub phase: Span,
    /// Timer slack of the tasks. 1 ns (the default) makes sleeps as exact as the workload states them;
    /// programs that state nothing have 50 us. Real-time tasks have none.
    pub timer_slack: Span,
    /// Tasks measure their computing by asking the kernel for their CPU time without end, instead of by the
    /// TSC. Each question makes the kernel account for the task (`update_curr()`), which under EEVDF can end
    /// a slice between two ticks.
    pub poll_clock: bool,
    /// Virtual time in which every virtual CPU gets its turn on the host; 0 = until the next timer is due,
    /// which may be a tick. An interrupt can come late by this much. Ignored with 1 CPU. Shorter is truer and
    /// slower.
    pub interleave: Span,
    /// Run on the host's CPU by KVM instead of counting instructions: times are physical, nothing is deterministic, and
    /// nothing is cached. Phase and shift mean nothing then.
    pub kvm: bool,
    /// The emulator's clock is this machine's, not a count of instructions: time goes on while the emulator is held up,
    /// as in a virtual machine that is robbed of its CPU. Nothing is deterministic, and nothing is cached.
    pub host_clock: bool,
    /// log2 of the ns that one instruction takes: 1 is a machine of 500 MIPS.
    pub shift: u32,
    /// Trace buffer per CPU in MB.
    pub trace_buffer_mb: u32,
    /// Files of the guest to write before the start, with what to write: sysctls, debugfs. In order.
    pub settings: Vec<(String, String)>,
    /// Further arguments of the kernel's command line.
    pub kernel_args: Vec<String>,
    /// Give up after this much host time, in s.
    pub wall_limit_s: u64,
    /// Keep the trace as this trace.dat.
    pub keep_trace: Option<PathBuf>,
    /// Write the run as a recording: this trace.dat, from time 0 to the end, and the tables of tasks and groups beside
    /// it.
    pub recording: Option<PathBuf>,
    /// Boot even if the cache has the run.
    pub fresh: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            cpus: 1,
            duration: Span::from_s(10),
            phase: Span::ZERO,
            timer_slack: Span::from_ns(1),
            poll_clock: false,
            interleave: Span::from_us(50),
            kvm: false,
            host_clock: false,
            shift: 1,
            trace_buffer_mb: 12,
            settings: Vec::new(),
            kernel_args: Vec::new(),
            wall_limit_s: 600,
            keep_trace: None,
            recording: None,
            fresh: false,
        }
    }
}

impl Options {
    /// The interleaving period in us as the guest's program gets it.
    pub(crate) fn interleave_us(&self) -> u32 {
        if self.cpus == 1 || !self.counts_instructions() {
            0
        } else {
            (self.interleave.as_ns() / 1000) as u32
        }
    }

    /// Whether the guest's clock counts its instructions, so that the same comes out again.
    pub(crate) fn counts_instructions(&self) -> bool {
        !self.kvm && !self.host_clock
    }

    pub(crate) fn check(&self) -> Result<(), RealError> {
        let wrong = |what: &str, value: String, expected: &str| {
            Err(RealError::Unsupported { what: what.to_string(), value, expected: expected.to_string() })
        };
        if !(1..=64).contains(&self.cpus) {
            return wrong("the number of CPUs", self.cpus.to_string(), "1 to 64");
        }
        if self.duration == Span::ZERO || self.duration > Span::from_s(3600) {
            return wrong("the duration", self.duration.to_string(), "more than 0 and at most an hour");
        }
        if self.phase >= Span::from_ms(100) {
            return wrong("the phase", self.phase.to_string(), "less than 100 ms");
        }
        let interleave_us = self.interleave_us();
        if interleave_us != 0 && !(5..=50_000).contains(&interleave_us) {
            return wrong("the interleaving period", self.interleave.to_string(), "0 or 5 us to 50 ms");
        }
        if self.kvm
            && let Err(error) = std::fs::File::options().read(true).write(true).open(KVM)
        {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let remedy = if missing {
                "this machine cannot run guests on its own CPU (or its firmware forbids it, or the module kvm_intel \
                 or kvm_amd is not loaded); leave out --kvm"
            } else {
                "run it as root or as a member of the group kvm, or leave out --kvm"
            };
            let what = if missing { KVM.to_string() } else { format!("the right to use {KVM} ({error})") };
            return Err(RealError::Missing { what, remedy: remedy.to_string() });
        }
        if self.shift > 5 {
            return wrong("the shift", self.shift.to_string(), "0 to 5");
        }
        if !(1..=256).contains(&self.trace_buffer_mb) {
            return wrong("the trace buffer in MB", self.trace_buffer_mb.to_string(), "1 to 256");
        }
        for (path, value) in &self.settings {
            if !path.starts_with('/') || path.contains(['=', '\n']) || value.contains('\n') {
                return wrong(
                    "a setting",
                    format!("{path}={value}"),
                    "an absolute path and one line of text",
                );
            }
        }
        if let Some(bad) = self.kernel_args.iter().find(|arg| arg.contains(|c: char| c.is_whitespace())) {
            return wrong("a kernel argument", bad.clone(), "arguments without blanks, one each");
        }
        Ok(())
    }
}
