use super::*;
use crate::{Messages, ObjectId, ObjectKind, ObjectOp, Recorded};
use schedlab_trace::{MutexKind, SyncCall, SyncOp};

impl Trace {
    fn sync(&mut self, us: u64, cpu: u32, pid: i32, key: u64, what: SyncOp) -> &mut Trace {
        self.sync_with(us, cpu, pid, (key, 0), what, 1)
    }
    fn sync_with(
        &mut self,
        us: u64,
        cpu: u32,
        pid: i32,
        (key, other): (u64, u64),
        what: SyncOp,
        value: u32,
    ) -> &mut Trace {
        self.push(us, cpu, pid, Context::Task, SchedEvent::Sync(SyncCall { key, other, what, value }))
    }
    /// Two tasks, each with a CPU of its own.
    fn two() -> Trace {
        let mut trace = Trace::default();
        trace.switch(0, 0, 0, 'R', 1).switch(0, 1, 0, 'R', 2);
        trace
    }
}

const PLAIN: SyncOp = SyncOp::MutexLock(MutexKind { is_recursive: false, inherits_priority: false });
const RECURSIVE: SyncOp = SyncOp::MutexLock(MutexKind { is_recursive: true, inherits_priority: false });
const LENDING: SyncOp = SyncOp::MutexLock(MutexKind { is_recursive: false, inherits_priority: true });

fn derive(trace: &Trace) -> Workload {
    let options = DeriveOptions { messages: Some(Messages::Recorded), ..DeriveOptions::default() };
    let workload = trace.derive_with(options, None).workload;
    workload.check().unwrap_or_else(|error| panic!("{error}"));
    let text = workload.to_text().unwrap();
    assert_eq!(crate::parse_text("x", text.as_bytes()).unwrap().to_text().unwrap(), text);
    workload
}

/// LOCK and UNLOCK are L and U, SEND and RECV S and R, a barrier's ARRIVE A, each with its CPU time; `*`: it slept.
fn life(workload: &Workload, pid: u32) -> String {
    let us = |length: Span| length.as_ns() / 1000;
    let word = |kind: &EventKind| match kind {
        EventKind::Object { length, op, recorded } => {
            let letter = match op {
                ObjectOp::Send { .. } => "S",
                ObjectOp::Receive { .. } => "R",
                ObjectOp::Lock { .. } => "L",
                ObjectOp::Unlock { .. } => "U",
                ObjectOp::Arrive { .. } => "A",
                other => other.name(),
            };
            let slept = if *recorded == Recorded::Slept { "*" } else { "" };
            format!("{letter}{}{slept}", us(*length))
        }
        EventKind::Wakeup(Wakeup::External { after, .. }) => format!("W{}", us(*after)),
        EventKind::Wakeup(Wakeup::Dependent { distance, .. }) => format!("W<-{}", us(*distance)),
        other => format!("{}{}", &other.name()[..1], us(other.length().unwrap_or(Span::ZERO))),
    };
    task(workload, pid).events.iter().map(|event| word(&event.kind)).collect::<Vec<_>>().join(" ")
}

// us     0         1         2
//        012345678901234567890
// cpu0   1L11111111Uwf111111E          L lock, U unlock, w its futex wakes 2 and returns at f
// cpu1   222L2B.......2r22U22E         2 blocks in lock at 5, runs at 12, its futex returns at 13
fn contended() -> Trace {
    let mut trace = Trace::two();
    trace.sync(1, 0, 1, 77, PLAIN).sync(3, 1, 2, 77, PLAIN).switch(5, 1, 2, 'S', 0);
    trace.sync(10, 0, 1, 77, SyncOp::MutexUnlock).waking(11, 0, 1, 2);
    trace.sync(12, 0, 1, 77, SyncOp::FutexWake).switch(12, 1, 0, 'R', 2);
    trace.sync(13, 1, 2, 77, SyncOp::FutexWoken).sync(17, 1, 2, 77, SyncOp::MutexUnlock);
    trace.switch(19, 0, 1, 'X', 0).switch(20, 1, 2, 'X', 0);
    trace
}

