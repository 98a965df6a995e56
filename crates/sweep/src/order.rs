//! What does a machine need that makes a run for another one? The run's order, and what that names by content.
//!
//! ```text
//!   here                                            there (the wheel alone; no workload, no compiler)
//!   Bench::order(trial) ── Order, some 500 bytes ──> Depot::missing(order)   hashes of what it lacks
//!   Bench::bytes(trial, hash) ── once a machine ──>  Depot::put(hash, bytes)  checked, kept
//!                        <── Outcome ──              Bench::fulfil(order, depot)
//! ```
//!
//! A workload travels in its binary form, whose SHA-256 is the row's `workload_sha256`. What a generator makes is made
//! there. A kernel object travels as it is. The run's key is computed again there: if anything of it differs, the key
//! does, and the run is refused.

use crate::bench::{Bench, Prepared, Ready, content, lock};
use crate::error::SweepError;
use crate::key::{Key, hex};
use crate::trial::Trial;
use schedlab_lab::{Loaded, SubjectSpec};
use schedlab_linux::elf::Elf;
use schedlab_machine::Costs;
use schedlab_runner::LinuxObject;
use schedlab_topology::Topology;
use schedlab_units::Span;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A run that another machine is to make.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The engine that the key is of.
    engine: String,
    key: String,
    trial: Trial,
    /// SHA-256 of the workload's binary form; `None`: it is generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    workload: Option<String>,
    /// When a run of the workload ends, if the trial does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration: Option<Span>,
    /// Of a machine that was read from a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topology: Option<Topology>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    costs: Option<Costs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kernel: Option<KernelOrder>,
}

/// A kernel object, and where it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelOrder {
    /// As in the column `kernel_key`.
    key: String,
    /// Of the object's bytes.
    sha256: String,
    name: String,
    version: String,
    hz: u32,
    nr_cpus: u32,
    /// The oldest glibc that it runs on.
    glibc: (u32, u32),
}

/// A kernel object's hash and glibc: read once.
pub(crate) type ObjectFacts = (String, (u32, u32));

impl Order {
    /// Which run.
    ///
    /// # Errors
    /// It is no key: the order was made elsewhere.
    pub fn key(&self) -> Result<Key, SweepError> {
        self.key.parse().map_err(|error| SweepError::setting("order", &self.key, error))
    }

    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a struct of texts and numbers has a JSON form")
    }

    /// From what [`Order::to_json`] gives.
    ///
    /// # Errors
    /// It is no JSON, or of another release.
    pub fn from_json(text: &str) -> Result<Order, SweepError> {
        serde_json::from_str(text).map_err(|error| {
            SweepError::Host(format!(
                "this is no order of a run ({error}); install one release of schedlab on all machines"
            ))
        })
    }

    /// What it names by content.
    fn names(&self) -> impl Iterator<Item = &String> {
        self.workload.iter().chain(self.kernel.iter().map(|kernel| &kernel.sha256))
    }

    /// Whether this machine can make the run at all.
    ///
    /// # Errors
    /// Another release made the order, or the kernel object needs a younger glibc than this machine has.
    pub fn check(&self) -> Result<(), SweepError> {
        self.check_on(schedlab_runner::ENGINE, glibc())
    }

    fn check_on(&self, engine: &str, glibc: (u32, u32)) -> Result<(), SweepError> {
        if self.engine != engine {
            return Err(SweepError::Host(format!(
                "this machine has the engine {engine}, and the sweep is made with {}: their results may differ; \
                 install the same release of schedlab on both",
                self.engine
            )));
        }
        match &self.kernel {
            Some(kernel) if kernel.glibc > glibc => Err(SweepError::Host(format!(
                "the kernel object of {} was built for glibc {}.{} or later, and this machine has {}.{}; build it on a \
                 machine with the oldest glibc of all ('schedlab linux add'), and begin the sweep there",
                kernel.name, kernel.glibc.0, kernel.glibc.1, glibc.0, glibc.1
            ))),
            _ => Ok(()),
        }
    }
}

/// The C library of this process.
fn glibc() -> (u32, u32) {
    // SAFETY: gives a pointer to a constant text.
    let text = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    version(text.to_bytes())
}

