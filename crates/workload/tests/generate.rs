//! Generators: what the parameters say is what the workload holds.

use schedlab_units::{Span, TaskId};
use schedlab_workload::generate::{
    Arrivals, Distribution, Execstorm, Fairbench, Forkstorm, GenerateError, Hackbench, Hogs, KINDS, Method,
    Periodic, Random, Responsebench, Server, ServerMode, Sleepers, Spec, from_toml,
};
use schedlab_workload::{EventKind, LoadedFile, ObjectOp, Wakeup, Workload, find_deadlock, load};
use std::path::Path;

fn sample(name: &str) -> Workload {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/hand").join(name);
    match load(&path).unwrap() {
        LoadedFile::Workload { workload, .. } => workload,
        other => panic!("{other:?}"),
    }
}

fn kinds(workload: &Workload) -> Vec<Vec<&EventKind>> {
    workload.tasks.iter().map(|task| task.events.iter().map(|event| &event.kind).collect()).collect()
}

// The generators and the files written by hand say the same.
#[test]
fn defaults_are_the_hand_written_samples() {
    let (fairbench, by_hand) = (Fairbench::default().build().unwrap(), sample("fairbench.txt"));
    let nices = |w: &Workload| w.tasks.iter().map(|task| task.params.unwrap().nice.get()).collect::<Vec<_>>();
    assert_eq!(nices(&fairbench), nices(&by_hand));
    assert_eq!(kinds(&fairbench), kinds(&by_hand));
    assert_eq!(kinds(&Sleepers::default().build().unwrap()), kinds(&sample("sleepers8.txt")));
    let (generated, by_hand) = (Responsebench::default().build().unwrap(), sample("responsebench.txt"));
    for (generated, by_hand) in kinds(&generated).iter().zip(kinds(&by_hand)) {
        let all_but_exit = generated.len() - 1;
        assert_eq!(generated[..all_but_exit], by_hand[..all_but_exit]);
    }
}

#[test]
fn every_kind_is_deterministic_checked_and_described_by_its_toml() {
    for (kind, _) in KINDS {
        let spec = Spec::of_kind(kind).unwrap();
        let toml = spec.to_toml();
        assert_eq!(Spec::from_toml("spec.toml", &toml).unwrap(), spec, "{toml}");
        // the documented form says the same, and what every field means
        let documented = spec.to_documented_toml();
        assert_eq!(Spec::from_toml("spec.toml", &documented).unwrap(), spec, "{documented}");
        let lines: Vec<&str> = documented.lines().collect();
        let fields = (1..lines.len()).filter(|&i| !lines[i].starts_with('#') && !lines[i].is_empty());
        for i in fields.filter(|&i| !lines[i].starts_with("kind")) {
            assert!(
                lines[i - 1].len() > 10 && lines[i - 1].starts_with("# "),
                "{kind}: {} is not explained",
                lines[i]
            );
        }
        assert_eq!(Spec::from_toml("spec.toml", &format!("kind = '{kind}'")).unwrap(), spec);
        let workload = spec.build().unwrap();
        workload.check().unwrap();
        assert_eq!(find_deadlock(&workload), None, "{kind}");
        assert_eq!(workload.notes["generate"], toml);
        assert_eq!(spec.build().unwrap(), workload);
        assert!(!workload.tasks.is_empty());
    }
    assert!(Spec::of_kind("fairbanks").is_none());
}

#[test]
fn seeds_and_only_seeds_change_what_is_drawn() {
    let build = |seed, tasks| Arrivals { seed, tasks, ..Arrivals::default() }.build().unwrap();
    assert_ne!(kinds(&build(1, 50)), kinds(&build(2, 50)));
    assert_eq!(kinds(&build(1, 50))[..], kinds(&build(1, 60))[..50]);
    let set = |seed| Periodic { seed, ..Periodic::default() }.build().unwrap();
    assert_ne!(kinds(&set(1)), kinds(&set(2)));
}

// Computed apart from this program: splitmix64 and xoshiro256** in Python integers, then floor(10 ms x u + 0.5).
#[test]
fn a_seed_means_the_same_for_ever() {
    let toml = "kind = 'arrivals'\nseed = 7\ntasks = 4\nbetween = { uniform = { min = 0, max = '10ms' } }\n\
        service = '1ms'\n";
    let workload = from_toml("a.toml", toml).unwrap();
    let mut previous = 0;
    let between: Vec<u64> = workload
        .tasks
        .iter()
        .map(|task| match task.events[0].kind {
            EventKind::Wakeup(Wakeup::External { after, .. }) => {
                let between = after.as_ns() - previous;
                previous = after.as_ns();
                between
            }
            _ => panic!("an arrival begins with its wakeup"),
        })
        .collect();
    assert_eq!(between, EXPECTED_BETWEEN);
}
const EXPECTED_BETWEEN: [u64; 4] = [2969781, 9809781, 3208202, 1528277];

