//! Which names did the work? A build has thousands of tasks but few names: tables and colours go by name.

use schedlab_instruments::{Summary, TaskStats};
use schedlab_log::LogHeader;
use std::collections::BTreeMap;

/// All tasks of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The name (comm); of kernel threads the part before `/`.
    pub name: String,
    /// Whether these are the simulated kernel's own threads.
    pub kernel: bool,
    /// Number of tasks.
    pub tasks: u64,
    /// Counts, times and waits of all of them.
    pub sum: TaskStats,
}

/// The groups of a run and each task's group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups {
    /// Most CPU time first, equal ones by name.
    pub list: Vec<Group>,
    /// Index into `list` for each workload task.
    pub of_task: Vec<u32>,
    /// Index into `list` for each kernel thread, in the header's order.
    pub of_kernel_thread: Vec<u32>,
}

impl Groups {
    /// Groups the tasks of a run by name.
    pub fn new(header: &LogHeader, summary: &Summary) -> Groups {
        let mut numbers: BTreeMap<(bool, &str), u32> = BTreeMap::new();
        let mut list: Vec<Group> = Vec::new();
        let mut place = |kernel: bool, name: &'_ str, key, stats: &TaskStats| {
            let number = *numbers.entry((kernel, key)).or_insert_with(|| {
                list.push(Group { name: name.to_string(), kernel, ..Group::default() });
                list.len() as u32 - 1
            });
            list[number as usize].tasks += 1;
            list[number as usize].sum.add(stats);
            number
        };
        let tasks = header.tasks.iter().zip(&summary.tasks);
        let mut of_task: Vec<u32> =
            tasks.map(|(task, stats)| place(false, &task.name, &task.name, stats)).collect();
        let threads = header.kernel_threads.iter().zip(&summary.kernel_threads);
        let base = |name: &'_ str| -> usize { name.find('/').unwrap_or(name.len()) };
        let mut of_kernel_thread: Vec<u32> = threads
            .map(|(thread, stats)| {
                let name = &thread.name[..base(&thread.name)];
                place(true, name, name, stats)
            })
            .collect();
        let mut order: Vec<u32> = (0..list.len() as u32).collect();
        order.sort_by_key(|n| {
            let group = &list[*n as usize];
            (std::cmp::Reverse(group.sum.cpu_ns), group.kernel, group.name.clone())
        });
        let mut rank = vec![0; list.len()];
        order.iter().enumerate().for_each(|(at, n)| rank[*n as usize] = at as u32);
        of_task.iter_mut().chain(&mut of_kernel_thread).for_each(|n| *n = rank[*n as usize]);
        let mut sorted: Vec<Option<Group>> = list.into_iter().map(Some).collect();
        let list = order.iter().filter_map(|n| sorted[*n as usize].take()).collect();
        Groups { list, of_task, of_kernel_thread }
    }
}