#[test]
fn a_block_within_a_lock_is_the_locks_own() {
    let workload = derive(&contended());
    assert_eq!(life(&workload, 1), "L1 U10 E19");
    assert_eq!(life(&workload, 2), "L3* U10 E13", "the block at 5 is gone, its CPU time is not");
    assert!(matches!(workload.objects[0].kind, ObjectKind::Mutex(_)), "{:?}", workload.objects);
    let note = &workload.notes["locks"];
    assert!(note.contains("1 of 1 mutex") && note.contains("1 of 1 blocks"), "{note}");
    assert!(!note.contains("only where somebody waited"), "{note}");
}

#[test]
fn without_the_librarys_functions_a_futex_that_only_some_wake_is_a_semaphore() {
    let mut trace = contended();
    let is_function = |event: &TraceEvent| {
        matches!(
            event.what,
            SchedEvent::Sync(SyncCall { what: SyncOp::MutexLock(_) | SyncOp::MutexUnlock, .. })
        )
    };
    trace.events.retain(|event| !is_function(event));
    let workload = derive(&trace);
    assert_eq!((life(&workload, 1), life(&workload, 2)), ("S12 E19".into(), "R5* E13".into()));
    assert_eq!(workload.objects[0].kind, ObjectKind::Semaphore { start: 0 });
    assert!(workload.notes["locks"].contains("only where somebody waited"), "{}", workload.notes["locks"]);
    // who wakes there waits there, too: it could take what it put in
    let mut both = trace.events.pop().into_iter().collect::<Vec<_>>();
    trace.sync(19, 1, 2, 77, SyncOp::FutexWake).events.append(&mut both);
    let other = derive(&trace);
    assert!(other.objects.is_empty(), "{:?}", other.objects);
    assert_eq!(life(&other, 2), "B5 W<-8 E8");
}

// us     0         1
//        01234567890123
// cpu0   1L1B..11U111E       1 sleeps with the mutex until 2 wakes it
// cpu1   22222w222LU22E
#[test]
fn who_sleeps_a_recorded_sleep_lets_its_mutex_go_meanwhile() {
    for has_futex in [false, true] {
        let mut trace = Trace::two();
        trace.sync(1, 0, 1, 77, PLAIN).switch(3, 0, 1, 'S', 0).waking(5, 1, 2, 1).switch(6, 0, 0, 'R', 1);
        if has_futex {
            trace.sync(6, 1, 2, 88, SyncOp::FutexWake).sync(7, 0, 1, 88, SyncOp::FutexWoken);
        }
        trace.sync(8, 0, 1, 77, SyncOp::MutexUnlock).sync(9, 1, 2, 77, PLAIN);
        trace.sync(10, 1, 2, 77, SyncOp::MutexUnlock).switch(12, 0, 1, 'X', 0).switch(13, 1, 2, 'X', 0);
        let workload = derive(&trace);
        assert_eq!(life(&workload, 1), "L1 U3 B3 W<-4 L0 U2 E6");
        assert_eq!((life(&workload, 2), workload.objects.len()), ("L9 U10 E13".into(), 1));
    }
}

#[test]
fn a_lock_that_inherits_priority_is_named_and_one_that_is_used_alone_goes() {
    let mut trace = contended();
    for event in &mut trace.events {
        if let SchedEvent::Sync(SyncCall { what, .. }) = &mut event.what
            && *what == PLAIN
        {
            *what = LENDING;
        }
    }
    let last = trace.events.split_off(trace.events.len() - 2);
    trace.sync(17, 0, 1, 88, PLAIN).sync(18, 0, 1, 88, SyncOp::MutexUnlock);
    trace.events.extend(last);
    let workload = derive(&trace);
    let note = &workload.notes["locks"];
    assert!(note.contains("1 inherit priority: they are replayed as plain ones"), "{note}");
    assert!(note.contains("1 mutexes that one task alone uses are left out"), "{note}");
    assert_eq!((workload.objects.len(), life(&workload, 1)), (1, "L1 U10 E19".into()));
}