#[test]
fn arrivals_come_at_the_mean_distance() {
    let spec =
        Arrivals { tasks: 20_000, service: Distribution::fixed(Span::from_ms(7)), ..Arrivals::default() };
    let workload = spec.build().unwrap();
    assert!(workload.tasks.iter().all(|task| task.cpu_demand() == Span::from_ms(7)));
    let EventKind::Wakeup(Wakeup::External { after, .. }) = workload.tasks[19_999].events[0].kind else {
        panic!()
    };
    // 20000 exponential times of mean 10 ms: 200 s, standard deviation 1.4 s
    assert!((after.as_s_f64() - 200.0).abs() < 7.0, "{after}");
}

#[test]
fn hogs_take_their_nice_values() {
    let workload = from_toml("h.toml", "kind = 'hogs'\nnices = [0, 5, -5]\ncpu = '2s'\n").unwrap();
    let hogs: Vec<(&str, i32, Span)> = workload
        .tasks
        .iter()
        .map(|task| (task.name.as_str(), task.params.unwrap().nice.get(), task.cpu_demand()))
        .collect();
    let s = Span::from_s(2);
    assert_eq!(hogs, [("hog+0", 0, s), ("hog+5", 5, s), ("hog-5", -5, s)]);
}

#[test]
fn hackbench_with_sockets_sends_and_receives_every_message_once() {
    let spec = Hackbench {
        groups: 2,
        senders: 3,
        receivers: 4,
        turns: 5,
        window: 8,
        objects: true,
        ..Hackbench::default()
    };
    let workload = spec.build().unwrap();
    assert_eq!((workload.tasks.len(), workload.objects.len(), workload.version()), (14, 8, 4));
    assert_eq!(traffic(&workload), [(15, 15); 8]);
    let named = from_toml("h.toml", "kind = 'hackbench'\nobjects = true\ngroups = 1\nturns = 1\n").unwrap();
    assert_eq!(named.objects.len(), 20);
    assert_eq!(from_toml("h.toml", &named.notes["generate"]).unwrap(), named);
}

/// What is put into each object, and what is taken out.
fn traffic(workload: &Workload) -> Vec<(u32, u32)> {
    let mut sums = vec![(0, 0); workload.objects.len()];
    for event in workload.tasks.iter().flat_map(|task| &task.events) {
        match event.kind {
            EventKind::Object { op: ObjectOp::Send { object, amount }, .. } => {
                sums[object.0 as usize].0 += amount
            }
            EventKind::Object { op: ObjectOp::Receive { object, amount }, .. } => {
                sums[object.0 as usize].1 += amount
            }
            _ => {}
        }
    }
    sums
}

#[test]
fn servers_with_semaphores_get_every_request_and_answer() {
    let server = |text: &str| {
        let text = format!("kind = 'server'\nobjects = true\nmessengers = 2\nworkers = 3\n{text}");
        let workload = from_toml("s.toml", &text).unwrap();
        assert_eq!(from_toml("s.toml", &workload.notes["generate"]).unwrap(), workload);
        workload
    };
    let open = server("requests = 8\nmode = 'open'\n");
    assert_eq!(traffic(&open), [(3, 3), (3, 3), (2, 2)].repeat(2));
    // the last answers, one of each worker, are heard by nobody
    let closed = server("requests = 8\nmode = 'closed'\n");
    assert_eq!(traffic(&closed), [(8, 5), (3, 3), (3, 3), (2, 2)].repeat(2));
    assert_eq!(traffic(&server("requests = 1\nmode = 'closed'\n")), [(1, 0), (1, 1)].repeat(2));
    assert_eq!(server("requests = 0\n").objects, []);
}

#[test]
fn parents_with_a_semaphore_wait_for_every_child() {
    for at_once in [1, 4, 100] {
        let spec = Forkstorm { parents: 2, children: 9, at_once, objects: true, ..Forkstorm::default() };
        let workload = spec.build().unwrap();
        assert_eq!((workload.tasks.len(), traffic(&workload)), (20, vec![(9, 9); 2]));
    }
}

#[test]
fn hackbench_sends_every_message_once() {
    for window in [1, 3, 64, 1000] {
        let spec =
            Hackbench { groups: 2, senders: 3, receivers: 4, turns: 5, window, ..Hackbench::default() };
        let workload = spec.build().unwrap();
        assert_eq!(workload.tasks.len(), 2 * (3 + 4));
        assert_eq!(find_deadlock(&workload), None, "window {window}");
        for task in &workload.tasks {
            let expected =
                if task.name == "sender" { spec.send.as_ns() * 5 * 4 } else { spec.receive.as_ns() * 5 * 3 };
            assert_eq!(task.cpu_demand().as_ns(), expected, "{} with window {window}", task.name);
            if task.name == "receiver" {
                let woken =
                    task.events.iter().filter(|event| matches!(event.kind, EventKind::Wakeup(_))).count();
                assert_eq!(woken, 5 * 3);
            }
        }
        // a group keeps to itself
        for (row, task) in workload.tasks.iter().enumerate() {
            for event in &task.events {
                if let EventKind::Wakeup(Wakeup::Dependent { task: TaskId(waker), .. }) = event.kind {
                    assert_eq!(row / 7, waker as usize / 7);
                }
            }
        }
    }
}

