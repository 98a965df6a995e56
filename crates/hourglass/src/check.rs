//! Is the map true? The kernel's own trace, recorded at the same time, says who was switched out when.
//!
//! ```text
//!   trace    A |████████|      |█████|    |███       switches of the thread, by the kernel
//!   map      A |███████|       |██|..|██| |██        gaps; claimed: switched out, or kept its CPU
//!                       found       wrong     missed: too short, or in the loop's own time
//! ```
//!
//! Recall: switches out above the threshold that lie in a gap claimed as one. Precision: claimed gaps in
//! which the trace has a switch. The trace is evidence too, and may have holes:
//!
//! ```text
//!   trace, CPU 0   t0 -> X at 10 us                     t0 -> Y at 90 us
//!                                   X -> t0 is missing
//!   gap            10 ......... 24 us                    schedstat: t0 was runnable for 14 us
//! ```
//!
//! Some virtual machines never record the switch away from certain threads (samples/README.md). The trace then
//! knows when the thread left, and not when it came back. Such a switch is one of the trace; the thread's own
//! counters (getrusage, schedstat) say how long it took, and each number says how many of these it rests on.

use crate::map::{Map, ThreadMap};
use crate::plan::Plan;
use crate::poll::What;
use crate::run::{HourglassError, run};
use crate::stats::{Estimate, median, wilson};
use schedlab_host::{Backend, CaptureMethod, RecordOptions, RecordRequest as RecordedTrace, Stage, record};
use schedlab_log::MissedCause;
use schedlab_report::chart::{Chart, Drawing, Series, Style};
use schedlab_report::table::{Column, Table};
use schedlab_report::units::{count, time};
use schedlab_trace::{Mode, SchedEvent, TraceEvent, TraceFile};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

/// The clocks of trace and map agree to less.
const CLOCKS_NS: u64 = 3_000;

/// Switches without a gap that are shown.
const UNSEEN_SHOWN: usize = 5;

/// Time that a thread was off its CPU although it could have run, by the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Away {
    pub(crate) from_ns: u64,
    /// When it came back, or the latest time at which the trace has it away.
    pub(crate) to_ns: u64,
    /// The trace does not have it coming back.
    pub(crate) is_open: bool,
}

/// How a map compares with the trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// Switches out above the threshold, by the trace.
    pub switches: u64,
    /// Of them, in a gap that says so.
    pub found: u64,
    /// Some that were not found, as sentences.
    pub unseen: Vec<String>,
    /// Of the switches, those whose end the trace does not have: its length is by the thread's own counters.
    pub open: u64,
    /// Of them, in a gap that says otherwise.
    pub otherwise: u64,
    /// Gaps that claim a switch.
    pub claimed: u64,
    /// Of them, with a switch in the trace.
    pub real: u64,
    /// Of the real ones, those of which the trace has the beginning only.
    pub real_open: u64,
    /// By how much gaps are longer than the trace has the thread away, in ns, in order.
    pub over_ns: Vec<f64>,
    /// By stated confidence in per cent: gaps, and those whose cause is what the trace says (switched out, or not).
    pub confidence: BTreeMap<u8, (u64, u64)>,
    /// Events that the trace lost.
    pub lost: u64,
    /// By which way the kernel's events were taken.
    pub recorder: String,
}

/// Runs a plan beside a recorder, which takes events from the kernel by this way, and compares.
///
/// # Errors
/// [`HourglassError`]: no recording without root and tracefs, or the plan cannot be run.
pub fn check(
    plan: &Plan,
    backend: Backend,
    progress: &dyn Fn(&str),
) -> Result<(Map, Checked), HourglassError> {
    let system = |error: String| HourglassError::System(error);
    let prefix = schedlab_process::prefix_in(&std::env::temp_dir(), "schedlab-check-");
    let folder = tempfile::Builder::new().prefix(&prefix).tempdir();
    let folder = folder.map_err(|error| system(format!("a temporary folder: {error}")))?;
    let path = folder.path().join("check.dat");
    let duration = Duration::from_nanos(plan.duration.as_ns()) + Duration::from_secs(6);
    let mut options = RecordOptions::new(&path, RecordedTrace::System { duration: Some(duration) });
    options.buffer_kb = 16 * 1024;
    options.backend = backend;
    options.progress_every = Some(Duration::from_millis(200));
    let (begun, has_begun) = mpsc::channel();
    let recorder = std::thread::spawn(move || {
        record(&options, &mut |stage| {
            if matches!(stage, Stage::Recording { .. }) {
                begun.send(()).ok();
            }
        })
    });
    // the sender goes with the recorder: an error ends the wait too
    let map = match has_begun.recv() {
        Ok(()) => run(plan, progress),
        Err(_) => Err(system("the recorder did not begin".into())),
    };
    progress("writing the recording");
    let recorded = recorder.join().expect("the recorder does not panic");
    let recorded = recorded.map_err(|error| system(error.to_string()))?;
    let map = map?;
    let (away, span) = off_cpu(&path, &map).map_err(|error| system(error.to_string()))?;
    let mut checked = compare(&map, &away, span);
    checked.lost = recorded.nr_lost();
    checked.recorder = match recorded.method {
        CaptureMethod::Bpf { .. } => "programs (BPF)".into(),
        CaptureMethod::Ftrace { why } => format!("ftrace ({why})"),
    };
    Ok((map, checked))
}

