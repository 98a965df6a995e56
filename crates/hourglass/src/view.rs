//! How does a person see a map? Words and numbers on the terminal, tables and pictures on a page, the same as JSON.

use crate::infer::condition_table;
use crate::map::{Map, Piece, ThreadMap};
use crate::plan::Timer;
use crate::poll::What;
use crate::stats::wilson;
use schedlab_log::MissedCause;
use schedlab_report::chart::{Bar, Bars, Drawing, Gantt, Scale, Shade, Unit};
use schedlab_report::pages::Pages;
use schedlab_report::table::{Column, Table};
use schedlab_report::units::{count, percent, time};
use schedlab_stdx::percentile::nearest;
use serde_json::{Value, json};
use std::fmt::Write;

/// Threads with a line of their own on the terminal.
const THREADS_SHOWN: usize = 16;
/// A reservation of which fewer deadlines are missed is kept.
const RARELY: f64 = 0.01;
/// Characters of a thread's line in the picture on the terminal.
const PICTURE: u64 = 72;
/// The part of a run that is drawn with every gap.
const WINDOW_NS: u64 = 100_000_000;
/// Rows of the raw table on a page.
const RAW_ROWS: usize = 2000;

/// The colour of each cause, in the order of [`MissedCause::ALL`].
const CAUSE_COLOURS: [&str; 9] =
    ["#000000", "#b0b0b0", "#d55e00", "#cc79a7", "#b8a800", "#e69f00", "#56b4e9", "#009e73", "#0072b2"];

fn ns(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1} ns") } else { time(value as u64) }
}