#[test]
fn periodic_sets_use_what_they_say() {
    for (method, utilisation_min) in [(Method::UUniFast, 0.0), (Method::RandFixedSum, 0.15)] {
        let spec = Periodic {
            tasks: 10,
            utilisation: 2.5,
            utilisation_max: 0.6,
            method,
            utilisation_min,
            ..Periodic::default()
        };
        uses_what_it_says(&spec);
    }
}

fn uses_what_it_says(spec: &Periodic) {
    let workload = spec.build().unwrap();
    let mut sum = 0.0;
    for task in &workload.tasks {
        let run = task.events[0].kind.length().unwrap();
        let deadline = task.params.unwrap().deadline.unwrap();
        let utilisation = run.as_ns() as f64 / deadline.period.as_ns() as f64;
        assert!(
            utilisation <= 0.6 + 1e-6
                && utilisation >= spec.utilisation_min - 1e-6
                && run <= deadline.runtime
        );
        let EventKind::Wakeup(Wakeup::External { after, .. }) = task.events[1].kind else { panic!() };
        assert_eq!(after, deadline.period); // counted from the release before
        sum += utilisation;
    }
    assert!((sum - 2.5).abs() < 1e-5, "{sum}"); // rounding to ns
}

#[test]
fn mistakes_in_the_toml_are_reported_where_they_are() {
    for (toml, says) in [
        ("kind = 'fairbanks'", &["kind \"fairbanks\"", "expected fairbench, responsebench"][..]),
        ("tasks = 5", &["kind \"\""]),
        ("kind = ", &["line 1"]),
        ("kind = 'hogs'\nnice = [0]\n", &["line 2", "^^^^", "unknown field `nice`", "nices"]),
        ("kind = 'sleepers'\nrun = '4 weeks'\n", &["line 2", "unknown unit"]),
        ("kind = 'sleepers'\nrun = -4\n", &["line 2", "-4 is negative"]),
        ("kind = 'sleepers'\nrun = true\n", &["line 2", "a duration such as"]),
        ("kind = 'sleepers'\nrun = 0\nsleep = 0\n", &["run and sleep = 0ns; expected more than 0"]),
        ("kind = 'sleepers'\nduration = '1000000s'\n", &["events; a workload may have 100000000"]),
        ("kind = 'hogs'\nnices = [20]\n", &["nices = 20; expected -20 to 19"]),
        ("kind = 'hackbench'\nsenders = 0\n", &["senders = 0; expected 1 or more"]),
        ("kind = 'hackbench'\ngroups = 4000000000\nturns = 4000000000\n", &["a workload may have 100000000"]),
        ("kind = 'periodic'\nutilisation = 9.0\n", &["utilisation = 9; expected more than 0"]),
        ("kind = 'periodic'\nutilisation = nan\n", &["utilisation = NaN"]),
        ("kind = 'periodic'\nutilisation = 4.4999\n", &["no set drawn", "randfixedsum"]),
        ("kind = 'periodic'\nutilisation_min = 0.2\n", &["utilisation_min = 0.2"]),
        ("kind = 'server'\nworkers = 0\n", &["workers = 0; expected 1 or more"]),
        ("kind = 'server'\nmode = 'half-open'\n", &["line 2", "open", "closed"]),
        ("kind = 'forkstorm'\nat_once = 0\n", &["at_once = 0; expected 1 or more"]),
        (
            "kind = 'forkstorm'\nparents = 4000000000\nchildren = 4000000000\n",
            &["a workload may have 100000000"],
        ),
        ("kind = 'execstorm'\nfork = '1000000s'\n", &["at most 1000000s in sum"]),
        ("kind = 'random'\nrun = 0\nsleep = 0\n", &["100ns at least"]),
        (
            "kind = 'random'\nrun = '100ns'\nsleep = 0\nduration = '1000000s'\n",
            &["events; a workload may have 100000000"],
        ),
        (
            "kind = 'random'\nrun = { empirical = [[0.1, '1ms'], [1, '2ms']] }\n",
            &["run = 2 quantiles", "ascending from 0 to 1"],
        ),
        ("kind = 'periodic'\nperiod_min = '1us'\n", &["100us <= period_min"]),
        ("kind = 'arrivals'\nservice = { pareto = { min = '1ms', max = '1s' } }\n", &["line 2"]),
        (
            "kind = 'arrivals'\nservice = { pareto = { min = '1ms', shape = -1.0, max = '1s' } }\n",
            &["service = -1"],
        ),
        ("kind = 'arrivals'\nservice = { gamma = { } }\n", &["line 2", "log_normal"]),
        (
            "kind = 'responsebench'\nrun = '900000s'\nduration = '18446744073s'\n",
            &["duration = 18446744073s"],
        ),
    ] {
        let message = from_toml("spec.toml", toml).expect_err(toml).to_string();
        for part in says {
            assert!(message.contains(part), "{toml}\n{message}");
        }
    }
    assert!(matches!(
        Hogs { nices: vec![0], cpu: Span::MAX }.build().map(|workload| workload.tasks.len()),
        Ok(1) | Err(GenerateError::Parameter { .. })
    ));
}

