use super::*;
use crate::{Messages, Object, ObjectId, ObjectKind, ObjectOp, Recorded, WaitCosts, Wakes};
use schedlab_trace::{Carried, ChannelKind, Direction, ObjectCall};

impl Trace {
    fn call(
        &mut self,
        us: u64,
        cpu: u32,
        pid: i32,
        key: u64,
        direction: Direction,
        amount: u32,
    ) -> &mut Trace {
        self.call_at((key, 65536), (us, cpu, pid), direction, amount)
    }
    fn call_at(
        &mut self,
        (key, room): (u64, u32),
        (us, cpu, pid): (u64, u32, i32),
        direction: Direction,
        amount: u32,
    ) -> &mut Trace {
        let call = ObjectCall { key, kind: ChannelKind::Pipe, direction, what: Carried::Data, amount, room };
        self.push(us, cpu, pid, Context::Task, SchedEvent::Object(call))
    }

    /// Task n, on CPU n - 1, makes or takes a connection.
    fn connection(&mut self, us: u64, pid: i32, (direction, what): (Direction, Carried)) -> &mut Trace {
        let call = ObjectCall { key: 5, kind: ChannelKind::Pipe, direction, what, amount: 1, room: 0 };
        self.push(us, pid as u32 - 1, pid, Context::Task, SchedEvent::Object(call))
    }
}

fn derive(trace: &Trace, messages: Messages) -> Workload {
    let workload = trace
        .derive_with(DeriveOptions { messages: Some(messages), ..DeriveOptions::default() }, None)
        .workload;
    workload.check().unwrap_or_else(|error| panic!("{error}"));
    workload
}

/// `S100@10` sends 100 after 10 us of CPU time, `r` and `R` receive awake and after a sleep; B, W, E as elsewhere.
fn life(task: &Task) -> String {
    let us = |length: Span| length.as_ns() / 1000;
    let word = |kind: &EventKind| match kind {
        EventKind::Object { length, op: ObjectOp::Send { amount, .. }, recorded } => {
            let word = if *recorded == Recorded::Slept { "X" } else { "S" };
            format!("{word}{amount}@{}", us(*length))
        }
        EventKind::Object { length, op: ObjectOp::Receive { amount, .. }, recorded } => {
            let word = if *recorded == Recorded::Slept { "R" } else { "r" };
            format!("{word}{amount}@{}", us(*length))
        }
        EventKind::Wakeup(Wakeup::External { after, .. }) => format!("W{}", us(*after)),
        EventKind::Wakeup(Wakeup::Dependent { distance, .. }) => format!("W<-{}", us(*distance)),
        other => format!("{}{}", &other.name()[..1], us(other.length().unwrap_or(Span::ZERO))),
    };
    task.events.iter().map(|event| word(&event.kind)).collect::<Vec<_>>().join(" ")
}

// us     0         1         2         3
//        0123456789012345678901234567890
// cpu0   11111111w1s1s1111111111111E          w wakes 2 within write, s: a write returns (8 w, 10, 12)
// cpu1   22222B....2r2222r22B......T2E        2 blocks in read at 5, runs at 10; reads return at 11 and 16
fn pipe() -> Trace {
    let mut trace = Trace::default();
    trace
        .switch(0, 0, 0, 'R', 1)
        .switch(0, 1, 0, 'R', 2)
        .switch(5, 1, 2, 'S', 0)
        .waking(8, 0, 1, 2)
        .call(10, 0, 1, 77, Direction::Send, 100)
        .switch(10, 1, 0, 'R', 2)
        .call(11, 1, 2, 77, Direction::Receive, 100)
        .call(12, 0, 1, 77, Direction::Send, 50)
        .call(16, 1, 2, 77, Direction::Receive, 50)
        .call(17, 1, 2, 99, Direction::Receive, 1)
        .switch(19, 1, 2, 'S', 0)
        .timer(26, 1, 0, 2)
        .switch(27, 1, 0, 'R', 2)
        .switch(27, 0, 1, 'X', 0)
        .switch(29, 1, 2, 'X', 0);
    trace
}