impl Map {
    /// The summary for a terminal.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        self.summary_head(&mut text);
        self.summary_threads(&mut text);
        self.summary_picture(&mut text);
        self.summary_causes(&mut text);
        self.summary_jobs(&mut text);
        self.summary_trust(&mut text);
        text
    }

    fn summary_head(&self, text: &mut String) {
        let calibration = &self.calibration;
        let threads = self.threads.len();
        let plural = if threads == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "{threads} thread{plural} for {} on {} CPUs",
            time(self.duration_ns),
            self.nr_cpus
        );
        for note in &self.notes {
            let _ = writeln!(text, "  note: {note}");
        }
        let _ = writeln!(
            text,
            "  counter    {}, {:.6} MHz against CLOCK_MONOTONIC over the run (straight within {})",
            calibration.counter,
            calibration.rate_hz / 1e6,
            ns(calibration.rate_error_ns)
        );
        if let Some(why) = &calibration.fallback {
            let _ = writeln!(text, "             the kernel's clock is polled: {why}");
        }
        let _ = writeln!(
            text,
            "  loop       {} a turn (a bare read {}), 99.9 % of turns within {}",
            ns(calibration.loop_ns),
            ns(calibration.read_ns),
            ns(calibration.loop_p999_ns)
        );
        let _ = writeln!(
            text,
            "  gaps       from {} on: {}",
            ns(calibration.threshold_ns),
            calibration.threshold_why
        );
        let skews: Vec<String> = calibration
            .skews
            .iter()
            .take(8)
            .map(|skew| format!("CPU {} {:+.0} to {:+.0} ns", skew.cpu, skew.low_ns, skew.high_ns))
            .collect();
        let skew = match skews.len() {
            0 if self.nr_cpus > 1 => "not known: no messages between CPUs came through in time".into(),
            0 => "not measured: one CPU".into(),
            _ => skews.join(", "),
        };
        let _ = writeln!(text, "  skew       against the first CPU: {skew}");
        let events = &calibration.clock_events;
        let said = if events.is_empty() { "no jump, no suspension".into() } else { events.join("; ") };
        let _ = writeln!(text, "  clocks     {said}\n");
    }

    fn summary_threads(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "{:<7}{:<30}{:<20}{:>9} {:>8} {:>12} {:>9}",
            "thread", "model", "class", "computed", "gaps", "missed", "longest"
        );
        for (index, thread) in self.threads.iter().enumerate().take(THREADS_SHOWN) {
            let causes = thread.causes();
            let gaps: u64 = causes.iter().map(|sum| sum.count).sum();
            let missed: u64 = causes.iter().map(|sum| sum.ns).sum();
            let longest = causes.iter().map(|sum| sum.max_ns).max().unwrap_or(0);
            let _ = writeln!(
                text,
                "{index:<7}{:<30}{:<20}{:>9} {:>8} {:>12} {:>9}",
                thread.plan.model.to_string(),
                thread.plan.class.to_string(),
                percent(thread.computed_ns, self.duration_ns),
                count(gaps),
                time(missed),
                time(longest)
            );
        }
        if self.threads.len() > THREADS_SHOWN {
            let _ =
                writeln!(text, "and {} threads more (--json has all)", self.threads.len() - THREADS_SHOWN);
        }
        text.push('\n');
    }

    fn summary_picture(&self, text: &mut String) {
        let shown_ns = self.duration_ns.min(WINDOW_NS);
        let _ = writeln!(text, "the first {} (# computes, . off the CPU, ? not explained)", time(shown_ns));
        for (index, thread) in self.threads.iter().enumerate().take(THREADS_SHOWN) {
            let _ = writeln!(text, "{index:<7}{}", line(thread, shown_ns));
        }
        text.push('\n');
    }

    fn summary_causes(&self, text: &mut String) {
        let mut sums = [crate::CauseSum::default(); MissedCause::ALL.len()];
        for thread in &self.threads {
            for (sum, more) in sums.iter_mut().zip(thread.causes()) {
                sum.count += more.count;
                sum.ns += more.ns;
                sum.max_ns = sum.max_ns.max(more.max_ns);
                sum.confidence_pct += more.confidence_pct;
            }
        }
        let _ = writeln!(
            text,
            "{:<16}{:>9} {:>11} {:>11} {:>12}",
            "cause of a gap", "gaps", "together", "longest", "confidence"
        );
        for (cause, sum) in MissedCause::ALL.iter().zip(sums).filter(|(_, sum)| sum.count > 0) {
            let confidence = format!("{} %", sum.confidence_pct / sum.count);
            let _ = writeln!(
                text,
                "{:<16}{:>9} {:>11} {:>11} {confidence:>12}",
                cause.name(),
                count(sum.count),
                time(sum.ns),
                time(sum.max_ns)
            );
        }
        text.push('\n');
    }

    fn summary_jobs(&self, text: &mut String) {
        for (index, thread) in self.threads.iter().enumerate().take(THREADS_SHOWN) {
            if let Some(jobs) = thread.jobs()
                && let Some(share) = wilson(jobs.missed, jobs.count)
            {
                let worst = jobs.tardiness_ns.last().copied().unwrap_or(0);
                let _ = writeln!(
                    text,
                    "thread {index}: {} of {} deadlines missed, {:.2} % (95 %: {:.2} to {:.2}); \
                     {} jobs given up; worst {} late",
                    count(jobs.missed),
                    count(jobs.count),
                    100.0 * share.value,
                    100.0 * share.low,
                    100.0 * share.high,
                    count(jobs.skipped),
                    time(worst)
                );
            }
            let late = thread.lateness_ns();
            if let (Some(p50), Some(p99), Some(max)) = (nearest(&late, 500), nearest(&late, 990), late.last())
            {
                let _ = writeln!(
                    text,
                    "thread {index}: woken by {}, {} times; it ran {} late in the median, p99 {}, at worst {}",
                    thread.plan.timer.name(),
                    count(late.len() as u64),
                    time(p50),
                    time(p99),
                    time(*max)
                );
            }
        }
        self.answers().iter().for_each(|answer| *text += &format!("answer: {answer}\n"));
        for (command, said) in &self.beside {
            let said = said.lines().collect::<Vec<_>>().join(" | ");
            let _ = writeln!(
                text,
                "beside: '{command}' said: {}",
                if said.is_empty() { "nothing" } else { &said }
            );
        }
    }

    /// Have the threads with deadlines what they ask for, beside each other and what ran beside them? One sentence
    /// each, and one for all.
    fn answers(&self) -> Vec<String> {
        let beside = match self.beside.len() {
            0 => String::new(),
            _ => format!(
                " beside {}",
                self.beside.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
            ),
        };
        let mut all: Vec<Option<bool>> = Vec::new();
        let mut answers = Vec::new();
        for (index, thread) in self.threads.iter().enumerate() {
            let Some(share) = thread.jobs().and_then(|jobs| wilson(jobs.missed, jobs.count)) else {
                continue;
            };
            let is_kept = match () {
                () if share.high < RARELY => Some(true),
                () if share.low > RARELY => Some(false),
                () => None,
            };
            all.push(is_kept);
            if all.len() <= THREADS_SHOWN {
                let pct = |share: f64| format!("{:.2} %", 100.0 * share);
                let words = match is_kept {
                    Some(true) => {
                        format!("yes, thread {index} gets {} here{beside}: it misses", thread.plan.model)
                    }
                    Some(false) => {
                        format!(
                            "no, thread {index} does not get {} here{beside}: it misses",
                            thread.plan.model
                        )
                    }
                    None => format!(
                        "whether thread {index} gets {} here{beside} is not shown: it misses",
                        thread.plan.model
                    ),
                };
                let more = if is_kept.is_none() { "; a longer run (-d) would tell" } else { "" };
                answers.push(format!(
                    "{words} {} to {} of its deadlines{more}",
                    pct(share.low),
                    pct(share.high)
                ));
            }
        }
        let together = match all.len() {
            0 | 1 => None,
            _ if all.iter().all(|kept| *kept == Some(true)) => Some("yes, they work together"),
            _ if all.contains(&Some(false)) => Some("no, they do not all work together"),
            _ => Some("whether they work together is not shown; a longer run (-d) would tell"),
        };
        answers.extend(together.map(str::to_string));
        answers
    }

    fn summary_trust(&self, text: &mut String) {
        let reading: u64 = self.threads.iter().map(|thread| thread.reading_ns).sum();
        let cpu: u64 = self.threads.iter().map(|thread| thread.cpu_ns).sum();
        let all = self.duration_ns * u64::from(self.nr_cpus);
        let lost: u64 = self.threads.iter().map(|thread| thread.lost).sum();
        let _ = writeln!(
            text,
            "own cost: {} of the machine's CPU time, of that {} for reading counters at gaps",
            percent(cpu, all),
            percent(reading, cpu.max(1))
        );
        let pieces = self.threads.iter().flat_map(|thread| &thread.pieces);
        let switches = pieces
            .filter(|piece| match piece.what {
                What::Sleep => piece.due_ns > 0,
                What::Gap => piece.missed.cause.is_off_cpu(),
                _ => false,
            })
            .count() as u64;
        let _ = writeln!(
            text,
            "disturbance: its threads came back onto a CPU {} times ({} a second), and a wakeup of the main thread \
             every 100 ms compared the clocks",
            count(switches),
            count(switches * 1_000_000_000 / self.duration_ns.max(1))
        );
        if lost > 0 {
            let _ = writeln!(text, "{} gaps did not fit into the buffers (--buffer)", count(lost));
        }
        match self.steal_ms {
            Some(ms) => {
                let _ = writeln!(
                    text,
                    "the hypervisor took {ms} ms from all CPUs, as the kernel counts it in steps of 10 ms"
                );
            }
            None => text.push_str("what the hypervisor took is not known\n"),
        }
        for (name, why) in &self.missing {
            let _ = writeln!(text, "missing: {name}: {why}");
        }
        schedlab_report::wrapped(text, &format!("holds for: {}", self.holds_for()));
    }

    /// What the result depends on, in one line.
    pub fn holds_for(&self) -> String {
        let words = self.preconditions.iter().map(|(name, value)| format!("{name} {value}"));
        words.collect::<Vec<_>>().join("; ")
    }

    /// Slide 8: thread, duration, gap, in ms, in order of time.
    pub fn raw(&self) -> Table {
        let columns = vec![
            Column::new("thread", "", "who"),
            Column::new("start_ms", "ms", "when it began to run"),
            Column::new("duration_ms", "ms", "how long it ran"),
            Column::new("gap_ms", "ms", "how long it did not run afterwards"),
            Column::new("cpu", "", "where it ran"),
            Column::new("cause", "", "why it stopped"),
            Column::new("confidence_pct", "%", "how sure that is"),
        ];
        let mut table = Table::new("execution", "Raw execution trace", columns);
        let mut rows: Vec<(u64, Vec<Value>)> = Vec::new();
        let ms = |ns: u64| json!((ns as f64 / 1e3).round() / 1e3);
        for (index, thread) in self.threads.iter().enumerate() {
            let mut from_ns = None;
            for piece in thread.pieces.iter().filter(|piece| matches!(piece.what, What::Gap | What::Sleep)) {
                if let Some(from) = from_ns.replace(piece.to_ns) {
                    let (cause, confidence) = match piece.what {
                        What::Sleep => ("sleeps", json!(100)),
                        _ => (piece.missed.cause.name(), json!(piece.missed.confidence_pct)),
                    };
                    let ran = piece.from_ns.saturating_sub(from);
                    let row = vec![
                        json!(index),
                        ms(from),
                        ms(ran),
                        ms(piece.ns()),
                        json!(piece.cpu_from),
                        json!(cause),
                        confidence,
                    ];
                    rows.push((from, row));
                }
            }
        }
        rows.sort_by_key(|(from, row)| (*from, row[0].as_u64()));
        rows.into_iter().for_each(|(_, row)| table.push(row));
        table
    }

    /// Everything as pictures and tables.
    pub fn pages(&self, title: &str) -> Pages {
        let mut raw = self.raw();
        let all = raw.rows.len();
        raw.rows.truncate(RAW_ROWS);
        if all > RAW_ROWS {
            raw.title = format!("{}: the first {RAW_ROWS} of {all} rows (--json has all)", raw.title);
        }
        let summary = self.summary();
        // what stands above the tables of the summary, and what was missed
        let head = summary.lines().take_while(|line| !line.is_empty());
        let said = summary.lines().filter(|line| {
            line.contains("deadlines missed")
                || ["beside:", "answer:", "own cost:", "disturbance:"]
                    .iter()
                    .any(|word| line.starts_with(word))
        });
        let remarks = head.chain(said).map(str::to_string);
        Pages {
            title: title.to_string(),
            remarks: remarks.collect(),
            drawings: vec![self.picture(), self.gap_histogram()],
            tables: vec![self.thread_table(), self.cause_table(), self.conditions(), raw],
        }
    }

    /// Who ran when in the first tenth of a second; gaps are shaded by how sure their cause is.
    fn picture(&self) -> Drawing {
        let until = self.duration_ns.min(WINDOW_NS);
        let clients: Vec<String> =
            self.threads.iter().enumerate().map(|(i, t)| format!("{i} {}", t.plan.model)).collect();
        let (mut bars, mut shades) = (Vec::new(), Vec::new());
        for (client, thread) in self.threads.iter().enumerate() {
            for (piece, from) in visible(thread, until) {
                let bar = |from: u64, to: u64| Bar { client, from: from as f64, to: to.min(until) as f64 };
                bars.push(bar(from, piece.from_ns));
                if piece.what == What::Gap {
                    let missed = piece.missed;
                    // from half sure, which is hardly seen, to sure
                    let sure = (f64::from(missed.confidence_pct) / 100.0 - 0.5).max(0.0) * 2.0;
                    let strength =
                        if missed.cause.is_off_cpu() { 0.1 + 0.5 * sure } else { 0.1 + 0.9 * sure };
                    let tip =
                        format!("{} {}, {} %", missed.cause.name(), time(missed.ns), missed.confidence_pct);
                    let colour = CAUSE_COLOURS[missed.cause as usize];
                    let bar = bar(piece.from_ns, piece.to_ns);
                    shades.push(Shade { bar, colour, opacity: strength, tip });
                }
            }
        }
        let gantt = Gantt {
            title: "Who ran when",
            x_label: "time",
            x_unit: Unit::TimeNs,
            until: until as f64,
            clients: &clients,
            width: 1000.0,
        };
        let caption = "Bars: the thread computes. White: it sleeps. Grey: switched out. Marks in colour: interrupt \
                       (red), hypervisor (pink), cpu.max (yellow), RT limit (orange), migration (blue), page fault \
                       (green), stopped (dark blue), unexplained (black). The stronger, the surer is the cause.";
        Drawing { name: "map".into(), caption: caption.into(), svg: gantt.shaded(&bars, &shades) }
    }

    /// How many gaps of which length and cause.
    fn gap_histogram(&self) -> Drawing {
        const OCTAVES: std::ops::Range<u32> = 6..32;
        let mut counts = vec![[0u64; MissedCause::ALL.len()]; OCTAVES.len()];
        for piece in self.threads.iter().flat_map(ThreadMap::gaps) {
            let octave = piece.ns().max(1).ilog2().clamp(OCTAVES.start, OCTAVES.end - 1) - OCTAVES.start;
            counts[octave as usize][piece.missed.cause as usize] += 1;
        }
        let used: Vec<usize> =
            (0..MissedCause::ALL.len()).filter(|cause| counts.iter().any(|row| row[*cause] > 0)).collect();
        let groups = OCTAVES.zip(&counts).filter(|(_, row)| row.iter().any(|n| *n > 0));
        let groups = groups.map(|(octave, row)| {
            let value = |cause: &usize| (row[*cause] > 0).then_some(row[*cause] as f64);
            (format!("from {}", time(1 << octave)), used.iter().map(value).collect())
        });
        let bars = Bars {
            title: "Gaps by length and cause".into(),
            y_label: "gaps".into(),
            y_scale: Scale::Log,
            names: used.iter().map(|cause| MissedCause::ALL[*cause].name().into()).collect(),
            groups: groups.collect(),
            set: 0,
        };
        let caption = "Each group is an octave of lengths.";
        Drawing { name: "gaps".into(), caption: caption.into(), svg: bars.svg() }
    }

    fn thread_table(&self) -> Table {
        let columns = vec![
            Column::new("thread", "", "number"),
            Column::new("model", "", "what it does"),
            Column::new("timer", "", "what wakes it"),
            Column::new("class", "", "how it is scheduled"),
            Column::new("computed_ns", "ns", "time it saw itself compute"),
            Column::new("cpu_ns", "ns", "CPU time as the kernel counts it"),
            Column::new("gaps", "", "times that time was missing"),
            Column::new("jobs", "", "jobs whose deadline lies in the run"),
            Column::new("missed", "", "of them late or given up"),
            Column::new("missed_low_pct", "%", "lower end of the 95 % interval (Wilson) of the share missed"),
            Column::new("missed_high_pct", "%", "upper end"),
            Column::new("tardiness_max_ns", "ns", "most that a job was late"),
            Column::new("late_p50_ns", "ns", "median from the wakeup asked for to running"),
            Column::new("late_p99_ns", "ns", "99th percentile of that"),
            Column::new("late_max_ns", "ns", "longest"),
            Column::new("lost", "", "gaps that did not fit into its buffer"),
        ];
        let mut table = Table::new("threads", "Threads", columns);
        for (index, thread) in self.threads.iter().enumerate() {
            let jobs = thread.jobs();
            let share = jobs.as_ref().and_then(|jobs| wilson(jobs.missed, jobs.count));
            let late = thread.lateness_ns();
            let timer = thread.plan.model.period().map(|_| thread.plan.timer).unwrap_or(Timer::Busy);
            table.push(vec![
                json!(index),
                json!(thread.plan.model.to_string()),
                json!(if thread.plan.model.never_blocks() { "none" } else { timer.name() }),
                json!(thread.plan.class.to_string()),
                json!(thread.computed_ns),
                json!(thread.cpu_ns),
                json!(thread.gaps().count()),
                json!(jobs.as_ref().map(|jobs| jobs.count)),
                json!(jobs.as_ref().map(|jobs| jobs.missed)),
                json!(share.map(|share| 100.0 * share.low)),
                json!(share.map(|share| 100.0 * share.high)),
                json!(jobs.as_ref().and_then(|jobs| jobs.tardiness_ns.last().copied())),
                json!(nearest(&late, 500)),
                json!(nearest(&late, 990)),
                json!(late.last()),
                json!(thread.lost),
            ]);
        }
        table
    }

    fn cause_table(&self) -> Table {
        let columns = vec![
            Column::new("thread", "", "number"),
            Column::new("cause", "", "why time is missing"),
            Column::new("gaps", "", "how often"),
            Column::new("sum_ns", "ns", "together"),
            Column::new("max_ns", "ns", "the longest"),
            Column::new("confidence_pct", "%", "mean confidence in the cause"),
        ];
        let mut table = Table::new("causes", "Causes of gaps", columns);
        for (index, thread) in self.threads.iter().enumerate() {
            for (cause, sum) in MissedCause::ALL.iter().zip(thread.causes()).filter(|(_, sum)| sum.count > 0)
            {
                let sure = sum.confidence_pct as f64 / sum.count as f64;
                table.push(vec![
                    json!(index),
                    json!(cause.name()),
                    json!(sum.count),
                    json!(sum.ns),
                    json!(sum.max_ns),
                    json!((sure * 10.0).round() / 10.0),
                ]);
            }
        }
        table
    }

    /// What the result depends on.
    pub fn conditions(&self) -> Table {
        let mut table = condition_table(&self.preconditions);
        for (name, why) in &self.missing {
            table.push(vec![json!(format!("missing: {name}")), json!(why)]);
        }
        table
    }

    /// Everything as JSON: `{"schema":1,"calibration":...,"notes":[...],"tables":[...]}`; tables as
    /// [`Table::to_json`] has them.
    pub fn to_json(&self) -> Value {
        let tables = [self.thread_table(), self.cause_table(), self.conditions(), self.raw()];
        let said = |(command, said): &(String, String)| json!({"command": command, "said": said});
        json!({
            "schema": 1,
            "duration_ns": self.duration_ns,
            "cpus": self.nr_cpus,
            "calibration": self.calibration,
            "notes": self.notes,
            "steal_ms": self.steal_ms,
            "beside": self.beside.iter().map(said).collect::<Vec<_>>(),
            "tables": tables.iter().map(Table::to_json).collect::<Vec<_>>(),
        })
    }
}

