//! What if several workloads ran at once? A mix names them, and says when each begins, how often, and with
//! which settings.
//!
//! It is WARP's workload specification file (section III.B) as TOML. Four compiles of one recording, each in
//! a group of its own:
//!
//! ```toml
//! duration = "60s"
//!
//! [[part]]
//! workload = "compile"          # any workload: text, binary, trace, folder, another mix; from where this file is
//! copies = 4                    # at once ...
//! every = "500ms"               # ... each half a second after the one before
//! cgroup_root = "/session-{copy}"
//! prefix = "s{copy}/"           # the tasks are called s1/make, s1/cc1, ...
//!
//! [[part.task]]                 # for some of its tasks
//! name = "cc1*"
//! nice = 5
//!
//! [[cgroup]]
//! path = "/session-1"
//! weight = 400
//! ```
//!
//! Every part is made a workload of its own first; then, in this order: some of it is taken (`from`, `to`),
//! times are scaled, tasks end at their `cpu_limit`, settings are overridden, and copies are added up. Pids,
//! events and rows never collide: a copy keeps its pids if they are free, else they are shifted by a power of
//! ten (pid 123 becomes 10123), so that they stay known. Errors say line and column, and show the line
//! with a caret.
//!
//! [`Mix::parse`] reads the file, [`Mix::build`] makes the workload; loading the parts is the caller's, who
//! knows traces and recursion.

mod build;
mod error;
mod fields;
mod file;
mod overrides;
mod repeat;

pub use error::MixError;

use crate::generate::Spec;
use crate::tools::{Factor, Selector};
use crate::{Cgroup, Workload};
use overrides::Override;
use schedlab_units::Span;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A mix, as its file says.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Its file.
    path: PathBuf,
    text: String,
    /// The run ends then.
    pub duration: Option<Span>,
    groups: Vec<(Cgroup, Range<usize>)>,
    parts: Vec<Part>,
}

/// Loads what a part names; the path is as in the mix, from the mix's folder. The error is a sentence.
pub type Load<'a> = dyn FnMut(&Path) -> Result<Workload, String> + 'a;

/// Where a part's workload comes from.
#[derive(Clone, Debug)]
enum Origin {
    Path(PathBuf),
    Generate(Box<Spec>),
}

/// One entry.
#[derive(Clone, Debug)]
struct Part {
    origin: Origin,
    /// Where `workload` or `generate` stands, and the whole entry.
    origin_at: Range<usize>,
    at: Range<usize>,
    start: Span,
    copies: u32,
    copies_at: Range<usize>,
    every: Span,
    repeat: u32,
    repeat_at: Range<usize>,
    window: Option<(Span, Span)>,
    prefix: String,
    cgroup_root: Option<(String, Range<usize>)>,
    /// For all its tasks, then for some; later ones win.
    rules: Vec<Rule>,
}

/// What is to be done with some tasks.
#[derive(Clone, Debug)]
struct Rule {
    select: Selector,
    at: Range<usize>,
    cpu_scale: Option<Factor>,
    sleep_scale: Option<Factor>,
    cpu_limit: Option<Span>,
    over: Override,
}

impl Default for Part {
    fn default() -> Part {
        Part {
            origin: Origin::Path(PathBuf::new()),
            origin_at: 0..0,
            at: 0..0,
            start: Span::ZERO,
            copies: 1,
            copies_at: 0..0,
            every: Span::ZERO,
            repeat: 1,
            repeat_at: 0..0,
            window: None,
            prefix: String::new(),
            cgroup_root: None,
            rules: Vec::new(),
        }
    }
}

impl Mix {
    /// A mix of these, one copy each, all from the start.
    pub fn of(paths: &[PathBuf]) -> Mix {
        let part = |path: &PathBuf| Part { origin: Origin::Path(path.clone()), ..Part::default() };
        let parts = paths.iter().map(part).collect();
        Mix {
            path: PathBuf::from("several workloads"),
            text: String::new(),
            duration: None,
            groups: Vec::new(),
            parts,
        }
    }

    /// The workloads that it names, as it names them.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().filter_map(|part| match &part.origin {
            Origin::Path(path) => Some(path.as_path()),
            Origin::Generate(_) => None,
        })
    }
}