/// Per thread of a map, when it was off its CPU; from when to when there is a trace.
type Traced = (Vec<Vec<Away>>, (u64, u64));

/// Per thread of the map, when the trace has it runnable and off its CPU; and from when to when there is a
/// trace. Times are the map's.
fn off_cpu(path: &std::path::Path, map: &Map) -> Result<Traced, schedlab_trace::TraceError> {
    let place = map.threads.iter().enumerate().map(|(index, thread)| (thread.tid as i32, index)).collect();
    let mut tracks = Tracks { place, left: vec![None; map.threads.len()], ..Tracks::default() };
    tracks.away = vec![Vec::new(); map.threads.len()];
    let file = TraceFile::open(path, Mode::Lenient)?;
    let mut events = file.events()?;
    while let Some(event) = events.next_event()? {
        tracks.event(&event);
    }
    let ours = |ns: u64| ns.saturating_sub(map.start_ns);
    let own = |list: Vec<Away>| -> Vec<Away> {
        let begun = list.into_iter().filter(|away| away.from_ns >= map.start_ns);
        begun.map(|a| Away { from_ns: ours(a.from_ns), to_ns: ours(a.to_ns), ..a }).collect()
    };
    let span = tracks.span.map_or((0, 0), |(from, to)| (ours(from), ours(to)));
    Ok((tracks.away.into_iter().map(own).collect(), span))
}

/// Follows some threads through a trace. Times are the trace's.
#[derive(Debug, Default)]
struct Tracks {
    /// By the kernel's number of a thread.
    place: BTreeMap<i32, usize>,
    /// Per thread, since when it is runnable and off its CPU, and the last time that this is certain.
    left: Vec<Option<(u64, u64)>>,
    /// Per CPU, the thread of ours that was switched out there last.
    last: BTreeMap<u32, usize>,
    away: Vec<Vec<Away>>,
    span: Option<(u64, u64)>,
}

impl Tracks {
    fn event(&mut self, event: &TraceEvent) {
        let now_ns = event.time_ns;
        self.span = Some((self.span.map_or(now_ns, |span| span.0), now_ns));
        let SchedEvent::Switch { prev, prev_state, next } = event.what else {
            self.runs(event.cpu.0, event.pid.0, now_ns);
            return;
        };
        self.runs(event.cpu.0, prev.pid.0, now_ns);
        if let Some(index) = self.place.get(&prev.pid.0) {
            self.left[*index] = prev_state.is_runnable().then_some((now_ns, now_ns));
            self.last.insert(event.cpu.0, *index);
        }
        if let Some(index) = self.place.get(&next.pid.0)
            && let Some((from_ns, _)) = self.left[*index].take()
        {
            self.away[*index].push(Away { from_ns, to_ns: now_ns, is_open: false });
        }
    }

    /// An event in a thread's context. If it is ours and away, its switch in is missing; if it is another one's,
    /// ours is away still.
    fn runs(&mut self, cpu: u32, pid: i32, now_ns: u64) {
        if let Some(index) = self.place.get(&pid) {
            if let Some((from_ns, to_ns)) = self.left[*index].take() {
                self.away[*index].push(Away { from_ns, to_ns, is_open: true });
            }
        } else if let Some(index) = self.last.get(&cpu)
            && let Some((_, to_ns)) = &mut self.left[*index]
        {
            *to_ns = now_ns;
        }
    }
}

/// Map against trace.
pub(crate) fn compare(map: &Map, away: &[Vec<Away>], span: (u64, u64)) -> Checked {
    let mut checked = Checked::default();
    for (thread, away) in map.threads.iter().zip(away) {
        one(thread, away, map.calibration.threshold_ns as u64, span, &mut checked);
    }
    checked.over_ns.sort_by(f64::total_cmp);
    checked
}

