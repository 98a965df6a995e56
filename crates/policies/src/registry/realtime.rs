//! Real-time schedulers, and the class stack that has them above a fair class.

use super::{ParamInfo, Params, PolicyError, PolicyInfo};
use crate::cbs::{Cbs, CbsParams, Enforcement, Exhaustion};
use crate::edf::{self, JobOrder, Placement};
use crate::posix::Posix;
use crate::stack::Stack;
use crate::{Eevdf, EevdfParams, rm};
use schedlab_machine::policy::Policy;
use schedlab_units::Span;

const RR_SLICE: ParamInfo = ParamInfo { name: "rr_slice", default: "100ms", help: "slice of SCHED_RR" };
const FIT: ParamInfo = ParamInfo {
    name: "fit",
    default: "first",
    help: "how tasks are divided among CPUs: first, best or worst fit (room: U up to 1)",
};
const FIT_NONE: ParamInfo = ParamInfo {
    name: "fit",
    default: "none",
    help: "how tasks are divided among CPUs: none (one queue), first, best or worst fit (room: by response times)",
};
const ORDER: ParamInfo = ParamInfo {
    name: "order",
    default: "period",
    help: "what gives priority: a short period or a short deadline",
};
const LIMIT: ParamInfo = ParamInfo {
    name: "limit",
    default: "95",
    help: "per cent of the CPUs that SCHED_DEADLINE may reserve, 1 to 100",
};
const MODE: ParamInfo = ParamInfo {
    name: "mode",
    default: "hard",
    help: "without budget a task waits for its next period (hard) or goes on with a later deadline (soft)",
};

const ENFORCE: ParamInfo = ParamInfo {
    name: "enforce",
    default: "exact",
    help: "a budget that is used up ends the run at once (exact) or at the next tick (tick, as Linux without HRTICK)",
};
const FAIR_SERVER: ParamInfo = ParamInfo {
    name: "fair_server",
    default: "no",
    help: "5 per cent of each CPU are held by a server for the fair class, as in Linux 6.8 and later",
};

pub(super) const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "posix",
        summary: "SCHED_FIFO and SCHED_RR with push and pull between CPUs, SCHED_DEADLINE above, EEVDF below",
        source: "POSIX.1-2001, Linux",
        differs: "slices of SCHED_RR are exact, not rounded to ticks; no throttling (Linux before 6.8: 950 ms of each \
            second)",
        uncertain: "nothing known on one CPU; on several, which of equal CPUs is chosen",
        params: &[RR_SLICE, LIMIT, MODE, ENFORCE, FAIR_SERVER],
        make: stack,
    },
    PolicyInfo {
        name: "cbs",
        summary: "SCHED_DEADLINE (constant bandwidth servers, admission control), POSIX real time and EEVDF below",
        source: "Abeni, Buttazzo 1998; Linux",
        differs: "one queue for all CPUs: the m earliest run; no reclaiming (GRUB), no bandwidth inheritance; the \
            fair server holds bandwidth but does not run",
        uncertain: "nothing known on one CPU (schedlab agreement); on several, which CPU a task runs on",
        params: &[LIMIT, MODE, ENFORCE, FAIR_SERVER, RR_SLICE],
        make: stack,
    },
    PolicyInfo {
        name: "gedf",
        summary: "global earliest deadline first: one queue, jobs from wakeup to block",
        source: "Liu, Layland 1973; Dhall, Liu 1978",
        differs: "jobs are seen through wakeups and blocks only; no enforcement of declared runtimes",
        uncertain: "",
        params: &[],
        make: |_| Ok(Box::new(edf::global())),
    },
    PolicyInfo {
        name: "pedf",
        summary: "partitioned earliest deadline first: each task has its CPU",
        source: "Liu, Layland 1973; Dhall, Liu 1978",
        differs: "jobs are seen through wakeups and blocks only; tasks are assigned one by one, in the order in which \
            they come",
        uncertain: "",
        params: &[FIT],
        make: |params| Ok(Box::new(edf::partitioned(fit(params, &FIT)?))),
    },
    PolicyInfo {
        name: "rm",
        summary: "rate monotonic (or deadline monotonic) fixed priorities, global or partitioned",
        source: "Liu, Layland 1973; Leung, Whitehead 1982",
        differs: "jobs are seen through wakeups and blocks only",
        uncertain: "",
        params: &[ORDER, FIT_NONE],
        make: |params| {
            let order = params.read(&ORDER, |value| match value {
                "period" => Ok(JobOrder::Period),
                "deadline" => Ok(JobOrder::RelativeDeadline),
                _ => Err("expected period or deadline".into()),
            })?;
            Ok(Box::new(rm::fixed_priority(order, fit(params, &FIT_NONE)?)))
        },
    },
];

fn fit(params: &Params<'_>, info: &'static ParamInfo) -> Result<Placement, PolicyError> {
    params.read(info, |value| match value {
        "none" if info.default == "none" => Ok(Placement::Global),
        "first" => Ok(Placement::FirstFit),
        "best" => Ok(Placement::BestFit),
        "worst" => Ok(Placement::WorstFit),
        _ if info.default == "none" => Err("expected none, first, best or worst".into()),
        _ => Err("expected first, best or worst".into()),
    })
}

/// The classes of Linux, the fair one with its defaults.
fn stack(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let exhaustion = params.read(&MODE, |value| match value {
        "hard" => Ok(Exhaustion::Throttles),
        "soft" => Ok(Exhaustion::Postpones),
        _ => Err("expected hard or soft".into()),
    })?;
    let enforcement = params.read(&ENFORCE, |value| match value {
        "exact" => Ok(Enforcement::Exact),
        "tick" => Ok(Enforcement::Tick),
        _ => Err("expected exact or tick".into()),
    })?;
    let fair_server = params.yes_no(&FAIR_SERVER)?;
    let least = if fair_server { 6 } else { 1 };
    let limit_pct = params.number(&LIMIT, least, 100)?;
    let cbs = Cbs::new(CbsParams { limit_pct, fair_server, exhaustion, enforcement });
    Ok(Box::new(Stack::new(cbs, Posix::new(params.span(&RR_SLICE)?), Eevdf::new(EevdfParams::default()))))
}

/// SCHED_DEADLINE as in Linux before 6.8, or since, and POSIX real time with their defaults above this fair class.
pub(super) fn above(fair: impl Policy + 'static, fair_server: bool) -> Box<dyn Policy> {
    let cbs = Cbs::new(CbsParams::linux(fair_server));
    Box::new(Stack::new(cbs, Posix::new(Span::from_ms(100)), fair))
}