// A recursive mutex is locked twice, a plain one once too often, and one is held
// to the end. An attempt that is followed by an unlock has got the mutex.
#[test]
fn locks_that_contradict_themselves_are_counted() {
    let mut trace = Trace::two();
    for (us, key, what) in [
        (1, 5, RECURSIVE),
        (2, 5, RECURSIVE),
        (3, 5, SyncOp::MutexUnlock),
        (4, 5, SyncOp::MutexUnlock),
        (5, 6, PLAIN),
        (6, 6, PLAIN),
        (7, 6, SyncOp::MutexUnlock),
        (8, 6, SyncOp::MutexUnlock),
        (9, 7, SyncOp::MutexTry(MutexKind::default())),
        (10, 7, SyncOp::MutexTry(MutexKind::default())),
        (11, 7, SyncOp::MutexUnlock),
        (12, 8, PLAIN),
    ] {
        trace.sync(us, 0, 1, key, what);
    }
    for (us, key) in [(13, 5), (14, 6), (15, 7), (16, 8)] {
        trace.sync(us, 1, 2, key, PLAIN).sync(us, 1, 2, key, SyncOp::MutexUnlock);
    }
    trace.switch(19, 0, 1, 'X', 0).switch(20, 1, 2, 'X', 0);
    let workload = derive(&trace);
    assert_eq!(life(&workload, 1), "L1 U4 L5 U8 L10 U11 L12 U19 E19");
    let counted = |reason: &str| {
        workload.dropped.iter().find(|(known, _)| known.starts_with(reason)).map(|(_, times)| *times)
    };
    assert_eq!(counted("lock of a mutex that its task holds already"), Some(1));
    assert_eq!(counted("mutex that its task holds to its end"), Some(1));
    // the second unlock of 6 comes after the second lock, which was left out
    let twice = workload.dropped.keys().any(|reason| reason.starts_with("unlock of a mutex"));
    assert!(!twice, "{:?}", workload.dropped);
}

// us     0         1         2
//        0123456789012345678901
// cpu0   111111L1Gwf1U11111111E        G signal, w its futex wakes 2
// cpu1   222LCB......2r222U222E        C wait at the condition; r its futex returns
#[test]
fn a_wait_at_a_condition_lets_its_mutex_go_and_waits_for_what_a_signal_gives() {
    let mut trace = Trace::two();
    trace.sync(3, 1, 2, 77, PLAIN).sync_with(4, 1, 2, (99, 77), SyncOp::ConditionWait, 0);
    trace.switch(5, 1, 2, 'S', 0).sync(6, 0, 1, 77, PLAIN).sync(8, 0, 1, 99, SyncOp::ConditionSignal);
    trace.waking(9, 0, 1, 2).sync(10, 0, 1, 1234, SyncOp::FutexWake).sync(12, 0, 1, 77, SyncOp::MutexUnlock);
    trace.switch(12, 1, 0, 'R', 2).sync(13, 1, 2, 1234, SyncOp::FutexWoken);
    trace.sync(17, 1, 2, 77, SyncOp::MutexUnlock).switch(21, 0, 1, 'X', 0).switch(21, 1, 2, 'X', 0);
    let workload = derive(&trace);
    assert_eq!(life(&workload, 1), "L6 S10 U12 E21");
    assert_eq!(life(&workload, 2), "L3 U4 R5* L6 U10 E14");
    let kinds: Vec<_> = workload.objects.iter().map(|object| object.kind.name()).collect();
    assert_eq!(kinds, ["mutex", "semaphore"]);
    // the wait's time was over: it stays a recorded block, without the mutex
    for event in &mut trace.events {
        if let SchedEvent::Sync(call) = &mut event.what {
            match call.what {
                SyncOp::FutexWoken => call.what = SyncOp::FutexGaveUp,
                SyncOp::FutexWake => call.value = 0,
                _ => {}
            }
        }
    }
    let over = derive(&trace);
    assert_eq!(life(&over, 2), "L3 U4 B5 W<-3 L0 U5 E9");
    assert!(over.notes["locks"].contains("1 wakeups at futexes woke nobody"), "{}", over.notes["locks"]);
}

