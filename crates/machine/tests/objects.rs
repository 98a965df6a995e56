//! Objects: drawn schedules first, then random programs against a direct simulation of the rules in docs/objects.md.

use proptest::prelude::*;
use schedlab_log::{Kind, PrevState, Record};
use schedlab_machine::native::Native;
use schedlab_machine::{End, EndlessWait, Machine, Outcome, Program, Setup, WaitsFor};
use schedlab_stdx::Random;
use schedlab_topology::Topology;
use schedlab_units::{Span, TaskId};
use schedlab_workload::*;
use std::collections::BTreeSet;

fn run(sched: &str, nr_cpus: u32, workload: &Workload) -> (Outcome, Vec<Record>) {
    workload.check().unwrap();
    let mut records: Vec<Record> = Vec::new();
    let setup = Setup { topology: Topology::flat(nr_cpus).unwrap(), duration: None, params: Vec::new() };
    let mut program = Program::new(workload).unwrap();
    program.restrict_to(nr_cpus);
    let policy = schedlab_policies::find(sched).unwrap().build(&[]).unwrap();
    let mut machine = Machine::new(Native::new(policy, &mut records), program, setup);
    let outcome = machine.run();
    drop(machine);
    (outcome, records)
}

fn text(text: &str) -> Workload {
    read_text("test", format!("schedlab-workload 4\n{text}").as_bytes())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// When each task stopped running for good, and how often it slept.
fn ends(records: &[Record], nr: usize) -> Vec<(u64, u64)> {
    let mut ends = vec![(0, 0); nr];
    for record in records.iter().filter(|record| record.kind() == Some(Kind::Switch)) {
        if let Some((end_ns, sleeps)) = ends.get_mut(record.task as usize) {
            *end_ns = record.time_ns;
            *sleeps += u64::from(record.flags == PrevState::Sleeping as u8);
        }
    }
    ends
}

fn drawn(nr_cpus: u32, lines: &str) -> Vec<(u64, u64)> {
    let workload = text(lines);
    let (outcome, records) = run("fifo", nr_cpus, &workload);
    assert_eq!(outcome.end, End::AllDone);
    let ends = ends(&records, workload.tasks.len());
    ends.into_iter().map(|(end_ns, sleeps)| (end_ns / 1_000_000, sleeps)).collect()
}

// ms      0         1
//         012345678901234
// writer  SS..S..S..S        puts in after 1 ms each; the third time the pipe is full
// reader  rrRrrRrrRrrRX      takes out after 2 ms each
#[test]
fn a_full_pipe_holds_its_writer_up() {
    let lines = "OBJECT p channel capacity=1\n- INIT 0 0 1 runnable\n- INIT 0 0 2 runnable\n\
        REPEAT 4 {\n- SEND 1 +1ms p\n- RECV 2 +2ms p\n}\n- EXIT 1 +1ms\n- EXIT 2 +1ms\n";
    // the reader takes at 2, 4, 6, 8; the writer has put at 1, comes at 2 (before the reader, whose CPU is the
    // higher), at 3 and at 5, and is let in at 2, 4 and 6
    assert_eq!(drawn(2, lines), [(7, 3), (9, 0)]);
    // on one CPU under FIFO: w 0-1 put, 1-2 full; r 2-4 takes, w's second is in; r 4-6 takes, 6-8 ...
    let (outcome, _) = run("fifo", 1, &text(lines));
    assert_eq!((outcome.end, outcome.duration), (End::AllDone, Span::from_ms(4 + 8 + 2)));
}

#[test]
fn a_receiver_that_comes_late_does_not_sleep_and_one_that_comes_early_does() {
    let of = |writer: u32, reader: u32| {
        format!(
            "OBJECT p channel\n- INIT 0 0 1 runnable\n- INIT 0 0 2 runnable\nREPEAT 10 {{\n\
             - SEND 1 +{writer}ms p\n- RECV 2 +{reader}ms p\n}}\n- EXIT 1 +1ms\n- EXIT 2 +1ms\n"
        )
    };
    assert_eq!(drawn(2, &of(1, 2)), [(11, 0), (21, 0)]);
    assert_eq!(drawn(2, &of(3, 1)), [(31, 0), (31, 10)]);
}

// ms      0         1
//         01234567
// writer  ===w=X            sends at 3, 1 ms to wake, 1 ms until its end        it need not wake: it ends at 4
// reader  =..SS=X           sleeps from 1, is woken at 3, 2 ms for that         it comes at 5: it ends at 6
#[test]
fn who_sleeps_and_who_wakes_take_time_for_it() {
    let of = |reader: u32| {
        format!(
            "OBJECT p channel sleep=2ms wake=1ms\n- INIT 0 0 1 runnable\n- INIT 0 0 2 runnable\n\
             - SEND 1 +3ms p\n- RECV 2 +{reader}ms p\n- EXIT 1 +1ms\n- EXIT 2 +1ms\n"
        )
    };
    assert_eq!(drawn(2, &of(1)), [(5, 0), (6, 1)]);
    assert_eq!(drawn(2, &of(5)), [(4, 0), (6, 0)]);
}

// ms       0         1
//          0123456789
// writer   ===wtX....         sends at 3: 1 ms to wake, 1 ms until its call returns; whom it woke has its CPU then,
// reader   z....====X         not at 3
//
// writer   ===wt=X            on two CPUs the reader goes on at 3, within the writer's call
// reader   z..===X
#[test]
fn who_is_woken_has_its_waker_s_cpu_when_the_call_returns() {
    let lines = "OBJECT p channel wake=1ms tail=1ms\n- INIT 0 0 2 runnable policy=fifo prio=9\n- INIT 0 0 1 runnable\n\
                 - SEND 1 +3ms p\n- EXIT 1 +2ms\n- RECV 2 0 p\n- EXIT 2 +3ms\n";
    let began = |nr_cpus: u32| {
        let (_, records) = run("posix", nr_cpus, &text(lines));
        let begins = records.iter().filter(|r| r.kind() == Some(Kind::Switch) && r.other() == TaskId(0));
        begins.map(|r| r.time_ns / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!((began(1), began(2)), (vec![0, 5], vec![0, 3]));
    // it takes the same CPU time in all: 3 ms, 1 ms to wake, and the 2 ms of which the tail is a part
    assert_eq!(drawn(2, lines), [(6, 1), (6, 0)]);
}

// ms       0         1
//          0123456789
// client   qqqz   aaa        sends three questions at once, and takes three answers
// server   .rrrsss           1 ms for each receipt and each answer. Who polls takes all three, and answers at 4, 5
//          .rsrsrs           and 6; who does not answers at 2, 4 and 6. What comes one by one is answered so
#[test]
fn a_poller_answers_when_no_more_questions_are_there() {
    let lines = |polled: &str, apart_ms: u32| {
        let mut lines = format!(
            "OBJECT q stream {polled}\nOBJECT a stream\n- INIT 0 0 1 runnable\n- INIT 0 0 2 runnable\n"
        );
        lines += &format!("- SEND 1 +{apart_ms}ms q\n").repeat(3);
        lines += &"- RECV 2 +1ms q\n- SEND 2 +1ms a\n".repeat(3);
        lines + &"- RECV 1 +0 a\n".repeat(3) + "- EXIT 1 +1ms\n- EXIT 2 +1ms\n"
    };
    let woken = |polled: &str, apart_ms: u32| {
        let (outcome, records) = run("fifo", 2, &text(&lines(polled, apart_ms)));
        assert_eq!(outcome.end, End::AllDone);
        let wakeups = records.iter().filter(|r| r.kind() == Some(Kind::Wakeup) && r.task() == TaskId(0));
        wakeups.map(|r| r.time_ns / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!((woken("polled", 0), woken("", 0)), (vec![4, 5, 6], vec![2, 4, 6]));
    assert_eq!((woken("polled", 3), woken("", 3)), (vec![10], vec![10]), "the last answer, after 9 ms");
    // an answer for two who wait is sent in two steps, also if it was put off
    let mut two = String::from("OBJECT q stream polled\nOBJECT a channel\n");
    two += &[1, 2, 3, 4].map(|pid| format!("- INIT 0 0 {pid} runnable\n")).concat();
    two += "REPEAT 3 {\n- SEND 1 0 q\n- RECV 2 +1ms q\n- SEND 2 +1ms a 2\n- RECV 3 0 a\n- RECV 4 0 a\n}\n";
    two += &[1, 2, 3, 4].map(|pid| format!("- EXIT {pid} +1ms\n")).concat();
    assert_eq!(drawn(4, &two).iter().map(|(end_ms, _)| *end_ms).collect::<Vec<_>>(), [1, 7, 7, 7]);
}

// ms        0         1
//           012345678901234
// client 1  ==========qa=q=a=     its question comes late
// client 2  =qa=qzzzzzzzzzzza=    is answered at 2, not at 12, though the program has client 1's question first
// server    z=zzzzzzzz===.==      1 ms for each answer
#[test]
fn a_poller_takes_the_question_that_comes_first() {
    let lines = |polled: &str| {
        let mut lines = format!("OBJECT q1 stream {polled}\nOBJECT q2 stream {polled}\n");
        lines += "OBJECT a1 stream\nOBJECT a2 stream\n";
        lines += &[1, 2, 3].map(|pid| format!("- INIT 0 0 {pid} runnable\n")).concat();
        lines += &"- RECV 3 +0 q1\n- SEND 3 +1ms a1\n- RECV 3 +0 q2\n- SEND 3 +1ms a2\n".repeat(2);
        lines += "- SEND 1 +10ms q1\n- RECV 1 +0 a1\n- SEND 1 +1ms q1\n- RECV 1 +0 a1\n";
        lines += &"- SEND 2 +1ms q2\n- RECV 2 +0 a2\n".repeat(2);
        lines + &[1, 2, 3].map(|pid| format!("- EXIT {pid} +1ms\n")).concat()
    };
    // when client 2 has an answer
    let woken = |polled: &str| {
        let (outcome, records) = run("fifo", 3, &text(&lines(polled)));
        assert_eq!(outcome.end, End::AllDone);
        let wakeups = records.iter().filter(|r| r.kind() == Some(Kind::Wakeup) && r.task() == TaskId(1));
        wakeups.map(|r| r.time_ns / 1_000_000).collect::<Vec<_>>()
    };
    // (its second question is the program's last one, and has no other behind it to change places with)
    assert_eq!((woken("polled"), woken("")), (vec![2, 14], vec![12, 14]));
}

/// Several clients ask in random order, some of them twice before they take an answer. Whatever the order in which a
/// poller's program has their questions, all are answered, and nothing is forced.
#[test]
fn every_question_of_a_poller_is_answered() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut below = move |n: u64| random.below(n);
        let (nr_clients, nr_each) = (1 + below(4), 1 + below(8));
        let server = nr_clients + 1;
        let mut lines = String::new();
        for client in 1..=nr_clients {
            lines += &format!("OBJECT q{client} stream polled\nOBJECT a{client} stream\n");
        }
        (1..=server).for_each(|pid| lines += &format!("- INIT 0 0 {pid} runnable\n"));
        for client in 1..=nr_clients {
            let nr_together = 1 + below(nr_each);
            let mut asked = 0;
            while asked < nr_each {
                let nr = nr_together.min(nr_each - asked);
                for _ in 0..nr {
                    lines += &format!("- SEND {client} +{}us q{client} 3\n", below(60));
                }
                lines += &format!("- RECV {client} +{}us a{client}\n", below(5)).repeat(nr as usize);
                asked += nr;
            }
        }
        let mut left: Vec<u64> = (1..=nr_clients).flat_map(|client| vec![client; nr_each as usize]).collect();
        while !left.is_empty() {
            let client = left.swap_remove(below(left.len() as u64) as usize);
            let (before, after) = (below(20), below(20));
            lines +=
                &format!("- RECV {server} +{before}us q{client} 3\n- SEND {server} +{after}us a{client}\n");
        }
        (1..=server).for_each(|pid| lines += &format!("- EXIT {pid} +1us\n"));
        let (sched, nr_cpus) = (if below(2) == 0 { "fifo" } else { "rr" }, 1 + below(4) as u32);
        let (outcome, _) = run(sched, nr_cpus, &text(&lines));
        assert_eq!((outcome.end, outcome.waits_forced), (End::AllDone, 0), "seed {seed}\n{lines}");
    }
}

// ms       0         1
//          01234567
// reader   =zwzwzw=X          RECV 3: each piece wakes it, and it sleeps for the rest
// writer   ==s=s=s=X          SEND 1 after 2 ms each
//
// writer   =zzwzwX            SEND 6 into room for 2: what is taken out wakes it
// reader   ===r=r=rX          RECV 2
#[test]
fn each_piece_wakes_who_waits_at_a_stream() {
    let reader = |kind: &str| {
        format!(
            "OBJECT p {kind}\n- INIT 0 0 1 runnable\n- INIT 0 0 2 runnable\n- RECV 1 1ms p 3\n- EXIT 1 2ms\n\
             - SEND 2 2ms p\n- SEND 2 4ms p\n- SEND 2 6ms p\n- EXIT 2 7ms\n"
        )
    };
    assert_eq!(drawn(2, &reader("stream")), [(7, 3), (7, 0)]);
    assert_eq!(drawn(2, &reader("channel")), [(7, 1), (7, 0)]);
    let writer = |kind: &str| {
        format!(
            "OBJECT p {kind} capacity=2\n- INIT 0 0 1 runnable\n- INIT 0 0 2 runnable\n- SEND 1 1ms p 6\n\
             - EXIT 1 2ms\n- RECV 2 3ms p 2\n- RECV 2 4ms p 2\n- RECV 2 5ms p 2\n- EXIT 2 6ms\n"
        )
    };
    assert_eq!(drawn(2, &writer("stream")), [(5, 2), (6, 0)]);
    assert_eq!(drawn(2, &writer("channel")), [(5, 1), (6, 0)]);
}

/// As many bytes are sent as received, by several on both sides: nobody is forgotten, whoever passes whom.
#[test]
fn no_wakeup_is_lost_at_a_stream() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut below = move |n: u64| random.below(n);
        let capacity = 1 + below(6);
        let low = if below(2) == 0 { format!(" low={}", below(capacity)) } else { String::new() };
        let mut lines = format!("OBJECT p stream capacity={capacity}{low}\n");
        let (nr_senders, nr_receivers, total) = (1 + below(3), 1 + below(3), 6 + below(30));
        (1..=nr_senders + nr_receivers).for_each(|pid| lines += &format!("- INIT 0 0 {pid} runnable\n"));
        for (side, from, nr) in [("SEND", 1, nr_senders), ("RECV", 1 + nr_senders, nr_receivers)] {
            let mut left = total;
            while left > 0 {
                let amount = 1 + below(left.min(9));
                lines += &format!("- {side} {} +{}us p {amount}\n", from + below(nr), 1 + below(50));
                left -= amount;
            }
        }
        (1..=nr_senders + nr_receivers).for_each(|pid| lines += &format!("- EXIT {pid} +1us\n"));
        let nr_cpus = 1 + below(4) as u32;
        let (outcome, _) = run(if below(2) == 0 { "fifo" } else { "rr" }, nr_cpus, &text(&lines));
        assert_eq!(outcome.end, End::AllDone, "seed {seed}\n{lines}");
    }
}

#[test]
fn a_stream_moves_in_pieces_and_a_semaphore_at_once() {
    let lines = |kind: &str| {
        format!(
            "OBJECT p {kind}\n- INIT 0 0 1 runnable\n- INIT 0 0 2 runnable\n- INIT 0 0 3 runnable\n\
             - RECV 1 1ms p 3\n- EXIT 1 2ms\n- RECV 2 2ms p 1\n- EXIT 2 3ms\n\
             - SEND 3 3ms p 2\n- SEND 3 5ms p 1\n- SEND 3 7ms p 1\n- EXIT 3 8ms\n"
        )
    };
    // first come, first served, both times: task 1 has its three at 5 ms, task 2 its one at 7 ms
    for kind in ["channel", "channel capacity=2", "semaphore"] {
        assert_eq!(drawn(3, &lines(kind)), [(6, 1), (8, 1), (8, 0)], "{kind}");
    }
}

#[test]
fn a_low_mark_keeps_senders_out_until_the_channel_is_nearly_empty() {
    let lines = |low: &str| {
        format!(
            "OBJECT p channel capacity=4 {low}\n- INIT 0 0 1 runnable\n- INIT 0 0 2 runnable\n\
             - SEND 1 0 p 4\n- SEND 1 0 p 1\n- EXIT 1 1ms\nREPEAT 5 {{\n- RECV 2 +2ms p\n}}\n- EXIT 2 +1ms\n"
        )
    };
    assert_eq!(drawn(2, &lines(""))[0], (3, 1));
    assert_eq!(drawn(2, &lines("low=1"))[0], (7, 1));
}

// ms      0         1
//         0123456789012
// a       LLLLLUuu..L       holds it for 5 ms, then wants it again after 2 ms
// b       .l....            comes at 1 ms and waits
#[test]
fn a_mutex_excludes_and_is_handed_over_as_it_says() {
    let lines = |order: &str, cpus: &str| {
        format!(
            "OBJECT m mutex {order}\n- INIT 0 0 1 runnable affinity=0\n- INIT 0 0 2 runnable affinity={cpus}\n\
             - LOCK 1 0 m\n- UNLOCK 1 5ms m\n- LOCK 1 7ms m\n- UNLOCK 1 8ms m\n- EXIT 1 9ms\n\
             - LOCK 2 1ms m\n- UNLOCK 2 5ms m\n- EXIT 2 6ms\n"
        )
    };
    // on two CPUs b holds it from 5 to 9 ms, whatever the order
    for order in ["", "fifo"] {
        assert_eq!(drawn(2, &lines(order, "1")), [(11, 1), (10, 1)], "{order}");
    }
    // on one CPU b, which never gets the CPU before a has let go, never waits: a RR slice would change that
    assert_eq!(drawn(1, &lines("fifo", "0")), [(9, 0), (15, 0)]);
}

#[test]
fn conditions_barriers_semaphores_and_timers() {
    let lines = "OBJECT m mutex\nOBJECT c condition\nOBJECT b barrier parties=3\nOBJECT s semaphore start=1\n\
        OBJECT t timer\n- INIT 0 0 1..3 runnable\n\
        - LOCK 1 0 m\n- WAIT 1 0 c m\n- UNLOCK 1 1ms m\n- ARRIVE 1 2ms b\n- EXIT 1 3ms\n\
        - LOCK 2 1ms m\n- WAIT 2 1ms c m\n- UNLOCK 2 2ms m\n- ARRIVE 2 3ms b\n- EXIT 2 4ms\n\
        - LOCK 3 2ms m\n- BROADCAST 3 2ms c\n- UNLOCK 3 4ms m\n- ARRIVE 3 5ms b\n- RECV 3 5ms s\n\
        - TICK 3 5ms t 20ms\n- TICK 3 5ms t 20ms\n- EXIT 3 6ms\n";
    // broadcast at 2, the mutex is free at 4: task 1 has it until 5, task 2 until 6; they come to the barrier at 6
    // and 7 slept: 1: signal, mutex, barrier; 2: signal, mutex twice at most, nothing at the barrier, which it opens;
    // 3: barrier, two expiries
    assert_eq!(drawn(3, lines), [(8, 3), (8, 2), (41, 3)]);
}

#[test]
fn a_closed_object_holds_nobody_up() {
    let lines = "OBJECT p channel capacity=1\nOBJECT gone mutex closed\n- INIT 0 0 1..3 runnable\n\
        - RECV 1 0 p\n- LOCK 1 1ms gone\n- EXIT 1 2ms\n- SEND 2 5ms p 3\n- LOCK 2 6ms gone\n- EXIT 2 6ms\n\
        - CLOSE 3 3ms p\n- EXIT 3 4ms\n";
    let workload = text(lines);
    let (outcome, records) = run("fifo", 3, &workload);
    assert_eq!((outcome.end, outcome.sends_lost), (End::AllDone, 1));
    let ends: Vec<u64> = ends(&records, 3).iter().map(|(end_ns, _)| end_ns / 1_000_000).collect();
    assert_eq!(ends, [5, 6, 4]);
}

#[test]
fn a_deadlock_names_the_objects_and_their_holders() {
    let lines = "OBJECT a mutex\nOBJECT b mutex\n- INIT 0 0 1 runnable\n- INIT 0 0 2 runnable\n\
        - LOCK 1 0 a\n- LOCK 1 1ms b\n- EXIT 1 2ms\n- LOCK 2 0 b\n- LOCK 2 1ms a\n- EXIT 2 2ms\n";
    let (outcome, _) = run("fifo", 2, &text(lines));
    let waits = |task: u32, object: u32, owner: u32| EndlessWait {
        task: TaskId(task),
        waits_for: WaitsFor::Object { object, owner: Some(TaskId(owner)) },
    };
    assert_eq!(outcome.end, End::Deadlock(vec![waits(0, 1, 1), waits(1, 0, 0)]));
}

// ms      0         1
//         012345678
// a       =R.rs=R===X       waits at 1 for what b sends after a's answer: it goes on, and owes p one
// b       =R.s=====sX       what it sends at 2 is owed; what it sends at 7 a has waited for since 3
#[test]
fn a_recorded_wait_that_all_wait_for_goes_on_and_what_it_took_is_owed() {
    let lines = |kind: &str, recorded: &str| {
        format!(
            "OBJECT p {kind}\nOBJECT q {kind}\n- INIT 0 0 1 runnable\n- INIT 0 0 2 runnable\n\
             - RECV 1 1ms p 1 {recorded}\n- SEND 1 2ms q\n- RECV 1 3ms p\n- EXIT 1 4ms\n\
             - RECV 2 1ms q\n- SEND 2 1ms p\n- SEND 2 6ms p\n- EXIT 2 7ms\n"
        )
    };
    for kind in ["channel", "stream", "semaphore", "channel capacity=1", "stream capacity=1"] {
        let (outcome, records) = run("fifo", 2, &text(&lines(kind, "awake")));
        assert_eq!((outcome.end, outcome.waits_forced), (End::AllDone, 1), "{kind}");
        let first = outcome.first_forced.unwrap();
        assert_eq!((first.at, first.task), (Span::from_ms(1), TaskId(0)), "{kind}");
        let waits_for = |object| WaitsFor::Object { object, owner: None };
        let waits = [(TaskId(0), waits_for(0)), (TaskId(1), waits_for(1))];
        assert_eq!(first.waits.iter().map(|w| (w.task, w.waits_for)).collect::<Vec<_>>(), waits, "{kind}");
        let ends: Vec<u64> = ends(&records, 2).iter().map(|(end_ns, _)| end_ns / 1_000_000).collect();
        assert_eq!(ends, [8, 8], "{kind}");
        let (outcome, _) = run("fifo", 2, &text(&lines(kind, "")));
        assert!(matches!(outcome.end, End::Deadlock(_)), "written by hand it is one: {kind}");
    }
}

/// As the first thing that a task does, too.
#[test]
fn a_recorded_wait_at_the_first_step_goes_on() {
    for kind in ["channel", "stream", "semaphore"] {
        let lines = format!(
            "OBJECT p {kind}\n- INIT 0 0 1 runnable\n- RECV 1 0 p 1 awake\n- SEND 1 1ms p\n- EXIT 1 2ms\n"
        );
        for sched in ["fifo", "eevdf"] {
            let (outcome, _) = run(sched, 1, &text(&lines));
            assert_eq!((outcome.end, outcome.waits_forced), (End::AllDone, 1), "{kind} {sched}");
        }
    }
}

#[test]
fn recorded_locks_that_wait_for_each_other_go_on() {
    let lines = |order: &str| {
        format!(
            "OBJECT a mutex {order}\nOBJECT b mutex {order}\n- INIT 0 0 1..3 runnable\n\
             - LOCK 1 0 a awake\n- LOCK 1 1ms b awake\n- UNLOCK 1 2ms b\n- UNLOCK 1 3ms a\n- EXIT 1 4ms\n\
             - LOCK 2 0 b awake\n- LOCK 2 1ms a awake\n- UNLOCK 2 2ms a\n- UNLOCK 2 9ms b\n- EXIT 2 9ms\n\
             - LOCK 3 5ms b awake\n- UNLOCK 3 8ms b\n- EXIT 3 8ms\n"
        )
    };
    for order in ["", "fifo"] {
        let (outcome, records) = run("fifo", 3, &text(&lines(order)));
        assert_eq!((outcome.end, outcome.waits_forced), (End::AllDone, 1), "{order}");
        // at 5 all wait, and the third is least far: it has b until 8, though the second has it too; then the first has
        // b until 9 and a until 10, and the second a until 11
        let ends: Vec<u64> = ends(&records, 3).iter().map(|(end_ns, _)| end_ns / 1_000_000).collect();
        assert_eq!(ends, [11, 18, 8], "{order}");
    }
}

#[test]
fn blocks_gained_and_skipped_against_the_recording_are_counted() {
    let lines = "OBJECT p channel\n- INIT 0 0 1 runnable\n- INIT 0 0 2 runnable\n\
        - SEND 1 1ms p\n- SEND 1 9ms p\n- SEND 1 10ms p\n- EXIT 1 10ms\n\
        - RECV 2 2ms p 1 slept\n- RECV 2 3ms p 1 awake\n- RECV 2 4ms p 1 slept\n- RECV 2 9ms p 0 slept\n- EXIT 2 9ms\n"
        .replace("- RECV 2 9ms p 0 slept\n", "");
    let (outcome, _) = run("fifo", 2, &text(&lines));
    // taken at 2 (there since 1), at 9 (waited from 3 on), at 10 (there since 10)
    assert_eq!((outcome.waits_gained, outcome.waits_skipped), (1, 2));
}

/// A direct simulation: every task has a CPU of its own, so that time is all that counts. Nothing here is shared with
/// the machine.
struct Direct<'w> {
    workload: &'w Workload,
    /// Per task: next event, when it gets there; `None`: it waits.
    at: Vec<(usize, Option<u64>)>,
    /// Per task: CPU time done, sleeps, when it ended.
    done: Vec<(u64, u64, u64)>,
    /// Per object: level, holder, last expiry, closed.
    level: Vec<u64>,
    holder: Vec<Option<usize>>,
    expiry: Vec<u64>,
    closed: Vec<bool>,
    /// All that wait, in the order in which they came: task, object, what is still to move, whether it is a mutex
    /// that a WAIT wants back.
    waiting: Vec<(usize, usize, u64)>,
}

