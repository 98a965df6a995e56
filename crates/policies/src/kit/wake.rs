//! On which CPU should a woken task of a fair class wait? Linux's answer in two generations.

use super::balance::RunQueues;
use super::domains::Domains;
use schedlab_machine::policy::View;
use schedlab_units::{CpuId, TaskId};

/// The waker's CPU may be this much more loaded than the task's own, in per cent: half of what balancing
/// tolerates (125).
const IMBALANCE_PCT: u64 = 112;

/// 2.6.18 to 2.6.32: the CPU where it ran last, or its waker's if the load there would not exceed that.
pub(crate) fn classic<Q: RunQueues>(
    queues: &Q,
    view: &View,
    task: TaskId,
    weight: u64,
    waker: Option<TaskId>,
) -> CpuId {
    let home = view.home_cpu(task);
    let Some(here) = waker.map(|waker| view.task_cpu(waker)) else { return home };
    if here == home || !view.allowed(task, here) {
        return home;
    }
    let (here_load, home_load) = (queues.load(here), queues.load(home));
    let nr_here = u64::from(queues.nr_running(here)).max(1);
    let fits = here_load <= home_load && here_load + home_load <= here_load / nr_here;
    if fits || 100 * (here_load + weight) <= IMBALANCE_PCT * home_load { here } else { home }
}

/// 5.x and 6.x: the waker's CPU or its own by load, then an idle one that shares a cache with that: it, its
/// own, an idle core, an idle CPU.
pub(crate) fn modern<Q: RunQueues>(
    queues: &Q,
    view: &View,
    domains: &Domains,
    task: TaskId,
    weight: u64,
    waker: Option<TaskId>,
) -> CpuId {
    let home = view.home_cpu(task);
    let here = waker.map_or(home, |waker| view.task_cpu(waker));
    let mut target = home;
    if here != home
        && view.allowed(task, here)
        && !view.is_idle(home)
        && 100 * (queues.load(here) + weight) < IMBALANCE_PCT * queues.load(home)
    {
        target = here;
    }
    if view.is_idle(target) {
        return target;
    }
    let near = domains.cache_of(target);
    if near.contains(&home) && view.is_idle(home) {
        return home;
    }
    if !view.any_idle() {
        return target;
    }
    // the CPUs that share the cache, from the one after the target on, around
    let start = near.iter().position(|&cpu| cpu == target).map_or(0, |place| place + 1);
    let around = || near[start.min(near.len())..].iter().chain(&near[..start.min(near.len())]).copied();
    let usable = |&cpu: &CpuId| view.is_idle(cpu) && view.allowed(task, cpu);
    let cpus = view.topology().cpus();
    let has_siblings = near.len() > 1 && cpus[near[0].index()].core == cpus[near[1].index()].core;
    let idle_core =
        |cpu: &CpuId| near.iter().all(|c| cpus[c.index()].core != cpus[cpu.index()].core || view.is_idle(*c));
    let core = if has_siblings { around().filter(usable).find(idle_core) } else { None };
    core.or_else(|| around().find(usable)).unwrap_or(target)
}

/// A new task: an idle CPU (its own if that is one), else the least loaded.
pub(crate) fn idlest<Q: RunQueues>(queues: &Q, view: &View, task: TaskId) -> CpuId {
    let home = view.home_cpu(task);
    let allowed = view.topology().ids().filter(|&cpu| view.allowed(task, cpu));
    allowed.min_by_key(|&cpu| (!view.is_idle(cpu), queues.load(cpu), cpu != home, cpu)).unwrap_or(home)
}

/// 5.x and 6.x: a new task goes to an idle CPU, the first after the CPU of its creator, or else to the least
/// loaded; its creator's if no other is less loaded. Who creates the tasks of the start runs on CPU 0.
pub(crate) fn idlest_modern<Q: RunQueues>(
    queues: &Q,
    view: &View,
    task: TaskId,
    parent: Option<TaskId>,
) -> CpuId {
    let here = parent.map_or(CpuId(0), |parent| view.task_cpu(parent));
    let is_idle = |cpu: CpuId| view.is_idle(cpu) && cpu != here;
    let nr_cpus = view.nr_cpus();
    let distance = |cpu: CpuId| (cpu.0 + nr_cpus - here.0) % nr_cpus;
    let allowed = view.topology().ids().filter(|&cpu| view.allowed(task, cpu));
    allowed
        .min_by_key(|&cpu| (!is_idle(cpu), queues.load(cpu), distance(cpu)))
        .unwrap_or_else(|| view.home_cpu(task))
}
