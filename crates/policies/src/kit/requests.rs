//! Requests to the adaptor, in order.

use schedlab_machine::policy::Request;
use schedlab_units::{CpuId, TaskId};
use std::collections::VecDeque;

/// What the adaptor has not yet been asked for.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: VecDeque<Request>,
}

impl Requests {
    /// Let a CPU pick again.
    pub(crate) fn kick(&mut self, cpu: CpuId) {
        self.waiting.push_back(Request::Kick(cpu));
    }

    /// Let a CPU's timer be asked for again.
    pub(crate) fn timer(&mut self, cpu: CpuId) {
        self.waiting.push_back(Request::Timer(cpu));
    }

    /// A queued task has been moved to another CPU's queue.
    pub(crate) fn moved(&mut self, task: TaskId, to: CpuId) {
        self.waiting.push_back(Request::Moved { task, to });
    }

    /// A task is picked: that it was moved shows in the pick.
    #[inline]
    pub(crate) fn picked(&mut self, task: Option<TaskId>) {
        if let Some(picked) = task
            && !self.waiting.is_empty()
        {
            self.waiting.retain(|request| !matches!(request, Request::Moved { task, .. } if *task == picked));
        }
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Option<Request> {
        self.waiting.pop_front()
    }
}
