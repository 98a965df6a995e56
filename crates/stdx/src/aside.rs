//! How is a file written so that nobody ever sees half of it? Aside, then renamed.
//!
//! ```text
//! results/                          results/                              results/
//!   run.json  (of yesterday)   ->     run.json  (of yesterday)       ->     run.json  (new, 1,024 bytes)
//!                                     a file without a name, growing
//! ```
//!
//! The new file has no name while it grows (`O_TMPFILE`). A process that is killed at byte 700 leaves nothing
//! in the folder, and the old file stays. At the end the file gets its name, if that is free. To replace a file it
//! first gets a random name, which must be new (`O_EXCL`), and is renamed at once. No name can be foreseen, so no
//! planted symlink is followed. (A `kill -9` between these two calls leaves the file under the random name,
//! `.schedlab-XXXXXX.tmp`, whole.)
//!
//! Some file systems (NFS, for one) have no files without names. There the file has a random name from the
//! start, made with `O_EXCL`. It is removed after an error, but not after `kill -9`.
//!
//! ```
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("run.json");
//! schedlab_stdx::aside::write(&path, b"{\"schema\":1}").unwrap();
//! assert_eq!(std::fs::read(&path).unwrap().len(), 12);
//! ```

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// Mode of an ordinary new file, before the umask.
const ORDINARY: u32 = 0o666;
/// Bytes that are collected before they are written.
const CHUNK: usize = 256 * 1024;

/// A file that takes the place of another when it is complete. Dropped before [`Aside::finish`] it leaves nothing.
#[derive(Debug)]
pub struct Aside {
    out: BufWriter<File>,
    path: PathBuf,
    place: Place,
}

/// Where the bytes are until the end.
#[derive(Debug)]
enum Place {
    /// At the path itself: it is a pipe or a device.
    Direct,
    /// In the folder, without a name.
    Nameless,
    /// In the folder, under another name; removed when dropped.
    Named(TempPath),
}

impl Aside {
    /// Begins a file that is to be called `path`. Its mode will be that of any new file: 0666 less the umask.
    ///
    /// A path that exists and is no regular file (a pipe, `/dev/null`) is written directly.
    ///
    /// # Errors
    /// Those of making a file in the folder.
    pub fn create(path: &Path) -> io::Result<Aside> {
        Aside::with_mode(path, ORDINARY)
    }

    /// As [`Aside::create`]; the mode will be `mode` less the umask: 0o600 for what only its owner may read.
    ///
    /// # Errors
    /// Those of making a file in the folder.
    pub fn with_mode(path: &Path, mode: u32) -> io::Result<Aside> {
        let begun = |file, place| {
            Ok(Aside { out: BufWriter::with_capacity(CHUNK, file), path: path.to_owned(), place })
        };
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return begun(File::options().write(true).open(path)?, Place::Direct);
        }
        if let Some(file) = nameless(folder_of(path), mode) {
            return begun(file, Place::Nameless);
        }
        let (file, name) = builder()
            .permissions(Permissions::from_mode(mode)) // less the umask
            .tempfile_in(folder_of(path))?
            .into_parts();
        begun(file, Place::Named(name))
    }

    /// The file: a child process may write to it, if nothing has been written through [`Write`].
    pub fn file(&self) -> &File {
        self.out.get_ref()
    }

    /// Writes what is still held, and gives the file its name.
    ///
    /// # Errors
    /// Those of writing and renaming; then the old file stays, and nothing else is left.
    pub fn finish(self) -> io::Result<()> {
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        match self.place {
            Place::Direct => Ok(()),
            Place::Named(name) => name.persist(&self.path).map_err(|error| error.error),
            Place::Nameless => {
                let link = |name: &Path| {
                    let number = format!("/proc/self/fd/{}", file.as_raw_fd());
                    Ok(rustix::fs::linkat(CWD, number, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
                };
                // a name that is free is taken in one step; another's file is replaced in two
                if link(&self.path).is_ok() {
                    return Ok(());
                }
                let named = builder().make_in(folder_of(&self.path), link)?;
                named.persist(&self.path).map(drop).map_err(|error| error.error)
            }
        }
    }
}

impl Write for Aside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes `bytes` as the whole file `path`.
///
/// # Errors
/// Those of [`Aside::create`] and [`Aside::finish`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut out = Aside::create(path)?;
    out.write_all(bytes)?;
    out.finish()
}

