//! As whom does a recorded command run, and whose are the files?
//!
//! Recording needs root, the command does not. `sudo schedlab record -- make` runs `make` as the user who typed
//! it: sudo says who that is (SUDO_UID). The recording is that user's as well, since one of the whole system
//! has mode 0600.
//!
//! ```text
//! ada$ sudo schedlab record -- make          make runs as ada, with ada's groups and HOME; trace.dat is ada's
//! ada$ sudo schedlab record --user root -- make                as root
//! ```

use crate::error::HostError;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A user of this system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: String,
    /// User and primary group.
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<libc::gid_t>,
    home: OsString,
}

/// Most groups of a user that are asked for: the kernel's own limit (NGROUPS_MAX).
const GROUPS: usize = 65_536;

impl User {
    /// By login name or number.
    ///
    /// # Errors
    /// [`HostError::Option`]: there is no such user.
    pub fn named(name: &str) -> Result<User, HostError> {
        let unknown = || HostError::Option {
            option: "--user",
            value: name.to_owned(),
            expected: "the name or the number of a user of this system",
        };
        let text = CString::new(name).map_err(|_| unknown())?;
        // SAFETY: the text ends in NUL; the entry is copied before anything else asks for one. Nothing else
        // here does.
        let found = unsafe { entry(libc::getpwnam(text.as_ptr())) };
        let by_number = || {
            let uid = name.parse().ok()?;
            // SAFETY: as above.
            unsafe { entry(libc::getpwuid(uid)) }
        };
        found.or_else(by_number).ok_or_else(unknown)
    }

    /// Who called sudo, if this is root by sudo.
    pub fn invoking() -> Option<User> {
        // SAFETY: asks for a number.
        let is_root = unsafe { libc::geteuid() } == 0;
        let uid = std::env::var("SUDO_UID").ok().filter(|uid| is_root && uid != "0")?;
        User::named(&uid).ok()
    }

    /// The environment for its processes: as sudo sets it for root, with this user in it.
    pub(crate) fn environment(&self) -> Vec<CString> {
        let own: [(&str, &OsStr); 3] =
            [("HOME", &self.home), ("USER", self.name.as_ref()), ("LOGNAME", self.name.as_ref())];
        let others = std::env::vars_os().filter(|(name, _)| own.iter().all(|(known, _)| name != *known));
        let own = own.map(|(name, value)| (OsString::from(name), value.to_owned()));
        let line = |(name, value): (OsString, OsString)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
        };
        others.chain(own).filter_map(line).collect()
    }

    /// Makes a file of root's, which has just been written, this user's. Another's file in its place (a link)
    /// stays as it is.
    pub(crate) fn give(&self, path: &Path) -> Result<(), HostError> {
        let failed = HostError::io("cannot give to its user", path);
        let given = || -> io::Result<()> {
            let file = std::fs::File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
            let is = file.metadata()?;
            // SAFETY: asks for a number.
            if !is.is_file() || is.nlink() != 1 || is.uid() != unsafe { libc::geteuid() } {
                return Ok(());
            }
            // SAFETY: the descriptor is open.
            match unsafe { libc::fchown(file.as_raw_fd(), self.uid, self.gid) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        given().map_err(failed)
    }
}

/// # Safety
/// `entry` is null or what the C library has just answered.
unsafe fn entry(entry: *const libc::passwd) -> Option<User> {
    // SAFETY: by the caller's word.
    let entry = unsafe { entry.as_ref() }?;
    // SAFETY: the C library's texts end in NUL and live until it is asked again.
    let text =
        |text: *const libc::c_char| OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()).to_owned();
    let (name, home) = (text(entry.pw_name), text(entry.pw_dir));
    let mut groups = vec![0; GROUPS];
    let mut nr_groups = GROUPS as libc::c_int;
    // SAFETY: the array has the length that is given, which comes back as that of what was filled in.
    let all =
        unsafe { libc::getgrouplist(entry.pw_name, entry.pw_gid, groups.as_mut_ptr(), &raw mut nr_groups) };
    groups.truncate(if all < 0 { GROUPS } else { nr_groups as usize });
    Some(User { name: name.into_string().ok()?, uid: entry.pw_uid, gid: entry.pw_gid, groups, home })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let nobody = User::named("nobody").expect("every system has nobody");
        assert_eq!(User::named(&nobody.uid.to_string()).unwrap(), nobody);
        assert!(nobody.groups.contains(&nobody.gid));
        let environment = nobody.environment();
        assert!(environment.iter().any(|line| line.to_bytes() == b"USER=nobody"));
        let homes = environment.iter().filter(|line| line.to_bytes().starts_with(b"HOME=")).count();
        assert_eq!(homes, 1);
        let error = User::named("no such user").unwrap_err().to_string();
        assert!(error.contains("no such user") && error.contains("--user"), "{error}");
    }
}