/// Also A10: what a recording saw at a pipe wakes synchronously in the replay.
#[test]
fn a_block_in_a_call_at_a_pipe_is_a_wait_there() {
    let workload = derive(&pipe(), Messages::Recorded);
    assert_eq!(life(task(&workload, 1)), "S100@10 S50@12 E27");
    // read at 5, and 16 - 10 us later; the timer's block counts on from there
    assert_eq!(life(task(&workload, 2)), "R100@5 r50@11 B14 W7 E2");
    let [pipe] = &workload.objects[..] else { panic!("{:?}", workload.objects) };
    assert_eq!(pipe.wakes, Wakes::Sync, "pipes wake synchronously");
    // messages of 75 bytes on average: 54 of them share a page
    let kind = ObjectKind::Stream { capacity: Some(16 * 54 * 75), start: 0, low: Some(15 * 54 * 75) };
    assert_eq!(pipe.kind, kind);
    let text = workload.to_text().unwrap();
    assert_eq!(crate::parse_text("x", text.as_bytes()).unwrap().to_text().unwrap(), text);
    assert!(workload.notes["messages"].contains("1 of 1 blocks"), "{}", workload.notes["messages"]);
    assert_eq!(workload.dropped.get("pipe or socket with one end outside the workload, left out"), Some(&1));
}

// us     0         1         2
//        012345678901234567890
// cpu0   11111111w1s11111111E           1 wakes 2 at w, which polls, sends itself a byte (s, 12) and reads two (r, 14)
// cpu1   22222B....22s2r22222E
#[test]
fn what_a_task_sends_itself_is_not_there_when_its_wait_is_over() {
    let mut trace = Trace::default();
    trace
        .switch(0, 0, 0, 'R', 1)
        .switch(0, 1, 0, 'R', 2)
        .push(4, 1, 2, Context::Task, SchedEvent::Polled)
        .switch(5, 1, 2, 'S', 0)
        .waking(8, 0, 1, 2)
        .call(10, 0, 1, 77, Direction::Send, 1)
        .switch(10, 1, 0, 'R', 2)
        .call(12, 1, 2, 77, Direction::Send, 1)
        .call(14, 1, 2, 77, Direction::Receive, 2)
        .switch(19, 0, 1, 'X', 0)
        .switch(20, 1, 2, 'X', 0);
    let workload = derive(&trace, Messages::Recorded);
    assert_eq!(life(task(&workload, 2)), "R1@5 S1@7 r1@9 E15");
}

// us     0         1         2
//        01234567890123456789
// cpu0   1111s111w3333333333           the write that wakes 2 has not returned at the end
// cpu1   2222r2B...2r2222222E
#[test]
fn a_call_that_had_not_returned_at_the_end_is_put_in() {
    let mut trace = Trace::default();
    trace
        .switch(0, 0, 0, 'R', 1)
        .switch(0, 1, 0, 'R', 2)
        .call(3, 0, 1, 77, Direction::Send, 50)
        .call(4, 1, 2, 77, Direction::Receive, 50)
        .switch(5, 1, 2, 'S', 0)
        .waking(8, 0, 1, 2)
        .switch(9, 0, 1, 'R', 3)
        .switch(10, 1, 0, 'R', 2)
        .call(11, 1, 2, 77, Direction::Receive, 100)
        .switch(19, 1, 2, 'X', 0);
    let workload = derive(&trace, Messages::Recorded);
    assert_eq!(life(task(&workload, 1)), "S50@3 S100@9 B9");
    assert_eq!(life(task(&workload, 2)), "r50@4 R100@5 E14");
    let [pipe] = &workload.objects[..] else { panic!("{:?}", workload.objects) };
    assert!(matches!(pipe.kind, ObjectKind::Stream { start: 0, .. }), "nothing was in it before: {pipe:?}");
    let reason = "call that had not returned when the recording ended, put in for its wakeup";
    assert_eq!(workload.dropped.get(reason), Some(&1));
}

// us     0         1         2
//        01234567890123456789012
// cpu0   11111o1111s11111s1E             1 writes elsewhere (5), and sends a byte twice (10, 16)
// cpu1   222r22222222222r222222E         2 reads a byte (3) before 1 can have begun to send it, and one of the two (15)
#[test]
fn what_was_read_before_it_can_have_been_sent_was_there_at_the_start() {
    let mut trace = Trace::default();
    trace
        .switch(0, 0, 0, 'R', 1)
        .switch(0, 1, 0, 'R', 2)
        .call(3, 1, 2, 77, Direction::Receive, 1)
        .call(5, 0, 1, 88, Direction::Send, 1)
        .call(10, 0, 1, 77, Direction::Send, 1)
        .call(15, 1, 2, 77, Direction::Receive, 1)
        .call(16, 0, 1, 77, Direction::Send, 1)
        .switch(18, 0, 1, 'X', 0)
        .switch(22, 1, 2, 'X', 0);
    let workload = derive(&trace, Messages::Recorded);
    assert_eq!(life(task(&workload, 1)), "S1@10 S1@16 E18");
    assert_eq!(life(task(&workload, 2)), "r1@3 r1@15 E22");
    let [pipe] = &workload.objects[..] else { panic!("{:?}", workload.objects) };
    // as many were sent as received, and still one was missing
    assert!(matches!(pipe.kind, ObjectKind::Stream { start: 1, .. }), "{pipe:?}");
}