fn one(thread: &ThreadMap, away: &[Away], threshold_ns: u64, span: (u64, u64), checked: &mut Checked) {
    let (Some(first), Some(last)) = (thread.pieces.first(), thread.pieces.last()) else { return };
    // where both saw
    let (begin_ns, end_ns) = (first.to_ns.max(span.0), last.from_ns.min(span.1));
    // the kernel may preempt a thread on its way into and out of sleep: those are in no gap of its own
    let asleep: Vec<(u64, u64)> =
        thread.pieces.iter().filter(|p| p.what == What::Sleep).map(|p| (p.from_ns, p.resumed_ns)).collect();
    let within = |spans: &[(u64, u64)], at: u64| {
        let next = spans.partition_point(|span| span.0 <= at + CLOCKS_NS);
        spans[..next].iter().rev().take(2).any(|span| at <= span.1 + CLOCKS_NS)
    };
    let gaps: Vec<_> = thread.gaps().collect();
    let overlaps = |from: u64, to: u64, other_from: u64, other_to: u64| {
        from < other_to + CLOCKS_NS && other_from < to + CLOCKS_NS
    };
    let counted: Vec<&Away> = away
        .iter()
        .filter(|a| a.from_ns > begin_ns && a.to_ns < end_ns)
        .filter(|a| a.is_open || a.to_ns - a.from_ns > threshold_ns)
        .filter(|a| !within(&asleep, a.from_ns))
        .collect();
    for away in &counted {
        checked.switches += 1;
        checked.open += u64::from(away.is_open);
        let end = gaps.partition_point(|gap| gap.from_ns < away.to_ns + CLOCKS_NS);
        let near = gaps[..end].iter().rev().take(4);
        let mut hits =
            near.filter(|gap| overlaps(away.from_ns, away.to_ns, gap.from_ns, gap.to_ns)).peekable();
        let is_seen = hits.peek().is_some();
        match hits.any(|gap| gap.missed.cause.is_off_cpu()) {
            true => checked.found += 1,
            false if is_seen => checked.otherwise += 1,
            false if checked.unseen.len() < UNSEEN_SHOWN => {
                let before = gaps[..end].last().map(|gap| away.from_ns as i64 - gap.resumed_ns as i64);
                checked.unseen.push(format!(
                    "thread {} at {} ns for {} ns{}, {} ns behind the gap before it",
                    thread.tid,
                    away.from_ns,
                    away.to_ns - away.from_ns,
                    if away.is_open { " or more" } else { "" },
                    before.map_or("-".into(), |ns| ns.to_string())
                ));
            }
            false => {}
        }
    }
    // the trace does not have a stopped thread as one that waits
    let judged = gaps.iter().filter(|gap| gap.missed.cause != MissedCause::Stopped);
    for gap in judged.filter(|gap| gap.from_ns > begin_ns && gap.to_ns < end_ns) {
        let end = away.partition_point(|a| a.from_ns < gap.to_ns + CLOCKS_NS);
        let inside: Vec<&Away> = away[..end]
            .iter()
            .rev()
            .take(64)
            .filter(|a| overlaps(a.from_ns, a.to_ns, gap.from_ns, gap.to_ns))
            .collect();
        let is_off = !inside.is_empty();
        let claims = gap.missed.cause.is_off_cpu();
        let (all, right) = checked.confidence.entry(gap.missed.confidence_pct).or_default();
        *all += 1;
        *right += u64::from(claims == is_off);
        if claims {
            checked.claimed += 1;
            checked.real += u64::from(is_off);
            checked.real_open += u64::from(is_off && inside.iter().all(|a| a.is_open));
            if is_off && inside.iter().all(|a| !a.is_open) {
                let away_ns: u64 = inside.iter().map(|a| a.to_ns - a.from_ns).sum();
                checked.over_ns.push(gap.ns() as f64 - away_ns as f64);
            }
        }
    }
}

impl Checked {
    /// Share of switches out that were found.
    pub fn recall(&self) -> Option<Estimate> {
        wilson(self.found, self.switches)
    }

    /// Share of claimed gaps that were real.
    pub fn precision(&self) -> Option<Estimate> {
        wilson(self.real, self.claimed)
    }

