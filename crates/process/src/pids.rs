//! How many processes may a command start, whoever starts it? Two bounds, because no single one holds everybody.
//!
//! ```text
//! user     RLIMIT_NPROC: the user's threads now, and PROCESSES_MAX more
//! root     a control group of its own with pids.max = PROCESSES_MAX: no RLIMIT_NPROC binds root
//! ```
//!
//! A group is made where the controller `pids` can be had: below our own group in its hierarchy of version 1, or
//! beside it in version 2. What is left in it when the command is over is ended with it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Processes and threads of one command, and all that it starts: four for each of 1,024 jobs of make.
pub const PROCESSES_MAX: u64 = 4096;

/// Names of groups: this, the number of our process, and a count.
const PREFIX: &str = "schedlab-";

/// A control group for one command. Dropped, it ends what is left in it, and is gone.
pub(crate) struct Group {
    folder: PathBuf,
    /// Where a process enters. Opened before, since a process that enters must not allocate.
    entrance: File,
}

impl Group {
    /// An empty group, in which so many processes and threads may be.
    ///
    /// # Errors
    /// This host has no such controller, or this user may make no group.
    pub(crate) fn new(processes_max: u64) -> io::Result<Group> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let parent = parent(&mounts, &own, &|folder| {
            let list = fs::read_to_string(folder.join("cgroup.subtree_control"));
            list.is_ok_and(|list| list.split_whitespace().any(|name| name == "pids"))
        });
        let parent = parent.ok_or_else(|| io::Error::other("no control groups that count processes"))?;
        remove_left(&parent);
        Group::below(&parent, processes_max)
    }

    fn below(parent: &Path, processes_max: u64) -> io::Result<Group> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("{PREFIX}{}-{count}", std::process::id()));
        fs::create_dir(&folder)?;
        let limited = fs::write(folder.join("pids.max"), processes_max.to_string())
            .and_then(|()| File::options().write(true).open(folder.join("cgroup.procs")));
        match limited {
            Ok(entrance) => Ok(Group { folder, entrance }),
            Err(error) => {
                let _ = fs::remove_dir(&folder);
                Err(error)
            }
        }
    }

    /// Where it is.
    #[cfg(test)]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// This process is in the group from now on, and so is what it starts. To be called after fork as well: one
    /// system call.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn enter(&self) -> io::Result<()> {
        (&self.entrance).write_all(b"0")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        end(&self.folder);
    }
}

/// Ends what is in a group, and removes it. Something that forks all the while is met again until nothing new comes:
/// the group's limit is below what a round ends.
fn end(folder: &Path) {
    // nobody in it may start another one from now on
    let _ = fs::write(folder.join("pids.max"), "0");
    for _ in 0..100 {
        if fs::remove_dir(folder).is_ok() {
            return;
        }
        let inside = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        for pid in inside.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0) {
            // SAFETY: a signal to a process that was in this group, which is ours alone, a moment ago.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ends the groups of processes of ours that were killed.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            end(&entry.path());
        }
    }
}

/// The folder in which a group can be made: of the hierarchy `pids` of version 1 our own group; of version 2 the
/// nearest one above ours that gives the controller to those below it (`gives`).
fn parent(mounts: &str, own: &str, gives: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    // 39 31 0:36 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids
    let mounted = |is_it: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let (place, system) = line.split_once(" - ")?;
            let mut system = system.split(' ');
            let (kind, options) = (system.next()?, system.nth(1)?);
            let mut place = place.split(' ').skip(3);
            let (root, folder) = (place.next()?, place.next()?);
            is_it(kind, options).then(|| (root.to_owned(), PathBuf::from(folder)))
        })
    };
    // 8:pids:/a/b, and 0::/a/b for version 2
    let group = |is_it: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            is_it(controllers).then(|| path.to_owned())
        })
    };
    let has_pids = |list: &str| list.split(',').any(|name| name == "pids");
    let place = |(root, folder): (String, PathBuf), path: String| {
        let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(&path).to_owned();
        (folder.clone(), folder.join(below.trim_start_matches('/')))
    };
    let first = mounted(&|kind, options| kind == "cgroup" && has_pids(options)).zip(group(&has_pids));
    if let Some((mount, path)) = first {
        return Some(place(mount, path).1);
    }
    let (mount, path) = mounted(&|kind, _| kind == "cgroup2").zip(group(&str::is_empty))?;
    let (top, own) = place(mount, path);
    own.ancestors()
        .take_while(|folder| folder.starts_with(&top))
        .find(|folder| gives(folder))
        .map(Path::to_owned)
}

/// Threads of this process's user, on the whole machine; `None` where the host does not show them.
pub(crate) fn nr_user_threads() -> Option<u64> {
    // SAFETY: asks for a number.
    let me = unsafe { libc::getuid() };
    let mut nr = 0;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let is_process = entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit);
        if is_process && entry.metadata().is_ok_and(|of| of.uid() == me) {
            // a folder's links: itself, its name, and each folder in it
            nr += fs::metadata(entry.path().join("task"))
                .map_or(1, |tasks| tasks.nlink().saturating_sub(2).max(1));
        }
    }
    Some(nr)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
                         38 31 0:35 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                         39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
                         41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:4 - cgroup2 cgroup2 rw\n";
    const SECOND: &str = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn a_group_is_made_where_the_host_counts_processes() {
        let none = |_: &Path| false;
        let found = |mounts, own, gives: &dyn Fn(&Path) -> bool| parent(mounts, own, gives);
        let at = |path: &str| Some(PathBuf::from(path));
        assert_eq!(found(FIRST, "8:pids:/\n0::/\n", &none), at("/sys/fs/cgroup/pids"));
        assert_eq!(found(FIRST, "8:cpu,pids:/a/b\n0::/\n", &none), at("/sys/fs/cgroup/pids/a/b"));
        // version 2: a group that has processes gives nothing to those below it, so the nearest above that does
        let session = "0::/user.slice/user-0.slice/session-1.scope\n";
        let slice = |folder: &Path| folder == Path::new("/sys/fs/cgroup/user.slice");
        assert_eq!(found(SECOND, session, &slice), at("/sys/fs/cgroup/user.slice"));
        assert_eq!(found(SECOND, session, &none), None);
        assert_eq!(found("", session, &slice), None);
        // a container, which sees a part of the hierarchy
        let part = "39 31 0:36 /docker/1 /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        assert_eq!(found(part, "8:pids:/docker/1/x\n", &none), at("/sys/fs/cgroup/pids/x"));
    }

    #[test]
    fn threads_of_this_user_are_counted() {
        let before = nr_user_threads().unwrap();
        let (more, hold) = (50, std::sync::Arc::new(std::sync::Barrier::new(51)));
        let threads: Vec<_> = (0..more)
            .map(|_| {
                let hold = hold.clone();
                std::thread::spawn(move || hold.wait())
            })
            .collect();
        let after = nr_user_threads().unwrap();
        hold.wait();
        threads.into_iter().for_each(|thread| drop(thread.join()));
        // others of this user come and go meanwhile
        assert!(before >= 1 && after + 25 > before + more, "{before} {after}");
    }
}