/// A pipe of packets (O_DIRECT) holds as many messages as pages, however small they are. The reader's end does not
/// know.
#[test]
fn a_packet_shares_no_page_of_a_pipe() {
    let mut trace = Trace::default();
    let (writer, reader) = ((77, 4 * 4096 + 1), (77, 4 * 4096));
    trace
        .switch(0, 0, 0, 'R', 1)
        .switch(0, 1, 0, 'R', 2)
        .call_at(writer, (3, 0, 1), Direction::Send, 10)
        .call_at(reader, (5, 1, 2), Direction::Receive, 10)
        .switch(8, 0, 1, 'X', 0)
        .switch(9, 1, 2, 'X', 0);
    let workload = derive(&trace, Messages::Recorded);
    let [pipe] = &workload.objects[..] else { panic!("{:?}", workload.objects) };
    assert_eq!(pipe.kind, ObjectKind::Stream { capacity: Some(40), start: 0, low: Some(30) });
}

#[test]
fn without_channels_nothing_changes() {
    let workload = derive(&pipe(), Messages::None);
    assert!(workload.objects.is_empty() && !workload.notes.contains_key("messages"));
    assert_eq!(life(task(&workload, 2)), "B5 W<-19 B9 W7 E2");
}

// us     0         1
//        0123456789012345       twenty times, 10 us each
// cpu0   111s11w111s11s111       s: a write returns; at w it wakes its reader, and returns 4 us later than it would
// cpu1   2222rB222222r.          a read that finds its message takes 3 us; one that sleeps 6 us, of which 1 before:
//                                it looks whether there is one 2 us before its end
#[test]
fn what_a_sleep_takes_is_taken_out_of_the_lengths() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 1).switch(0, 1, 0, 'R', 2);
    for start in (0..200).step_by(10) {
        trace
            .call(start + 3, 0, 1, 77, Direction::Send, 100)
            .call(start + 4, 1, 2, 77, Direction::Receive, 100)
            .switch(start + 5, 1, 2, 'S', 0)
            .waking(start + 6, 0, 1, 2)
            .switch(start + 6, 1, 0, 'R', 2)
            .call(start + 10, 0, 1, 77, Direction::Send, 100)
            .call(start + 11, 1, 2, 77, Direction::Receive, 100);
    }
    trace.switch(214, 0, 1, 'X', 0).switch(215, 1, 2, 'X', 0);
    let workload = derive(&trace, Messages::Recorded);
    let [pipe] = &workload.objects[..] else { panic!("{:?}", workload.objects) };
    assert_eq!(pipe.costs, WaitCosts { sleep: Span::from_us(3), wake: Span::from_us(4), tail: Span::ZERO });
    let begins = |pid| life(task(&workload, pid)).split(' ').take(6).collect::<Vec<_>>().join(" ");
    assert_eq!(begins(1), "S100@3 S100@6 S100@9 S100@12 S100@15 S100@18");
    assert_eq!(begins(2), "r100@2 R100@5 r100@8 R100@11 r100@14 R100@17");
    let text = workload.to_text().unwrap();
    assert!(text.contains(" sleep=3us wake=4us sync"), "{text}");
    let mut binary = Vec::new();
    crate::write_binary(&workload, &mut binary).unwrap();
    for back in [crate::parse_text("x", text.as_bytes()).unwrap(), crate::read_binary(&binary[..]).unwrap()] {
        assert_eq!(back.objects, workload.objects);
        assert_eq!(back.to_text().unwrap(), text);
    }
}

// A wakeup that is none of the pipe's waits for the waker's next event that stays: writes to what nobody reads go.
#[test]
fn places_of_wakeups_move_to_the_next_event_that_stays() {
    let mut trace = Trace::default();
    trace
        .switch(0, 0, 0, 'R', 1)
        .switch(0, 1, 0, 'R', 2)
        .switch(5, 1, 2, 'S', 0)
        .waking(8, 0, 1, 2)
        .call(10, 0, 1, 77, Direction::Send, 100)
        .switch(10, 1, 0, 'R', 2)
        .switch(27, 0, 1, 'X', 0)
        .switch(29, 1, 2, 'X', 0);
    let workload = derive(&trace, Messages::Recorded);
    assert_eq!((life(task(&workload, 1)), life(task(&workload, 2))), ("E27".into(), "B5 W<-19 E19".into()));
    assert!(workload.objects.is_empty());
}

