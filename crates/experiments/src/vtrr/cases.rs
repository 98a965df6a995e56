//! The paper's measured workloads: five micro benchmarks, five MPEG audio encoders, virtual machines.
//!
//! All want the CPU throughout, as the paper's do, so one run of five clients with shares 1 to 5 gives the
//! pictures of who ran when, the parts at coarse grain and the encoders' frames: an encoder is a client that
//! finishes a frame every 8.7 ms of CPU time.

use crate::arm::{ArmError, Client, Setting, Stretch, received_and_wait, who_ran};
use crate::fairness::Expressed;
use schedlab_lab::Subject;
use schedlab_report::chart::{Bar, Chart, Drawing, Gantt, Series, Style, Svg, Unit, grid};
use schedlab_report::table::{Column, Table};
use schedlab_units::{Nice, Span};

/// One scheduler's run of some clients.
#[derive(Clone, Debug)]
pub(super) struct Run {
    label: String,
    shares: Vec<u64>,
    clients: Vec<Client>,
    stretches: Vec<Stretch>,
}

/// How long each run lasts; parts are taken over all of it.
const LENGTH: Span = Span::from_s(30);
/// Pictures begin here, after the start's own effects.
const SHOWN_FROM: Span = Span::from_s(3);
/// CPU time per frame of the encoder: an MP3 frame holds 26 ms of sound; encoded at three times real time when alone.
const FRAME_NS: u64 = 8_700_000;
/// Frames are counted for this long.
const FRAMES_SHOWN: Span = Span::from_s(2);
const PANEL: (f64, f64) = (540.0, 300.0);

fn run(subject: &Subject, shares: Vec<u64>, clients: Vec<Client>) -> Result<Run, ArmError> {
    let stretches = who_ran(subject, &clients, LENGTH)?;
    Ok(Run { label: subject.label.clone(), shares, clients, stretches })
}

/// Real Linux in control groups with these shares.
fn in_groups(subject: &Subject, shares: Vec<u64>) -> Result<Run, ArmError> {
    let expressed = Expressed::by_group_weight(&shares);
    let client =
        |(index, setting): (usize, &Setting)| Client::new(format!("share {}", shares[index]), *setting);
    let clients = expressed.settings.iter().enumerate().map(client).collect();
    run(subject, shares, clients)
}

fn by_share(sched: &str, shares: Vec<u64>) -> Result<Run, ArmError> {
    let client = |&share: &u64| Client::new(format!("share {share}"), Setting::Share(share));
    let clients = shares.iter().map(client).collect();
    run(&native(sched), shares, clients)
}

fn native(sched: &str) -> Subject {
    Subject::native(sched).expect("the paper's schedulers are registered")
}

/// Five clients with shares 1 to 5. Old Linux is given nice values whose time slices are as 1 to 5. 2.2
/// refills 20 - nice ticks of 10 ms and gives one more: nice 19, 17, 15, 13, 11 refill 10, 30, 50, 70, 90 ms
/// (the slices that the paper names, unverified) and run 20, 40, 60, 80, 100 ms. 2.4 refills (20 - nice)/4 +
/// 1 ticks and runs that.
pub(super) fn micro(linux: &[Subject]) -> Result<Vec<Run>, ArmError> {
    let shares = || (1..=5).collect::<Vec<u64>>();
    let by_slices = |sched: &str, nices: [i32; 5]| {
        let client = |(share, nice): (u64, i32)| {
            Client::new(format!("{share} (nice {nice})"), Setting::Nice(Nice::new(nice).expect("4 to 19")))
        };
        run(&native(sched), shares(), (1..=5).zip(nices).map(client).collect())
    };
    let mut runs =
        vec![by_slices("linux-2.2", [19, 17, 15, 13, 11])?, by_slices("linux-2.4", [19, 16, 12, 8, 4])?];
    for sched in ["wfq", "vtrr", "wrr"] {
        runs.push(by_share(sched, shares())?);
    }
    for subject in linux {
        runs.push(in_groups(subject, shares())?);
    }
    Ok(runs)
}

