//! How does a map become a schedule log as any other?
//!
//! ```text
//!   # observer poller
//!   # hidden wakeups idle assignments lives spans limits
//!   0 ns cpu0 switch idle -> t0                    it polls
//!   4.0 ms cpu0 note t0 missed: interrupt 95 %     time is missing, the CPU stays its own
//!   8.0 ms cpu0 note t0 missed: switched out 99 %
//!   8.0 ms cpu0 switch t0 preempted -> idle        none of the log's tasks; who ran is hidden
//!  12.0 ms cpu0 switch idle -> t0
//! ```
//!
//! Where neither the thread nor its counters can say what a CPU did (the hypervisor had it, or nothing
//! explains the gap), the CPU is unknown from there to the thread's next look at the clock.

use crate::infer::CONDITION;
use crate::map::{Map, Piece, ThreadMap};
use crate::poll::What;
use schedlab_log::{
    Fact, Hidden, Kind, LogHeader, LogTask, MemLog, MissedCause, ObservedBy, PrevState, Record, note,
};
use schedlab_units::{CpuId, Span, TaskId};

/// What threads cannot see that poll the clock. They see why they stop themselves.
const HIDDEN: [Fact; 6] =
    [Fact::Wakeups, Fact::Idle, Fact::Assignments, Fact::Lives, Fact::Spans, Fact::Limits];

/// Where a record stands among those of one instant: notes of a task that runs, it stops, one starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Note,
    Stop,
    Start,
}

/// A stretch in which a thread ran, and how it came to an end.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    task: TaskId,
    cpu: u32,
    from_ns: u64,
    to_ns: u64,
    stop: PrevState,
}

impl Map {
    /// The schedule log.
    pub fn log(&self) -> MemLog {
        let mut stretches: Vec<Stretch> = self
            .threads
            .iter()
            .enumerate()
            .flat_map(|(index, thread)| stretches(TaskId(index as u32), thread))
            .collect();
        stretches.iter_mut().for_each(|stretch| stretch.to_ns = stretch.to_ns.min(self.duration_ns));
        apart(&mut stretches);
        let mut records: Vec<(Rank, Record)> = Vec::new();
        self.threads
            .iter()
            .enumerate()
            .for_each(|(index, thread)| notes(TaskId(index as u32), thread, &mut records));
        stretches.iter().for_each(|stretch| switches(stretch, &mut records));
        for (index, thread) in self.threads.iter().enumerate() {
            let task = TaskId(index as u32);
            let own: Vec<&Stretch> = stretches.iter().filter(|stretch| stretch.task == task).collect();
            dark(task, thread, &own, &mut records);
        }
        records.retain(|(_, record)| record.time_ns <= self.duration_ns);
        records.sort_by_key(|(rank, record)| (record.time_ns, *rank, record.cpu, record.task));
        MemLog { header: self.header(), records: records.into_iter().map(|(_, record)| record).collect() }
    }

    fn header(&self) -> LogHeader {
        let task = |(index, thread): (usize, &ThreadMap)| LogTask {
            pid: thread.tid,
            name: format!("hourglass-{index}"),
            params: thread.plan.class.params,
            affinity: thread.plan.cpus.clone(),
            ..LogTask::default()
        };
        let kernel = self.preconditions.iter().find(|(name, _)| name == "kernel");
        let calibration = &self.calibration;
        let mut params = vec![
            ("hourglass.counter".to_string(), calibration.counter.clone()),
            ("hourglass.loop_ns".into(), format!("{:.1}", calibration.loop_ns)),
            ("hourglass.threshold_ns".into(), format!("{:.0}", calibration.threshold_ns)),
        ];
        for (index, thread) in self.threads.iter().enumerate() {
            let words = format!("{} -i {}", thread.plan.model, thread.plan.timer.name());
            params.push((format!("hourglass.thread.{index:04}"), words));
        }
        let conditions = self.preconditions.iter();
        params.extend(conditions.map(|(name, value)| (format!("{CONDITION}{name}"), value.clone())));
        params.sort();
        LogHeader {
            sched: "unknown".into(),
            sched_version: kernel.map(|(_, release)| release.clone()).unwrap_or_default(),
            nr_cpus: self.nr_cpus,
            hz: 0,
            duration: Span::from_ns(self.duration_ns),
            tasks: self.threads.iter().enumerate().map(task).collect(),
            params,
            observer: ObservedBy::Poller,
            hidden: Hidden::of(&HIDDEN),
            ..LogHeader::default()
        }
    }
}