// In turn, 20 times: 1 runs 10 us and wakes 2, which runs 5 us. Once more 2 runs for 40 us, while 1 runs, too, and
// wakes nobody: it has sent as often as it does otherwise.
fn sender(long_us: u64) -> Trace {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 1).switch(0, 1, 0, 'R', 2).switch(1, 1, 2, 'S', 0);
    let mut now = 1;
    for round in 0..20 {
        now += 10;
        trace.waking(now, 0, 1, 2).switch(now, 1, 0, 'R', 2);
        now += if round == 10 { long_us } else { 5 };
        trace.switch(now, 1, 2, 'S', 0);
    }
    now += 10;
    trace.waking(now, 0, 1, 2).switch(now, 1, 0, 'R', 2);
    trace.switch(now + 3, 1, 2, 'X', 0).switch(now + 4, 0, 1, 'X', 0);
    trace
}

fn amounts(workload: &Workload) -> [u64; 2] {
    let mut sums = [0; 2];
    for event in workload.tasks.iter().flat_map(|task| &task.events) {
        match event.kind {
            EventKind::Object { op: ObjectOp::Send { amount, .. }, .. } => sums[0] += u64::from(amount),
            EventKind::Object { op: ObjectOp::Receive { amount, .. }, .. } => sums[1] += u64::from(amount),
            _ => {}
        }
    }
    sums
}

#[test]
fn a_sender_is_taken_to_go_on_while_its_reader_is_awake() {
    let [short, long] = [5, 45].map(|us| derive(&sender(us), Messages::Inferred));
    // each 10 us of the sender a message; half of them fell into the 5 us of a burst, but a burst of 5 us is one
    // message
    assert_eq!(amounts(&short), [21, 21]);
    // 4 in 45 us, and what is left over of the rounds before
    let [sent, received] = amounts(&long);
    assert!(sent == received && (24..=30).contains(&sent), "{sent} {received}");
    let reader = task(&long, 2);
    let slept = reader.events.iter().filter(|event| {
        matches!(
            event.kind,
            EventKind::Object {
                op: ObjectOp::Receive { object: ObjectId(0), .. },
                recorded: Recorded::Slept,
                ..
            }
        )
    });
    assert_eq!(slept.count(), 21);
    let cpu = |workload: &Workload| workload.tasks.iter().map(|task| task.cpu_demand().as_ns()).sum::<u64>();
    assert_eq!(cpu(&long), cpu(&derive(&sender(45), Messages::None)), "no CPU time is lost or made");
    // it sends at even distances: so its rate is known
    assert_eq!(
        long.notes["messages"],
        "inferred: 1 channels, 21 messages that woke, 4 that did not; the rate of the median channel is known to 0 %; \
         most were put into t1-to-t2-2 (4, known to 0 %, from 21 waits)"
    );
}

// us     0         1
//        0123456789012345678
// cpu0   11f1Bw2222w2E1c1E          1 forks 2 and waits for it; w: 2 executes a program, and later tells its end;
//                                   c: the wait returns
#[test]
fn a_wait_for_a_child_ends_with_the_child() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 1).fork(2, 0, 1, 2).wakeup_new(2, 0, 1, 2);
    // vfork: until the child executes a program
    trace.switch(4, 0, 1, 'D', 2).waking(5, 0, 2, 1).switch(300, 0, 2, 'R', 1).switch(302, 0, 1, 'S', 2);
    trace.exit(307, 0, 2).waking(310, 0, 2, 1).switch(312, 0, 2, 'X', 1);
    trace.push(314, 0, 1, Context::Task, SchedEvent::ChildTaken).switch(316, 0, 1, 'X', 0);
    let workload = derive(&trace, Messages::Recorded);
    // fork and wait are one call, and so are the word to the parent and the end
    assert_eq!(life(task(&workload, 1)), "C2 F2 B4 W<-305 R1@2 E6");
    assert_eq!(life(task(&workload, 2)), "C305 S1@306 E306");
    let [children] = &workload.objects[..] else { panic!("{:?}", workload.objects) };
    assert!(children.name.starts_with("children"), "{}", children.name);
    let note = &workload.notes["messages"];
    assert!(note.contains("0 channels") && note.contains("of 1 tasks for their children"), "{note}");
    // a child that nobody waited for: all stay as they are
    trace.events.retain(|event| !matches!(event.what, SchedEvent::ChildTaken));
    let workload = derive(&trace, Messages::Recorded);
    assert!(workload.objects.is_empty(), "{:?}", workload.objects);
    assert_eq!(life(task(&workload, 2)), "C303 E306");
    // what a task does before its end begins is not within it
    trace.events.retain(|event| !matches!(event.what, SchedEvent::Exit { .. }));
    assert_eq!(life(task(&derive(&trace, Messages::Recorded), 2)), "E306");
    // a sleep that a signal ends is another call than the fork
    for event in &mut trace.events {
        if let SchedEvent::Switch { prev_state, .. } = &mut event.what
            && *prev_state == TaskState::Uninterruptible
        {
            *prev_state = TaskState::Interruptible;
        }
    }
    assert_eq!(life(task(&derive(&trace, Messages::Recorded), 1)), "F2 B4 W<-305 B2 W<-2 E4");
}

