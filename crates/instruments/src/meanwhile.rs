//! Who had the CPU while a task waited for it?
//!
//! ```text
//! // 0123456789  ms
//! // cpu0 AAABBBAAC    C waits on cpu0 from 1 to 8
//! //                   A had it 4 ms, B 3 ms
//! ```

use crate::{LogProblem, LongWait};
use schedlab_log::{Hidden, Kind, Log, note};
use schedlab_units::TaskId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// For each of these waits, who ran on the CPU on whose queue it began, from its start to its end, and for how long in
/// ns; most first, then by task. Idle time ([`TaskId::IDLE`]) counts; what nobody saw does not. One pass over the log.
///
/// # Errors
/// The log cannot be read.
pub fn meanwhile(log: &dyn Log, waits: &[LongWait]) -> Result<Vec<Vec<(TaskId, u64)>>, LogProblem> {
    // by CPU: its waits, and the time from the first one's begin to the last one's end
    let mut of_cpu: Vec<Vec<usize>> = Vec::new();
    let mut reach: Vec<(u64, u64)> = Vec::new();
    for (index, wait) in waits.iter().enumerate() {
        let cpu = wait.cpu.0 as usize;
        if of_cpu.len() <= cpu {
            of_cpu.resize(cpu + 1, Vec::new());
            reach.resize(cpu + 1, (u64::MAX, 0));
        }
        of_cpu[cpu].push(index);
        reach[cpu] = (reach[cpu].0.min(wait.start_ns), reach[cpu].1.max(wait.end_ns));
    }
    let mut had: Vec<BTreeMap<TaskId, u64>> = vec![BTreeMap::new(); waits.len()];
    // who is there, since when; an observer that does not see everything tells from when on it does not
    let is_complete = log.header().hidden == Hidden::default();
    let mut now = vec![(is_complete.then_some(TaskId::IDLE), 0); of_cpu.len()];
    let mut ends = |cpu: usize, (task, since_ns): (Option<TaskId>, u64), until_ns: u64| {
        let Some(task) = task.filter(|_| since_ns < reach[cpu].1 && until_ns > reach[cpu].0) else { return };
        for index in &of_cpu[cpu] {
            let wait = &waits[*index];
            let part = until_ns.min(wait.end_ns).saturating_sub(since_ns.max(wait.start_ns));
            if part > 0 {
                *had[*index].entry(task).or_default() += part;
            }
        }
    };
    schedlab_log::for_each(log, |_, record| -> Result<(), LogProblem> {
        let next = if record.kind == Kind::Switch as u8 {
            Some(TaskId(record.other))
        } else if record.kind == Kind::Note as u8 && record.arg == note::UNKNOWN_CPU {
            None
        } else {
            return Ok(());
        };
        let cpu = usize::from(record.cpu);
        if let Some(here) = now.get_mut(cpu) {
            ends(cpu, *here, record.time_ns);
            *here = (next, record.time_ns);
        }
        Ok(())
    })?;
    for (cpu, here) in now.into_iter().enumerate() {
        ends(cpu, here, log.header().duration.as_ns());
    }
    let sorted = had.into_iter().map(|tasks| {
        let mut tasks: Vec<(TaskId, u64)> = tasks.into_iter().collect();
        tasks.sort_by_key(|(task, ns)| (Reverse(*ns), *task));
        tasks
    });
    Ok(sorted.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WaitCause;
    use schedlab_log::{LogHeader, MemLog, Record};
    use schedlab_units::{CpuId, Span};

    fn switch(time_ns: u64, cpu: u16, task: TaskId, other: u32) -> Record {
        Record { time_ns, kind: Kind::Switch as u8, cpu, task: task.0, other, ..Record::default() }
    }

    // 0123456789
    // cpu0 AAABBB.AC    C waits there from 1 to 8
    // cpu1 BB........   who is elsewhere does not count
    #[test]
    fn who_had_the_cpu_is_reported_with_times() {
        let idle = TaskId::IDLE;
        let records = vec![
            switch(0, 0, idle, 0),
            switch(0, 1, idle, 1),
            switch(2, 1, TaskId(1), idle.0),
            switch(3, 0, TaskId(0), 1),
            switch(6, 0, TaskId(1), idle.0),
            switch(7, 0, idle, 0),
            switch(8, 0, TaskId(0), 2),
        ];
        let header = LogHeader { nr_cpus: 2, duration: Span::from_ns(9), ..LogHeader::default() };
        let log = MemLog { header, records };
        let wait = |cpu: u32, start_ns: u64, end_ns: u64| LongWait {
            task: TaskId(2),
            cpu: CpuId(cpu),
            end_cpu: CpuId(cpu),
            moves: 0,
            cause: WaitCause::Wakeup,
            start_ns,
            end_ns,
        };
        let found = meanwhile(&log, &[wait(0, 1, 8), wait(1, 1, 9), wait(0, 8, 9)]).unwrap();
        assert_eq!(found[0], [(TaskId(0), 3), (TaskId(1), 3), (idle, 1)]);
        assert_eq!(found[1], [(idle, 7), (TaskId(1), 1)]);
        assert_eq!(found[2], [(TaskId(2), 1)]);
    }
}
