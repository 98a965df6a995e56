//! How do many runs of one workload share what is done once? By the workload's hash.
//!
//! ```text
//! run(&request)   hash the workload             128 bits over every field: 57,000 events in 1 ms
//!                 known?  ── no ──> lower it, write the program into memory without a name, seal that
//!                         ── yes ─> nothing
//! worker          known?  ── no ──> map it, read it
//!                         ── yes ─> nothing: its child has it by the fork
//! ```
//!
//! A workload that is changed between two runs has another hash. Those used last are kept, as many as fit
//! into [`KEPT_BYTES`].

use crate::control::memory_file;
use crate::wire::Hash;
use crate::{RunError, is_real_time};
use rustix::fs::SealFlags;
use schedlab_machine::Program;
use schedlab_stdx::lock;
use schedlab_units::TaskId;
use schedlab_workload::{Cgroup, Workload};
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::hash::Hash as _;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// A workload as a worker has it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Stored {
    /// Lowered, and as yet for no machine.
    pub program: Program,
    /// By task: whether it starts in a real-time policy.
    pub real_time: Vec<bool>,
}

/// Memory for programs that may be asked for again, here; and in each worker.
pub(crate) const KEPT_BYTES: u64 = 256 << 20;

/// A workload that has been lowered.
pub(crate) struct Prepared {
    pub hash: Hash,
    /// [`Stored`], sealed.
    pub file: File,
    pub cgroups: Vec<Cgroup>,
    bytes: u64,
    /// The program without its steps.
    outline: Program,
    /// By number of CPUs.
    dropped: Mutex<BTreeMap<u32, BTreeMap<String, u64>>>,
}

/// Filled by the first who needs it; others wait meanwhile.
type Slot = Arc<Mutex<Option<Arc<Prepared>>>>;

/// Those used last are last.
static STORE: Mutex<VecDeque<(Hash, Slot)>> = Mutex::new(VecDeque::new());

/// 128 bits over every field.
pub(crate) fn hash(workload: &Workload) -> Hash {
    let mut hasher = SipHasher13::new();
    workload.hash(&mut hasher);
    let both = hasher.finish128();
    [both.h1, both.h2]
}

/// The workload's program, lowered now or earlier.
pub(crate) fn prepared(workload: &Workload) -> Result<Arc<Prepared>, RunError> {
    let hash = hash(workload);
    let slot = slot(hash);
    let mut slot = lock(&slot);
    if let Some(prepared) = &*slot {
        return Ok(prepared.clone());
    }
    let prepared = Arc::new(Prepared::new(hash, workload)?);
    *slot = Some(prepared.clone());
    drop(slot);
    forget_oldest();
    Ok(prepared)
}

fn slot(hash: Hash) -> Slot {
    let mut store = lock(&STORE);
    let place = store.iter().position(|(known, _)| *known == hash);
    let entry = place.and_then(|at| store.remove(at)).unwrap_or_else(|| (hash, Slot::default()));
    let slot = entry.1.clone();
    store.push_back(entry);
    slot
}

/// Keeps those used last. (One that is being made counts when it is.)
fn forget_oldest() {
    let mut store = lock(&STORE);
    let bytes = |(_, slot): &(Hash, Slot)| {
        slot.try_lock().ok().and_then(|slot| Some(slot.as_ref()?.bytes)).unwrap_or(0)
    };
    let mut total: u64 = store.iter().map(bytes).sum();
    while total > KEPT_BYTES && store.len() > 1 {
        total -= store.pop_front().as_ref().map_or(0, bytes);
    }
}

impl Prepared {
    fn new(hash: Hash, workload: &Workload) -> Result<Prepared, RunError> {
        let program = Program::new(workload)?;
        let cgroups = program.cgroups.clone();
        let real_time = (0..program.nr_tasks()).map(|id| is_real_time(workload, TaskId(id))).collect();
        let mut stored = Stored { program, real_time };
        let (file, bytes) = write(&stored).map_err(|source| RunError::Host {
            doing: "keep the workload in memory",
            source,
            remedy: "free memory",
        })?;
        stored.program.steps = Vec::new();
        Ok(Prepared { hash, file, cgroups, bytes, outline: stored.program, dropped: Mutex::default() })
    }

    /// What lowering the workload for a machine of so many CPUs leaves out: reason -> how often.
    pub(crate) fn dropped(&self, nr_cpus: u32) -> BTreeMap<String, u64> {
        let find = || {
            let mut outline = self.outline.clone();
            outline.restrict_to(nr_cpus);
            outline.dropped
        };
        lock(&self.dropped).entry(nr_cpus).or_insert_with(find).clone()
    }
}

/// Into a file in memory that nobody can change from then on; and its length.
fn write(stored: &Stored) -> io::Result<(File, u64)> {
    let bytes = postcard::to_stdvec(stored).map_err(io::Error::other)?;
    let mut file = memory_file("schedlab-workload")?;
    file.write_all(&bytes)?;
    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok((file, bytes.len() as u64))
}

/// In a worker: what a caller has stored.
pub(crate) fn read(file: &File) -> io::Result<(Stored, u64)> {
    // SAFETY: the file is sealed: nobody can change or shorten it while it is mapped.
    let bytes = unsafe { memmap2::Mmap::map(file) }?;
    let stored = postcard::from_bytes(&bytes).map_err(io::Error::other)?;
    Ok((stored, bytes.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_machine::drawn::Life::{Run, Sleep};
    use schedlab_machine::drawn::workload;
    use schedlab_units::{CpuId, CpuSet};

    #[test]
    fn equal_workloads_are_one_and_a_change_is_seen() {
        let mut one = workload(&[&[Run(1), Sleep(1), Run(7)], &[Run(1)]]);
        let first = prepared(&one).unwrap();
        assert!(Arc::ptr_eq(&first, &prepared(&one.clone()).unwrap()));
        let before = hash(&one);
        one.tasks[1].affinity = Some(CpuSet::single(CpuId(3)));
        let narrowed = hash(&one);
        one.tasks[1].name.push('x');
        assert!(before != narrowed && narrowed != hash(&one));
        let second = prepared(&one).unwrap();
        assert!(second.dropped(4).is_empty());
        let reason = "affinity that names no CPU of this machine, left out";
        assert_eq!(second.dropped(3), BTreeMap::from([(reason.to_owned(), 1)]));
    }

    #[test]
    fn a_worker_reads_what_was_stored() {
        let one = workload(&[&[Run(1), Sleep(1), Run(7)], &[Run(1)]]);
        let (stored, bytes) = read(&prepared(&one).unwrap().file).unwrap();
        let program = Program::new(&one).unwrap();
        assert_eq!(format!("{program:?}"), format!("{:?}", stored.program));
        assert_eq!(stored.real_time, [false, false]);
        assert!(bytes > 0);
    }

    #[test]
    fn nobody_can_change_what_is_stored() {
        let one = workload(&[&[Run(2)]]);
        let mut file = prepared(&one).unwrap().file.try_clone().unwrap();
        assert_eq!(file.write_all(b"x").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(file.set_len(0).is_err());
    }
}