/// Births, ends and waits of a storm are what its parameters say.
#[test]
fn storms_fork_everything_and_wait_for_it() {
    let spec = Forkstorm { parents: 3, children: 50, at_once: 4, ..Forkstorm::default() };
    let workload = spec.build().unwrap();
    assert_eq!((workload.tasks.len(), find_deadlock(&workload)), (3 * 51, None));
    for (row, task) in workload.tasks.iter().enumerate().take(3) {
        assert_eq!(task.cpu_demand().as_ns(), 50 * spec.fork.as_ns());
        // at most four alive: before the fifth fork the first child's end is awaited, and so on
        let (mut alive, mut most) = (0, 0);
        for event in &task.events {
            match event.kind {
                EventKind::Fork { .. } => alive += 1,
                EventKind::Wakeup(Wakeup::Dependent { task, .. }) => {
                    let birth = &workload.task(task).birth;
                    assert!(
                        matches!(birth, schedlab_workload::Birth::Fork { parent } if parent.index() == row)
                    );
                    alive -= 1;
                }
                _ => {}
            }
            most = most.max(alive);
        }
        assert_eq!((alive, most), (0, 4));
    }
    let mean_us =
        workload.tasks[3..].iter().map(|task| task.cpu_demand().as_ns()).sum::<u64>() as f64 / 150e3;
    assert!((mean_us / 500.0 - 1.0).abs() < 0.4, "{mean_us}"); // 150 exponential times: standard error 8 %

    let spec = Execstorm { shells: 2, commands: 10, ..Execstorm::default() };
    let workload = spec.build().unwrap();
    assert_eq!((workload.tasks.len(), find_deadlock(&workload)), (22, None));
    for command in &workload.tasks[2..] {
        let kinds: Vec<&str> = command.events.iter().map(|event| event.kind.name()).collect();
        assert_eq!(kinds, ["BLOCK", "WAKEUP", "EXIT"]);
        assert_eq!(command.events[0].kind.length(), Some(spec.exec));
    }
}

#[test]
fn a_server_serves_every_request_once() {
    for mode in [ServerMode::Open, ServerMode::Closed] {
        for (workers, requests) in [(1, 1), (1, 7), (3, 2), (3, 100)] {
            let service = Distribution::fixed(Span::from_us(300));
            let spec = Server { mode, workers, requests, service, ..Server::default() };
            let workload = spec.build().unwrap();
            assert_eq!(workload.tasks.len() as u32, 2 * (1 + workers));
            assert_eq!(find_deadlock(&workload), None, "{mode:?} {workers} {requests}");
            let demand = |name: &str| -> u64 {
                let named = workload.tasks.iter().filter(|task| task.name == name);
                named.map(|task| task.cpu_demand().as_ns()).sum()
            };
            assert_eq!(demand("worker"), 2 * u64::from(requests) * 300_000);
            assert_eq!(demand("messenger"), 2 * u64::from(requests) * spec.dispatch.as_ns());
        }
    }
}

#[test]
fn tasks_by_chance_live_as_long_as_asked() {
    let spec = Random { tasks: 20, nices: vec![0, 5], ..Random::default() };
    let workload = spec.build().unwrap();
    let (mut cpu, mut life) = (0.0, 0.0);
    for (i, task) in workload.tasks.iter().enumerate() {
        assert_eq!(task.params.unwrap().nice.get(), [0, 5][i % 2]);
        let mut slept = 0;
        for event in &task.events {
            if let EventKind::Wakeup(Wakeup::External { after, .. }) = event.kind {
                slept += after.as_ns();
            }
        }
        cpu += task.cpu_demand().as_s_f64();
        life += task.cpu_demand().as_s_f64() + slept as f64 * 1e-9;
    }
    // 120,000 turns of 2 ms + 8 ms: 20 % within 1 %
    assert!((cpu / life - 0.2).abs() < 0.002 && (life / 20.0 - 60.0).abs() < 0.1, "{cpu} of {life}");
}
