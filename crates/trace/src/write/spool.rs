//! Where do pages wait until their trace can be written? In one unnamed file, in chunks, with an index in memory.

use super::{Compression, FileVersion, PAGES_PER_CHUNK, WriteOptions};
use crate::error::WriteError;
use schedlab_units::CpuId;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// One chunk in the spool file.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    pub offset: u64,
    pub stored_bytes: u32,
    pub raw_bytes: u32,
}

#[derive(Default)]
struct CpuSpool {
    pending: Vec<u8>,
    chunks: Vec<Chunk>,
}

pub(super) struct Spool {
    file: File,
    directory: PathBuf,
    end: u64,
    page_size: usize,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    compressed: Vec<u8>,
    cpus: BTreeMap<CpuId, CpuSpool>,
}

impl Spool {
    pub fn create(directory: &Path, options: WriteOptions) -> Result<Spool, WriteError> {
        let io = |source| WriteError::Io {
            action: "making a spool file in",
            path: directory.to_path_buf(),
            source,
        };
        let compressor = match options.version {
            FileVersion::V7(Compression::Zstd(level)) => {
                Some(zstd::bulk::Compressor::new(level).map_err(io)?)
            }
            _ => None,
        };
        Ok(Spool {
            file: tempfile::tempfile_in(directory).map_err(io)?,
            directory: directory.to_path_buf(),
            end: 0,
            page_size: options.page_size,
            compressor,
            compressed: Vec::new(),
            cpus: BTreeMap::new(),
        })
    }

    /// `pages` is a whole number of pages.
    pub fn append(&mut self, cpu: CpuId, mut pages: &[u8]) -> Result<(), WriteError> {
        let chunk_bytes = self.page_size * PAGES_PER_CHUNK;
        while !pages.is_empty() {
            let pending = &mut self.cpus.entry(cpu).or_default().pending;
            let (head, tail) = pages.split_at(pages.len().min(chunk_bytes - pending.len()));
            pending.extend_from_slice(head);
            pages = tail;
            if pending.len() == chunk_bytes {
                self.flush_cpu(cpu)?;
            }
        }
        Ok(())
    }

    pub fn flush(&mut self) -> Result<(), WriteError> {
        for cpu in self.cpus.keys().copied().collect::<Vec<_>>() {
            self.flush_cpu(cpu)?;
        }
        Ok(())
    }

    fn flush_cpu(&mut self, cpu: CpuId) -> Result<(), WriteError> {
        let io = |source| WriteError::Io {
            action: "writing the spool file in",
            path: self.directory.clone(),
            source,
        };
        let spool = self.cpus.entry(cpu).or_default();
        if spool.pending.is_empty() {
            return Ok(());
        }
        let stored = match &mut self.compressor {
            None => &spool.pending,
            Some(compressor) => {
                self.compressed.clear();
                self.compressed.reserve(zstd::zstd_safe::compress_bound(spool.pending.len()));
                compressor.compress_to_buffer(&spool.pending, &mut self.compressed).map_err(io)?;
                &self.compressed
            }
        };
        self.file.seek(SeekFrom::Start(self.end)).and_then(|_| self.file.write_all(stored)).map_err(io)?;
        // A chunk is at most 16 pages of 1 MiB: both lengths fit.
        spool.chunks.push(Chunk {
            offset: self.end,
            stored_bytes: stored.len() as u32,
            raw_bytes: spool.pending.len() as u32,
        });
        self.end += stored.len() as u64;
        spool.pending.clear();
        Ok(())
    }

    /// CPUs with data, in order.
    pub fn cpus(&self) -> impl Iterator<Item = (CpuId, &[Chunk])> {
        self.cpus.iter().map(|(cpu, spool)| (*cpu, spool.chunks.as_slice()))
    }

    /// Chunks of one CPU.
    pub fn chunks(&self, cpu: CpuId) -> &[Chunk] {
        self.cpus.get(&cpu).map_or(&[], |spool| &spool.chunks)
    }

    /// Bytes of pages over all CPUs, uncompressed.
    pub fn raw_bytes(&self) -> u64 {
        self.cpus.values().flat_map(|spool| &spool.chunks).map(|chunk| u64::from(chunk.raw_bytes)).sum()
    }

    /// Copies one chunk as stored.
    pub fn copy(&mut self, chunk: Chunk, buffer: &mut Vec<u8>, out: &mut impl Write) -> std::io::Result<()> {
        buffer.resize(chunk.stored_bytes as usize, 0);
        self.file.seek(SeekFrom::Start(chunk.offset))?;
        self.file.read_exact(buffer)?;
        out.write_all(buffer)
    }
}