    /// For a terminal.
    pub fn summary(&self) -> String {
        let share = |estimate: Option<Estimate>| match estimate {
            Some(e) => {
                format!("{:.2} % (95 %: {:.2} to {:.2})", 100.0 * e.value, 100.0 * e.low, 100.0 * e.high)
            }
            None => "nothing to judge by".into(),
        };
        let mut text = format!(
            "beside the kernel's trace, recorded at the same time by {}\n\
             recall     {} of {} switches out above the threshold lie in a gap that says so, {};\n\
             \x20          {} in a gap that says otherwise\n\
             precision  {} of {} gaps that claim a switch have one, {}\n",
            self.recorder,
            count(self.found),
            count(self.switches),
            share(self.recall()),
            count(self.otherwise),
            count(self.real),
            count(self.claimed),
            share(self.precision())
        );
        if let Some(over) = median(&self.over_ns) {
            let sign = if over.value < 0.0 { "-" } else { "" };
            text += &format!(
                "length     gaps are {sign}{} longer in the median than the trace has the thread away\n",
                time(over.value.abs() as u64)
            );
        }
        self.unseen.iter().for_each(|line| text += &format!("not found  {line}\n"));
        if self.open > 0 {
            text += &format!(
                "holes      of {} switches the trace has the beginning and not the end; their gaps ({} of the claimed) \
                 \n           are as long as getrusage and schedstat let them be\n",
                count(self.open),
                count(self.real_open)
            );
        }
        if self.lost > 0 {
            text += &format!("the trace lost {} events: its side has more holes\n", count(self.lost));
        }
        text + &format!(
            "\nstated confidence against being right (switched out or not)\n{}",
            self.table().to_text()
        )
    }

    /// Stated confidence against being right, as a picture: on the diagonal a confidence is what it says.
    pub fn drawing(&self) -> Drawing {
        let pct = |value: f64| 100.0 * value;
        let judged = || {
            let judged = |(confidence, (all, right)): (&u8, &(u64, u64))| {
                Some((f64::from(*confidence), wilson(*right, *all)?))
            };
            self.confidence.iter().filter_map(judged)
        };
        let mut series = vec![
            Series::new("as stated", vec![(50.0, 50.0), (100.0, 100.0)], Style::Dashed),
            Series::new("right", judged().map(|(x, e)| (x, pct(e.value))).collect(), Style::Points),
        ];
        for (x, e) in judged() {
            let interval = vec![(x, pct(e.low)), (x, pct(e.high))];
            // no name: as the points
            series.push(Series::new("", interval, Style::Thin));
        }
        let chart = Chart {
            title: "Stated confidence against being right".into(),
            x_label: "confidence as stated, %".into(),
            y_label: "gaps of which the trace says the same, %".into(),
            series,
            y_holds: vec![50.0, 100.0],
            size: (520.0, 380.0),
            ..Chart::default()
        };
        let caption = "Above the diagonal a cause is surer than it says.".into();
        Drawing { name: "confidence".into(), caption, svg: chart.svg() }
    }

    /// Recall, precision and length as numbers.
    pub fn counts(&self) -> Table {
        let columns = vec![
            Column::new("what", "", "recall, precision, or by how much gaps are longer than the trace's"),
            Column::new("of", "", "switches above the threshold, gaps that claim one, or gaps with both"),
            Column::new("right", "", "of them, found or real"),
            Column::new("value", "%, ns", "their share; of the length, the median in ns"),
            Column::new("low", "%, ns", "lower end of the 95 % interval"),
            Column::new("high", "%, ns", "upper end"),
            Column::new("open", "", "of the right ones, those of which the trace has the beginning only"),
        ];
        let mut table = Table::new("check", "The map beside the kernel's trace", columns);
        let pct = |value: f64| json!((value * 1_000_000.0).round() / 10_000.0);
        for (what, of, right, open) in [
            ("recall", self.switches, self.found, self.open),
            ("precision", self.claimed, self.real, self.real_open),
        ] {
            let share = wilson(right, of);
            let [value, low, high] = [|e: Estimate| e.value, |e: Estimate| e.low, |e: Estimate| e.high]
                .map(|end| json!(share.map(end).map(pct)));
            table.push(vec![json!(what), json!(of), json!(right), value, low, high, json!(open)]);
        }
        let over = median(&self.over_ns);
        let [value, low, high] = [|e: Estimate| e.value, |e: Estimate| e.low, |e: Estimate| e.high]
            .map(|end| json!(over.map(end)));
        let gaps = json!(self.over_ns.len());
        table.push(vec![json!("longer_ns"), gaps.clone(), gaps, value, low, high, json!(null)]);
        table
    }