fn version(text: &[u8]) -> (u32, u32) {
    let text = String::from_utf8_lossy(text);
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// The oldest glibc on which the dynamic loader takes an object, by the versions that it asks for; `None`: this is no
/// object.
fn needed_glibc(object: &[u8]) -> Option<(u32, u32)> {
    let names = Elf::parse(object)?.needed_versions()?;
    let versions =
        names.iter().filter_map(|name| name.strip_prefix("GLIBC_")).map(|text| version(text.as_bytes()));
    Some(versions.max().unwrap_or((0, 0)))
}

/// What came from other machines, by hash: a folder that all processes of a machine share.
pub struct Depot {
    folder: PathBuf,
    /// Read and checked by this process.
    checked: Mutex<BTreeSet<String>>,
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

impl Depot {
    /// In this folder, which is made if it is missing.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: &Path) -> Result<Depot, SweepError> {
        std::fs::create_dir_all(folder).map_err(SweepError::io("create", folder))?;
        Ok(Depot { folder: folder.to_owned(), checked: Mutex::default() })
    }

    fn path(&self, hash: &str) -> Result<PathBuf, SweepError> {
        if is_hash(hash) {
            return Ok(self.folder.join(hash));
        }
        Err(SweepError::setting("hash", hash, "expected 64 hexadecimal digits"))
    }

    /// Hashes of what has to be brought before the run can be made. A file that is damaged is one that is missing.
    ///
    /// # Errors
    /// The order names something that is no hash.
    pub fn missing(&self, order: &Order) -> Result<Vec<String>, SweepError> {
        let mut missing = Vec::new();
        for hash in order.names() {
            if !self.has(hash)? {
                missing.push(hash.clone());
            }
        }
        Ok(missing)
    }

    fn has(&self, hash: &str) -> Result<bool, SweepError> {
        let path = self.path(hash)?;
        if lock(&self.checked).contains(hash) && path.exists() {
            return Ok(true);
        }
        match std::fs::read(&path) {
            Ok(bytes) if hex(&Sha256::digest(&bytes)) == hash => {
                lock(&self.checked).insert(hash.to_owned());
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Keeps what was brought.
    ///
    /// # Errors
    /// It is not what the hash names, or there is no space.
    pub fn put(&self, hash: &str, bytes: &[u8]) -> Result<(), SweepError> {
        let path = self.path(hash)?;
        let found = hex(&Sha256::digest(bytes));
        if found != hash {
            return Err(SweepError::Host(format!(
                "what was brought as {hash} has the SHA-256 {found}: it was damaged on its way, and is not kept"
            )));
        }
        schedlab_stdx::aside::write(&path, bytes).map_err(SweepError::io("write", &path))?;
        lock(&self.checked).insert(hash.to_owned());
        Ok(())
    }

    fn read(&self, hash: &str) -> Result<Vec<u8>, SweepError> {
        let path = self.path(hash)?;
        std::fs::read(&path).map_err(SweepError::io("read", &path))
    }
}

impl Bench {
    /// The order of a run, for another machine.
    ///
    /// # Errors
    /// The trial makes no run, or not one that another machine can make: a sched_ext scheduler is compiled where it
    /// runs.
    pub fn order(&self, trial: &Trial) -> Result<Order, SweepError> {
        let prepared = self.prepare(trial, &schedlab_lab::Silent)?;
        let kernel = match prepared.subject.linux() {
            Some(linux) if linux.scx.is_some() => {
                let what = "a sched_ext scheduler is compiled where it runs, and does not travel; cut the sweep into \
                            shards instead (--shard I/N)";
                return Err(SweepError::setting("sched", &trial.sched, what));
            }
            Some(linux) => {
                let (sha256, glibc) = self.object_facts(&linux.object)?;
                let key = prepared.kernel_key.clone().unwrap_or_default();
                let (name, version) = (linux.name.clone(), linux.version.clone());
                Some(KernelOrder { key, sha256, name, version, hz: linux.hz, nr_cpus: linux.nr_cpus, glibc })
            }
            None => None,
        };
        let of_folder = trial.machine.contains('/').then(|| prepared.topology.clone());
        Ok(Order {
            engine: schedlab_runner::ENGINE.to_owned(),
            key: prepared.key.to_string(),
            trial: trial.clone(),
            workload: trial.generate.is_none().then(|| hex(&prepared.ready.sha256)),
            duration: prepared.ready.loaded.duration,
            topology: of_folder,
            costs: prepared.costs,
            kernel,
        })
    }

    fn object_facts(&self, path: &Path) -> Result<ObjectFacts, SweepError> {
        let mut known = lock(&self.objects);
        if let Some(facts) = known.get(path) {
            return Ok(facts.clone());
        }
        let bytes = std::fs::read(path).map_err(SweepError::io("read", path))?;
        let glibc = needed_glibc(&bytes).ok_or_else(|| {
            let path = path.display();
            SweepError::Host(format!("{path}: this is no kernel object; remove it, and it is built again"))
        })?;
        let facts = (hex(&Sha256::digest(&bytes)), glibc);
        known.insert(path.to_owned(), facts.clone());
        Ok(facts)
    }

    /// What an order of this trial names by content: the workload's binary form, or the kernel object.
    ///
    /// # Errors
    /// The order names nothing of this hash, or it cannot be read.
    pub fn bytes(&self, trial: &Trial, hash: &str) -> Result<Vec<u8>, SweepError> {
        let prepared = self.prepare(trial, &schedlab_lab::Silent)?;
        if hex(&prepared.ready.sha256) == hash {
            let mut workload = prepared.ready.loaded.workload.clone();
            workload.notes.clear();
            let mut bytes = Vec::new();
            schedlab_workload::write_binary(&workload, &mut bytes)
                .map_err(|error| SweepError::Internal(format!("a workload has no binary form: {error}")))?;
            return Ok(bytes);
        }
        if let Some(linux) = prepared.subject.linux()
            && self.object_facts(&linux.object)?.0 == hash
        {
            return std::fs::read(&linux.object).map_err(SweepError::io("read", &linux.object));
        }
        Err(SweepError::setting("hash", hash, "no order of this sweep names it"))
    }

    /// Makes a run for another machine. `go_on` as in [`Bench::perform`].
    ///
    /// # Errors
    /// This machine cannot make it ([`Order::check`]), something is missing, or what is here has another key.
    pub fn fulfil(
        &self,
        order: &Order,
        depot: &Depot,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<crate::Outcome, SweepError> {
        order.check()?;
        let prepared = self.prepare_order(order, depot)?;
        if prepared.key.to_string() != order.key {
            return Err(SweepError::Host(format!(
                "the run that was ordered as {} has the key {} here: the two machines do not mean the same run",
                order.key, prepared.key
            )));
        }
        self.perform(&order.trial, &prepared, None, go_on)
    }

    fn prepare_order(&self, order: &Order, depot: &Depot) -> Result<Prepared, SweepError> {
        let trial = &order.trial;
        let topology = match &order.topology {
            Some(topology) => topology.clone(),
            None => self.machine(&trial.machine)?,
        };
        let ready = match &order.workload {
            Some(hash) => self.kept(hash, || delivered(hash, depot))?,
            None => self.workload(trial, &schedlab_lab::Silent)?,
        };
        let (subject, kernel_key) = match &order.kernel {
            Some(kernel) => {
                let wrong =
                    |error: schedlab_lab::SubjectError| SweepError::setting("sched", &trial.sched, error);
                let spec: SubjectSpec = trial.sched.parse().map_err(wrong)?;
                let object = LinuxObject {
                    name: kernel.name.clone(),
                    version: kernel.version.clone(),
                    hz: kernel.hz,
                    nr_cpus: kernel.nr_cpus,
                    object: depot.path(&kernel.sha256)?,
                    scx: None,
                };
                let mut subject = spec.with_object(object);
                subject.params.extend(trial.params.iter().map(|(name, value)| (name.clone(), value.clone())));
                (crate::bench::dressed(subject, trial)?, Some(kernel.key.clone()))
            }
            None => self.subject(trial, topology.nr_cpus(), &schedlab_lab::Silent)?,
        };
        self.assembled(trial, (ready, order.duration), (subject, kernel_key), topology, order.costs)
    }
}

/// A workload that was brought.
fn delivered(hash: &str, depot: &Depot) -> Result<Ready, SweepError> {
    let bytes = depot.read(hash)?;
    let workload = schedlab_workload::read_binary(bytes.as_slice())
        .map_err(|error| SweepError::setting("workload", hash, error))?;
    let (name, path) = (String::new(), PathBuf::new());
    let mut loaded =
        Loaded { workload, name, notes: Vec::new(), path, derived: None, duration: None, format: None };
    let sha256 = content(&mut loaded)?;
    if hex(&sha256) != hash {
        return Err(SweepError::Host(format!("the workload {hash} is {} by now", hex(&sha256))));
    }
    Ok(Ready { loaded, sha256 })
}

impl Bench {
    /// A workload by its hash, kept in memory as those by name are.
    fn kept(
        &self,
        hash: &str,
        load: impl FnOnce() -> Result<Ready, SweepError>,
    ) -> Result<Arc<Ready>, SweepError> {
        match self.known_workload(hash) {
            Some(ready) => Ok(ready),
            None => Ok(self.keep(hash.to_owned(), load()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWEEP: &str = r#"{"workload":"w.txt","sched":"rr","machine":"2","seed":7}"#;

    fn bench(folder: &Path) -> (Bench, Trial) {
        let text =
            "schedlab-workload 1\n- INIT 0 0 1 runnable\n- BLOCK 1 5ms\n- WAKEUP 1 3ms\n- EXIT 1 1ms\n";
        std::fs::write(folder.join("w.txt"), text).unwrap();
        (Bench::new(folder), Trial::from_json(SWEEP).unwrap())
    }

    #[test]
    fn another_machine_makes_the_same_rows_from_the_order_alone() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (bench, trial) = bench(here.path());
        let own = bench.run(&trial).unwrap();
        let order = Order::from_json(&bench.order(&trial).unwrap().to_json()).unwrap();
        let (other, depot) = (Bench::new(there.path()), Depot::open(there.path()).unwrap());
        let missing = depot.missing(&order).unwrap();
        assert_eq!(missing.len(), 1);
        assert!(other.fulfil(&order, &depot, &mut || true).is_err(), "the workload is missing");
        let mut bytes = bench.bytes(&trial, &missing[0]).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        let error = depot.put(&missing[0], &bytes).unwrap_err().to_string();
        assert!(error.contains("damaged on its way"), "{error}");
        *bytes.last_mut().unwrap() ^= 1;
        depot.put(&missing[0], &bytes).unwrap();
        assert_eq!(depot.missing(&order).unwrap(), [""; 0]);
        let theirs = other.fulfil(&order, &depot, &mut || true).unwrap();
        assert_eq!(theirs.to_bytes(), own.to_bytes());
        // a file that was cut afterwards is one that is missing
        std::fs::write(there.path().join(&missing[0]), &bytes[1..]).unwrap();
        let fresh = Depot::open(there.path()).unwrap();
        assert_eq!(fresh.missing(&order).unwrap(), missing);
    }

    #[test]
    fn another_engine_an_older_glibc_and_another_run_are_refused_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let (bench, trial) = bench(folder.path());
        let mut order = bench.order(&trial).unwrap();
        assert!(order.check().is_ok());
        let said = order.check_on("0123456789abcdef", (2, 36)).unwrap_err().to_string();
        assert!(said.contains("engine 0123456789abcdef") && said.contains("same release"), "{said}");
        let [key, sha256, name, version] = ["k", "s", "linux-6.12", "6.12.1"].map(str::to_owned);
        let kernel = KernelOrder { key, sha256, name, version, hz: 250, nr_cpus: 64, glibc: (2, 34) };
        order.kernel = Some(kernel);
        let said = order.check_on(schedlab_runner::ENGINE, (2, 31)).unwrap_err().to_string();
        assert!(said.contains("glibc 2.34 or later, and this machine has 2.31"), "{said}");
        assert!(order.check_on(schedlab_runner::ENGINE, (2, 34)).is_ok());
        order.kernel = None;
        order.trial.seed = Some(8);
        let depot = Depot::open(folder.path()).unwrap();
        let hash = order.workload.clone().unwrap();
        depot.put(&hash, &bench.bytes(&trial, &hash).unwrap()).unwrap();
        let said = bench.fulfil(&order, &depot, &mut || true).unwrap_err().to_string();
        assert!(said.contains("do not mean the same run"), "{said}");
        order.workload = Some("../../etc/passwd".to_owned());
        assert!(depot.missing(&order).is_err());
    }

    #[test]
    fn the_youngest_version_of_glibc_counts() {
        // a name that only lies in the object's data is no need: this test's own, GLIBC_2.77
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(own.windows(10).any(|bytes| bytes == b"GLIBC_2.77"));
        let needed = needed_glibc(&own).unwrap();
        assert!((2, 17) <= needed && needed <= glibc(), "{needed:?}");
        assert_eq!(needed_glibc(b"..GLIBC_2.2.5\0GLIBC_2.34"), None);
        assert_eq!(version(b"2.2.5").max(version(b"2.34")), (2, 34));
    }
}
