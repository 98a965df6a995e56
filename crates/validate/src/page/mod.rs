//! What does a person see of it? A table on the terminal, a page, and CSV.

mod csv;
mod html;
mod text;

pub use csv::csv;
pub use html::html;
pub(crate) use text::number;
pub use text::{Width, table};