    /// Stated confidence against being right.
    pub fn table(&self) -> Table {
        let columns = vec![
            Column::new("confidence_pct", "%", "as stated"),
            Column::new("gaps", "", "with this confidence"),
            Column::new("right_pct", "%", "of them, the trace says the same"),
            Column::new("low_pct", "%", "lower end of the 95 % interval"),
            Column::new("high_pct", "%", "upper end"),
        ];
        let mut table = Table::new("confidence", "Stated confidence against being right", columns);
        for (confidence, (all, right)) in &self.confidence {
            let share = wilson(*right, *all).expect("there are some");
            let pct = |value: f64| json!((value * 10_000.0).round() / 100.0);
            table.push(vec![
                json!(confidence),
                json!(all),
                pct(share.value),
                pct(share.low),
                pct(share.high),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Piece;
    use crate::plan::ThreadPlan;
    use schedlab_log::Missed;

    fn piece(what: What, from_us: u64, to_us: u64, cause: MissedCause) -> Piece {
        let missed = Missed { ns: (to_us - from_us) * 1000, cause, confidence_pct: 99, switches: 1 };
        let [from_ns, to_ns] = [from_us, to_us].map(|us| us * 1000);
        Piece { what, from_ns, to_ns, resumed_ns: to_ns, cpu_from: 0, cpu_to: 0, due_ns: 0, missed }
    }

    /// ```text
    /// us      0        100       200       300       400       500
    /// trace   |--------x         |----x              |---x               away 100..140, 250..280, 450..460
    /// map     |--------x         |-----i        s      100..142 and 350..360 switched, 250..281 not
    /// ```
    #[test]
    fn found_wrong_and_missed_are_distinguished() {
        use MissedCause::*;
        let pieces = vec![
            piece(What::Sleep, 0, 1, Unexplained),
            piece(What::Gap, 100, 142, SwitchedOut),
            piece(What::Gap, 250, 281, Interrupt),
            piece(What::Gap, 350, 360, SwitchedOut),
            piece(What::Sleep, 900, 900, Unexplained),
        ];
        let plan = ThreadPlan::default();
        let thread = ThreadMap { plan, tid: 1, pieces, lost: 0, computed_ns: 0, reading_ns: 0, cpu_ns: 0 };
        let at = |from: u64, to: u64| Away { from_ns: from * 1000, to_ns: to * 1000, is_open: false };
        let mut checked = Checked::default();
        let away = [at(100, 140), at(250, 280), at(450, 460), at(950, 960)];
        one(&thread, &away, 300, (0, 2_000_000), &mut checked);
        assert_eq!((checked.switches, checked.found, checked.otherwise), (3, 1, 1));
        assert_eq!((checked.claimed, checked.real), (2, 1));
        assert_eq!(checked.over_ns, [2000.0]);
        assert_eq!(checked.confidence[&99], (3, 1));
    }

    /// ```text
    /// us      10         20           40          50
    /// cpu0    t5 -> t9                            t5 -> t9      the switch back to t5 is missing
    ///                    t9 wakes     t9 -> t7                 until 40 the trace has t5 away
    /// ```
    #[test]
    fn a_switch_without_an_end_has_a_beginning() {
        use schedlab_trace::{CommId, Pid, SwitchSide, TaskState};
        let side = |pid| SwitchSide { pid: Pid(pid), comm: CommId(0), prio: 120 };
        let runnable = TaskState::Running;
        let event = |us: u64, pid, what| TraceEvent {
            time_ns: us * 1000,
            cpu: schedlab_units::CpuId(0),
            pid: Pid(pid),
            context: schedlab_trace::Context::Task,
            preempt_count: 0,
            what,
        };
        let switch = |us, prev, next| {
            event(us, prev, SchedEvent::Switch { prev: side(prev), prev_state: runnable, next: side(next) })
        };
        let mut tracks =
            Tracks { place: [(5, 0)].into(), left: vec![None], away: vec![vec![]], ..Tracks::default() };
        let exec = SchedEvent::Exec { pid: Pid(9), old_pid: Pid(9) };
        for event in
            [switch(10, 5, 9), event(20, 9, exec), switch(40, 9, 7), switch(50, 5, 9), switch(60, 9, 5)]
        {
            tracks.event(&event);
        }
        let open = Away { from_ns: 10_000, to_ns: 40_000, is_open: true };
        assert_eq!(tracks.away[0], [open, Away { from_ns: 50_000, to_ns: 60_000, is_open: false }]);
    }
}
