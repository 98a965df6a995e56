//! Which settings does an exported run tell in lines of text? All of them, in the words of a workload's PRIO:
//! affinity masks, deadline parameters, FIFO or RR stand behind a pointer in the system calls and in no event
//! of the scheduler.
//!
//! ```text
//! 815 print: schedlab: sets 816: policy=rr prio=50       the calls that follow say the same once more
//! 815 fork 817; print: schedlab: 817 begins with: affinity=2
//! ```

use super::engine::Deriver;
use super::tasks::Where;
use crate::check::params_flaw;
use crate::{CgroupId, EventKind, InitState, parse_change_words};
use schedlab_trace::{CommId, Pid};
use schedlab_units::TaskId;

impl Deriver<'_> {
    /// A line of text in the context of whoever is on this CPU.
    #[cold]
    pub(super) fn settings(&mut self, cpu: usize, pid: Pid, born: bool, words: &str) {
        let found = parse_change_words(words).filter(|(change, _)| {
            change.params.is_none_or(|params| params_flaw(&params).is_none())
                && change.affinity.as_ref().is_none_or(|affinity| !affinity.is_empty())
        });
        let Some((mut change, path)) = found else {
            return self.count("line about settings that makes no sense, left out", 1);
        };
        // A sleeper that the trace has not shown yet was there before it.
        let target = self.tasks.find(pid).unwrap_or_else(|| {
            let at = Where::Blocked { since_ns: self.start_ns.unwrap_or(self.now_ns) };
            self.tasks.add_init(pid, CommId::default(), InitState::Blocked, at)
        });
        change.cgroup = path.filter(|path| path.starts_with('/')).map(|path| CgroupId(self.moves.row(&path)));
        if born {
            if !matches!(self.tasks.list[target].at, Where::New) {
                return self.count("line about settings that makes no sense, left out", 1);
            }
            let state = &mut self.tasks.list[target].prio;
            if let Some(params) = change.params {
                (state.initial, state.current) = (Some(params), Some(params));
            }
            state.born = Some(Box::new(change));
            return;
        }
        let Some(caller) = self.current(cpu).filter(|task| self.tasks.list[*task].runs_on(cpu)) else {
            return self.count("note of a task that is not on its CPU, left out", 1);
        };
        self.facts.told_settings = true;
        if !self.tasks.list[caller].new_children.is_empty() {
            self.fork_children(caller); // perhaps it is one of them
        }
        let at_start = self.row_of(target).and_then(|row| row.params);
        let state = &mut self.tasks.list[target].prio;
        state.current = state.current.or(at_start);
        if change.params.is_some() || change.nice.is_some() {
            let mut new = change.params.unwrap_or(state.current.unwrap_or_default());
            new.nice = change.nice.unwrap_or(new.nice);
            state.current = Some(new);
        }
        change.target = Some(TaskId(target as u32)).filter(|_| target != caller);
        let change = Box::new(change);
        self.tasks.emit(caller, self.now_ns, |length| EventKind::Prio { length, change });
    }
}