// 1 posts what 2 takes; the semaphore had one in it at the start, since 2 took one without a sleep before
#[test]
fn what_a_semaphore_has_at_the_start_shows_in_what_is_taken() {
    let mut trace = Trace::two();
    trace.sync(2, 1, 2, 55, SyncOp::SemaphoreWait).sync(4, 1, 2, 55, SyncOp::SemaphoreWait);
    trace.switch(5, 1, 2, 'S', 0).sync(8, 0, 1, 55, SyncOp::SemaphorePost).waking(9, 0, 1, 2);
    trace.sync(10, 0, 1, 55, SyncOp::FutexWake).switch(10, 1, 0, 'R', 2).sync(
        11,
        1,
        2,
        55,
        SyncOp::FutexWoken,
    );
    trace.switch(12, 0, 1, 'X', 0).switch(15, 1, 2, 'X', 0);
    let workload = derive(&trace);
    assert_eq!((life(&workload, 1), life(&workload, 2)), ("S8 E12".into(), "R2 R4* E10".into()));
    assert_eq!(workload.objects[0].kind, ObjectKind::Semaphore { start: 1 });
}

// CPython asks first whether it is there. 1 was faster, so 2 waits for what it saw, and takes one, not two.
#[test]
fn one_who_tries_in_vain_and_then_waits_takes_one() {
    let mut trace = Trace::two();
    trace.sync(2, 0, 1, 55, SyncOp::SemaphoreTry).sync(2, 1, 2, 55, SyncOp::SemaphoreTry);
    // meanwhile it lets a lock go that others want
    trace.sync(2, 1, 2, 56, SyncOp::MutexUnlock).sync(2, 0, 1, 56, SyncOp::MutexLock(MutexKind::default()));
    trace.sync(3, 1, 2, 55, SyncOp::SemaphoreWait).switch(5, 1, 2, 'S', 0);
    trace.sync(8, 0, 1, 55, SyncOp::SemaphorePost).waking(9, 0, 1, 2).sync(10, 0, 1, 55, SyncOp::FutexWake);
    trace.switch(10, 1, 0, 'R', 2).sync(11, 1, 2, 55, SyncOp::FutexWoken);
    trace.sync(12, 1, 2, 55, SyncOp::SemaphorePost).switch(13, 0, 1, 'X', 0).switch(15, 1, 2, 'X', 0);
    let workload = derive(&trace);
    assert_eq!((life(&workload, 1), life(&workload, 2)), ("R2 L2 S8 U13 E13".into(), "R2* S7 E10".into()));
    assert_eq!(workload.objects[0].kind, ObjectKind::Semaphore { start: 1 });
}

#[test]
fn a_barrier_opens_when_all_have_come_and_one_that_never_would_is_left_out() {
    let rounds = |parties: u32| {
        let mut trace = Trace::two();
        trace.sync_with(2, 1, 2, (44, 0), SyncOp::BarrierWait, parties).switch(3, 1, 2, 'S', 0);
        trace.sync_with(8, 0, 1, (44, 0), SyncOp::BarrierWait, parties).waking(9, 0, 1, 2);
        trace.sync(10, 0, 1, 45, SyncOp::FutexWake).switch(10, 1, 0, 'R', 2).sync(
            11,
            1,
            2,
            45,
            SyncOp::FutexWoken,
        );
        trace.switch(12, 0, 1, 'X', 0).switch(15, 1, 2, 'X', 0);
        derive(&trace)
    };
    let workload = rounds(2);
    assert_eq!((life(&workload, 1), life(&workload, 2)), ("A8 E12".into(), "A2* E8".into()));
    assert_eq!(workload.objects[0].kind, ObjectKind::Barrier { parties: 2 });
    let never = rounds(3);
    assert!(never.objects.is_empty() && life(&never, 2) == "B3 W<-3 E5", "{}", life(&never, 2));
}

