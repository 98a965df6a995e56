//! What a child that ran one schedule leaves behind: a page that it shares with its server.

use std::io;

use super::order::{Given, Late, Stop};

/// Code addresses that are kept: of a finding, and pairs of them that nothing orders.
const SITES: usize = 20;
pub(super) const PAIRS: usize = 200;
const TEXT: usize = 2000;
/// Stops, and late stores, that a schedule may have if it is not its process's first.
const STOPS: usize = 256;

/// How a schedule ended; plain data.
#[repr(C)]
pub(super) struct Page {
    /// 0: the child died; 1: nothing was found; 2: `kind` and `text`.
    status: u32,
    kind: u32,
    len: u32,
    nr_sites: u32,
    text: [u8; TEXT],
    /// Offsets into the kernel's text.
    sites: [u64; 2 * PAIRS],
    /// Per CPU: its points.
    pub(super) points: [u64; 64],
    /// What is to be run, and whether its accesses are recorded.
    stops: [Stop; STOPS],
    late: [Late; STOPS],
    nr_stops: u32,
    nr_late: u32,
    drawn: Option<u64>,
    /// Stops of a schedule that was drawn as it went on; they lie elsewhere.
    pub(super) nr_noted: u32,
    /// As the server numbers what is recorded.
    pub(super) watch: u32,
    is_answered: bool,
}

/// Kinds of findings, as the page numbers them.
pub(super) const KINDS: [&str; 8] =
    ["invariant", "deadlock", "livelock", "lost_wakeup", "crash", "warn", "race", REFUSED];
/// No finding: the kernel refuses what the scenario writes.
pub(super) const REFUSED: &str = "refused";

/// How a schedule ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Died,
    Good,
    Wrong { kind: &'static str, text: String, sites: Vec<u64> },
}

impl Page {
    /// A page that later children share, all zero.
    pub(super) fn shared() -> io::Result<&'static mut Page> {
        // SAFETY: a new mapping, zeroed, which is a valid Page; it stays until the process ends.
        unsafe { Ok(&mut *shared_memory(size_of::<Page>())?.cast::<Page>()) }
    }

    pub(super) fn clear(&mut self) {
        (self.status, self.nr_sites, self.len, self.nr_noted) = (0, 0, 0, 0);
    }

    /// The next schedule; whether there is room for it.
    pub(super) fn give(&mut self, Given { stops, late, drawn }: &Given) -> bool {
        let fits = stops.len() <= STOPS && late.len() <= STOPS;
        if fits {
            self.stops[..stops.len()].copy_from_slice(stops);
            self.late[..late.len()].copy_from_slice(late);
            (self.nr_stops, self.nr_late) = (stops.len() as u32, late.len() as u32);
            self.drawn = *drawn;
        }
        fits
    }

    pub(super) fn given(&self) -> Given {
        Given {
            stops: self.stops[..self.nr_stops as usize].to_vec(),
            late: self.late[..self.nr_late as usize].to_vec(),
            drawn: self.drawn,
        }
    }

    fn put(&mut self, text: &str) {
        let len = text.len().min(TEXT);
        self.text[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len = len as u32;
    }

    /// Whoever has asked has the answer, or gets it next.
    pub(super) fn answer(&mut self) {
        self.is_answered = true;
    }

    pub(super) fn is_answered(&self) -> bool {
        self.is_answered
    }

    pub(super) fn good(&mut self) {
        self.status = 1;
    }

    pub(super) fn wrong(&mut self, kind: &str, text: &str, sites: &[u64]) {
        self.kind = KINDS.iter().position(|k| *k == kind).unwrap_or(0) as u32;
        self.put(text);
        let nr = sites.len().min(if kind == "race" { 2 * PAIRS } else { SITES });
        self.sites[..nr].copy_from_slice(&sites[..nr]);
        self.nr_sites = nr as u32;
        self.status = 2;
    }

    pub(super) fn verdict(&self) -> Verdict {
        let text = || String::from_utf8_lossy(&self.text[..self.len as usize]).into_owned();
        match self.status {
            1 => Verdict::Good,
            2 => Verdict::Wrong {
                kind: KINDS[self.kind as usize],
                text: text(),
                sites: self.sites[..self.nr_sites as usize].to_vec(),
            },
            _ => Verdict::Died,
        }
    }
}

/// Memory that children share with their server; only what is touched costs anything.
pub(super) fn shared_memory(bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: a new anonymous mapping.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start.cast()) }
}
