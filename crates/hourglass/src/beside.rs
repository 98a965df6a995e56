//! Which load runs beside the pollers, and what did it say of itself? `--beside CMD`, any number of times.
//!
//! Each command is a shell's, in a process group of its own. It is asked to end (SIGINT, so that tools print
//! their results) when the run is over, then killed. It dies with us, however we end: a guard, a shell that leads the
//! group and waits for the end of a pipe of ours, kills it then, with all that the command has started.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a command has to print its results.
const GRACE: Duration = Duration::from_millis(1500);
/// Lines kept of what it printed.
const LINES: usize = 6;

/// Commands that run.
pub(crate) struct Beside {
    running: Vec<(String, Child, std::thread::JoinHandle<String>)>,
    guards: Vec<Child>,
}

/// The leader of a process group, which kills the group as soon as we are gone. It is there before the command is,
/// and the end of its pipe comes only when no process of ours has the other end: one that is forked and not yet
/// executed is in the group by then.
fn guard() -> std::io::Result<Child> {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' INT TERM HUP; read -r _; kill -s KILL -- -$$ 2>/dev/null"]);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()
}

impl Beside {
    /// Starts them: what to call each, and what the shell gets.
    pub(crate) fn start(commands: &[(String, String)]) -> Result<Beside, String> {
        let mut beside = Beside { running: Vec::new(), guards: Vec::new() };
        for (name, command) in commands {
            let mut shell = Command::new("sh");
            shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let guard = guard().map_err(|error| format!("--beside '{command}': {error}"))?;
            shell.process_group(guard.id() as i32);
            beside.guards.push(guard);
            // SAFETY: between fork and exec only these system calls are made. A program that was started in the
            // background has SIGINT ignored, and a shell could not trap it then.
            unsafe {
                shell.pre_exec(|| {
                    libc::signal(libc::SIGINT, libc::SIG_DFL);
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    Ok(())
                });
            }
            let mut child = shell.spawn().map_err(|error| format!("--beside '{command}': {error}"))?;
            let mut out = child.stdout.take().expect("it was asked for");
            // the pipe is emptied all the time, so that the command never waits for us; only its end is kept
            let reader = std::thread::spawn(move || {
                let mut tail = Vec::new();
                let mut piece = [0u8; 4096];
                while let Ok(count @ 1..) = out.read(&mut piece) {
                    tail.extend_from_slice(&piece[..count]);
                    let surplus = tail.len().saturating_sub(8192);
                    tail.drain(..surplus);
                }
                String::from_utf8_lossy(&tail).into_owned()
            });
            beside.running.push((name.clone(), child, reader));
        }
        Ok(beside)
    }

    /// Whether one has ended already.
    pub(crate) fn ended_early(&mut self) -> Vec<String> {
        let ended = self.running.iter_mut().filter_map(|(command, child, _)| {
            child
                .try_wait()
                .ok()
                .flatten()
                .map(|status| format!("'{command}' ended before the run did ({status})"))
        });
        ended.collect()
    }

    /// One that the shell could not run at all (its statuses 126 and 127); the run was not beside it.
    pub(crate) fn not_run(&mut self) -> Option<String> {
        let is_of_shell = |child: &mut Child| {
            let status = child.try_wait().ok().flatten();
            status.and_then(|status| status.code()).is_some_and(|code| matches!(code, 126 | 127))
        };
        let found =
            self.running.iter_mut().find_map(|(command, child, _)| is_of_shell(child).then_some(command));
        found.map(|command| {
            format!("--beside '{command}': the shell cannot run it; give a command that 'sh -c' can run")
        })
    }

    /// Ends them; what each printed last.
    pub(crate) fn finish(mut self) -> Vec<(String, String)> {
        self.signal(libc::SIGINT);
        let until = Instant::now() + GRACE;
        while Instant::now() < until
            && !self.running.iter_mut().all(|(_, child, _)| matches!(child.try_wait(), Ok(Some(_))))
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.signal(libc::SIGKILL);
        self.dismiss();
        let said = std::mem::take(&mut self.running).into_iter().map(|(command, mut child, reader)| {
            child.wait().ok();
            let text = reader.join().unwrap_or_default();
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            (command, lines[lines.len().saturating_sub(LINES)..].join("\n"))
        });
        said.collect()
    }

    /// Ends the guards, before the numbers of their groups can be another's.
    fn dismiss(&mut self) {
        for mut guard in self.guards.drain(..) {
            guard.kill().ok();
            guard.wait().ok();
        }
    }

    fn signal(&self, signal: i32) {
        for guard in &self.guards {
            // SAFETY: signals a process group that we made; its leader is not waited for yet, so that the
            // number is still its own.
            unsafe { libc::kill(-(guard.id() as i32), signal) };
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        self.dismiss();
        self.running.iter_mut().for_each(|(_, child, _)| drop(child.wait()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_its_last_lines_and_is_gone() {
        let command = "trap 'echo bye; exit' INT; echo hello; while :; do sleep 0.01; done";
        let beside = Beside::start(&[("a loop".into(), command.into())]).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let said = beside.finish();
        assert_eq!(said[0], ("a loop".to_string(), "hello\nbye".to_string()));
    }
}
