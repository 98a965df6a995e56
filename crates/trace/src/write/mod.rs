//! How do raw ring-buffer pages become a trace.dat that `trace-cmd report` and KernelShark open?
//!
//! [`TraceDatWriter`] takes pages of any CPU in any order while the recording runs and keeps them
//! (zstd-compressed unless told otherwise) in one unnamed spool file beside the target.
//! [`TraceDatWriter::finish`] adds what describes them ([`TraceMeta`]) and writes the trace aside
//! ([`Aside`]), so that nobody ever sees half a file:
//!
//! ```text
//! append_pages(cpu0) ─┐             ┌ magic, version, page size, "zstd"
//! append_pages(cpu1) ─┼─> spool ──> ┤ header_page, event formats, kallsyms, saved_cmdlines
//! append_pages(cpu0) ─┘             │ options, the BUFFER option with each CPU's place and size
//!                                   └ cpu0's pages, cpu1's pages (each from a page boundary)
//! ```
//!
//! The directory of the CPUs stands before their data (trace-cmd writes it behind), so that a truncated file
//! loses pages and not the way to find them. Memory: one chunk of [`PAGES_PER_CHUNK`] pages per CPU that has
//! data, 64 KiB with pages of 4 KiB, and 24 bytes for each chunk written.

mod meta;
mod pages;
mod spool;
mod v6;
mod v7;

pub(crate) use meta::selected_clock;
pub use meta::{EventSystem, RawOption, TraceMeta};
pub use pages::{Missed, PageBuilder};

use crate::error::WriteError;
use schedlab_stdx::aside::{Aside, folder_of};
use schedlab_units::CpuId;
use spool::Spool;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Pages in one compressed chunk. Larger compresses better and costs memory per CPU; trace-cmd itself uses 10.
pub const PAGES_PER_CHUNK: usize = 16;

/// Which of the two file formats to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileVersion {
    /// Version 6: never compressed, read by every trace-cmd.
    V6,
    /// Version 7 (trace-cmd 3.0 of 2022 and later).
    V7(Compression),
}

/// How a version 7 file stores its sections and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    None,
    /// zstd at this level, 1 (fast) to 19 (small).
    Zstd(i32),
}

/// How to write; [`WriteOptions::default`] is version 7 with zstd level 3 and pages of 4096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// File format.
    pub version: FileVersion,
    /// Bytes of one ring-buffer page ("sub-buffer"): the kernel's `buffer_subbuf_size_kb` x 1024.
    pub page_size: usize,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions { version: FileVersion::V7(Compression::Zstd(3)), page_size: 4096 }
    }
}

/// What [`TraceDatWriter::finish`] wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenTrace {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Ring-buffer pages in it, over all CPUs.
    pub pages: u64,
    /// CPUs with at least one page.
    pub cpus_with_data: u32,
}

/// Writes one trace.dat. Dropping it without [`finish`](TraceDatWriter::finish) leaves nothing behind.
pub struct TraceDatWriter {
    path: PathBuf,
    options: WriteOptions,
    spool: Spool,
}

impl TraceDatWriter {
    /// Starts a trace that will be named `path`. Its directory must exist and be writable: the spool file lives there.
    pub fn create(path: &Path, options: WriteOptions) -> Result<TraceDatWriter, WriteError> {
        if !options.page_size.is_power_of_two() || !(512..=1 << 20).contains(&options.page_size) {
            return Err(WriteError::PageSize { value: options.page_size });
        }
        let spool = Spool::create(folder_of(path), options)?;
        Ok(TraceDatWriter { path: path.to_path_buf(), options, spool })
    }

    /// Adds whole pages read from `per_cpu/cpuN/trace_pipe_raw` of `cpu`, after those already added for it.
    ///
    /// # Errors
    /// [`WriteError::PartialPage`] if `pages` is no multiple of the page size; [`WriteError::Io`].
    pub fn append_pages(&mut self, cpu: CpuId, pages: &[u8]) -> Result<(), WriteError> {
        if !pages.len().is_multiple_of(self.options.page_size) {
            return Err(WriteError::PartialPage {
                cpu,
                bytes: pages.len(),
                page_size: self.options.page_size,
            });
        }
        self.spool.append(cpu, pages)
    }

    /// Adds everything `data` gives as pages of `cpu`; returns the number of bytes. A last page cut short (as
    /// the kernel never writes one, but a broken copy may) is an error.
    pub fn add_cpu_data(&mut self, cpu: CpuId, mut data: impl Read) -> Result<u64, WriteError> {
        let mut chunk = vec![0; self.options.page_size * PAGES_PER_CHUNK];
        let (mut held, mut total) = (0, 0);
        loop {
            let count = match data.read(&mut chunk[held..]) {
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(WriteError::Io {
                        action: "reading ring-buffer pages for",
                        path: self.path.clone(),
                        source,
                    });
                }
            };
            held += count;
            total += count as u64;
            if held == chunk.len() || count == 0 {
                self.append_pages(cpu, &chunk[..held])?;
                held = 0;
            }
            if count == 0 {
                return Ok(total);
            }
        }
    }

    /// Writes the trace and gives it its name.
    pub fn finish(mut self, meta: &TraceMeta) -> Result<WrittenTrace, WriteError> {
        self.spool.flush()?;
        meta.check()?;
        let path = self.path;
        let io = |source| WriteError::Io { action: "writing", path: path.clone(), source };
        let mut out = Aside::create(&path).map_err(io)?;
        let written = match self.options.version {
            FileVersion::V6 => v6::write(&mut out, meta, &mut self.spool, self.options),
            FileVersion::V7(compression) => {
                v7::write(&mut out, meta, &mut self.spool, self.options, compression)
            }
        }
        .map_err(io)?;
        out.finish().map_err(io)?;
        Ok(written)
    }
}

/// Writes zeros until the file is `position` bytes long; `at` is its present length.
fn pad_to(out: &mut impl Write, at: &mut u64, position: u64) -> std::io::Result<()> {
    let zeros = [0; 512];
    while *at < position {
        let count = zeros.len().min((position - *at) as usize);
        out.write_all(&zeros[..count])?;
        *at += count as u64;
    }
    Ok(())
}

/// `value` rounded up to a multiple of `unit`, a power of two.
fn round_up(value: u64, unit: usize) -> u64 {
    value.next_multiple_of(unit as u64)
}