// us     0         1         2
//        01234567890123456789012
// cpu0   11c1f122E2w21c1f1333E33           c: 1 has waited for a child; f: it forks 2, later 3; E: they tell their ends
#[test]
fn a_child_that_was_born_before_is_waited_for_by_nobody_else() {
    let mut trace = Trace::default();
    let taken = |trace: &mut Trace, us| {
        trace.push(us, 0, 1, Context::Task, SchedEvent::ChildTaken);
    };
    trace.switch(0, 0, 0, 'R', 1);
    taken(&mut trace, 2);
    trace.fork(4, 0, 1, 2).wakeup_new(4, 0, 1, 2).switch(6, 0, 1, 'S', 2);
    trace.exit(9, 0, 2).waking(10, 0, 2, 1).switch(12, 0, 2, 'X', 1);
    taken(&mut trace, 14);
    trace
        .fork(16, 0, 1, 3)
        .wakeup_new(16, 0, 1, 3)
        .switch(18, 0, 1, 'X', 3)
        .exit(21, 0, 3)
        .switch(23, 0, 3, 'X', 0);
    let workload = derive(&trace, Messages::Recorded);
    let lives = [1, 2, 3].map(|pid| life(task(&workload, pid)));
    assert_eq!(lives, ["F4 R1@6 F10 E12", "C5 S1@6 E6", "E5"]);
    assert_eq!(workload.dropped["wait for a child whose fork is not in the recording, left out"], 1);
}

