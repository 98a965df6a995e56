use crate::args::DemoArgs;
use crate::failure::Result;
use crate::ui::Ui;
pub(crate) fn demo(_args: &DemoArgs, _ui: &Ui) -> Result<()> {
    Ok(())
}
