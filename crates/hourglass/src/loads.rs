//! Which load do the slides' questions mean? `--load NET`, `DISK` or `CPU`, each a command that says its throughput.
//!
//! ```text
//!   NET   [ns A  iperf3 client  sl0]=====[sl1  iperf3 server  ns B]     as root: both ends in namespaces without
//!                                                                       names, which end with the processes in them
//!         iperf3 client ── 127.0.0.1 ── iperf3 server                   otherwise, and a note says so
//!   DISK  64 MiB written and synced, again and again
//!   CPU   one busy shell for each CPU
//! ```

use std::fmt;

/// A load that runs beside the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contention {
    /// Network receive at full bandwidth.
    Net,
    /// A busy disk.
    Disk,
    /// A busy neighbour on each CPU.
    Cpu,
}

/// The end that receives. Its device comes when the other end has made it.
const PEER: &str = "ip link set lo up; until ip link set sl1 up 2>/dev/null; do sleep 0.02; done; \
    ip addr add 10.77.0.2/30 dev sl1; exec iperf3 -s -1 >/dev/null";
/// The end that sends. It waits until the other end has left its namespace, and until that listens.
const SENDER: &str = r#"unshare -n sh -c "$PEER" & peer=$!
until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
ip link set lo up; ip link add sl0 type veth peer name sl1 netns $peer || exit 126
ip addr add 10.77.0.1/30 dev sl0; ip link set sl0 up
for try in 1 2 3 4 5 6 7 8 9; do
    iperf3 -c 10.77.0.2 -t $SECONDS_LONG -f m | (trap '' INT; exec grep -E 'sender|receiver') && break; sleep 0.1
done"#;
const LOOPBACK: &str = r#"iperf3 -s -1 -p 52017 >/dev/null & 
for try in 1 2 3 4 5 6 7 8 9; do
    iperf3 -c 127.0.0.1 -p 52017 -t $SECONDS_LONG -f m | (trap '' INT; exec grep -E 'sender|receiver') && break
    sleep 0.1
done"#;
const DISK: &str = "f=$(mktemp); trap 'rm -f $f; exit' INT; while :; do \
    dd if=/dev/zero of=$f bs=1M count=64 conv=fsync 2>&1 | grep copied; done";
const CPU: &str =
    "n=$(nproc); while [ $n -gt 1 ]; do (while :; do :; done) & n=$((n-1)); done; while :; do :; done";

impl Contention {
    /// All.
    pub const ALL: [Contention; 3] = [Contention::Net, Contention::Disk, Contention::Cpu];

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        ["NET", "DISK", "CPU"][self as usize]
    }

    /// A program that it needs and that is not here, with its package.
    pub(crate) fn lacks(self) -> Option<(&'static str, &'static str)> {
        let needed: &[(&str, &str)] = match self {
            Contention::Net => &[("iperf3", "iperf3")],
            Contention::Disk => &[("dd", "coreutils"), ("mktemp", "coreutils")],
            Contention::Cpu => &[("nproc", "coreutils")],
        };
        needed.iter().find(|(program, _)| !is_there(program)).copied()
    }

    /// The shell's command, for a run of so many seconds.
    pub(crate) fn command(self, seconds: u64) -> String {
        // longer than the run: the signal at its end makes it say what it reached
        let seconds = seconds + 2;
        match self {
            Contention::Net if has_namespaces() => format!(
                "export PEER='{PEER}' SECONDS_LONG={seconds}; exec unshare -n sh -c '{}'",
                SENDER.replace('\'', r"'\''")
            ),
            Contention::Net => format!("SECONDS_LONG={seconds}; {LOOPBACK}"),
            Contention::Disk => DISK.to_string(),
            Contention::Cpu => CPU.to_string(),
        }
    }

    /// What it is here.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Contention::Net if has_namespaces() => {
                "network receive, between two network namespaces of its own"
            }
            Contention::Net => "network receive over loopback: only root can make network namespaces",
            Contention::Disk => "a busy disk",
            Contention::Cpu => "a busy neighbour on each CPU",
        }
    }
}

impl fmt::Display for Contention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether network namespaces can be made and joined.
fn has_namespaces() -> bool {
    // SAFETY: takes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    is_root && is_there("unshare") && is_there("ip")
}

/// Whether a program stands in the PATH.
pub(crate) fn is_there(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_in_the_path() {
        assert!(is_there("sh") && !is_there("no-such-program-anywhere"));
    }

    /// As the shell reads them; nothing is run.
    #[test]
    fn each_command_is_one_that_a_shell_can_read() {
        for load in Contention::ALL {
            let status =
                std::process::Command::new("sh").args(["-n", "-c", &load.command(1)]).status().unwrap();
            assert!(status.success(), "{load}");
        }
        let inside = std::process::Command::new("sh").args(["-n", "-c", SENDER]).status().unwrap();
        assert!(inside.success());
    }
}
