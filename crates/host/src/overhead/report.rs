//! The figures as two tables, beside those that WARP's section V.C prints.

use std::fmt;

use super::{EventCost, Operation, Overhead, Spread, WayCost, WorkloadCost};

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
    /// CPU time that this way of recording adds to the workload's own, in per cent.
    pub fn added_percent(&self, way: &WayCost) -> f64 {
        (way.cpu_s.median / self.cpu_s.median - 1.0) * 100.0
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
            "capturing an event, us of CPU time      ftrace  middle half       bpf  middle half    WARP   operation"
        )?;
        for cost in &self.events {
            let events = match cost.operation {
                Operation::OtherCall => "while calls are traced".to_owned(),
                Operation::Prio => "enter and exit".to_owned(),
                Operation::Fork => "process_fork, wakeup_new".to_owned(),
                other => other.events().iter().map(|e| e.rsplit(':').next().unwrap_or(e)).collect(),
            };
            let shown = |us: Option<Spread>| {
                us.map_or(("-".to_owned(), String::new()), |us| (format!("{:.2}", us.median), range(us)))
            };
            let (ftrace, bpf) = (shown(cost.us), shown(cost.bpf_us));
            let published = cost.published_us().map_or("-".to_owned(), |us| format!("{us:.2}"));
            writeln!(
                f,
                "{:<10} {events:<26} {:>8}  {:>11}  {:>8}  {:>11}  {published:>6}  {:>10.2}",
                cost.operation.name(),
                ftrace.0,
                ftrace.1,
                bpf.0,
                bpf.1,
                cost.operation_us
            )?;
        }
        if self.workloads.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        writeln!(
            f,
            "buffer to file, us of CPU time per event           draining  writing      sum    WARP  bytes each    \
                events"
        )?;
        for cost in &self.workloads {
            if let Some(missing) = cost.missing {
                writeln!(f, "{:<12} not measured: {missing}", cost.name)?;
                continue;
            }
            let (like, us) = cost.published().unwrap_or(("", 0.0));
            for (i, way) in cost.ways.iter().enumerate() {
                let (name, like, us) = match i {
                    0 => (cost.name, format!("(as {like})"), format!("{us:.2}")),
                    _ => ("", String::new(), String::new()),
                };
                writeln!(
                    f,
                    "{name:<12} {like:<16} {:<16} {:>12.3} {:>8.2} {:>8.2}  {us:>6} {:>11.1} {:>9.0}",
                    way.way,
                    way.drain_us.median,
                    way.write_us.median,
                    way.drain_us.median + way.write_us.median,
                    way.bytes.median,
                    way.events.median
                )?;
            }
        }
        writeln!(f)?;
        writeln!(
            f,
            "all in: the workload's own CPU time                       s  middle half     added  us/event  middle \
                half  events/s"
        )?;
        for cost in self.workloads.iter().filter(|cost| cost.missing.is_none()) {
            writeln!(
                f,
                "{:<12} {:<16} {:<16} {:>12.3}  {:>11}",
                cost.name,
                "",
                "not recorded",
                cost.cpu_s.median,
                range(cost.cpu_s)
            )?;
            for way in &cost.ways {
                writeln!(
                    f,
                    "{:<29} {:<16} {:>12.3}  {:>11} {:>+7.1} %  {:>8.2}  {:>11} {:>9.0}",
                    "",
                    way.way,
                    way.cpu_s.median,
                    range(way.cpu_s),
                    cost.added_percent(way),
                    way.added_us.median,
                    range(way.added_us),
                    way.events_per_s.median
                )?;
            }
        }
        let lost: u64 = self.workloads.iter().flat_map(|cost| &cost.ways).map(|way| way.lost).sum();
        if lost > 0 {
            writeln!(f, "{lost} events were lost: the buffer was too small for this host")?;
        }
        Ok(())
    }
}