// us     0         1         2
//        0123456789012345678901234
// cpu0   111s11111s1111111111111E       s: writes of 100 and 50 return
// cpu1   222r2E333r3E444444r4E          each takes 50
#[test]
fn of_several_readers_each_gets_what_it_got_in_the_recording() {
    // `last`: who is the third
    let of = |polls: bool, last: i32| {
        let mut trace = Trace::default();
        trace.switch(0, 0, 0, 'R', 1).switch(0, 1, 0, 'R', 2).call(3, 0, 1, 77, Direction::Send, 100);
        for (pid, from, read, until) in [(2, 0, 4, 6), (3, 6, 10, 12), (last, 12, 19, 21)] {
            if polls && pid == 3 {
                trace.push(from + 1, 1, pid, Context::Task, SchedEvent::Polled);
            }
            if pid == 3 {
                trace.call(9, 0, 1, 77, Direction::Send, 50);
            }
            trace.call(read, 1, pid, 77, Direction::Receive, 50);
            let next = [3, last, 0][[6, 12, 21].iter().position(|at| *at == until).unwrap()];
            trace.switch(until, 1, pid, if pid == last && until < 21 { 'R' } else { 'X' }, next);
        }
        trace.switch(24, 0, 1, 'X', 0);
        derive(&trace, Messages::Recorded)
    };
    let (reads, polls) = (of(false, 4), of(true, 2));
    // one after another is several connections, whether one polls or not
    let one_by_one = of(true, 4);
    assert_eq!((&one_by_one.tasks, &one_by_one.objects), (&reads.tasks, &reads.objects));
    assert_eq!(life(task(&reads, 1)), "S50@3 S50@3 S50@9 E24");
    let names = ["r50@4 E6", "r50@4 E6", "r50@7 E9"];
    assert_eq!([2, 3, 4].map(|pid| life(task(&reads, pid))), names);
    let at = |workload: &Workload, pid| {
        let events = task(workload, pid).events.iter();
        events.flat_map(|event| event.kind.objects().map(|id| id.0).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(at(&reads, 1), [at(&reads, 2), at(&reads, 3), at(&reads, 4)].concat());
    // 81 messages of 50 bytes on each of 16 pages: each part has the room of the whole
    let room = |object: &Object| match object.kind {
        ObjectKind::Stream { capacity, low, .. } => (capacity, low),
        other => panic!("{other:?}"),
    };
    let whole = (Some(16 * 81 * 50), Some(15 * 81 * 50));
    assert_eq!(reads.objects.iter().map(room).collect::<Vec<_>>(), [whole; 3]);
    let note = &reads.notes["messages"];
    assert!(note.contains("3 channels") && note.contains("1 that several tasks read"), "{note}");
    // where one of them polls, and one comes back after another, blocks stay what they were
    assert!(polls.objects.is_empty(), "{:?}", polls.objects);
    assert_eq!(life(task(&polls, 1)), "E24");
    let reason = "pipe or socket that several tasks read of which one polls, left out: blocks there stay recorded ones";
    assert_eq!(polls.dropped.get(reason), Some(&1));
    assert_eq!(polls.dropped.len(), 1, "{:?}", polls.dropped);
}

/// Two connections with a message each, whose reader polls: which comes first is the same to it.
#[test]
fn who_polls_takes_what_comes_first() {
    let of = |polls: bool| {
        let mut trace = Trace::default();
        trace.switch(0, 0, 0, 'R', 1).switch(0, 1, 0, 'R', 2).switch(2, 1, 2, 'S', 0);
        trace.waking(4, 0, 1, 2).call(5, 0, 1, 77, Direction::Send, 100).switch(5, 1, 0, 'R', 2);
        if polls {
            trace.push(6, 1, 2, Context::Task, SchedEvent::Polled);
        }
        trace.call(7, 1, 2, 77, Direction::Receive, 100).call(8, 0, 1, 78, Direction::Send, 30);
        trace.call(9, 1, 2, 78, Direction::Receive, 30);
        trace.switch(20, 0, 1, 'X', 0).switch(21, 1, 2, 'X', 0);
        derive(&trace, Messages::Recorded)
    };
    let (polls, reads) = (of(true), of(false));
    assert_eq!((polls.objects.len(), reads.objects.len()), (1, 2));
    assert_eq!(life(task(&polls, 2)), "R1@2 r1@6 E18");
    assert_eq!(life(task(&reads, 2)), "R100@2 r30@6 E18");
    assert!(polls.notes["messages"].contains("1 channels whose reader polls"), "{}", polls.notes["messages"]);
}

// us     0         1
//        0123456789012         twenty times, 13 us each, after the twenty of the other kind
// cpu0   111s1w11s22r2B        at w it wakes its reader on its own CPU, and returns 2 us later than it would
// cpu1   .............
#[test]
fn a_wakeup_that_interrupts_an_idle_cpu_stands_apart() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 1).switch(0, 1, 0, 'R', 2);
    for start in (0..200).step_by(10) {
        trace
            .call(start + 3, 0, 1, 77, Direction::Send, 100)
            .call(start + 4, 1, 2, 77, Direction::Receive, 100)
            .switch(start + 5, 1, 2, 'S', 0)
            .waking(start + 6, 0, 1, 2)
            .switch(start + 6, 1, 0, 'R', 2)
            .call(start + 10, 0, 1, 77, Direction::Send, 100)
            .call(start + 11, 1, 2, 77, Direction::Receive, 100);
    }
    trace.switch(205, 1, 2, 'S', 0);
    for start in (210..470).step_by(13) {
        trace
            .call(start + 3, 0, 1, 77, Direction::Send, 100)
            .waking(start + 5, 0, 1, 2)
            .call(start + 8, 0, 1, 77, Direction::Send, 100)
            .switch(start + 8, 0, 1, 'R', 2)
            .call(start + 9, 0, 2, 77, Direction::Receive, 100)
            .call(start + 10, 0, 2, 77, Direction::Receive, 100)
            .switch(start + 13, 0, 2, 'S', 1);
    }
    trace.switch(480, 0, 1, 'X', 0);
    let options = DeriveOptions { messages: Some(Messages::Recorded), ..DeriveOptions::default() };
    let derived = trace.derive_with(options, None);
    let [pipe] = &derived.workload.objects[..] else { panic!("{:?}", derived.workload.objects) };
    assert_eq!((pipe.costs.wake, derived.summary.kick), (Span::from_us(2), Span::from_us(2)));
    let lengths = life(task(&derived.workload, 1));
    // its call returns 3 us after a wakeup, of which that takes 2: so each message comes 1 us before the return
    assert_eq!(pipe.costs.tail, Span::from_us(1));
    assert!(lengths.starts_with("S100@2 S100@5 S100@8"), "4 us are taken out of the second: {lengths}");
    assert!(lengths.ends_with("S100@249 E260"), "2 us out of each of the last twenty: {lengths}");
}

