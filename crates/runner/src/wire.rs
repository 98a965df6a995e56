//! How do a caller and its worker talk? Each message is its length, then its bytes; open files travel beside
//! the length.
//!
//! ```text
//! worker ──> caller   Hello { engine }         + control page, file for reports
//! caller ──> worker   Job { scheduler, ... }   + the workload's program, the spill file
//! worker ──> caller   Ended::Exited(0)
//! ```

use crate::{LinuxObject, RunError, RunRequest, Scheduler};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use schedlab_machine::kernel::Action;
use schedlab_machine::{Costs, Perturb};
use schedlab_topology::Topology;
use schedlab_units::{CpuId, Span};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// A worker's first word. With it come its control page and the file in which its children leave their reports.
#[derive(Serialize, Deserialize)]
pub(crate) struct Hello {
    /// [`ENGINE`](crate::ENGINE) there.
    pub engine: String,
}

/// 128 bits over all that is in a workload.
pub(crate) type Hash = [u64; 2];

/// A run to be made. With it come the workload's [`Stored`](crate::store::Stored) and the spill file.
#[derive(Serialize, Deserialize)]
pub(crate) struct Job {
    pub workload: Hash,
    pub scheduler: Named,
    pub topology: Topology,
    pub duration: Option<Span>,
    pub params: Vec<(String, String)>,
    pub perturb: Option<Perturb>,
    pub placement: Vec<Option<CpuId>>,
    pub costs: Option<Costs>,
    pub actions: Vec<Action>,
    pub stall_limit: Duration,
}

/// A [`Scheduler`] as another process can have it.
#[derive(Serialize, Deserialize)]
pub(crate) enum Named {
    /// In the registry of any program of ours.
    Registered(String),
    /// A native policy of this very executable: its name, its parameters (name, default, help), and how far
    /// the function that builds it is from the executable's beginning.
    Own { name: String, params: Vec<[String; 3]>, maker: usize },
    /// A kernel object; its files by absolute path.
    Linux(LinuxObject),
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ended {
    /// The child ended by itself.
    Exited(i32),
    /// A signal ended it.
    Signal(i32),
    /// Its pulse had stopped, and the worker ended it.
    Stalled,
    /// There was no child: what could not be done, and the system's error number.
    NotStarted { doing: String, errno: i32 },
    /// This program has no such policy.
    NoPolicy(String),
}

impl Job {
    /// `is_own`: the worker is this very executable.
    pub(crate) fn new(request: &RunRequest<'_>, workload: Hash, is_own: bool) -> Result<Job, RunError> {
        Ok(Job {
            workload,
            scheduler: Named::new(request.scheduler, is_own)?,
            topology: request.topology.clone(),
            duration: request.duration,
            params: request.params.clone(),
            perturb: request.perturb,
            placement: request.placement.clone(),
            costs: request.costs,
            actions: request.actions.to_vec(),
            stall_limit: request.stall_limit,
        })
    }
}

impl Named {
    fn new(scheduler: &Scheduler, is_own: bool) -> Result<Named, RunError> {
        match scheduler {
            Scheduler::Linux(object) => Ok(Named::Linux(absolute(object.clone())?)),
            Scheduler::Native(info) if !is_own => Ok(Named::Registered(info.name.to_owned())),
            Scheduler::Native(info) => {
                let name = info.name.to_owned();
                let Some(maker) = schedlab_process::offset_of_address(info.maker()) else {
                    return Err(RunError::NotInExecutable { name });
                };
                let text = |param: &schedlab_policies::ParamInfo| {
                    [param.name, param.default, param.help].map(str::to_owned)
                };
                let params = info.params.iter().map(text).collect();
                Ok(Named::Own { name, params, maker })
            }
        }
    }
}

/// A worker may have been started in another folder.
fn absolute(mut object: LinuxObject) -> Result<LinuxObject, RunError> {
    fn of_scx(scx: &mut schedlab_scx::CompiledScx) -> io::Result<()> {
        for path in [&mut scx.object, &mut scx.source, &mut scx.enumerators] {
            *path = std::path::absolute(&*path)?;
        }
        scx.subs.values_mut().try_for_each(of_scx)
    }
    let mut all = || -> io::Result<()> {
        object.object = std::path::absolute(&object.object)?;
        object.scx.as_mut().map_or(Ok(()), of_scx)
    };
    all().map_err(|source| RunError::Host {
        doing: "tell where the kernel object is",
        source,
        remedy: "start in a folder that exists",
    })?;
    Ok(object)
}

/// The file that a kernel object is now: another one of that name is another kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectKey {
    path: PathBuf,
    /// Device, inode, length, time of its last change in s and ns.
    file: [i64; 5],
}

