use crate::args::ImportArgs;
use crate::failure::Result;
use crate::ui::Ui;
pub(crate) fn import(args: &ImportArgs, ui: &Ui) -> Result<()> {
    let loaded = crate::input::load(&args.input, ui)?;
    println!("{} tasks {:?}", loaded.workload.tasks.len(), loaded.path);
    Ok(())
}
