use crate::args::LinuxCommand;
use crate::failure::Result;
use crate::ui::Ui;
pub(crate) struct Version {
    pub name: String,
    pub summary: String,
    pub built: bool,
}
pub(crate) fn versions() -> Vec<Version> {
    vec![]
}
pub(crate) fn linux(_c: &LinuxCommand, _ui: &Ui) -> Result<()> {
    Ok(())
}
