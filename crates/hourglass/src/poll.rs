//! When does this thread run, and when not? The loop, and what it keeps.
//!
//! ```text
//!   counter  |read|read|read|            |read|read|     a step above the threshold is a gap
//!                           ^from        ^to             counters are read once, behind it: `resumed`
//! ```
//!
//! Between gaps nothing is done but reading the counter: two instructions to compare, one to remember. Behind
//! a gap the thread's counters are read; the time that takes is ours, and is neither a gap nor missing.
//!
//! The CPU may be taken away while counters are read, too. Such a reading is torn: what it says belongs partly
//! to the gap before it. It is made again, and the time it took becomes a gap of its own:
//!
//! ```text
//!   loop | gap | reading ....off the CPU.... | reading | loop
//!              ^to of the first gap          ^to of the second, which has the switch
//! ```

use crate::counter::{Counter, NO_CPU};
use crate::os::{LONG_GAP_NS, Probes, Reading, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// What an [`Entry`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum What {
    /// Time is missing from `from` to `to`.
    #[default]
    Gap,
    /// The thread slept of its own will from `from` to `to`, and had asked to be woken at `due_ns`.
    Sleep,
    /// A job was done at `to`; its deadline was `due_ns`.
    Job,
    /// A job was not begun, because those before it were so late; its deadline was `due_ns`.
    Skip,
}

/// One line of a thread's buffer. Times are the counter's, `due_ns` is the monotonic clock's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// When polling went on, after the counters were read.
    pub(crate) resumed: u64,
    pub(crate) due_ns: u64,
    pub(crate) cpu_from: u16,
    pub(crate) cpu_to: u16,
    pub(crate) what: What,
    pub(crate) reading: Reading,
}

/// Entries in memory that exists already; what does not fit is counted.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) entries: Vec<Entry>,
    pub(crate) lost: u64,
}

impl Buffer {
    /// Room for so many entries, touched and locked; a sentence if it could not be locked.
    pub(crate) fn new(count: usize, system: &dyn System) -> (Buffer, Option<String>) {
        let mut entries: Vec<Entry> = Vec::with_capacity(count);
        let bytes = entries.capacity() * size_of::<Entry>();
        // SAFETY: the capacity's bytes belong to the vector, and all-zero bytes are what `lock` writes; none
        // is read as an entry.
        let memory = unsafe {
            let start = entries.as_mut_ptr().cast::<u8>();
            start.write_bytes(0, bytes);
            std::slice::from_raw_parts_mut(start, bytes)
        };
        let trouble = system.lock(memory).err();
        (Buffer { entries, lost: 0 }, trouble)
    }

    #[inline]
    fn push(&mut self, entry: Entry) {
        if self.entries.len() < self.entries.capacity() {
            self.entries.push(entry);
        } else {
            self.lost += 1;
        }
    }
}

/// Ticks and ns of the monotonic clock at one moment, and how they go together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) ticks: u64,
    pub(crate) ns: u64,
    pub(crate) ticks_per_ns: f64,
}

impl Scale {
    /// A length of time in ticks.
    pub(crate) fn ticks_of(&self, ns: u64) -> u64 {
        (ns as f64 * self.ticks_per_ns) as u64
    }
    /// The counter at a time of the monotonic clock.
    pub(crate) fn ticks_at(&self, ns: u64) -> u64 {
        self.ticks.saturating_add_signed(((ns as f64 - self.ns as f64) * self.ticks_per_ns) as i64)
    }
    /// The monotonic clock at a value of the counter.
    pub(crate) fn ns_at(&self, ticks: u64) -> u64 {
        let behind =
            if ticks >= self.ticks { (ticks - self.ticks) as f64 } else { -((self.ticks - ticks) as f64) };
        self.ns.saturating_add_signed((behind / self.ticks_per_ns).round() as i64)
    }
}

/// A polling thread.
pub(crate) struct Poller<'a, C: Counter> {
    counter: C,
    system: &'a dyn System,
    probes: Box<dyn Probes>,
    pub(crate) buffer: Buffer,
    scale: Scale,
    threshold: u64,
    /// The run ends here.
    end: u64,
    last: u64,
    cpu: u16,
    /// What the counters said last.
    reading: Reading,
    /// The quickest readings so far in ticks: without the slow counters, with them.
    quickest: [u64; 2],
    /// Set from outside to end the run early.
    stop: &'a AtomicBool,
    stopped: bool,
    /// Ticks computed between gaps.
    pub(crate) computed_ticks: u64,
}

/// A look at the thread's counters.
struct Taken {
    reading: Reading,
    /// When it began.
    begun: u64,
    /// When it was over.
    resumed: u64,
    /// The CPU was taken away meanwhile.
    torn: bool,
}

/// A reading is made again so many times at most: a thread that is torn from each of them gets no further.
const READINGS_MAX: u32 = 16;

/// What a run of pollers has in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) scale: Scale,
    pub(crate) threshold: u64,
    pub(crate) end: u64,
}

