//! Does a recording hold what a task does at futexes, locks, counters, queues and by splice?
//!
//! Needs root, tracefs, and a kernel that takes programs; without them it says so and passes.

mod common;

use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use common::tracefs_or_skip;
use schedlab_host::{Backend, HostError, RecordOptions, RecordRequest, Stage, record};
use schedlab_trace::{
    ChannelKind, Direction, Mode, MutexKind, ObjectCall, Pid, SchedEvent, SyncCall, SyncOp, TraceFile,
};

const TEST: &str = "calls_at_futexes_locks_counters_and_queues_are_recorded";

/// Each kind of call once, none of which waits.
fn calls() {
    let word = AtomicU32::new(7);
    let mutex = UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER);
    // SAFETY: descriptors and buffers are this function's own, and live as long as the calls; the mutex and the
    // semaphore are not moved.
    unsafe {
        let counter = libc::eventfd(0, 0);
        let (amount, mut taken) = (5u64, 0u64);
        libc::write(counter, (&raw const amount).cast(), 8);
        libc::read(counter, (&raw mut taken).cast(), 8);
        assert_eq!(taken, 5);
        libc::close(counter);

        const PRIVATE: i32 = libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | PRIVATE, 1);
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | PRIVATE, 8, 0);

        libc::pthread_mutex_lock(mutex.get());
        libc::pthread_mutex_unlock(mutex.get());
        let mut semaphore: libc::sem_t = std::mem::zeroed();
        libc::sem_init(&mut semaphore, 0, 0);
        libc::sem_post(&mut semaphore);
        libc::sem_wait(&mut semaphore);
        libc::sem_trywait(&mut semaphore); // empty: takes nothing
        libc::sem_post(&mut semaphore);
        libc::sem_trywait(&mut semaphore);

        let (mut from, mut to) = ([0; 2], [0; 2]);
        assert!(libc::pipe(from.as_mut_ptr()) == 0 && libc::pipe(to.as_mut_ptr()) == 0);
        libc::write(from[1], c"hello".as_ptr().cast(), 5);
        let none = std::ptr::null_mut();
        assert_eq!(libc::splice(from[0], none, to[1], none, 5, 0), 5);
        for file in from.into_iter().chain(to) {
            libc::close(file);
        }

        let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
        let mut message = [1i64, 0];
        libc::msgsnd(queue, message.as_ptr().cast(), 8, 0);
        libc::msgrcv(queue, message.as_mut_ptr().cast(), 8, 0, 0);
        libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut());
    }
}

#[test]
fn calls_at_futexes_locks_counters_and_queues_are_recorded() {
    if tracefs_or_skip(TEST).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let what = RecordRequest::System { duration: Some(Duration::from_millis(700)) };
    let mut options = RecordOptions::new(folder.path().join("o.dat"), what);
    (options.backend, options.progress_every) = (Backend::Bpf, Some(Duration::from_millis(100)));
    (options.events.objects, options.events.locks) = (true, true);
    let mut is_done = false;
    let recorded = record(&options, &mut |stage| {
        if matches!(stage, Stage::Recording { .. }) && !std::mem::replace(&mut is_done, true) {
            calls();
        }
    });
    let recorded = match recorded {
        Err(HostError::NoPrograms { why }) => return eprintln!("SKIPPED {TEST}: {why}"),
        other => other.expect("recorded"),
    };
    let has = |name: &str| recorded.events.enabled.iter().any(|known| known == name);
    assert!(has("schedlab:object"), "{:?}", recorded.events.missing);

    let file = TraceFile::open(&recorded.trace, Mode::Strict).expect("own file");
    let mut stream = file.events().expect("sched events");
    // SAFETY: a plain query.
    let own = Pid(unsafe { libc::gettid() });
    let (mut objects, mut syncs) = (Vec::<ObjectCall>::new(), Vec::<SyncCall>::new());
    while let Some(event) = stream.next_event().expect("readable") {
        match event.what {
            SchedEvent::Object(call) if event.pid == own => objects.push(call),
            SchedEvent::Sync(call) if event.pid == own => syncs.push(call),
            _ => {}
        }
    }
    let at = |kind: ChannelKind| objects.iter().filter(move |call| call.kind == kind).collect::<Vec<_>>();
    let ways = |calls: &[&ObjectCall]| calls.iter().map(|c| (c.direction, c.amount)).collect::<Vec<_>>();
    let (send, receive) = (Direction::Send, Direction::Receive);
    let counter = at(ChannelKind::Eventfd);
    assert_eq!(ways(&counter), [(send, 5), (receive, 5)], "{objects:?}");
    assert_eq!(counter[0].key, counter[1].key);
    let queue = at(ChannelKind::Queue);
    assert_eq!(ways(&queue), [(send, 1), (receive, 1)], "{objects:?}");
    // a pipe that is written and spliced from, and the pipe that is spliced to; the recorder has pipes of its own
    let spliced = at(ChannelKind::Pipe).windows(3).any(|calls| {
        ways(calls) == [(send, 5), (receive, 5), (send, 5)]
            && calls[0].key == calls[1].key
            && calls[1].key != calls[2].key
    });
    assert!(spliced, "{objects:?}");

    let futex: Vec<(SyncOp, u32)> = syncs
        .iter()
        .filter(|call| matches!(call.what, SyncOp::FutexWake | SyncOp::FutexChanged))
        .map(|call| (call.what, call.value))
        .collect();
    let ours = [(SyncOp::FutexWake, 0), (SyncOp::FutexChanged, 8)];
    assert!(futex.windows(2).any(|two| two == ours), "{syncs:?}");
    if !has("schedlab:lock") {
        return eprintln!("SKIPPED the locks of {TEST}: {:?}", recorded.events.missing);
    }
    let pair = |first: SyncOp, second: SyncOp| {
        let is_pair =
            |two: &[SyncCall]| two[0].what == first && two[1].what == second && two[0].key == two[1].key;
        assert!(syncs.windows(2).any(is_pair), "{first:?} {second:?}: {syncs:?}");
    };
    pair(SyncOp::MutexLock(MutexKind::default()), SyncOp::MutexUnlock);
    pair(SyncOp::SemaphorePost, SyncOp::SemaphoreWait);
    let (tried, empty) = (SyncOp::SemaphoreTry, SyncOp::SemaphoreEmpty);
    let semaphore: Vec<SyncOp> = syncs
        .iter()
        .map(|call| call.what)
        .filter(|what| [SyncOp::SemaphorePost, SyncOp::SemaphoreWait, tried, empty].contains(what))
        .collect();
    let (post, wait) = (SyncOp::SemaphorePost, SyncOp::SemaphoreWait);
    assert_eq!(semaphore, [post, wait, empty, post, tried]);
}