#[test]
fn waiters_that_a_requeue_moves_wait_at_one_semaphore() {
    let mut trace = Trace::two();
    trace.switch(5, 1, 2, 'S', 0).sync_with(6, 0, 1, (11, 12), SyncOp::FutexRequeue, 0).waking(9, 0, 1, 2);
    trace.sync(10, 0, 1, 12, SyncOp::FutexWake).switch(10, 1, 0, 'R', 2).sync(
        11,
        1,
        2,
        11,
        SyncOp::FutexWoken,
    );
    trace.switch(12, 0, 1, 'X', 0).switch(15, 1, 2, 'X', 0);
    let workload = derive(&trace);
    assert_eq!((life(&workload, 1), life(&workload, 2)), ("S10 E12".into(), "R5* E10".into()));
    let [event] = &task(&workload, 2).events[..1] else { panic!() };
    assert!(matches!(
        event.kind,
        EventKind::Object { op: ObjectOp::Receive { object: ObjectId(0), .. }, .. }
    ));
}

// 1 forks 2 and joins it: the futex holds the thread's number, and the kernel wakes at its end
#[test]
fn who_joins_a_thread_waits_for_its_end() {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 1).fork(2, 0, 1, 2).wakeup_new(2, 0, 1, 2).switch(4, 0, 1, 'S', 2);
    trace.waking(10, 0, 2, 1).switch(12, 0, 2, 'X', 1).sync_with(14, 0, 1, (9, 0), SyncOp::FutexWoken, 2);
    trace.switch(16, 0, 1, 'X', 0);
    let workload = derive(&trace);
    assert_eq!((life(&workload, 1), life(&workload, 2)), ("F2 R4* E8".into(), "S8 E8".into()));
    assert!(workload.objects[0].name.starts_with("thread-end"), "{:?}", workload.objects);
}

/// 20 times in turn 1 runs for 10 us and wakes 2 at a futex, which runs for 5 us. Once more 2 runs for 45 us, while 1
/// runs, too, and wakes nobody. The futex is one of two, as in a condition, and `expected` is there when 2 waits.
fn woken_at_futexes(expected: u32) -> Workload {
    let mut trace = Trace::two();
    trace.switch(1, 1, 2, 'S', 0);
    let mut now = 1;
    for round in 0..20 {
        now += 10;
        let futex = 91 + round % 2;
        trace.waking(now, 0, 1, 2).sync(now + 1, 0, 1, futex, SyncOp::FutexWake).switch(
            now + 1,
            1,
            0,
            'R',
            2,
        );
        trace.sync_with(now + 2, 1, 2, (futex, 0), SyncOp::FutexWoken, expected);
        now += if round == 10 { 45 } else { 5 };
        trace.switch(now, 1, 2, 'S', 0);
    }
    trace.waking(now + 10, 0, 1, 2).sync(now + 11, 0, 1, 91, SyncOp::FutexWake).switch(
        now + 11,
        1,
        0,
        'R',
        2,
    );
    trace.sync_with(now + 12, 1, 2, (91, 0), SyncOp::FutexWoken, expected);
    trace.switch(now + 14, 1, 2, 'X', 0).switch(now + 15, 0, 1, 'X', 0);
    derive(&trace)
}

