//! Words of the command line that several commands take.

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