impl<'a, C: Counter> Poller<'a, C> {
    /// In the calling thread.
    pub(crate) fn new(
        counter: C,
        system: &'a dyn System,
        buffer: Buffer,
        bounds: Bounds,
        stop: &'a AtomicBool,
    ) -> Poller<'a, C> {
        let Bounds { scale, threshold, end } = bounds;
        let mut poller = Poller {
            counter,
            system,
            probes: system.probes(),
            buffer,
            scale,
            threshold,
            end,
            last: counter.read().0,
            cpu: 0,
            reading: Reading::default(),
            quickest: [u64::MAX; 2],
            stop,
            stopped: false,
            computed_ticks: 0,
        };
        // warm, so that the quickest reading is known before the first gap
        for time in 0..8 {
            poller.take(time % 2 == 0);
        }
        let mut taken = poller.take(true);
        for _ in 0..READINGS_MAX {
            if !taken.torn {
                break;
            }
            taken = poller.take(true);
        }
        let (last, cpu, reading) = (taken.resumed, system.cpu() as u16, taken.reading);
        (poller.last, poller.cpu, poller.reading) = (last, cpu, reading);
        // the first entry says where the thread began, and what its counters were: a sleep of no length
        poller.buffer.push(Entry {
            from: last,
            to: last,
            resumed: last,
            cpu_from: cpu,
            cpu_to: cpu,
            what: What::Sleep,
            reading,
            due_ns: 0,
        });
        poller
    }

    /// Whether the run is over.
    pub(crate) fn is_over(&self) -> bool {
        self.stopped || self.last >= self.end
    }

    /// The last value of the counter that was seen.
    pub(crate) fn now(&self) -> u64 {
        self.last
    }

    pub(crate) fn scale(&self) -> Scale {
        self.scale
    }

    /// Computes so many ticks of its own, gaps not counted, or until the run is over.
    pub(crate) fn compute(&mut self, ticks: u64) {
        let (mut last, threshold) = (self.last, self.threshold);
        let mut until = last.saturating_add(ticks).min(self.end);
        let mut left_behind_gap = ticks;
        let mut begin = last;
        loop {
            let (now, cpu) = self.counter.read();
            if now.wrapping_sub(last) > threshold {
                left_behind_gap = left_behind_gap.saturating_sub(last - begin);
                self.computed_ticks += last - begin;
                self.last = last;
                self.gap(now, cpu, What::Gap, 0);
                last = self.last;
                begin = last;
                until = last.saturating_add(left_behind_gap).min(self.end);
                if self.stop.load(Ordering::Relaxed) {
                    self.stopped = true;
                    break;
                }
            } else {
                last = now;
            }
            if last >= until {
                break;
            }
        }
        self.computed_ticks += last - begin;
        self.last = last;
    }

    /// Polls until a value of the counter, or until the run is over.
    pub(crate) fn poll_until(&mut self, at: u64) {
        let at = at.min(self.end);
        while self.last < at && !self.stopped {
            // a gap in between is no less waiting
            self.compute(at - self.last);
        }
    }

    /// Sleeps until a time of the monotonic clock.
    pub(crate) fn sleep_until(&mut self, alarm: &mut dyn crate::os::Alarm, at_ns: u64) {
        let (from, _) = self.counter.read();
        if from.wrapping_sub(self.last) > self.threshold {
            self.gap(from, NO_CPU, What::Gap, 0);
        } else {
            self.last = from;
        }
        let wake = self.scale.ticks_at(at_ns);
        let last_chance = self.end.saturating_add(self.scale.ticks_of(50_000_000));
        loop {
            alarm.wait_until(at_ns);
            let (now, cpu) = self.counter.read();
            // a microsecond: the alarm's clock and the counter agree to less
            let is_due = now.saturating_add(self.scale.ticks_of(1000)) >= wake;
            if is_due || now >= last_chance || self.stop.load(Ordering::Relaxed) {
                self.gap(now, cpu, What::Sleep, at_ns);
                break;
            }
        }
    }

    /// A job, due at a time of the monotonic clock, is done now or given up.
    pub(crate) fn job(&mut self, what: What, due_ns: u64) {
        let now = self.last;
        let (cpu_from, cpu_to) = (self.cpu, self.cpu);
        self.buffer.push(Entry {
            from: now,
            to: now,
            resumed: now,
            due_ns,
            cpu_from,
            cpu_to,
            what,
            ..Entry::default()
        });
    }

    /// Reads the thread's counters; `long`: the slow ones too.
    fn take(&mut self, long: bool) -> Taken {
        let (begun, _) = self.counter.read();
        let reading = self.probes.read(long);
        let (resumed, _) = self.counter.read();
        let took = resumed.wrapping_sub(begun);
        let quickest = &mut self.quickest[usize::from(long)];
        *quickest = took.min(*quickest);
        // without sequences only a reading that took long can have been torn
        let torn = self.probes.was_preempted().unwrap_or(took > 4 * *quickest + self.threshold);
        Taken { reading, begun, resumed, torn }
    }

    /// Keeps a gap that ended at `to`, reads the counters, and goes on.
    #[cold]
    fn gap(&mut self, to: u64, cpu: u32, what: What, due_ns: u64) {
        let cpu_to = if cpu == NO_CPU { self.system.cpu() } else { cpu } as u16;
        let mut entry =
            Entry { from: self.last, to, due_ns, cpu_from: self.cpu, cpu_to, what, ..Entry::default() };
        for attempt in 0..READINGS_MAX {
            let is_long = entry.to - entry.from > self.scale.ticks_of(LONG_GAP_NS) && entry.what == What::Gap;
            let taken = self.take(is_long);
            (entry.reading, entry.resumed) = (taken.reading, taken.resumed);
            if entry.what == What::Gap && (attempt > 0 || taken.begun - entry.to > self.threshold) {
                entry.to = taken.begun;
            }
            if !taken.torn || attempt + 1 == READINGS_MAX {
                break;
            }
            let cpu = self.system.cpu() as u16;
            if tear(&mut entry, &self.reading) {
                // counters that belong to both cannot be parted: one gap
                (entry.to, entry.cpu_to) = (taken.resumed, cpu);
            } else {
                entry.resumed = entry.to;
                self.buffer.push(entry);
                self.reading = entry.reading;
                let (from, cpu_from) = (entry.to, entry.cpu_to);
                entry = Entry { from, to: taken.resumed, cpu_from, cpu_to: cpu, ..Entry::default() };
            }
        }
        self.buffer.push(entry);
        (self.last, self.cpu, self.reading) = (entry.resumed, entry.cpu_to, entry.reading);
    }

    /// The buffer, with a last entry that says when polling ended.
    pub(crate) fn finish(mut self) -> Finished {
        let (now, cpu) = self.counter.read();
        let (end, cpu_to) = (self.last, if cpu == NO_CPU { self.cpu } else { cpu as u16 });
        let reading = self.probes.read(true);
        let last = Entry {
            from: end,
            to: now,
            resumed: now,
            cpu_from: self.cpu,
            cpu_to,
            what: What::Sleep,
            reading,
            due_ns: 0,
        };
        Finished {
            entries: self.buffer.entries,
            lost: self.buffer.lost,
            last,
            computed_ticks: self.computed_ticks,
        }
    }
}