fn stretches(task: TaskId, thread: &ThreadMap) -> Vec<Stretch> {
    let mut found = Vec::new();
    let mut open: Option<(u32, u64)> = None;
    let last = thread.pieces.len().saturating_sub(1);
    for (place, piece) in thread.pieces.iter().enumerate() {
        let stop = match piece.what {
            What::Sleep if place == last => PrevState::Dead,
            What::Sleep => PrevState::Sleeping,
            What::Gap if piece.missed.cause == MissedCause::Stopped => PrevState::Sleeping,
            What::Gap if piece.missed.cause.is_off_cpu() => PrevState::Preempted,
            _ => continue,
        };
        if let Some((cpu, from_ns)) = open.take()
            && piece.from_ns > from_ns
        {
            found.push(Stretch { task, cpu, from_ns, to_ns: piece.from_ns, stop });
        }
        open = Some((piece.cpu_to, piece.to_ns));
    }
    found
}

/// Two threads cannot be on one CPU: where clocks or CPU numbers say so, the later begins when the earlier has stopped.
fn apart(stretches: &mut Vec<Stretch>) {
    stretches.sort_by_key(|stretch| (stretch.cpu, stretch.from_ns, stretch.task));
    let mut free_at = (u32::MAX, 0);
    stretches.retain_mut(|stretch| {
        if free_at.0 == stretch.cpu {
            stretch.from_ns = stretch.from_ns.max(free_at.1);
        }
        let is_left = stretch.from_ns < stretch.to_ns;
        if is_left {
            free_at = (stretch.cpu, stretch.to_ns);
        }
        is_left
    });
}

fn record(kind: Kind, time_ns: u64, cpu: u32, task: TaskId) -> Record {
    Record {
        time_ns,
        kind: kind as u8,
        cpu: cpu as u16,
        task: task.0,
        other: TaskId::IDLE.0,
        ..Record::default()
    }
}

/// Onto the CPU and off it.
fn switches(stretch: &Stretch, records: &mut Vec<(Rank, Record)>) {
    let Stretch { task, cpu, from_ns, to_ns, stop } = *stretch;
    records.push((Rank::Start, start(task, cpu, from_ns)));
    if stop == PrevState::Dead {
        records.push((Rank::Note, record(Kind::Exit, to_ns, cpu, task)));
    }
    records.push((Rank::Stop, Record { flags: stop as u8, ..record(Kind::Switch, to_ns, cpu, task) }));
}

fn start(task: TaskId, cpu: u32, time_ns: u64) -> Record {
    Record { other: task.0, ..record(Kind::Switch, time_ns, cpu, TaskId::IDLE) }
}

/// From the beginning to the end of gaps of which nobody knows who had the CPU, that is unknown.
fn dark(task: TaskId, thread: &ThreadMap, own: &[&Stretch], records: &mut Vec<(Rank, Record)>) {
    for piece in thread.gaps() {
        if !matches!(piece.missed.cause, MissedCause::Hypervisor | MissedCause::Unexplained) {
            continue;
        }
        // both ends must lie in one stretch: clocks of several CPUs may have pushed it aside
        let (from_ns, to_ns, cpu) = (piece.from_ns, piece.to_ns, piece.cpu_from);
        let place = own.partition_point(|stretch| stretch.from_ns <= from_ns);
        let inside = place.checked_sub(1).is_some_and(|p| own[p].from_ns < from_ns && to_ns < own[p].to_ns);
        if inside && to_ns > from_ns {
            let unknown = Record { arg: note::UNKNOWN_CPU, ..record(Kind::Note, from_ns, cpu, TaskId::IDLE) };
            records.push((Rank::Stop, unknown));
            records.push((Rank::Start, start(task, cpu, to_ns)));
        }
    }
}