// us     0         1         2         3
//        0123456789012345678901234567890
// cpu0   ....111111w1D.........11111111E      w: 1 wakes the kernel's thread 9, and sleeps where no signal ends it
// cpu1   2f99.........99999999w9               f: kthreadd forks 9; w: 9 wakes 1
#[test]
fn who_wakes_a_thread_of_the_kernel_and_sleeps_at_once_is_in_one_call() {
    let recorded = |state| {
        let mut trace = Trace::default();
        trace.switch(0, 1, 0, 'R', 2).fork(1, 1, 2, 9).wakeup_new(1, 1, 2, 9).switch(2, 1, 2, 'S', 9);
        trace.switch(4, 1, 9, 'S', 0).switch(4, 0, 0, 'R', 1).waking(10, 0, 1, 9).switch(12, 0, 1, state, 0);
        trace.switch(13, 1, 0, 'R', 9).waking(21, 1, 9, 1).switch(22, 1, 9, 'S', 0);
        trace.switch(22, 0, 0, 'R', 1).switch(30, 0, 1, 'X', 0);
        derive(&trace, Messages::Recorded)
    };
    let workload = recorded('D');
    assert!(task(&workload, 9).kernel_thread);
    assert_eq!(life(task(&workload, 1)), "C5 B8 W<-1 E8");
    // a sleep that a signal ends may be another call
    assert_eq!(life(task(&recorded('S'), 1)), "B8 W<-1 E8");
}

/// `connect` that did not wait for its connection may be called again to ask whether it stands. It is one message.
#[test]
fn a_connection_that_is_asked_for_again_is_one_message() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 1).switch(0, 1, 0, 'R', 2);
    let begun = (Direction::Send, Carried::ConnectionBegun);
    let made = (Direction::Send, Carried::Connection);
    let taken = (Direction::Receive, Carried::Connection);
    trace.connection(3, 1, begun).connection(5, 1, made).connection(8, 2, taken);
    // another one at the same ports, that was waited for
    trace.connection(10, 1, made).connection(14, 2, taken);
    trace.switch(20, 0, 1, 'X', 0).switch(20, 1, 2, 'X', 0);
    let workload = derive(&trace, Messages::Recorded);
    assert_eq!(life(task(&workload, 1)), "S1@3 S1@10 E20");
    assert_eq!(life(task(&workload, 2)), "r1@8 r1@14 E20");
}

// us     0         1
//        01234567890123456789     twenty times: a write takes 8 us and wakes nobody, a connection 12 us and wakes
// cpu0   111s11w11111111c1111
// cpu1   2222r2B22222222222r2
#[test]
fn a_connection_is_not_compared_with_data() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 1).switch(0, 1, 0, 'R', 2);
    for start in (0..400).step_by(20) {
        trace
            .call(start + 3, 0, 1, 77, Direction::Send, 100)
            .call(start + 4, 1, 2, 77, Direction::Receive, 100)
            .switch(start + 6, 1, 2, 'S', 0)
            .waking(start + 7, 0, 1, 2)
            .switch(start + 7, 1, 0, 'R', 2)
            .connection(start + 15, 1, (Direction::Send, Carried::Connection))
            .connection(start + 18, 2, (Direction::Receive, Carried::Connection));
    }
    trace.switch(410, 0, 1, 'X', 0).switch(410, 1, 2, 'X', 0);
    let workload = derive(&trace, Messages::Recorded);
    let costs: Vec<Span> = workload.objects.iter().map(|object| object.costs.wake).collect();
    assert_eq!(costs, [Span::ZERO; 2], "no write woke anybody, and no connection woke nobody");
}