/// Gaps and sleeps that begin before `until`, each with the beginning of the run before it.
fn visible(thread: &ThreadMap, until: u64) -> impl Iterator<Item = (&Piece, u64)> {
    let mut from_ns = None;
    let pieces = thread.pieces.iter().filter(|piece| matches!(piece.what, What::Gap | What::Sleep));
    pieces.filter_map(move |piece| {
        let from = from_ns.replace(piece.to_ns)?;
        (from < until).then_some((piece, from))
    })
}

/// A thread's line: what most of each character's time was.
fn line(thread: &ThreadMap, shown_ns: u64) -> String {
    let mut ran = vec![0u64; PICTURE as usize];
    let mut unknown = vec![0u64; PICTURE as usize];
    let width = (shown_ns / PICTURE).max(1);
    let add = |cells: &mut Vec<u64>, from: u64, to: u64| {
        let mut at = from;
        while at < to.min(width * PICTURE) {
            let cell = at / width;
            let end = ((cell + 1) * width).min(to);
            cells[cell as usize] += end - at;
            at = end;
        }
    };
    for (piece, from) in visible(thread, shown_ns) {
        add(&mut ran, from, piece.from_ns);
        let is_dark = matches!(piece.missed.cause, MissedCause::Unexplained | MissedCause::Hypervisor);
        match piece.what {
            What::Gap if is_dark => add(&mut unknown, piece.from_ns, piece.to_ns),
            What::Gap if !piece.missed.cause.is_off_cpu() => add(&mut ran, piece.from_ns, piece.to_ns),
            _ => {}
        }
    }
    let cell = |(ran, unknown): (&u64, &u64)| match () {
        () if *unknown * 2 > width => '?',
        () if *ran * 2 > width => '#',
        () if *ran > 0 => ':',
        () => '.',
    };
    ran.iter().zip(&unknown).map(cell).collect()
}
