//! How does a person, a script or a viewer see a run? Summary on the terminal, JSON, one HTML file, Perfetto.
//!
//! And how does any result look? [`chart`] draws, [`table`] has rows, [`page`] puts both into one HTML file,
//! [`pages`] into a folder.
//!
//! ```
//! use schedlab_log::synthetic::Config;
//! use schedlab_report::{Detail, RunFacts, RunReport, Style, terminal};
//! let log = Config::default().log();
//! let run = RunReport::new(&log, RunFacts::default(), Detail::for_html(1)).unwrap();
//! assert!(terminal(&run, Style::PLAIN).contains("run delay"));
//! ```

#![recursion_limit = "256"] // serde_json's json! recurses once per field of the HTML report's data

pub mod chart;
mod diff;
mod facts;
mod groups;
mod html;
mod jobs;
mod json;
pub mod json_fields;
pub mod page;
pub mod pages;
mod perfetto;
mod report;
pub mod table;
mod terminal;
mod timeline;
pub mod units;
mod worst;

pub use diff::{DiffView, diff_json, diff_terminal};
pub use facts::{NextStep, RunFacts, RunView};
pub use groups::{Group, Groups};
pub use html::{html, write_html};
pub use jobs::{DeadlineMark, deadline_marks};
pub use json::{SCHEMA, json, json_with};
pub use perfetto::{PerfettoOptions, PerfettoStats, perfetto, write_perfetto};
pub use report::RunReport;
pub use terminal::{CHANGED, Style, changed_experiment, clip, terminal, wrapped};
pub use timeline::{Bucket, CELL_GROUPS, Detail, Timeline, Window, WindowRun};
pub use worst::{wasted_json, wasted_stretch_json, wasted_terminal, worst_stretches};
