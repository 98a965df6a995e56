//! What do the three processes of a run share? One page of a file that has no name and lies in memory.
//!
//! ```text
//!   caller ── maps ──> ┌──────────────────────────────┐ <── maps ── worker ── fork ──> child
//!   reads it when      │ pulse     events so far      │  looks at it            counts up
//!   the child is gone  │ log       not yet handed on  │                         native policies write
//!                      │ window    not yet handed on  │                         the kernel object writes
//!                      │ scene     of a crash         │                         its signal handler writes
//!                      └──────────────────────────────┘
//! ```
//!
//! A worker has one for all its runs: its 130 pages are made once.

use crate::crash::Scene;
use rustix::fs::{MemfdFlags, SealFlags};
use schedlab_linux::kernel::WINDOW;
use schedlab_log::Record;
use schedlab_machine::sink::Buffer;
use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Shared by the processes of a run.
#[repr(C)]
pub(crate) struct ControlPage {
    /// Grows while events happen.
    pub pulse: AtomicU64,
    /// Not 0: the child has run to its end, and leaves by itself.
    pub leaves: AtomicU32,
    /// Records that are not yet in the spill file; what a child that died leaves in it is read from here.
    pub log: Buffer,
    /// The same of a kernel object, which writes its records itself.
    window: UnsafeCell<[Record; WINDOW]>,
    /// Written by a child that crashes, read when it is gone.
    scene: UnsafeCell<Scene>,
}

// SAFETY: window and scene are written by one process (the child) and read by another only after that one has ended.
unsafe impl Sync for ControlPage {}

impl ControlPage {
    /// For a kernel object's log, in the child.
    pub(crate) fn window(&self) -> *mut [Record; WINDOW] {
        self.window.get()
    }

    /// Where a crash is to be described.
    pub(crate) fn scene(&self) -> *mut Scene {
        self.scene.get()
    }

    /// What a child that has ended left: its last records, first those of a native policy or else of a kernel
    /// object, and the scene of its crash.
    pub(crate) fn remains(&self) -> (&[Record], Scene) {
        // SAFETY: the child is gone, and with it whoever writes; records and scene are plain data.
        let (scene, window) = unsafe { (*self.scene.get(), &*self.window.get()) };
        let rest = self.log.rest();
        let left = if rest.is_empty() { &window[..scene.nr_window(WINDOW)] } else { rest };
        (left, scene)
    }

    /// Makes it ready for the next child. There must be none.
    pub(crate) fn clear(&self) {
        self.pulse.store(0, Ordering::Relaxed);
        self.leaves.store(0, Ordering::Relaxed);
        self.log.clear();
        // SAFETY: there is no child; the scene is plain data, for which all zeroes is the empty one.
        unsafe { self.scene.get().write_bytes(0, 1) };
    }
}

/// The control page in the memory of this process.
pub(crate) struct SharedPage(*mut ControlPage);

// SAFETY: the mapping is no thread's; ControlPage is Sync.
unsafe impl Send for SharedPage {}

impl SharedPage {
    /// A new one, and the file to map it from elsewhere.
    pub(crate) fn create() -> io::Result<(SharedPage, File)> {
        let file = memory_file("schedlab-control")?;
        file.set_len(size_of::<ControlPage>() as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((SharedPage::of(&file)?, file))
    }

    /// That of another process.
    pub(crate) fn of(file: &File) -> io::Result<SharedPage> {
        if file.metadata()?.len() < size_of::<ControlPage>() as u64 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        // SAFETY: a fresh mapping of a file that is long enough and (sealed) stays so; no address is asked
        // for, so nothing is replaced.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<ControlPage>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(SharedPage(page.cast())) }
    }

    pub(crate) fn get(&self) -> &ControlPage {
        // SAFETY: the mapping lives as long as `self`; the file began as zeroes, which are valid for all fields.
        unsafe { &*self.0 }
    }

    /// For the rest of the process.
    pub(crate) fn leak(self) -> &'static ControlPage {
        // SAFETY: as for `get`; the mapping is never removed, since nothing is dropped.
        unsafe { &*std::mem::ManuallyDrop::new(self).0 }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: `self.0` is the mapping made in `of`, and no reference outlives `self` in this process.
        unsafe { libc::munmap(self.0.cast(), size_of::<ControlPage>()) };
    }
}

/// A file without a name, in memory.
pub(crate) fn memory_file(name: &str) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(File::from(rustix::fs::memfd_create(name, flags)?))
}