impl<'w> Direct<'w> {
    fn new(workload: &'w Workload) -> Direct<'w> {
        let nr = workload.tasks.len();
        let start = |object: &Object| match object.kind {
            ObjectKind::Channel { start, .. } | ObjectKind::Semaphore { start } => u64::from(start),
            _ => 0,
        };
        let mut direct = Direct {
            workload,
            at: vec![(0, None); nr],
            done: vec![(0, 0, 0); nr],
            level: workload.objects.iter().map(start).collect(),
            holder: vec![None; workload.objects.len()],
            expiry: vec![0; workload.objects.len()],
            closed: workload.objects.iter().map(|object| object.is_closed).collect(),
            waiting: Vec::new(),
        };
        for task in 0..nr {
            direct.goes_to(task, 0, 0);
        }
        direct
    }

    fn goes_to(&mut self, task: usize, event: usize, now: u64) {
        let until = self.workload.tasks[task].events[event].kind.length().unwrap().as_ns();
        self.at[task] = (event, Some(now + until - self.done[task].0));
        self.done[task].0 = until;
    }

    /// Plays until nothing happens any more; who ended when after how many sleeps, and who waits.
    fn play(mut self) -> (Vec<(u64, u64)>, BTreeSet<usize>) {
        while let Some((now, task)) =
            self.at.iter().enumerate().filter_map(|(task, (_, due))| due.map(|due| (due, task))).min()
        {
            let event = self.at[task].0;
            match self.workload.tasks[task].events[event].kind {
                EventKind::Exit { .. } => {
                    self.at[task] = (event, None);
                    self.done[task].2 = now;
                }
                EventKind::Object { op, .. } => self.does(task, event, op, now),
                ref other => panic!("{other:?}"),
            }
        }
        let ends = self.done.iter().map(|&(_, sleeps, end)| (end, sleeps)).collect();
        (ends, self.waiting.iter().map(|&(task, ..)| task).collect())
    }

    fn waits(&mut self, task: usize, event: usize, object: usize, amount: u64) {
        self.at[task] = (event, None);
        self.done[task].1 += 1;
        self.waiting.push((task, object, amount));
    }

    fn lets_go(&mut self, index: usize, now: u64) {
        let (task, ..) = self.waiting.remove(index);
        let event = self.at[task].0;
        self.goes_to(task, event + 1, now);
    }

    fn first_at(&self, object: usize, which: impl Fn(ObjectOp) -> bool) -> Option<usize> {
        self.waiting.iter().position(|&(task, at, _)| at == object && which(self.op_of(task)))
    }

    fn op_of(&self, task: usize) -> ObjectOp {
        match self.workload.tasks[task].events[self.at[task].0].kind {
            EventKind::Object { op, .. } => op,
            ref other => panic!("{other:?}"),
        }
    }

    fn does(&mut self, task: usize, event: usize, op: ObjectOp, now: u64) {
        let object = op.object().0 as usize;
        if self.closed[object] {
            return self.goes_to(task, event + 1, now);
        }
        match op {
            ObjectOp::Send { amount, .. } | ObjectOp::Receive { amount, .. } => {
                let slept = self.done[task].1;
                self.waits(task, event, object, u64::from(amount));
                self.moves(object, task, now);
                if self.waiting.iter().all(|&(waiting, ..)| waiting != task) {
                    self.done[task].1 = slept; // it did not come to that
                }
            }
            ObjectOp::Lock { .. } => self.locks(task, event, object, now),
            ObjectOp::Unlock { .. } => {
                self.unlocks(object, now);
                self.goes_to(task, event + 1, now);
            }
            ObjectOp::Wait { mutex, .. } => {
                self.unlocks(mutex.0 as usize, now);
                self.waits(task, event, object, 0);
            }
            ObjectOp::Signal { .. } => {
                if let Some(index) = self.first_at(object, |_| true) {
                    let (woken, ..) = self.waiting.remove(index);
                    let ObjectOp::Wait { mutex, .. } = self.op_of(woken) else { panic!("no waiter") };
                    self.locks(woken, self.at[woken].0, mutex.0 as usize, now);
                }
                self.goes_to(task, event + 1, now);
            }
            ObjectOp::Broadcast { .. } => panic!("not drawn"),
            ObjectOp::Arrive { .. } => {
                let ObjectKind::Barrier { parties } = self.workload.objects[object].kind else {
                    panic!("no barrier")
                };
                let there = self.waiting.iter().filter(|&&(_, at, _)| at == object).count();
                if there + 1 < parties as usize {
                    return self.waits(task, event, object, 0);
                }
                while let Some(index) = self.first_at(object, |_| true) {
                    self.lets_go(index, now);
                }
                self.goes_to(task, event + 1, now);
            }
            ObjectOp::Tick { period, .. } => {
                let next = self.expiry[object] + period.as_ns();
                let restarts = self.workload.objects[object].kind == ObjectKind::Timer(Late::Restart);
                self.expiry[object] = if next <= now && restarts { now } else { next };
                self.done[task].1 += u64::from(next > now);
                self.goes_to(task, event + 1, now.max(next));
            }
            ObjectOp::Close { .. } => {
                self.closed[object] = true;
                while let Some(index) = self.first_at(object, |_| true) {
                    self.lets_go(index, now);
                }
                self.goes_to(task, event + 1, now);
            }
        }
    }

    fn locks(&mut self, task: usize, event: usize, mutex: usize, now: u64) {
        if self.closed[mutex] || self.holder[mutex].is_none() {
            self.holder[mutex] = Some(task);
            self.goes_to(task, event + 1, now);
        } else {
            self.waits(task, event, mutex, 0);
        }
    }

    /// With a CPU for each, the one who is woken has the mutex at once: competing and in order are the same.
    fn unlocks(&mut self, mutex: usize, now: u64) {
        self.holder[mutex] = None;
        if let Some(index) = self.first_at(mutex, |_| true) {
            self.holder[mutex] = Some(self.waiting[index].0);
            self.lets_go(index, now);
        }
    }

    /// The first receiver and the first sender move what they can, by turns.
    fn moves(&mut self, object: usize, newcomer: usize, now: u64) {
        let (whole, capacity, low) = match self.workload.objects[object].kind {
            ObjectKind::Channel { capacity, low, .. } => {
                (false, capacity.map_or(u64::MAX, u64::from), low.map_or(u64::MAX, u64::from))
            }
            _ => (true, u64::MAX, u64::MAX),
        };
        loop {
            let before = (self.level[object], self.waiting.clone());
            if let Some(index) = self.first_at(object, |op| matches!(op, ObjectOp::Receive { .. })) {
                let want = self.waiting[index].2;
                let all = matches!(self.op_of(self.waiting[index].0), ObjectOp::Receive { amount: ALL, .. });
                let take = if all { self.level[object] } else { want.min(self.level[object]) };
                if take > 0 && (!whole || all || take == want) {
                    self.level[object] -= take;
                    self.waiting[index].2 = want.saturating_sub(take);
                    if self.waiting[index].2 == 0 {
                        self.lets_go(index, now);
                        continue;
                    }
                }
            }
            if let Some(index) = self.first_at(object, |op| matches!(op, ObjectOp::Send { .. })) {
                let sender = self.waiting[index].0;
                // who has just come puts in what there is room for; who has waited, not before the channel is nearly
                // empty
                let is_new = sender == newcomer && self.fresh(sender);
                if is_new || self.level[object] <= low {
                    // (once let in, they all come until it is full)
                    while let Some(index) = self.first_at(object, |op| matches!(op, ObjectOp::Send { .. })) {
                        let put = self.waiting[index].2.min(capacity - self.level[object]);
                        self.level[object] += put;
                        self.waiting[index].2 -= put;
                        if self.waiting[index].2 > 0 {
                            break;
                        }
                        self.lets_go(index, now);
                    }
                }
            }
            if before == (self.level[object], self.waiting.clone()) {
                return;
            }
        }
    }

    /// Whether a sender has moved nothing yet.
    fn fresh(&self, sender: usize) -> bool {
        let ObjectOp::Send { amount, .. } = self.op_of(sender) else { return false };
        self.waiting.iter().any(|&(task, _, left)| task == sender && left == u64::from(amount))
    }
}

/// A random program of some tasks at some objects; no two things happen at one instant but by waking.
fn program(seed: u64) -> Workload {
    let mut random = Random::new(seed);
    let mut below = move |n: u64| random.below(n);
    let mut workload = Workload::default();
    let mut kinds = vec![];
    for _ in 0..1 + below(3) {
        kinds.push(match below(8) {
            0 => ObjectKind::Semaphore { start: below(3) as u32 },
            1 => ObjectKind::Mutex(Handover::Fifo),
            2 => ObjectKind::Barrier { parties: 1 + below(3) as u32 },
            3 => ObjectKind::Timer(if below(2) == 0 { Late::Grid } else { Late::Restart }),
            4 => ObjectKind::Channel { capacity: None, start: below(4) as u32, low: None },
            _ => {
                let capacity = 2 + below(6) as u32;
                let low = (below(2) == 0).then(|| below(u64::from(capacity)) as u32);
                ObjectKind::Channel { capacity: Some(capacity), start: below(2) as u32, low }
            }
        });
    }
    // a mutex and its condition
    kinds.extend([ObjectKind::Mutex(Handover::Competing), ObjectKind::Condition]);
    for (i, kind) in kinds.iter().enumerate() {
        let wakes = if below(2) == 0 { Wakes::Sync } else { Wakes::Plain };
        workload.add_object(Object {
            name: format!("o{i}"),
            kind: *kind,
            wakes,
            costs: WaitCosts::default(),
            is_closed: below(16) == 0,
            is_polled: false,
        });
    }
    let (mutex, condition) = (ObjectId(kinds.len() as u32 - 2), ObjectId(kinds.len() as u32 - 1));
    let mut eid = 0;
    for row in 0..2 + below(4) as u32 {
        let birth =
            Birth::Init { eid: EventId(10_000 + u64::from(row)), parent: None, state: InitState::Runnable };
        let mut task = Task::new(row + 1, format!("t{row}"), birth);
        let mut length_ns = 0;
        let mut closed = BTreeSet::new();
        for _ in 0..below(30) {
            let object = ObjectId(below(kinds.len() as u64 - 2) as u32);
            let amount = 1 + below(4) as u32;
            let ops = match kinds[object.0 as usize] {
                _ if closed.contains(&object) => vec![],
                _ if below(40) == 0 => {
                    closed.insert(object);
                    vec![ObjectOp::Close { object }]
                }
                // (no broadcast: who of several that are woken at one instant gets the mutex depends on their CPUs,
                // not by these rules)
                _ if below(4) == 0 => match below(2) {
                    0 => vec![
                        ObjectOp::Lock { object: mutex },
                        ObjectOp::Wait { object: condition, mutex },
                        ObjectOp::Unlock { object: mutex },
                    ],
                    _ => vec![ObjectOp::Signal { object: condition }],
                },
                ObjectKind::Channel { .. } | ObjectKind::Stream { .. } | ObjectKind::Semaphore { .. } => {
                    match below(4) {
                        0 => vec![ObjectOp::Receive { object, amount: ALL }],
                        1 => vec![ObjectOp::Receive { object, amount }],
                        _ => vec![ObjectOp::Send { object, amount }],
                    }
                }
                ObjectKind::Mutex(_) => vec![ObjectOp::Lock { object }, ObjectOp::Unlock { object }],
                ObjectKind::Barrier { .. } => vec![ObjectOp::Arrive { object }],
                ObjectKind::Timer(_) => {
                    vec![ObjectOp::Tick { object, period: Span::from_ns(1 + below(3_000_000)) }]
                }
                ObjectKind::Condition => vec![],
            };
            for op in ops {
                length_ns += 1 + below(1_000_000);
                eid += 1;
                let kind = EventKind::at_object(Span::from_ns(length_ns), op);
                task.events.push(Event { eid: EventId(eid), kind });
            }
        }
        eid += 1;
        length_ns += 1 + below(1_000_000);
        task.events
            .push(Event { eid: EventId(eid), kind: EventKind::Exit { length: Span::from_ns(length_ns) } });
        workload.tasks.push(task);
    }
    workload
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// With a CPU for each task the machine and the direct simulation agree on when each ends, how often each sleeps,
    /// and who waits for ever.
    #[test]
    fn a_random_program_goes_as_the_rules_say(seed in any::<u64>()) {
        let workload = program(seed);
        let nr = workload.tasks.len();
        if workload.check().is_err() {
            return Ok(()); // a barrier for more than come, a channel that nobody sends to
        }
        let (expected, stuck) = Direct::new(&workload).play();
        let (outcome, records) = run("fifo", nr as u32, &workload);
        let waits: BTreeSet<usize> = match &outcome.end {
            End::Deadlock(waits) => waits.iter().map(|wait| wait.task.index()).collect(),
            End::AllDone => BTreeSet::new(),
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(&waits, &stuck);
        for (task, (found, expected)) in ends(&records, nr).into_iter().zip(expected).enumerate() {
            if !stuck.contains(&task) {
                prop_assert_eq!(found, expected, "task {}\n{}", task, workload.to_text().unwrap());
            }
        }
    }

    /// On fewer CPUs, under any scheduler: it ends, in a deadlock or not, and what goes in comes out or stays there.
    #[test]
    fn a_random_program_ends_under_every_schedule(seed in any::<u64>(), nr_cpus in 1..4u32) {
        let workload = program(seed);
        if workload.check().is_err() {
            return Ok(());
        }
        let mut recorded = workload.clone();
        for event in recorded.tasks.iter_mut().flat_map(|task| &mut task.events) {
            if let EventKind::Object { recorded, .. } = &mut event.kind {
                *recorded = if event.eid.0 % 2 == 0 { Recorded::Slept } else { Recorded::Awake };
            }
        }
        for sched in ["fifo", "rr", "eevdf"] {
            let (outcome, _) = run(sched, nr_cpus, &workload);
            prop_assert!(matches!(outcome.end, End::AllDone | End::Deadlock(_)), "{:?}", outcome.end);
            // who comes from a recording never waits for ever
            let (again, _) = run(sched, nr_cpus, &recorded);
            prop_assert_eq!((again.end, again.waits_forced > 0), (End::AllDone, outcome.end != End::AllDone));
        }
    }
}

/// Its workers share a mutex and meet at a barrier, until the duration is over.
#[test]
fn rt_apps_sample_ends_under_every_schedule() {
    let path = format!("{}/../../samples/rtapp/player.json", env!("CARGO_MANIFEST_DIR"));
    let workload = read_rtapp(path.as_ref()).unwrap();
    for sched in ["fifo", "rr", "eevdf"] {
        for nr_cpus in [1, 2, 8] {
            assert_eq!(run(sched, nr_cpus, &workload).0.end, End::AllDone, "{sched} on {nr_cpus}");
        }
    }
}