/// Who ran when within a short time.
pub(super) fn sequences(name: &str, shown: Span, runs: &[Run]) -> Drawing {
    let panels = runs.iter().map(|run| {
        let (from_ns, to_ns) = (SHOWN_FROM.as_ns(), (SHOWN_FROM + shown).as_ns());
        let ms = |ns: u64| (ns.clamp(from_ns, to_ns) - from_ns) as f64 * 1e-6;
        let visible = run.stretches.iter().filter(|s| s.to_ns > from_ns && s.from_ns < to_ns);
        let bars: Vec<Bar> =
            visible.map(|s| Bar { client: s.client, from: ms(s.from_ns), to: ms(s.to_ns) }).collect();
        let names: Vec<String> = run.clients.iter().map(|client| client.name.clone()).collect();
        let gantt = Gantt {
            title: &run.label,
            x_label: "ms (3 s after the start)",
            x_unit: Unit::Number,
            until: shown.as_ms_f64(),
            clients: &names,
            width: PANEL.0,
        };
        gantt.svg(&bars)
    });
    let panels: Vec<Svg> = panels.collect();
    Drawing {
        name: name.into(),
        caption:
            "Five always runnable clients with shares 1 to 5 (linux-2.2, linux-2.4: nice values whose time \
                  slices are as 1 to 5; linux-6.x: real Linux, control groups)."
                .into(),
        svg: grid(&format!("Who ran when within {} ms, five clients", shown.as_ms_f64()), &[], &panels, 2),
    }
}

/// The five clients' parts of 30 s.
pub(super) fn coarse(runs: &[Run]) -> Table {
    let columns = vec![
        Column::new("sched", "", "scheduler"),
        Column::new("client", "", "client"),
        Column::new("due_part", "", "share / sum of shares"),
        Column::new("received_part", "", "part of the CPU in 30 s"),
        Column::new("longest_wait_ms", "ms", "longest time without service"),
    ];
    let mut table =
        Table::new("vtrr-coarse", "Five clients with shares 1 to 5 at coarse grain (30 s)", columns);
    let round = |part: f64| (part * 1e4).round() / 1e4;
    for run in runs {
        let total: u64 = run.shares.iter().sum();
        for (index, client) in run.clients.iter().enumerate() {
            let (received_ns, wait_ns) = received_and_wait(&run.stretches, index, LENGTH);
            table.push(vec![
                run.label.clone().into(),
                client.name.clone().into(),
                round(run.shares[index] as f64 / total as f64).into(),
                round(received_ns as f64 / LENGTH.as_ns() as f64).into(),
                (wait_ns as f64 * 1e-6).into(),
            ]);
        }
    }
    table
}

/// When a client's frames are finished, ns.
fn frame_times(run: &Run, client: usize, until: Span) -> Vec<u64> {
    let mut times = Vec::new();
    let mut received_ns = 0;
    for stretch in run.stretches.iter().filter(|stretch| stretch.client == client) {
        let first = received_ns / FRAME_NS + 1;
        let last = (received_ns + stretch.to_ns - stretch.from_ns) / FRAME_NS;
        times.extend((first..=last).map(|frame| stretch.from_ns + frame * FRAME_NS - received_ns));
        received_ns += stretch.to_ns - stretch.from_ns;
    }
    times.retain(|time| *time <= until.as_ns());
    times
}

/// Frames encoded against time.
pub(super) fn frames(runs: &[Run]) -> Drawing {
    let panels = runs.iter().map(|run| {
        let series = (0..run.clients.len()).rev().map(|client| {
            let times = frame_times(run, client, FRAMES_SHOWN);
            let mut points = vec![(0.0, 0.0)];
            points.extend(times.iter().enumerate().map(|(n, ns)| (*ns as f64 * 1e-6, (n + 1) as f64)));
            points.push((FRAMES_SHOWN.as_ms_f64(), times.len() as f64));
            Series::new(format!("share {}", run.shares[client]), points, Style::Steps)
        });
        let chart = Chart {
            title: run.label.clone(),
            x_label: "time, ms".into(),
            y_label: "frames encoded".into(),
            series: series.collect(),
            size: PANEL,
            no_names: true,
            ..Chart::default()
        };
        chart.svg()
    });
    let panels: Vec<Svg> = panels.collect();
    let names: Vec<String> = (1..=5).rev().map(|share| format!("share {share}")).collect();
    Drawing {
        name: "frames".into(),
        caption: format!(
            "{:.1} ms of CPU time per frame (our choice). Steps are bursts: a long flat stretch is a time without \
                service, jitter to a listener.",
            FRAME_NS as f64 * 1e-6
        ),
        svg: grid("MPEG audio encoders: frames encoded against time", &names, &panels, 2),
    }
}

