//! The figures as two tables, beside those that WARP's section V.C prints.

use std::fmt;

use super::{EventCost, Operation, Overhead, Spread, WorkloadCost};

/// What WARP's section V.C prints for capturing an event, in us (a 2.8 GHz Pentium 4, Linux 2.6.7).
pub const WARP_EVENTS: [(Operation, f64); 5] = [
    (Operation::Fork, 0.74),
    (Operation::Block, 0.18),
    (Operation::Wakeup, 0.19),
    (Operation::Prio, 0.19),
    (Operation::Exit, 0.33),
];

/// And for bringing an event from the buffer to the file: our workload, WARP's that it is like, us per event.
pub const WARP_TO_FILE: [(&str, &str, f64); 3] =
    [("messages", "VolanoMark", 0.30), ("compress", "Gzip", 0.55), ("interactive", "Mozilla", 0.46)];

impl EventCost {
    /// What WARP says, in us.
    pub fn published_us(&self) -> Option<f64> {
        WARP_EVENTS.iter().find(|(operation, _)| *operation == self.operation).map(|(_, us)| *us)
    }
}

impl WorkloadCost {
    /// The workload of WARP's that it is like, and its buffer-to-file cost per event in us.
    pub fn published(&self) -> Option<(&'static str, f64)> {
        WARP_TO_FILE.iter().find(|(name, ..)| *name == self.name).map(|(_, like, us)| (*like, *us))
    }
    /// CPU time that recording adds to the workload's own, in per cent.
    pub fn added_percent(&self) -> f64 {
        (self.cpu_recorded_s.median / self.cpu_plain_s.median - 1.0) * 100.0
    }
    /// The same, per event in us.
    pub fn added_us(&self) -> f64 {
        (self.cpu_recorded_s.median - self.cpu_plain_s.median) * 1e6 / self.events.median.max(1.0)
    }
}

fn range(spread: Spread) -> String {
    format!("{:.2}..{:.2}", spread.low, spread.high)
}

impl fmt::Display for Overhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "What recording costs here: Linux {}, {} CPUs", self.kernel, self.cpus)?;
        writeln!(f)?;
        writeln!(
            f,
            "capturing an event, us of CPU time       here   middle half     WARP   the operation itself"
        )?;
        for cost in &self.events {
            let events: Vec<&str> =
                cost.operation.events().iter().map(|e| e.rsplit('/').next().unwrap_or(e)).collect();
            let events = match cost.operation {
                Operation::OtherCall => "while calls are traced".to_owned(),
                Operation::Prio => "enter and exit".to_owned(),
                Operation::Fork => "process_fork, wakeup_new".to_owned(),
                _ => events.join(", "),
            };
            let published = cost.published_us().map_or("-".to_owned(), |us| format!("{us:.2}"));
            writeln!(
                f,
                "{:<10} {events:<26} {:>7.2}   {:>11}   {published:>6}   {:>8.2}",
                cost.operation.name(),
                cost.us.median,
                range(cost.us),
                cost.operation_us
            )?;
        }
        if self.workloads.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        writeln!(
            f,
            "buffer to file, us of CPU time per event    draining   writing       sum     WARP   bytes each      events"
        )?;
        for cost in &self.workloads {
            if let Some(missing) = cost.missing {
                writeln!(f, "{:<12} not measured: {missing}", cost.name)?;
                continue;
            }
            let (like, us) = cost.published().unwrap_or(("", 0.0));
            writeln!(
                f,
                "{:<12} (as {like:<10})                {:>9.3} {:>9.2} {:>9.2} {us:>8.2} {:>12.1} {:>11.0}",
                cost.name,
                cost.drain_us.median,
                cost.write_us.median,
                cost.drain_us.median + cost.write_us.median,
                cost.bytes.median,
                cost.events.median
            )?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "all in: the workload's own CPU time, s      without  middle half     with  middle half    added   us/event   events/s"
        )?;
        for cost in self.workloads.iter().filter(|cost| cost.missing.is_none()) {
            writeln!(
                f,
                "{:<40} {:>10.3} {:>12} {:>8.3} {:>12} {:>+6.1} % {:>10.2} {:>10.0}",
                cost.name,
                cost.cpu_plain_s.median,
                range(cost.cpu_plain_s),
                cost.cpu_recorded_s.median,
                range(cost.cpu_recorded_s),
                cost.added_percent(),
                cost.added_us(),
                cost.events_per_s.median
            )?;
        }
        let lost: u64 = self.workloads.iter().map(|cost| cost.lost).sum();
        if lost > 0 {
            writeln!(f, "{lost} events were lost: the buffer was too small for this host")?;
        }
        Ok(())
    }
}