#[test]
fn a_waker_at_a_futex_is_taken_to_go_on_while_its_sleeper_is_awake() {
    let workload = woken_at_futexes(0);
    assert_eq!(workload.objects.len(), 1, "two futexes of one condition are one: {:?}", workload.objects);
    let (waker, sleeper) = (life(&workload, 1), life(&workload, 2));
    let nr = |life: &str, what: &dyn Fn(&str) -> bool| life.split(' ').filter(|word| what(word)).count();
    let slept = nr(&sleeper, &|word| word.starts_with('R') && word.ends_with('*'));
    let awake = nr(&sleeper, &|word| word.starts_with('R') && !word.ends_with('*'));
    assert_eq!((slept, nr(&waker, &|word| word.starts_with('S'))), (21, 21 + awake), "{waker}; {sleeper}");
    assert!((3..=9).contains(&awake), "4 in 45 us, and what is left over of other rounds: {sleeper}");
    let note = &workload.notes["messages at futexes"];
    assert!(note.starts_with("inferred: 1 futexes where one task waits, 21 messages that woke, "), "{note}");
    // nobody sends anything to who finds a lock free
    let lock = woken_at_futexes(2);
    let is_awake = |word: &str| word.starts_with('R') && !word.ends_with('*');
    assert_eq!(nr(&life(&lock, 2), &is_awake), 0, "{}", life(&lock, 2));
    assert!(!lock.notes.contains_key("messages at futexes"), "{:?}", lock.notes);
}

// us     0         1         2
//        01234567890123456789012345
// cpu0   111s2l111u22l2222B111111...     1 sends at s, 2 takes its CPU; at l it waits for a lock until u
/// 20 rounds on one CPU: 1 wakes 2, and holds a lock until 4 us later. In every fourth 2 comes when that is over.
fn told_with_a_lock_held() -> Trace {
    let mut trace = Trace::default();
    trace.switch(0, 0, 0, 'R', 2).switch(1, 0, 2, 'S', 1);
    for round in 0..20 {
        let start = 10 + 50 * round;
        trace.waking(start, 0, 1, 2).sync(start + 1, 0, 1, 91, SyncOp::FutexWake);
        if round % 4 == 3 {
            trace.switch(start + 20, 0, 1, 'R', 2).sync(start + 21, 0, 2, 91, SyncOp::FutexWoken);
            trace.switch(start + 30, 0, 2, 'S', 1);
            continue;
        }
        trace.switch(start + 1, 0, 1, 'R', 2).sync(start + 2, 0, 2, 91, SyncOp::FutexWoken);
        trace.switch(start + 4, 0, 2, 'S', 1).waking(start + 8, 0, 1, 2);
        trace.sync(start + 9, 0, 1, 77, SyncOp::FutexWake).switch(start + 9, 0, 1, 'R', 2);
        trace.sync_with(start + 10, 0, 2, (77, 0), SyncOp::FutexWoken, 2);
        trace.switch(start + 14, 0, 2, 'S', 1);
    }
    trace.switch(1100, 0, 1, 'X', 0);
    trace
}

#[test]
fn a_lock_that_a_waker_holds_is_held_at_each_of_its_messages() {
    let workload = derive(&told_with_a_lock_held());
    let (waker, woken) = (life(&workload, 1), life(&workload, 2));
    let nr = |life: &str, what: &str| life.split(' ').filter(|word| word.starts_with(what)).count();
    assert_eq!((nr(&waker, "L"), nr(&waker, "U")), (20, 20), "{waker}");
    assert_eq!((nr(&woken, "L"), nr(&woken, "U")), (20, 20), "{woken}");
    let slept = woken.split(' ').filter(|word| word.starts_with('L') && word.ends_with('*')).count();
    assert_eq!(slept, 15, "three of four rounds wait: {woken}");
    assert!(workload.notes["locks"].contains("1 are held by who wakes another"), "{:?}", workload.notes);
    // who takes its waker's CPU and waits for nothing is against it
    let mut trace = told_with_a_lock_held();
    let is_at_lock = |event: &TraceEvent| {
        event.time_ns > 300_000 && matches!(event.what, SchedEvent::Sync(SyncCall { key: 77, .. }))
    };
    trace.events.retain(|event| !is_at_lock(event));
    let other = derive(&trace);
    assert_eq!(nr(&life(&other, 1), "L"), 0, "{}", life(&other, 1));
}

