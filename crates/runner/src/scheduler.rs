//! What can `--sched NAME` be? A native policy, or real Linux.

use schedlab_linux::BuiltKernel;
use schedlab_machine::kernel::SKEW_TICK;
use schedlab_policies::{PolicyError, PolicyInfo};
use schedlab_scx::{ATTACHED, CompiledScx, sub_of};
use schedlab_topology::Topology;
use schedlab_workload::Cgroup;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Versions that have a deadline server for fair tasks on each CPU, and one for those of sched_ext
/// (kernel/sched/debug.c).
const FAIR_SERVER_SINCE: (u32, u32) = (6, 12);
const EXT_SERVER_SINCE: (u32, u32) = (7, 0);

/// A scheduler, ready to be run.
#[derive(Clone, Debug)]
pub enum Scheduler {
    /// A native policy.
    Native(&'static PolicyInfo),
    /// Real Linux, built as a library.
    Linux(LinuxObject),
}

/// What of a run's tunables a native policy takes: all but those of the kernel that is played around it.
pub(crate) fn policy_params(params: &[(String, String)]) -> Vec<(String, String)> {
    params.iter().filter(|(name, _)| name != SKEW_TICK).cloned().collect()
}

/// A built kernel object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinuxObject {
    /// The name as given to `--sched`, e.g. `linux-6.12`.
    pub name: String,
    /// Exact version, e.g. `6.12.117-1~deb12u1`.
    pub version: String,
    /// Ticks per second that it is built for.
    pub hz: u32,
    /// Most CPUs that it is built for.
    pub nr_cpus: u32,
    /// The shared object.
    pub object: PathBuf,
    /// A sched_ext scheduler to be loaded into it.
    pub scx: Option<CompiledScx>,
}

impl LinuxObject {
    /// A kernel that is built, without a sched_ext scheduler.
    pub fn of(kernel: &BuiltKernel) -> LinuxObject {
        LinuxObject {
            name: kernel.name(),
            version: kernel.version.clone(),
            hz: kernel.hz,
            nr_cpus: kernel.nr_cpus,
            object: kernel.object(),
            scx: None,
        }
    }

    /// Its version as numbers: `(6, 12)`.
    pub fn linux_version(&self) -> (u32, u32) {
        let mut parts = self.version.split('.').map(|p| p.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    }
}

/// A scheduler that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// No such name.
    #[error("there is no scheduler '{name}'; 'schedlab schedulers' lists them ({known})")]
    Unknown {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A kernel object that is too small.
    #[error(
        "{asked} CPUs were asked for, but this build of {name} has at most {built}; build a larger one with --nr-cpus \
            1024"
    )]
    TooManyCpus {
        /// The scheduler.
        name: String,
        /// CPUs asked for.
        asked: u32,
        /// CPUs it is built for.
        built: u32,
    },
    /// A parameter for a sub-scheduler's control group, and there is no such group.
    #[error("--param {param}: the workload has no control group {group} (it has {known})")]
    NoGroup {
        /// The parameter's name.
        param: String,
        /// The group it names.
        group: String,
        /// The groups that there are.
        known: String,
    },
    /// A parameter for a sub-scheduler that is not asked for.
    #[error(
        "--param {param}: no sub-scheduler is attached to {group}; --param {ATTACHED}@{group}=NAME attaches one, \
            below a scheduler scx:..."
    )]
    NoSub {
        /// The parameter's name.
        param: String,
        /// The group it names.
        group: String,
    },
    /// A native policy refuses its parameters.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl Scheduler {
    /// Its name, as given to `--sched`.
    pub fn name(&self) -> &str {
        match self {
            Scheduler::Native(info) => info.name,
            Scheduler::Linux(linux) => &linux.name,
        }
    }
    /// Its exact version.
    pub fn version(&self) -> String {
        match self {
            Scheduler::Native(_) => format!("schedlab {}", env!("CARGO_PKG_VERSION")),
            Scheduler::Linux(linux) => format!("{}, HZ={}", linux.version, linux.hz),
        }
    }
    /// Whether it draws random numbers from a parameter `seed`.
    pub fn has_seed(&self) -> bool {
        matches!(self, Scheduler::Native(info) if info.params.iter().any(|param| param.name == "seed"))
    }
    /// Ticks per second; 0 = none.
    pub fn hz(&self) -> u32 {
        match self {
            Scheduler::Native(_) => 0,
            Scheduler::Linux(linux) => linux.hz,
        }
    }
    /// The parameters that switch off what protects fair tasks from those above them: 50 ms of each second, by the
    /// fair server of each CPU since 6.12 (and since 7.0 the one of sched_ext), by the limit of real-time tasks
    /// before. A native policy has no such limit.
    ///
    /// A task that stands for what no scheduler can refuse (an interrupt, a stranger who had the CPU) is above all
    /// others. It must not be held back for their sake.
    pub fn unprotected(&self, nr_cpus: u32) -> Vec<(String, String)> {
        let Scheduler::Linux(linux) = self else { return Vec::new() };
        if linux.linux_version() < FAIR_SERVER_SINCE {
            return vec![("rt_runtime_us".to_string(), "-1".to_string())];
        }
        let has_ext_server = linux.scx.is_some() && linux.linux_version() >= EXT_SERVER_SINCE;
        let servers = ["fair_server", "ext_server"].into_iter().take(1 + usize::from(has_ext_server));
        let off = |server| {
            (0..nr_cpus).map(move |cpu| (format!("sched/{server}/cpu{cpu}/runtime"), "0".to_string()))
        };
        servers.flat_map(off).collect()
    }
    /// Whether it could run with these settings.
    pub(crate) fn check(
        &self,
        topology: &Topology,
        groups: &[Cgroup],
        params: &[(String, String)],
    ) -> Result<(), SchedulerError> {
        self.check_subs(groups, params)?;
        match self {
            Scheduler::Native(info) => {
                info.build(&policy_params(params)).map(drop).map_err(SchedulerError::from)
            }
            Scheduler::Linux(linux) if topology.nr_cpus() > linux.nr_cpus => {
                Err(SchedulerError::TooManyCpus {
                    name: linux.name.clone(),
                    asked: topology.nr_cpus(),
                    built: linux.nr_cpus,
                })
            }
            Scheduler::Linux(_) => Ok(()),
        }
    }
    /// Whether parameters about control groups have their group and sub-scheduler.
    fn check_subs(&self, groups: &[Cgroup], params: &[(String, String)]) -> Result<(), SchedulerError> {
        let subs = match self {
            Scheduler::Linux(LinuxObject { scx: Some(compiled), .. }) => Some(&compiled.subs),
            _ => None,
        };
        for (param, _) in params {
            let Some((_, group)) = sub_of(param) else { continue };
            let (param, group) = (param.clone(), group.to_owned());
            if !subs.is_some_and(|subs| subs.contains_key(&group)) {
                return Err(SchedulerError::NoSub { param, group });
            }
            if groups.iter().all(|known| known.path != group) {
                let known: Vec<&str> = groups.iter().map(|known| known.path.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(SchedulerError::NoGroup { param, group, known });
            }
        }
        Ok(())
    }
}
