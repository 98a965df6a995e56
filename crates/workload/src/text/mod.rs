//! How does a person write down what tasks do? WARP's figure 2, with a header, comments and a few optional words.
//!
//! ```text
//! schedlab-workload 1
//! # a worker that computes and sleeps 1000 times, and the collector that it wakes each time
//! CGROUP /batch weight=50 max=20ms/100ms cpuset=0-3
//! - INIT 0 0 1 runnable name=worker nice=5
//! - INIT 0 0 2 blocked  name=collector cgroup=/batch
//! REPEAT 1000 {
//!   @sent BLOCK  1 4ms              # 4 ms of CPU time, then blocked ...
//!   -     WAKEUP 1 6ms              # ... for 6 ms of elapsed time
//!   -     WAKEUP 2 0 @sent 1 10us   # woken 10 us (of the worker's CPU time) before the worker blocks
//!   -     BLOCK  2 300us
//! }
//! - EXIT 1 1ms
//! ```
//!
//! One event per line, `eid TYPE pid length ...`:
//!
//! ```text
//! eid FORK   pid  length  cpid                    [task words] [row=N]
//! eid INIT   ppid 0       pid  runnable|blocked   [task words] [row=N]
//! eid PRIO   pid  length  [nice= | policy= ...] [affinity=] [cgroup=] [target=PID] [renice=N]
//! eid YIELD  pid  length
//! eid EXEC   pid  length                           a new program: the scheduler may choose another CPU for it
//! eid CALL   pid  length                           a system call: what follows, up to BLOCK or EXIT, is within it
//! eid BLOCK  pid  length
//! eid WAKEUP pid  length  deid dpid distance       waits for another task's event
//! eid WAKEUP pid  length  [0 0 0] [source]         external
//! eid EXIT   pid  length
//! eid SEND   pid  length  object amount            [slept|awake]; so RECV, TICK object period, WAIT object mutex
//! eid LOCK   pid  length  object                   [slept|awake]; so UNLOCK, SIGNAL, BROADCAST, ARRIVE, CLOSE
//! task words: name= policy=normal|batch|idle|fifo|rr|deadline|ext nice= prio= runtime= deadline= period=
//!             affinity=0-3,8 cgroup=/path kernel=yes|no
//! ```
//!
//! * Times: `4ms`, `1.5us`; a bare integer is ns. `+1ms` counts from the task's previous event instead of its
//!   last wakeup.
//! * `absolute`: the length counts from the task's previous such wakeup (from its birth for the first), as in
//!   a periodic task.
//! * eid: a number from 1, `-` (numbered by the reader), or a label `@name`. As deid a label means that
//!   event; within REPEAT, the one of the same iteration (`@name-1` the one before, `@name[7]` iteration 7,
//!   from 0). dpid `-` is then the label's task.
//! * pid: `101..105` instead of a pid stands for the same line five times (the pid of an event, the new task
//!   of INIT and FORK).
//! * PRIO with `nice=` alone (or a bare number, as WARP's) is `setpriority`: the policy stays. With `policy=`
//!   it is `sched_setattr`. `renice=` is `setpriority` after that.
//! * source: what is behind an external wakeup: `timer` (the default), `device`; timers set for an instant,
//!   `absolute`, `grid`, `grid-restart` and `grid-skip` (see [`ExternalSource`](crate::ExternalSource)); what only
//!   a recording tells, `hardirq` (timer or device), `softirq`, `timer-softirq`, `idle`, `unknown`, `made-up`,
//!   `task` (a task, by choice). `device` and `softirq` are replayed by a device's interrupt, the others by a
//!   timer.
//! * `REPEAT n {` ... `}` repeats the lines between; blocks nest.
//! * `CGROUP path [weight=] [max=quota/period] [cpuset=]` declares a control group, parents first.
//! * `OBJECT name channel [capacity=N] [start=N] [low=N] [sync]`, `stream` with the same words, `OBJECT name semaphore
//!   [start=N]`, `OBJECT name mutex [fifo]`, `OBJECT name condition`, `OBJECT name barrier parties=N`, `OBJECT name
//!   timer [restart]`, each with `[closed]`, above the first event that names it. What they mean:
//!   [`ObjectOp`](crate::ObjectOp), docs/objects.md. `slept` and `awake` say what a recording had.
//! * `DEADLINE` is kept for a later version.
//! * `NOTE key value` and `DROPPED count "reason"` keep an import's notes and what it left out.
//! * A child without words inherits its parent's settings; a task without a name is called `task-PID`; `row=`
//!   (written only where the order of the lines does not tell) is the task's number in results.
//! * Version 1 of the form has of the sources `timer` and `device`, version 2 those set for an instant, version 3
//!   all; version 4 has objects, version 5 EXEC, version 6 timers that skip, version 7 CALL, version 8 `tail` and
//!   `polled`. The lowest that has what occurs is written.
//! * A file without the header line is taken for version 1 if its first line is an event.
//!
//! The writer's form is canonical: INIT lines first, then task by task, each in its order; durations in the
//! shortest exact unit.

mod attributes;
mod error;
mod finish;
mod lex;
mod lines;
mod objects;
mod read;
mod statement;
mod stream;
mod write;

pub use attributes::parse_change_words;
pub use error::{TextError, TextProblem};
pub(crate) use read::read_text_file;
pub use read::{looks_like_text, parse_text, parse_text_within, read_text};
pub(crate) use statement::near;
pub(crate) use stream::TextStream;
pub(crate) use write::TextWriter;
pub use write::{change_words, write_text};

/// First word of a text file.
pub const TEXT_HEADER: &str = "schedlab-workload";
/// The newest version. Version 2 added timers set for an instant, version 3 the evidence of recordings on external
/// wakeups, version 4 objects, version 5 EXEC, version 6 timers that skip, version 7 CALL, version 8 `tail=` and
/// `polled`. The lowest version that has all that occurs is written ([`crate::Workload::version`]).
pub const TEXT_VERSION: u32 = 8;