/// 20 rounds: 2 waits at a condition until 1 signals, then 1 signals with nobody there, and 2 takes that without a
/// wait. If not `signals_first` it goes through its section before that second signal. With `places` it takes the mutex
/// once more for something else, from the second of these places in the program (0: not recorded).
fn counted(signals_first: bool, places: Option<[u64; 2]>) -> Workload {
    let mut trace = Trace::two();
    let (signal, section) = if signals_first { (13, 17) } else { (17, 13) };
    let [taking, else_] = places.unwrap_or_default();
    for start in (0..20).map(|round| 10 + 30 * round) {
        trace.sync_with(start, 1, 2, (77, taking), PLAIN, 0);
        trace.sync_with(start + 1, 1, 2, (99, 77), SyncOp::ConditionWait, 0).switch(start + 2, 1, 2, 'S', 0);
        trace.sync(start + 5, 0, 1, 77, PLAIN).sync(start + 6, 0, 1, 99, SyncOp::ConditionSignal);
        trace.waking(start + 7, 0, 1, 2).sync(start + 8, 0, 1, 1234, SyncOp::FutexWake);
        trace.sync(start + 9, 0, 1, 77, SyncOp::MutexUnlock).switch(start + 9, 1, 0, 'R', 2);
        trace.sync(start + 10, 1, 2, 1234, SyncOp::FutexWoken).sync(
            start + 11,
            1,
            2,
            77,
            SyncOp::MutexUnlock,
        );
        let mut parts = [(signal, 0, 1), (section, 1, 2)];
        parts.sort_unstable();
        for (at, cpu, pid) in parts {
            trace.sync_with(start + at, cpu, pid, (77, taking), PLAIN, 0);
            if pid == 1 {
                trace.sync(start + at + 1, cpu, pid, 99, SyncOp::ConditionSignal);
            }
            trace.sync(start + at + 2, cpu, pid, 77, SyncOp::MutexUnlock);
        }
        if places.is_some() {
            trace.sync_with(start + 22, 1, 2, (77, else_), PLAIN, 0);
            trace.sync(start + 24, 1, 2, 77, SyncOp::MutexUnlock);
        }
    }
    trace.switch(620, 0, 1, 'X', 0).switch(620, 1, 2, 'X', 0);
    derive(&trace)
}

#[test]
fn a_condition_whose_waits_agree_with_its_signals_counts_them() {
    let workload = counted(true, None);
    let (signals, sections) = (life(&workload, 1), life(&workload, 2));
    assert!(sections.starts_with("L10 U11 R11* L13 U14 R19 L20 U22 "), "{sections}");
    let nr = |life: &str, letter: char| life.split(' ').filter(|word| word.starts_with(letter)).count();
    assert_eq!((nr(&signals, 'S'), nr(&sections, 'R'), nr(&sections, 'B')), (40, 40, 0), "{signals}");
    let counts = |workload: &Workload| workload.notes["locks"].contains("; 1 conditions count something");
    assert!(counts(&workload), "{}", workload.notes["locks"]);
    // half of its sections begin with nothing there: it is no number that its predicate asks for
    assert!(!counts(&counted(false, None)));
    // a third of its sections are for something else: only their places tell
    assert!(!counts(&counted(true, Some([0, 0]))));
    let told = counted(true, Some([4, 5]));
    assert!(counts(&told) && nr(&life(&told, 2), 'R') == 40, "{}", life(&told, 2));
}