fn notes(task: TaskId, thread: &ThreadMap, records: &mut Vec<(Rank, Record)>) {
    for piece in &thread.pieces {
        let Piece { from_ns, to_ns, cpu_from, due_ns, .. } = *piece;
        let of = |arg, value, flags, time_ns| Record {
            arg,
            value,
            flags,
            ..record(Kind::Note, time_ns, cpu_from, task)
        };
        let note = match piece.what {
            What::Gap => piece.missed.record(from_ns, CpuId(cpu_from), task),
            What::Sleep if due_ns > 0 => of(note::DUE, due_ns, thread.plan.timer as u8, from_ns),
            What::Sleep => continue,
            What::Job => of(note::JOB, due_ns, 0, to_ns),
            What::Skip => of(note::JOB, due_ns, 1, to_ns),
        };
        records.push((Rank::Note, note));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::Calibration;
    use crate::plan::{Plan, ThreadPlan};
    use schedlab_log::{Missed, MissedCause, TextLog};

    fn piece(what: What, from_us: u64, to_us: u64, cpus: (u32, u32), cause: MissedCause) -> Piece {
        let missed = Missed { ns: (to_us - from_us) * 1000, cause, confidence_pct: 99, switches: 1 };
        Piece {
            what,
            from_ns: from_us * 1000,
            to_ns: to_us * 1000,
            resumed_ns: to_us * 1000,
            cpu_from: cpus.0,
            cpu_to: cpus.1,
            due_ns: if what == What::Sleep && to_us > from_us { to_us * 1000 - 5 } else { 0 },
            missed,
        }
    }

    /// ```text
    /// us    0         5         10        15        20
    /// cpu0  000000000000.........000000....            0 is switched out at 12, back at 20, moves to cpu1 at 26
    /// cpu1  .........111111111..........000            1 runs from 9, has an interrupt at 12, sleeps at 18
    /// ```
    fn map() -> Map {
        use MissedCause::*;
        let zero = vec![
            piece(What::Sleep, 0, 0, (0, 0), Unexplained),
            piece(What::Gap, 12, 20, (0, 0), SwitchedOut),
            piece(What::Gap, 26, 28, (0, 1), Migration),
            piece(What::Sleep, 30, 30, (1, 1), Unexplained),
        ];
        let one = vec![
            piece(What::Sleep, 9, 9, (1, 1), Unexplained),
            piece(What::Gap, 12, 13, (1, 1), Interrupt),
            piece(What::Sleep, 18, 29, (1, 1), Unexplained),
            piece(What::Sleep, 29, 29, (1, 1), Unexplained),
        ];
        let thread = |pieces| crate::map::ThreadMap {
            plan: ThreadPlan::default(),
            tid: 7,
            pieces,
            lost: 0,
            computed_ns: 0,
            reading_ns: 0,
            cpu_ns: 0,
        };
        Map {
            plan: Plan::default(),
            calibration: Calibration::default(),
            missing: vec![],
            preconditions: vec![],
            notes: vec![],
            threads: vec![thread(zero), thread(one)],
            nr_cpus: 2,
            duration_ns: 40_000,
            start_ns: 0,
            steal_ms: None,
            beside: vec![],
        }
    }

    #[test]
    fn a_map_is_a_schedule() {
        let log = map().log();
        let mut text = Vec::new();
        schedlab_log::write_text(&log, &mut text, "x".as_ref()).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<String> = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.contains(" note "))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "0 cpu0 switch idle -> t0",
                "9000 cpu1 switch idle -> t1",
                "12000 cpu0 switch t0 preempted -> idle",
                "18000 cpu1 switch t1 sleeping -> idle",
                "20000 cpu0 switch idle -> t0",
                "26000 cpu0 switch t0 preempted -> idle",
                "28000 cpu1 switch idle -> t0",
                "30000 cpu1 exit t0",
                "30000 cpu1 switch t0 dead -> idle",
            ]
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        schedlab_log::write(&path, &log).unwrap();
        TextLog::open(&path).unwrap();
        let verdict = schedlab_instruments::verify(&log).unwrap();
        assert!(verdict.is_clean(), "{:?}", verdict.violations);
    }

    /// Nobody knows who had cpu1 from 12 to 13 us.
    #[test]
    fn what_nothing_explains_is_unknown() {
        let mut map = map();
        map.threads[1].pieces[1].missed.cause = MissedCause::Unexplained;
        let log = map.log();
        let at = |us: u64| log.records.iter().filter(move |r| r.time_ns == us * 1000 && r.cpu == 1);
        assert!(at(12).any(|record| record.arg == note::UNKNOWN_CPU && record.kind() == Some(Kind::Note)));
        assert!(at(13).any(|record| record.kind() == Some(Kind::Switch) && record.other == 1));
        assert!(schedlab_instruments::verify(&log).unwrap().is_clean());
    }

    /// Clocks of two CPUs that differ by 2 us make two threads overlap on one: the later one begins when the
    /// earlier has stopped.
    #[test]
    fn no_two_threads_are_on_one_cpu() {
        let mut map = map();
        let pieces = &mut map.threads[1].pieces;
        *pieces = vec![
            piece(What::Sleep, 10, 10, (0, 0), MissedCause::Unexplained),
            piece(What::Sleep, 15, 15, (0, 0), MissedCause::Unexplained),
        ];
        let log = map.log();
        let start = log.records.iter().find(|r| r.kind() == Some(Kind::Switch) && r.other == 1).unwrap();
        assert_eq!(start.time_ns, 12_000);
        assert!(schedlab_instruments::verify(&log).unwrap().is_clean());
    }
}
