//! Where do the tables and drawings of a study go? The same options for every study.

use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use clap::Args;
use schedlab_report::pages::{Pages, create};
use std::path::PathBuf;

#[derive(Args, Debug, Default)]
pub(crate) struct OutputArgs {
    /// Write everything into this folder: a page, CSV, JSON, SVG.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write one page with all drawings and tables.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write a CSV file per table into this folder.
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Write an SVG file per drawing into this folder.
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Write all tables as JSON, `-` = standard output (then nothing else is printed there).
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl OutputArgs {
    /// Refuses what cannot be written before anything is computed.
    pub(crate) fn check(&self) -> Result<()> {
        for folder in [&self.output, &self.csv, &self.svg].into_iter().flatten() {
            create(folder).map_err(Failure::input)?;
        }
        for file in [&self.html, &self.json].into_iter().flatten() {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            if file.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
                let problem = if file.is_dir() { "is a folder" } else { "its folder does not exist" };
                let path = file.display();
                return Err(Failure::Input(format!(
                    "{path}: {problem}; give a file name in an existing folder"
                )));
            }
        }
        Ok(())
    }

    /// Writes and prints; `summary` is for the terminal.
    pub(crate) fn deliver(&self, pages: &Pages, summary: &str, ui: &Ui) -> Result<()> {
        let mut written = Vec::new();
        if let Some(folder) = &self.output {
            let paths = pages.write(folder).map_err(Failure::input)?;
            written.push(paths[0].clone());
        }
        if let Some(path) = &self.html {
            output::text(path, &pages.html())?;
            written.push(path.clone());
        }
        if let Some(folder) = &self.csv {
            written.extend(pages.write_csv(folder).map_err(Failure::input)?);
        }
        if let Some(folder) = &self.svg {
            written.extend(pages.write_svg(folder).map_err(Failure::input)?);
        }
        if !output::json(self.json.as_deref(), |out| writeln!(out, "{}", pages.to_json()))? {
            print!("{summary}");
        }
        written.iter().for_each(|path| ui.say(format!("wrote {}", path.display())));
        Ok(())
    }
}