/// Takes out of a gap's torn reading what happened behind the gap; `before` is the reading before it. Whether
/// that cannot be known, because the counters grew and the scheduler was there in both.
fn tear(entry: &mut Entry, before: &Reading) -> bool {
    let reading = &mut entry.reading;
    let grew = reading.involuntary != before.involuntary
        || (entry.what == What::Gap && reading.voluntary != before.voluntary);
    if entry.what == What::Gap && grew && reading.preempted {
        return true;
    }
    // a sleep ends with a switch of its own will; what came against it came behind
    reading.involuntary = before.involuntary;
    if entry.what == What::Gap {
        (reading.voluntary, reading.cpu_ns) = (before.voluntary, before.cpu_ns);
    }
    (reading.run_delay_ns, reading.throttled_us, reading.steal_ms) =
        (before.run_delay_ns, before.throttled_us, before.steal_ms);
    false
}

/// What a thread leaves behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) entries: Vec<Entry>,
    pub(crate) lost: u64,
    /// Where polling ended, with the counters at that time.
    pub(crate) last: Entry,
    pub(crate) computed_ticks: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_goes_both_ways() {
        let scale = Scale { ticks: 10_000_000, ns: 500_000, ticks_per_ns: 2.6 };
        for ns in [0, 499_999, 500_000, 20_000_000_000] {
            assert!(scale.ns_at(scale.ticks_at(ns)).abs_diff(ns) <= 1, "{ns}");
        }
        assert_eq!(scale.ticks_of(1000), 2600);
    }

    /// A switch while counters are read is charged to no gap that has none.
    #[test]
    fn a_torn_reading_is_parted() {
        let at = |involuntary, voluntary, preempted| Reading {
            involuntary,
            voluntary,
            preempted,
            run_delay_ns: 1000 * u64::from(involuntary),
            ..Reading::default()
        };
        let gap = |what, reading| Entry { what, reading, ..Entry::default() };
        let before = at(7, 3, false);
        // an interrupt, then a switch while its counters were read
        let mut interrupt = gap(What::Gap, at(8, 3, false));
        assert!(!tear(&mut interrupt, &before));
        assert_eq!((interrupt.reading.involuntary, interrupt.reading.run_delay_ns), (7, 7000));
        // a sleep is a switch of its own will; the other one came behind it
        let mut sleep = gap(What::Sleep, at(8, 4, true));
        assert!(!tear(&mut sleep, &before));
        assert_eq!((sleep.reading.involuntary, sleep.reading.voluntary), (7, 4));
        // a switch in the gap, and perhaps another one behind it
        assert!(tear(&mut gap(What::Gap, at(8, 3, true)), &before));
    }

    #[test]
    fn a_full_buffer_counts_what_it_loses() {
        let system = crate::linux::Linux::detect();
        let (mut buffer, _) = Buffer::new(4, &system);
        let room = buffer.entries.capacity() as u64;
        (0..room + 3).for_each(|_| buffer.push(Entry::default()));
        assert_eq!((buffer.entries.len() as u64, buffer.lost), (room, 3));
    }
}
