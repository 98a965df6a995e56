//! Which scheduler, ready to be run? A [`SubjectSpec`] looked up: a native policy, or real Linux, which is built if it
//! is not there yet.
//!
//! ```
//! use schedlab_lab::Subject;
//! let subject = Subject::native("vtrr:insert=array:reset=pass").unwrap();
//! assert_eq!((subject.scheduler.name(), subject.params.len()), ("vtrr", 2));
//! assert!(Subject::native("vtrr:insert=heap").is_err());
//! ```

use crate::failure::{Fails, FailureKind};
use crate::kernels;
use crate::progress::Progress;
use crate::scx;
use crate::spec::{SpecForm, SubjectSpec};
use schedlab_linux::{BuildError, BuiltKernel};
use schedlab_machine::kernel::SKEW_TICK;
use schedlab_machine::policy::Policy;
use schedlab_policies::{PolicyError, PolicyInfo};
use schedlab_runner::{LinuxObject, RunRequest, Scheduler};
use schedlab_scx::ScxError;
use schedlab_topology::Topology;
use schedlab_workload::Workload;

/// A scheduler with its parameters, ready to be run in the machine.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What to call it: as it was typed, with its parameters.
    pub label: String,
    /// The scheduler.
    pub scheduler: Scheduler,
    /// Its parameters, in the order given.
    pub params: Vec<(String, String)>,
}

