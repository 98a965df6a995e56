//! Sub-schedulers (7.1 and later): schedulers attached to control groups below the first one. What is asked
//! for, and what of them?
//!
//! ```text
//! --param sub@/b=qmap            scx_qmap is the scheduler of the group /b, as `scx_qmap -c /sys/fs/cgroup/b` makes it
//! --param slice_ns@/b=5000000    its setting slice_ns
//! report: nr_dispatched@/b       its statistics
//! ```

use std::path::Path;

use super::{CompiledScx, Scx, ScxExit};
use schedlab_linux::InitCall;
use schedlab_linux::abi::Topo;
use schedlab_linux::kernel::LoadedKernel;

/// The name that attaches one: `sub@/GROUP`.
pub const ATTACHED: &str = "sub";

/// What a name of `--param` says of which sub-scheduler: `slice_ns@/b` is `slice_ns` of `/b`'s.
pub fn sub_of(name: &str) -> Option<(&str, &str)> {
    let (what, group) = name.split_once('@')?;
    group.starts_with('/').then_some((what, group))
}

/// The sub-schedulers of a run, outer groups before inner ones.
#[derive(Default)]
pub(crate) struct Subs(Vec<(String, Scx)>);

/// The kernel disables a sub-scheduler since the one above it goes (`SCX_EXIT_PARENT`).
const EXIT_PARENT: u32 = 68;

impl Subs {
    /// Load those of a scheduler, each with its settings among `params`.
    pub(crate) fn load(
        compiled: &CompiledScx,
        kernel: &LoadedKernel,
        kernel_object: &Path,
        cpus: &[Topo],
        params: &[(String, String)],
    ) -> Result<Subs, String> {
        let mut subs = Subs::default();
        // a path comes before those that it is the beginning of
        for (group, compiled) in &compiled.subs {
            let own = params.iter().filter_map(|(name, value)| match sub_of(name) {
                Some((what, of)) if of == group && what != ATTACHED => Some((what.to_owned(), value.clone())),
                _ => None,
            });
            let own: Vec<(String, String)> = own.collect();
            let named = |why: String| format!("the sub-scheduler of {group}: {why}");
            let scx = Scx::load_sub(compiled, kernel, kernel_object, cpus, &own, group).map_err(named)?;
            if let Some((name, _)) = own.iter().find(|(name, _)| !scx.has(name)) {
                return Err(named(format!("it has no variable {name} (--param {name}@{group})")));
            }
            subs.0.push((group.clone(), scx));
        }
        Ok(subs)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Which sub-scheduler has the tasks of a group: the one attached to the group, or to the nearest above it.
    pub(crate) fn of(&self, path: &str) -> Option<usize> {
        let is_below =
            |group: &str| path.strip_prefix(group).is_some_and(|r| r.is_empty() || r.starts_with('/'));
        self.0.iter().rposition(|(group, _)| is_below(group))
    }

    /// What process 1 has to call once the groups are there.
    pub(crate) fn calls(&mut self) -> Vec<InitCall> {
        let of = |(group, scx): &mut (String, Scx)| {
            let calls = scx.calls().into_iter();
            calls
                .map(|call| InitCall { what: format!("{}, the sub-scheduler of {group}", call.what), ..call })
                .collect::<Vec<_>>()
        };
        self.0.iter_mut().flat_map(of).collect()
    }

    /// What the kernel said about a refusal.
    pub(crate) fn refused(&self) -> Option<String> {
        self.0.iter().map(|(_, scx)| scx.refused()).find(|text| !text.is_empty())
    }

    /// Whether one is gone that was not taken along by the one above it.
    #[inline]
    pub(crate) fn have_exited(&self) -> bool {
        self.0.iter().any(|(_, scx)| scx.has_exited() && scx.exit_kind() != EXIT_PARENT)
    }

    /// Which that is, and why.
    pub(crate) fn exit(&self) -> Option<(&str, ScxExit)> {
        let mut gone = self.0.iter().filter_map(|(group, scx)| Some((group.as_str(), scx.exit()?)));
        gone.find(|(_, exit)| exit.kind != EXIT_PARENT)
    }

    /// Settings and statistics, each name followed by its group.
    pub(crate) fn account(&self) -> Vec<(String, String, String)> {
        let of = |(group, scx): &(String, Scx)| {
            // what was emulated is counted for all together
            let rows = scx.account().into_iter().filter(|(part, _, _)| part != "emulated");
            rows.map(|(part, name, value)| (part, format!("{name}@{group}"), value)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_they_are() {
        assert_eq!(sub_of("sub@/b"), Some((ATTACHED, "/b")));
        assert_eq!(
            sub_of("qa.test_error_cnt@/web/getty@tty1"),
            Some(("qa.test_error_cnt", "/web/getty@tty1"))
        );
        assert_eq!(sub_of("slice_ns"), None);
        assert_eq!(sub_of("x@y"), None);
    }
}
