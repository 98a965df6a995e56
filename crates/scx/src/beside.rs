//! How does a loaded scheduler stand beside the kernel? `impl Extension` for a scheduler with its sub-schedulers.

use std::path::Path;

use schedlab_linux::abi::Topo;
use schedlab_linux::{Extension, InitCall, LoadedKernel};

use crate::subs::Subs;
use crate::{CompiledScx, Scx, sub_of};

/// A sched_ext scheduler for one run: compiled, and from [`Extension::load`] on in the kernel's process.
pub struct ScxExtension {
    compiled: CompiledScx,
    scx: Option<Scx>,
    /// Attached once the control groups are there.
    subs: Subs,
}

impl ScxExtension {
    /// To be attached as the last step of the boot.
    pub fn new(compiled: CompiledScx) -> Self {
        Self { compiled, scx: None, subs: Subs::default() }
    }
}

impl Extension for ScxExtension {
    fn load(
        &mut self,
        kernel: &LoadedKernel,
        object: &Path,
        cpus: &[Topo],
        params: &[(String, String)],
    ) -> Result<(), String> {
        self.scx = Some(Scx::load(&self.compiled, kernel, object, cpus, params)?);
        self.subs = Subs::load(&self.compiled, kernel, object, cpus, params)?;
        Ok(())
    }

    fn nr_schedulers(&self) -> u32 {
        u32::from(self.scx.is_some()) + self.subs.len() as u32
    }

    fn takes(&self, name: &str) -> bool {
        self.scx.as_ref().is_some_and(|scx| scx.has(name)) || self.subs.len() > 0 && sub_of(name).is_some()
    }

    fn first_calls(&mut self) -> Vec<InitCall> {
        self.scx.iter_mut().flat_map(Scx::calls).collect()
    }

    fn later_calls(&mut self) -> Vec<InitCall> {
        self.subs.calls()
    }

    fn of_group(&self, path: &str) -> Option<usize> {
        self.subs.of(path)
    }

    fn refused_later(&self) -> Option<String> {
        self.subs.refused()
    }

    fn refused(&self) -> String {
        self.subs.refused().or_else(|| self.scx.as_ref().map(Scx::refused)).unwrap_or_default()
    }

    #[inline]
    fn has_exited(&self) -> bool {
        self.scx.as_ref().is_some_and(Scx::has_exited) || self.subs.have_exited()
    }

    fn exit(&self) -> Option<String> {
        match self.scx.as_ref()?.exit() {
            Some(exit) => Some(exit.to_string()),
            None => {
                let (group, exit) = self.subs.exit()?;
                Some(format!("the sub-scheduler of {group}: {exit}"))
            }
        }
    }

    fn account(&self) -> Vec<(String, String, String)> {
        let mut rows = self.scx.as_ref().map(Scx::account).unwrap_or_default();
        rows.extend(self.subs.account());
        rows
    }
}