/// A scheduler that cannot be had.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say it; the fields are the values in them
pub enum SubjectError {
    #[error(
        "'{text}' names no scheduler; expected NAME[:KEY=VALUE]..., for example linux-6.12:base_slice_ns=700000"
    )]
    NoName { text: String },
    #[error(
        "'{part}' in '{text}' is not KEY=VALUE; expected NAME[:KEY=VALUE]..., for example \
         linux-6.12:base_slice_ns=700000 (a colon within a path or value is written '\\:')"
    )]
    NotAParam { text: String, part: String },
    #[error("there is no scheduler '{name}'; {hint}'schedlab schedulers' lists them")]
    Unknown { name: String, hint: String },
    #[error("hz={value} in '{text}': expected ticks per second, 100, 250, 300 or 1000")]
    Hz { text: String, value: String },
    #[error(
        "'{text}' is no native scheduler, and this takes only those: it runs the policy itself, without a kernel; \
         'schedlab schedulers' lists them"
    )]
    NotNative { text: String },
    #[error("{by} does not take '{text}': {why}")]
    NotTaken { by: &'static str, text: String, why: String },
    #[error("{path}: there is no such file ({option})")]
    NoFile { path: String, option: String },
    #[error("{path}: {error}")]
    Compile { path: String, error: ScxError },
    #[error("{0}")]
    NoScx(String),
    #[error(transparent)]
    Scx(#[from] ScxError),
    #[error(transparent)]
    Params(#[from] PolicyError),
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Fails for SubjectError {
    fn kind(&self) -> FailureKind {
        FailureKind::Input
    }
}

/// Real Linux outside the simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Real<'a> {
    /// In a virtual machine: a series, or the path of a kernel image.
    Guest(&'a str),
    /// This machine's own kernel.
    Host,
}

/// What a subject is built for, if it is real Linux.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// Ticks per second, unless the text says `hz=`.
    pub hz: u32,
    /// CPUs of the machine: a kernel is built for few or for many.
    pub nr_cpus: u32,
    /// Who hears how far the build is.
    pub progress: &'a dyn Progress,
}

/// The parameter that says for how many ticks per second real Linux is built.
const HZ: &str = "hz";

impl SubjectSpec {
    /// The scheduler; real Linux is built if it is not there yet, a tree is brought up to date.
    ///
    /// # Errors
    /// There is no such scheduler, or it cannot be built, or it is not one for the simulated machine.
    pub fn resolve(&self, setting: Setting<'_>) -> Result<Subject, SubjectError> {
        self.check_machine()?;
        let params = if self.is_linux() { self.kernel_params() } else { self.params().to_vec() };
        let built = |kernel: &BuiltKernel| Scheduler::Linux(LinuxObject::of(kernel));
        let scheduler = match self.form() {
            SpecForm::Named { name, flavours } => {
                match kernels::series_of(name).filter(|_| self.is_linux()) {
                    Some(series) => built(&kernels::packaged(series, flavours, self.with_hz(setting)?)?),
                    None => {
                        let info = schedlab_policies::find(name).ok_or_else(|| unknown(self.name()))?;
                        return Subject::of(info, &params, self.text());
                    }
                }
            }
            SpecForm::Tree { path, flavours } => {
                built(&kernels::tree(path, flavours, self.with_hz(setting)?)?)
            }
            SpecForm::Scx(asked) => {
                Scheduler::Linux(scx::object(asked, self.name(), &params, self.with_hz(setting)?)?)
            }
            SpecForm::Guest { .. } | SpecForm::Host => unreachable!("refused above"),
        };
        Ok(Subject { label: self.text().to_string(), scheduler, params })
    }

    /// The scheduler as real Linux in a kernel object that another process has found or built for this very text.
    pub fn with_object(&self, object: LinuxObject) -> Subject {
        let scheduler = Scheduler::Linux(object);
        Subject { label: self.text().to_string(), scheduler, params: self.kernel_params() }
    }

    /// Whether [`resolve`](SubjectSpec::resolve) has nothing to compile or fetch. (It asks compilers about trees and
    /// sched_ext schedulers each time.)
    ///
    /// # Errors
    /// The kernels that are there cannot be looked at.
    pub fn is_ready(&self, setting: Setting<'_>) -> Result<bool, SubjectError> {
        let SpecForm::Named { name, flavours } = self.form() else { return Ok(!self.is_linux()) };
        match kernels::series_of(name).filter(|_| self.is_linux()) {
            Some(series) => Ok(kernels::is_built(series, flavours, self.with_hz(setting)?)?),
            None => Ok(true),
        }
    }

    /// Refuses what does not run in the simulated machine, and says which commands take it.
    ///
    /// # Errors
    /// `guest:...` and `host`.
    pub fn check_machine(&self) -> Result<(), SubjectError> {
        let why = match self.form() {
            SpecForm::Guest { .. } => {
                "it is real Linux in a virtual machine, and this needs the simulated one; \
                 'schedlab guest run', 'schedlab guest calibrate' and 'schedlab validate --against' take it"
            }
            SpecForm::Host => {
                "it is this machine's own kernel, and this needs a simulated one; \
                 'schedlab validate --against host' takes it"
            }
            _ => return Ok(()),
        };
        let (by, text, why) = ("the simulated machine", self.text().to_string(), why.to_string());
        Err(SubjectError::NotTaken { by, text, why })
    }

    /// Whether it is real Linux in the simulated machine: packaged, a tree, or below a sched_ext scheduler.
    pub fn is_linux(&self) -> bool {
        match self.form() {
            SpecForm::Named { name, .. } => kernels::is_known(name),
            SpecForm::Tree { .. } | SpecForm::Scx(_) => true,
            SpecForm::Guest { .. } | SpecForm::Host => false,
        }
    }

    /// Ticks per second are built into real Linux, not set when it runs.
    fn with_hz<'a>(&self, setting: Setting<'a>) -> Result<Setting<'a>, SubjectError> {
        let Some((_, value)) = self.params().iter().rfind(|(name, _)| name == HZ) else { return Ok(setting) };
        let bad = |_| SubjectError::Hz { text: self.text().to_string(), value: value.clone() };
        Ok(Setting { hz: value.parse().map_err(bad)?, ..setting })
    }

    /// The real Linux that is meant: `guest:...` or `host`.
    ///
    /// # Errors
    /// It is something else; or it has parameters, which real machines get in other ways.
    pub fn real(&self, by: &'static str) -> Result<Real<'_>, SubjectError> {
        let why = match (self.form(), self.params()) {
            (SpecForm::Guest { kernel }, []) => return Ok(Real::Guest(kernel)),
            (SpecForm::Host, []) => return Ok(Real::Host),
            (SpecForm::Guest { .. } | SpecForm::Host, _) => {
                "parameters are for the simulated machine; \
                 'schedlab guest run' has --set PATH=VALUE and --kernel-arg WORD"
            }
            _ => {
                "expected real Linux: guest:6.12 or guest:FILE in a virtual machine, or host, this machine's own kernel"
            }
        };
        Err(SubjectError::NotTaken { by, text: self.text().to_string(), why: why.to_string() })
    }

    /// The kernel of `guest:...`: a series or the path of an image.
    ///
    /// # Errors
    /// As [`real`](SubjectSpec::real), and `host`.
    pub fn guest_kernel(&self, by: &'static str) -> Result<&str, SubjectError> {
        match self.real(by)? {
            Real::Guest(kernel) => Ok(kernel),
            Real::Host => {
                let why = "it boots a kernel of its own; \
                           'schedlab validate --against host' runs workloads on this machine's";
                Err(SubjectError::NotTaken { by, text: self.text().to_string(), why: why.to_string() })
            }
        }
    }

    /// Parameters for a kernel that is built: all but `hz`, which is built into it.
    pub fn kernel_params(&self) -> Vec<(String, String)> {
        self.params().iter().filter(|(name, _)| name != HZ).cloned().collect()
    }
}

/// Nothing is called so.
fn unknown(name: &str) -> SubjectError {
    let mut hint = String::new();
    if name.starts_with("linux-") {
        let known: Vec<String> = kernels::versions().into_iter().map(|version| version.name).collect();
        hint = format!(
            "of real Linux there are {}, and any tree of your own ('schedlab linux add --source DIR --name NAME'); ",
            known.join(", ")
        );
    }
    SubjectError::Unknown { name: name.to_string(), hint }
}

impl Subject {
    /// A native scheduler, from `NAME` or `NAME:KEY=VALUE...`.
    ///
    /// # Errors
    /// There is none of this name, or it does not take these parameters.
    pub fn native(text: &str) -> Result<Subject, SubjectError> {
        let spec: SubjectSpec = text.parse()?;
        let not_native = || SubjectError::NotNative { text: text.to_string() };
        match spec.form() {
            SpecForm::Named { name, .. } => match schedlab_policies::find(name) {
                Some(info) => Subject::of(info, spec.params(), text),
                None if kernels::is_known(name) => Err(not_native()),
                None => Err(unknown(name)),
            },
            _ => Err(not_native()),
        }
    }

    fn of(
        info: &'static PolicyInfo,
        params: &[(String, String)],
        label: &str,
    ) -> Result<Subject, SubjectError> {
        let scheduler = Scheduler::Native(info);
        let subject = Subject { label: label.to_string(), scheduler, params: params.to_vec() };
        info.build(&subject.policy_params())?;
        Ok(subject)
    }

    /// Parameters but those of the kernel that is played around a native policy.
    fn policy_params(&self) -> Vec<(String, String)> {
        self.params.iter().filter(|(name, _)| name != SKEW_TICK).cloned().collect()
    }

    /// The native scheduler, if it is one.
    pub fn info(&self) -> Option<&'static PolicyInfo> {
        match self.scheduler {
            Scheduler::Native(info) => Some(info),
            Scheduler::Linux(_) => None,
        }
    }

    /// The kernel object, if it is real Linux.
    pub fn linux(&self) -> Option<&LinuxObject> {
        match &self.scheduler {
            Scheduler::Native(_) => None,
            Scheduler::Linux(object) => Some(object),
        }
    }

    /// A fresh native policy; `None` for real Linux.
    ///
    /// # Panics
    /// If its parameters, which are public, were changed to what it does not take.
    pub fn policy(&self) -> Option<Box<dyn Policy>> {
        self.info().map(|info| info.build(&self.policy_params()).expect("parameters were checked"))
    }

    /// The same with one more parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Subject {
        self.params.push((name.to_string(), value.to_string()));
        self
    }

    /// The same without what protects fair tasks from those above them ([`Scheduler::unprotected`]). What was asked for
    /// by name stays.
    #[must_use]
    pub fn unprotected(mut self, nr_cpus: u32) -> Subject {
        let asked = std::mem::replace(&mut self.params, self.scheduler.unprotected(nr_cpus));
        self.params.extend(asked);
        self
    }

    /// The same, drawing its random numbers from this seed, if it draws any and has no seed already.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Subject {
        let has_own = self.params.iter().any(|(name, _)| name == "seed");
        if self.scheduler.has_seed() && !has_own { self.with("seed", &seed.to_string()) } else { self }
    }

    /// A run of this workload under it, to the workload's end, with nothing varied.
    pub fn on<'a>(&'a self, workload: &'a Workload, topology: Topology) -> RunRequest<'a> {
        let mut params = self.params.clone();
        params.sort_by(|(a, _), (b, _)| a.cmp(b)); // of equal names the later one counts
        RunRequest { params, ..RunRequest::new(workload, &self.scheduler, topology) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    fn resolved(text: &str) -> Result<Subject, SubjectError> {
        let setting = Setting { hz: 250, nr_cpus: 1, progress: &Silent };
        text.parse::<SubjectSpec>().and_then(|spec| spec.resolve(setting))
    }

    #[test]
    fn native_schedulers_are_looked_up_and_their_parameters_checked() {
        let subject = resolved("wfq:quantum=5ms").unwrap();
        assert_eq!((subject.label.as_str(), subject.scheduler.name()), ("wfq:quantum=5ms", "wfq"));
        assert!(subject.policy().is_some() && subject.linux().is_none());
        for (text, word) in [
            ("nosuch", "no scheduler 'nosuch'"),
            ("linux-9.99", "there are linux-"),
            ("wfq:quantum=0", "greater than zero"),
            ("wfq:slice=1", "no parameter 'slice'"),
            ("linux:/nowhere/at/all", "/nowhere/at/all"),
            ("scx:/nowhere/x.bpf.c", "/nowhere/x.bpf.c: there is no such file"),
            ("linux-6.12:hz=fast", "hz=fast"),
            ("guest:6.12", "'schedlab guest run'"),
            ("host", "'schedlab validate --against host'"),
        ] {
            let error = resolved(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        // a native scheduler whose name looks like that of real Linux; its hz is a parameter like any other
        assert_eq!(resolved("linux-2.4").unwrap().scheduler.hz(), 0);
        assert_eq!(resolved("cfs-6.1:hz=1000").unwrap().params, [("hz".to_string(), "1000".to_string())]);
    }

    #[test]
    fn what_needs_a_policy_refuses_kernels() {
        assert!(Subject::native("vtrr").is_ok());
        for text in ["linux-6.12", "linux:/src", "scx:simple", "guest:6.12", "host"] {
            let error = Subject::native(text).unwrap_err();
            assert!(matches!(error, SubjectError::NotNative { .. }), "{text}: {error}");
        }
        assert!(matches!(Subject::native("nosuch"), Err(SubjectError::Unknown { .. })));
    }

    #[test]
    fn seeds_are_for_those_that_draw() {
        let seed_of = |text: &str| {
            let subject = Subject::native(text).unwrap().seeded(7);
            subject.params.into_iter().find(|(name, _)| name == "seed").map(|(_, value)| value)
        };
        assert_eq!(seed_of("fifo"), None);
        assert_eq!(seed_of("lottery").as_deref(), Some("7"));
        assert_eq!(seed_of("lottery:seed=3").as_deref(), Some("3"));
    }
}