impl ObjectKey {
    pub(crate) fn of(object: &LinuxObject) -> Option<ObjectKey> {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::metadata(&object.object).ok()?;
        let numbers =
            [file.dev() as i64, file.ino() as i64, file.len() as i64, file.ctime(), file.ctime_nsec()];
        Some(ObjectKey { path: object.object.clone(), file: numbers })
    }
}

/// Most files beside one message.
const FILES_MAX: usize = 2;
const LENGTH: usize = size_of::<u64>();

fn invalid(error: postcard::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Sends a message. A line whose other end is gone is an error, never a signal.
pub(crate) fn send(line: &UnixStream, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut bytes = vec![0; LENGTH];
    bytes = postcard::to_extend(message, bytes).map_err(invalid)?;
    let length = (bytes.len() - LENGTH) as u64;
    bytes[..LENGTH].copy_from_slice(&length.to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(beside.push(SendAncillaryMessage::ScmRights(files)), "there is room for {FILES_MAX} files");
    }
    let mut sent = 0;
    while sent < bytes.len() {
        let result =
            rustix::net::sendmsg(line, &[IoSlice::new(&bytes[sent..])], &mut beside, SendFlags::NOSIGNAL);
        match result {
            Ok(n) => sent += n,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        beside.clear(); // they are there with the first byte
    }
    Ok(())
}

/// The next message, with the files beside it; `None` when the other end is gone.
pub(crate) fn receive<M: DeserializeOwned>(line: &UnixStream) -> io::Result<Option<(M, Vec<File>)>> {
    let mut length = [0; LENGTH];
    let mut files = Vec::new();
    if !fill(line, &mut length, &mut files)? {
        return Ok(None);
    }
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    bytes.resize(length, 0);
    if !fill(line, &mut bytes, &mut files)? {
        return Ok(None);
    }
    Ok(Some((postcard::from_bytes(&bytes).map_err(invalid)?, files)))
}

/// Fills the bytes; false if the other end is gone before.
fn fill(line: &UnixStream, bytes: &mut [u8], files: &mut Vec<File>) -> io::Result<bool> {
    let mut read = 0;
    while read < bytes.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let rest = &mut [IoSliceMut::new(&mut bytes[read..])];
        match rustix::net::recvmsg(line, rest, &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) if message.bytes == 0 => return Ok(false),
            Ok(message) => read += message.bytes,
            Err(rustix::io::Errno::INTR) => continue,
            Err(rustix::io::Errno::CONNRESET) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                files.extend(received.map(File::from));
            }
        }
    }
    Ok(true)
}

/// Both files of a message, in order.
pub(crate) fn two(files: Vec<File>) -> io::Result<[File; FILES_MAX]> {
    files.try_into().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "files are missing"))
}

/// As [`send`] takes them.
pub(crate) fn borrowed<'a>(files: [&'a File; FILES_MAX]) -> [BorrowedFd<'a>; FILES_MAX] {
    files.map(AsFd::as_fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};

    #[test]
    fn messages_arrive_with_their_files() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        files[1].write_all(b"two").unwrap();
        // longer than a socket holds at once
        let long: Vec<u64> = (0..300_000).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                send(&here, &long, &borrowed([&files[0], &files[1]])).unwrap();
                send(&here, &Ended::Signal(9), &[]).unwrap();
            });
            let (heard, received) = receive::<Vec<u64>>(&there).unwrap().unwrap();
            assert_eq!(heard, long);
            let [_, mut second] = two(received).unwrap();
            let mut text = String::new();
            second.rewind().unwrap();
            second.read_to_string(&mut text).unwrap();
            assert_eq!(text, "two");
            let (heard, received) = receive::<Ended>(&there).unwrap().unwrap();
            assert_eq!((heard, received.len()), (Ended::Signal(9), 0));
        });
        drop(here);
        assert!(receive::<Ended>(&there).unwrap().is_none());
        // no SIGPIPE, which ends a program that prints into `head`
        assert_eq!(send(&there, &Ended::Stalled, &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