/// How evenly frames come: the longest time from one frame to the next.
pub(super) fn frames_table(runs: &[Run]) -> Table {
    let columns = vec![
        Column::new("sched", "", "scheduler"),
        Column::new("share", "", "share of the encoder"),
        Column::new("nr_frames", "", "frames in 30 s"),
        Column::new("frame_mean_ms", "ms", "mean time from one frame to the next"),
        Column::new("frame_longest_ms", "ms", "longest time from one frame to the next, after the first 3 s"),
    ];
    let mut table = Table::new("vtrr-frames", "MPEG audio encoders: how evenly frames come (30 s)", columns);
    for run in runs {
        for (client, share) in run.shares.iter().enumerate() {
            let times = frame_times(run, client, LENGTH);
            let settled: Vec<u64> =
                times.iter().copied().filter(|time| *time >= SHOWN_FROM.as_ns()).collect();
            let longest = settled.windows(2).map(|pair| pair[1] - pair[0]).max();
            let mean = LENGTH.as_ms_f64() / times.len().max(1) as f64;
            table.push(vec![
                run.label.clone().into(),
                (*share).into(),
                times.len().into(),
                mean.into(),
                longest.map(|ns| ns as f64 * 1e-6).into(),
            ]);
        }
    }
    table
}

/// Three virtual machines with shares 1, 2, 3, each of which runs a timing loop of 1 ms: how evenly does it go on?
pub(super) fn machines(linux: &[Subject]) -> Result<(Drawing, Table), ArmError> {
    let shares = || vec![1, 2, 3];
    let mut runs = Vec::new();
    for sched in ["wfq", "vtrr", "wrr"] {
        runs.push(by_share(sched, shares())?);
    }
    // goodness: slices of 20, 40, 60 ms
    let nices = [19, 17, 15].map(|nice| Nice::new(nice).expect("15 to 19"));
    let client = |nice: Nice| Client::new(format!("nice {nice}"), Setting::Nice(nice));
    runs.insert(0, run(&native("linux-2.2"), shares(), nices.map(client).to_vec())?);
    for subject in linux {
        runs.push(in_groups(subject, shares())?);
    }
    let columns = vec![
        Column::new("sched", "", "scheduler"),
        Column::new("share", "", "share of the virtual machine (our choice)"),
        Column::new("nr_loops", "", "loops of 1 ms of CPU time done in 30 s"),
        Column::new("loops_per_share", "", "the same per share: equal if fair"),
        Column::new(
            "longest_loop_ms",
            "ms",
            "longest time from one loop's end to the next's, after the first 3 s",
        ),
    ];
    let mut table =
        Table::new("vtrr-machines", "Three virtual machines that run a timing loop (30 s)", columns);
    let mut panels = Vec::new();
    for run in &runs {
        let mut series = Vec::new();
        for (index, &share) in run.shares.iter().enumerate() {
            let own: Vec<&Stretch> = run.stretches.iter().filter(|s| s.client == index).collect();
            let received_ns: u64 = own.iter().map(|s| s.to_ns - s.from_ns).sum();
            let settled: Vec<&&Stretch> = own.iter().filter(|s| s.from_ns >= SHOWN_FROM.as_ns()).collect();
            let wait_ns = settled.windows(2).map(|pair| pair[1].from_ns - pair[0].to_ns).max().unwrap_or(0);
            let loops = received_ns / 1_000_000;
            table.push(vec![
                run.label.clone().into(),
                share.into(),
                loops.into(),
                (loops as f64 / share as f64).into(),
                ((wait_ns + 1_000_000) as f64 * 1e-6).into(),
            ]);
            series.push(Series::new(format!("share {share}"), loops_per_share(&own, share), Style::Thin));
        }
        let chart = Chart {
            title: run.label.clone(),
            x_label: "time, ms (3 s after the start)".into(),
            y_label: "loops per share".into(),
            series,
            size: PANEL,
            no_names: true,
            ..Chart::default()
        };
        panels.push(chart.svg());
    }
    let names: Vec<String> = (1..=3).map(|share| format!("share {share}")).collect();
    let drawing = Drawing {
        name: "machines".into(),
        caption: "Loops done since 3 s after the start, divided by the share: under an ideal scheduler all three are \
            one line.".into(),
        svg: grid("Virtual machines: progress per share", &names, &panels, 2),
    };
    Ok((drawing, table))
}

/// Progress of a machine since the pictures begin, per share, for half a second.
fn loops_per_share(own: &[&Stretch], share: u64) -> Vec<(f64, f64)> {
    let (from_ns, to_ns) = (SHOWN_FROM.as_ns(), (SHOWN_FROM + Span::from_ms(500)).as_ns());
    let mut points = vec![(0.0, 0.0)];
    let mut received_ns = 0;
    let mut push = |ns: u64, received_ns: u64| {
        points.push(((ns - from_ns) as f64 * 1e-6, received_ns as f64 * 1e-6 / share as f64));
    };
    for stretch in own.iter().filter(|s| s.to_ns > from_ns && s.from_ns < to_ns) {
        let (began, ended) = (stretch.from_ns.max(from_ns), stretch.to_ns.min(to_ns));
        push(began, received_ns);
        received_ns += ended - began;
        push(ended, received_ns);
    }
    push(to_ns, received_ns);
    points
}
