//! How is a workload given away without telling whose it is? With other names.
//!
//! ```text
//! firefox  "Web Content"  kworker/0:1-events      ->     program-1  program-2  kworker/0:1
//! /user.slice/user-1000.slice/app                 ->     /group-1/group-2/group-3
//! ```
//!
//! Objects are called by their kind and number. Equal names become equal names, so that a family of tasks stays one.
//! Names asked for stay, and of kernel threads the part that every Linux has. Of the notes those stay that hold
//! numbers only. Times, pids and parameters are what they were.

use super::Edit;
use super::select::glob;
use crate::Event;
use crate::stream::{Head, Source};
use schedlab_trace::standard_kernel_thread;
use schedlab_units::TaskId;
use std::collections::BTreeMap;

/// Gives a workload's tasks and groups other names.
#[derive(Clone, Debug)]
pub struct Anonymise {
    head: Head,
    naming: Naming,
}

/// Which name became which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Naming {
    /// Of tasks; kept ones are not in it.
    pub tasks: BTreeMap<String, String>,
    /// Of parts of groups' paths.
    pub groups: BTreeMap<String, String>,
    /// Notes left out.
    pub notes: Vec<String>,
}

/// Notes that tell nothing of people and machines.
const NOTES: [&str; 3] = ["recorded CPUs", "cut", "generate"];

impl Anonymise {
    /// Other names for all tasks whose names fit none of the patterns in `keep` (see [`glob`]).
    pub fn new(source: &Source, keep: &[String]) -> Anonymise {
        let mut head = source.head().clone();
        let mut naming = Naming::default();
        for task in &mut head.workload.tasks {
            if keep.iter().any(|pattern| glob(pattern, &task.name)) {
                continue;
            }
            if let Some(standard) = standard_kernel_thread(&task.name).filter(|_| task.kernel_thread) {
                task.name = standard;
                continue;
            }
            let next = naming.tasks.len() + 1;
            let new = naming.tasks.entry(std::mem::take(&mut task.name));
            task.name = new.or_insert_with(|| format!("program-{next}")).clone();
        }
        for group in &mut head.workload.cgroups {
            let parts = group.path.split('/').map(|part| {
                if part.is_empty() {
                    return String::new();
                }
                let next = naming.groups.len() + 1;
                naming.groups.entry(part.to_string()).or_insert_with(|| format!("group-{next}")).clone()
            });
            group.path = parts.collect::<Vec<_>>().join("/");
        }
        for (row, object) in head.workload.objects.iter_mut().enumerate() {
            object.name = format!("{}-{}", object.kind.name(), row + 1);
        }
        head.workload.notes.retain(|key, _| {
            let stays = NOTES.contains(&key.as_str());
            if !stays {
                naming.notes.push(key.clone());
            }
            stays
        });
        Anonymise { head, naming }
    }

    /// Which name became which.
    pub fn naming(&self) -> &Naming {
        &self.naming
    }
}

impl Edit for Anonymise {
    fn head(&self) -> &Head {
        &self.head
    }

    fn run(&mut self, row: TaskId, _: &mut Vec<Event>) -> Option<TaskId> {
        Some(row)
    }
}