// us     0         1         2
//        0123456789012345678901234567          twenty times, 30 us each: 1 sends two questions,
// cpu0   111q1q111111111a1a1111111111          2 polls, takes both, and answers both
// cpu1   22B.22r2r2a22a2222222222222
#[test]
fn a_poller_answers_each_question_before_the_next() {
    // `keys`: of the two questions' and of the two answers' connections
    let of = |polls: bool, keys: [u64; 4]| {
        let mut trace = Trace::default();
        trace.switch(0, 0, 0, 'R', 1).switch(0, 1, 0, 'R', 2);
        for start in (0..600).step_by(30) {
            let at = |us: u64| start + us;
            trace.switch(at(2), 1, 2, 'S', 0).waking(at(3), 0, 1, 2);
            trace.call(at(3), 0, 1, keys[0], Direction::Send, 10).switch(at(4), 1, 0, 'R', 2);
            trace.call(at(5), 0, 1, keys[1], Direction::Send, 10);
            if polls {
                // (what a poller reads has always room, for it is one stream that counts messages)
                trace.push(at(5), 1, 2, Context::Task, SchedEvent::Polled);
                trace.push(at(5), 0, 1, Context::Task, SchedEvent::Polled);
            }
            trace.call(at(6), 1, 2, keys[0], Direction::Receive, 10);
            trace.call(at(8), 1, 2, keys[1], Direction::Receive, 10);
            trace.call(at(10), 1, 2, keys[2], Direction::Send, 20);
            trace.call(at(13), 1, 2, keys[3], Direction::Send, 20);
            trace.call(at(15), 0, 1, keys[2], Direction::Receive, 20);
            trace.call(at(16), 0, 1, keys[3], Direction::Receive, 20);
        }
        trace.switch(605, 0, 1, 'X', 0).switch(606, 1, 2, 'X', 0);
        let workload = derive(&trace, Messages::Recorded);
        let letters: String =
            life(task(&workload, 2)).split(' ').filter_map(|word| word.chars().next()).collect();
        let cpu = task(&workload, 2).cpu_demand();
        (letters, workload.objects.iter().filter(|object| object.is_polled).count(), cpu)
    };
    let several = [77, 78, 87, 88];
    let (polls, reads) = (of(true, several), of(false, several));
    assert_eq!((&*polls.0, polls.1), (&*("RSrS".repeat(20) + "E"), 2), "questions and answers");
    assert_eq!((&*reads.0, reads.1), (&*("RrSS".repeat(20) + "E"), 0));
    assert_eq!(polls.2, reads.2, "no CPU time is lost");
    // a head and a body are no two questions
    let one = of(true, [77, 77, 87, 87]);
    assert_eq!((&*one.0, one.1), (&*("RrSS".repeat(20) + "E"), 0));
}

// each round, in us 0         1
//                   01234567890123456789
// cpu0              1sB......11s1s1s1111      1 sends 100 (at 1), waits for room in its next write, which returns at 11
// cpu1              222222rw22r2222222222     2 takes 100 twice; within the second read (w) 1 is let in
/// Nobody says what a socket of the internet holds; who waits for room shows it.
#[test]
fn what_a_socket_holds_shows_in_the_waits_for_room() {
    let of = |rounds: u64| {
        let mut trace = Trace::default();
        let call = |trace: &mut Trace, us, (cpu, pid), direction| {
            let (kind, what) = (ChannelKind::Inet, Carried::Data);
            let call = ObjectCall { key: 77, kind, direction, what, amount: 100, room: 0 };
            trace.push(us, cpu, pid, Context::Task, SchedEvent::Object(call));
        };
        let send = |trace: &mut Trace, us| call(trace, us, (0, 1), Direction::Send);
        let take = |trace: &mut Trace, us| call(trace, us, (1, 2), Direction::Receive);
        trace.switch(0, 0, 0, 'R', 1).switch(0, 1, 0, 'R', 2);
        for us in [1, 2, 3] {
            send(&mut trace, us);
        }
        for at in (0..rounds).map(|round| 10 + 20 * round) {
            trace.switch(at + 2, 0, 1, 'S', 0);
            take(&mut trace, at + 6);
            trace.waking(at + 7, 1, 2, 1).switch(at + 9, 0, 0, 'R', 1);
            take(&mut trace, at + 10);
            send(&mut trace, at + 11);
            send(&mut trace, at + 13);
        }
        let end = 10 + 20 * rounds;
        for us in [end, end + 1, end + 2] {
            take(&mut trace, us);
        }
        trace.switch(end + 3, 0, 1, 'X', 0).switch(end + 3, 1, 2, 'X', 0);
        let workload = derive(&trace, Messages::Recorded);
        let [socket] = &workload.objects[..] else { panic!("{:?}", workload.objects) };
        socket.kind
    };
    // 300 are there when it waits, and half of the 100 that it writes; 200 less when it is let in
    let holds = ObjectKind::Stream { capacity: Some(350), start: 0, low: Some(150) };
    assert_eq!(of(16), holds);
    assert_eq!(of(15), ObjectKind::Stream { capacity: None, start: 0, low: None });
}
