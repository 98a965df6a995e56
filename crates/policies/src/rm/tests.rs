use crate::edf::tests::{draws, periodic};
use crate::lab::{Lab, Step::*, TaskSpec};
use schedlab_units::Span;

/// Joseph and Pandya: the worst response of the task after `higher`, or `None` if above `limit`.
fn response_time(runtime: u64, higher: &[(u64, u64)], limit: u64) -> Option<u64> {
    let mut response = runtime;
    loop {
        let next = runtime + higher.iter().map(|&(c, t)| response.div_ceil(t) * c).sum::<u64>();
        if next > limit {
            return None;
        }
        if next == response {
            return Some(response);
        }
        response = next;
    }
}

#[test]
fn the_documented_schedule() {
    let tasks = [periodic(1, 4, 12).exact(), periodic(2, 6, 12).exact(), periodic(3, 12, 12).exact()];
    assert_eq!(Lab::new("rm", 1).draw(12, &tasks), ["ABBCACBBAC"]);
    assert_eq!(response_time(3, &[(1, 4), (2, 6)], 12), Some(10));
}

/// All released together is the worst case, so that the first jobs take exactly as long as the analysis says,
/// and no later job longer.
#[test]
fn response_times_are_those_of_the_analysis() {
    let mut draw = draws(7);
    let mut tested = 0;
    while tested < 150 {
        let mut tasks: Vec<(u64, u64)> = (0..2 + draw(4))
            .map(|_| {
                let period = 5 + draw(60);
                (1 + draw(period / 3), period)
            })
            .collect();
        tasks.sort_by_key(|&(_, period)| period);
        tasks.dedup_by_key(|&mut (_, period)| period);
        let analysed: Option<Vec<u64>> = (0..tasks.len())
            .map(|place| response_time(tasks[place].0, &tasks[..place], tasks[place].1 - 1))
            .collect();
        let Some(analysed) = analysed else { continue };
        tested += 1;
        // (each job 1 us shorter, so that one that ends when another is released is not preempted at its very end)
        let specs: Vec<TaskSpec> = tasks.iter().map(|&(c, t)| periodic(c, t, 2_000)).collect();
        let measured = Lab::new("rm", 1).run(Span::from_ms(2_000), &specs).unwrap();
        let ms = |span: Span| span.as_ns().div_ceil(1_000_000);
        for (task, &expected) in analysed.iter().enumerate() {
            assert_eq!(ms(measured.responses[task][0]), expected, "first job of {task}: {tasks:?}");
            assert_eq!(ms(measured.worst_response(task)), expected, "task {task}: {tasks:?}");
        }
    }
}

/// Liu and Layland: above n (2^(1/n) - 1) a set may fail. (2, 5) and (4, 7) has U = 0.97, fine for EDF, not
/// for fixed priorities.
#[test]
fn what_edf_can_and_fixed_priorities_cannot() {
    assert_eq!(response_time(4, &[(2, 5)], 7), None);
    let specs = [periodic(2, 5, 350), periodic(4, 7, 350)];
    let worst = |sched: &str| Lab::new(sched, 1).run(Span::from_ms(350), &specs).unwrap().worst_response(1);
    assert!(worst("rm") > Span::from_ms(7));
    assert!(worst("gedf") <= Span::from_ms(7));
}

/// (2, 5) and (4, 7) fill 97 % of a CPU: partitioned EDF puts both on the first, rate monotonic cannot (R = 8
/// > 7) and uses two. A third of (1, 7) fits with the first: R = 1 + 2 = 3.
#[test]
fn fixed_priorities_divide_by_response_times() {
    let specs = [periodic(2, 5, 35), periodic(4, 7, 35), periodic(1, 7, 35)];
    let where_they_run = |sched: &str, fit: &str| -> Vec<Vec<u32>> {
        let measured = Lab::new(sched, 2).param("fit", fit).run(Span::from_ms(35), &specs).unwrap();
        assert_eq!(measured.warnings, Vec::<String>::new());
        let on = |cpu| {
            let mut tasks: Vec<u32> =
                measured.runs().iter().filter(|run| run.0 == cpu).map(|run| run.3.0).collect();
            tasks.sort_unstable();
            tasks.dedup();
            tasks
        };
        vec![on(0), on(1)]
    };
    assert_eq!(where_they_run("pedf", "first"), [vec![0, 1], vec![2]]);
    assert_eq!(where_they_run("rm", "first"), [vec![0, 2], vec![1]]);
}

#[test]
fn deadline_monotonic_prefers_short_deadlines() {
    // B has the longer period and the shorter deadline
    let tasks = [
        TaskSpec::deadline(2, 10, 10, &[Run(2)]).periodic(10, 1).exact(),
        TaskSpec::deadline(2, 3, 20, &[Run(2)]).periodic(20, 1).exact(),
    ];
    assert_eq!(Lab::new("rm", 1).draw(10, &tasks), ["AABB"]);
    assert_eq!(Lab::new("rm", 1).param("order", "deadline").draw(10, &tasks), ["BBAA"]);
}
