//! Words of the command line that several commands take.

use schedlab_lab::Loaded;
use schedlab_topology::Topology;

pub(crate) fn parse_cpus(text: &str) -> Result<Topology, String> {
    let count: u64 = text.parse().map_err(|_| format!("'{text}' is not a number of CPUs"))?;
    count.to_string().parse().map_err(|error: schedlab_topology::TopologyError| error.to_string())
}

pub(crate) fn parse_param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err(format!("'{text}' is not NAME=VALUE")),
    }
}

/// Of `--jobs`: runs at once.
pub(crate) fn parse_jobs(text: &str) -> Result<usize, String> {
    let jobs = text.parse().ok().filter(|jobs| (1..=4096).contains(jobs));
    jobs.ok_or_else(|| format!("'{text}' is no number of runs at once; expected 1 to 4096"))
}

/// Of `--hz`: ticks per second. Which of them a kernel can have is for its build to say.
pub(crate) fn parse_hz(text: &str) -> Result<u32, String> {
    let hz = text.parse().ok().filter(|hz| (1..=10_000).contains(hz));
    hz.ok_or_else(|| format!("'{text}' is no number of ticks per second; expected 100, 250, 300 or 1000"))
}

/// Where the tasks of a workload may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Affinity {
    /// Where the workload or the recording allows them to.
    Recorded,
    /// On every CPU.
    None,
}

impl Affinity {
    /// Lets the tasks run there, and notes how many masks were left out.
    pub(crate) fn apply(self, loaded: &mut Loaded) {
        if self == Affinity::None {
            let left_out = loaded.workload.unbind();
            loaded.notes.push(format!("--affinity none: {left_out} sets of allowed CPUs are left out"));
        }
    }
}