/// Lets `content` write the file `path`. `failed` makes the caller's error of one of [`Aside`]'s.
///
/// # Errors
/// Those of `content`, and those that `failed` makes; then the old file stays.
pub fn with<T, E>(
    path: &Path,
    failed: impl Fn(io::Error) -> E,
    content: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, E>,
) -> Result<T, E> {
    let mut out = Aside::create(path).map_err(&failed)?;
    let result = content(&mut out)?;
    out.finish().map_err(failed)?;
    Ok(result)
}

/// The folder a file lies in; `.` for a bare name.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Names of files that are about to be renamed.
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".schedlab-").suffix(".tmp");
    builder
}

/// A file without a name, which can be given one; `None` where there is none: the next way tells why, if the
/// folder is the reason.
fn nameless(folder: &Path, mode: u32) -> Option<File> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(mode)).ok()?);
    // without /proc it could not be named
    Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())).exists().then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn named(path: &Path) -> Aside {
        let (file, name) = builder().tempfile_in(folder_of(path)).unwrap().into_parts();
        Aside { out: BufWriter::new(file), path: path.to_owned(), place: Place::Named(name) }
    }

    #[test]
    fn the_old_file_stays_until_the_new_one_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"old").unwrap();
        for begin in [|path: &Path| Aside::create(path).unwrap(), named] {
            let mut out = begin(&path);
            out.write_all(b"half").unwrap();
            out.flush().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"old");
            drop(out);
            assert_eq!(names(folder.path()), ["a"], "what was begun is gone");
            let mut out = begin(&path);
            out.write_all(b"new").unwrap();
            out.finish().unwrap();
            assert_eq!(
                (fs::read(&path).unwrap(), names(folder.path())),
                (b"new".to_vec(), vec!["a".to_owned()])
            );
            write(&path, b"old").unwrap();
        }
    }

    #[test]
    fn an_error_of_the_content_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, b"old").unwrap();
        let failed = with(
            &path,
            |error| error.to_string(),
            |out| {
                out.write_all(b"half").unwrap();
                Err::<(), _>("no more".to_owned())
            },
        );
        assert_eq!(failed, Err("no more".to_owned()));
        assert_eq!((fs::read(&path).unwrap(), names(folder.path())), (b"old".to_vec(), vec!["a".to_owned()]));
        assert!(with(&folder.path().join("none/a"), |error| error.kind(), |_| Ok(())).is_err());
        // a folder in the way: found at the end, and nothing is left
        fs::create_dir(folder.path().join("b")).unwrap();
        assert!(write(&folder.path().join("b"), b"x").is_err());
        assert_eq!(names(folder.path()), ["a", "b"]);
    }

    /// What a killed process leaves is what is in the folder while it writes: nothing, where files need no name.
    #[test]
    fn a_file_without_a_name_is_in_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut out = Aside::create(&folder.path().join("a")).unwrap();
        out.write_all(b"half").unwrap();
        out.flush().unwrap();
        match out.place {
            Place::Nameless => assert_eq!(names(folder.path()), Vec::<String>::new()),
            _ => assert_eq!(names(folder.path()).len(), 1),
        }
    }

    /// C6: a name that somebody has planted.
    #[test]
    fn a_symlink_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("a"), folder.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(
            (fs::read(&victim).unwrap(), fs::read(&path).unwrap()),
            (b"precious".to_vec(), b"new".to_vec())
        );
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn modes_are_those_of_new_files_or_as_asked() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (plain, ours, secret) =
            (folder.path().join("plain"), folder.path().join("ours"), folder.path().join("secret"));
        File::create(&plain).unwrap();
        write(&ours, b"").unwrap();
        assert_eq!(mode(&ours), mode(&plain));
        Aside::with_mode(&secret, 0o600).unwrap().finish().unwrap();
        assert_eq!(mode(&secret), 0o600);
    }

    #[test]
    fn a_pipe_is_written_to_directly() {
        let (mut reader, writer) = io::pipe().unwrap();
        write(Path::new(&format!("/proc/self/fd/{}", writer.as_raw_fd())), b"through").unwrap();
        drop(writer);
        let mut read = String::new();
        io::Read::read_to_string(&mut reader, &mut read).unwrap();
        assert_eq!(read, "through");
        write(Path::new("/dev/null"), b"away").unwrap();
    }
}
