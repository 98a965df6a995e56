//! Linux's schedulers through the years, and two that were offered to it.

use super::realtime::above;
use super::{ParamInfo, Params, PolicyError, PolicyInfo};
use crate::{
    Affinity, Bfs, BfsParams, Cfs, CfsParams, CfsVersion, Ebs, EbsParams, Eevdf, EevdfParams, Goodness,
    GoodnessVersion, O1, O1Version,
};

const HZ_100: ParamInfo = ParamInfo { name: "hz", default: "100", help: "ticks per second" };
const HZ_1000: ParamInfo = ParamInfo { name: "hz", default: "1000", help: "ticks per second" };
const EBS_SLICE: ParamInfo = ParamInfo {
    name: "slice",
    default: "100ms",
    help: "longest run while others wait (the original: 1 to 500 ms)",
};
const EBS_HALF_LIFE: ParamInfo = ParamInfo {
    name: "half_life",
    default: "5s",
    help: "after which a past usage counts half (the original: 1 to 100 s)",
};
const EBS_HIGHEST: ParamInfo = ParamInfo {
    name: "highest_half_life",
    default: "20s",
    help: "after which the highest usage per share seen counts half (not known of the original)",
};
const EBS_CAP: ParamInfo =
    ParamInfo { name: "cap", default: "100", help: "cap of every task in per cent of a CPU, 1 to 100" };
const HZ_250: ParamInfo = ParamInfo { name: "hz", default: "250", help: "ticks per second" };
const TICK_PHASE: ParamInfo = ParamInfo {
    name: "tick_phase",
    default: "1ms",
    help: "when in its period the tick comes (1 ms: as in real Linux here, whose clock starts 1 ms before its first \
        tick)",
};
const TICK_PHASE_0: ParamInfo =
    ParamInfo { name: "tick_phase", default: "0ms", help: "when in its period the tick comes" };
const LATENCY: &str =
    "period in which each task should run once; *log: times 1 + log2(CPUs), at most 4 times";
const LATENCY_5: ParamInfo = ParamInfo { name: "latency", default: "5ms*log", help: LATENCY };
const LATENCY_6: ParamInfo = ParamInfo { name: "latency", default: "6ms*log", help: LATENCY };
const MIN_GRANULARITY: &str =
    "share of the period per task if there are many; *log: times 1 + log2(CPUs), at most 4 times";
const MIN_GRANULARITY_1: ParamInfo =
    ParamInfo { name: "min_granularity", default: "1ms*log", help: MIN_GRANULARITY };
const MIN_GRANULARITY_075: ParamInfo =
    ParamInfo { name: "min_granularity", default: "750us*log", help: MIN_GRANULARITY };
const WAKEUP_GRANULARITY: ParamInfo = ParamInfo {
    name: "wakeup_granularity",
    default: "1ms*log",
    help: "how far ahead the current task must be for a woken one to preempt it; *log: times 1 + log2(CPUs), at most \
        4 times",
};
const MIGRATION_COST: ParamInfo = ParamInfo {
    name: "migration_cost",
    default: "500us",
    help: "a task that ran less than this ago stays where its cache is",
};
const BASE_SLICE: ParamInfo = ParamInfo {
    name: "base_slice",
    default: "700us*log",
    help: "request of a task that asks for none; *log: times 1 + log2(CPUs), at most 4 times (6.12.0 had 750us*log)",
};
const RUN_TO_PARITY: ParamInfo = ParamInfo {
    name: "run_to_parity",
    default: "yes",
    help: "the current task keeps the CPU until its slice is over",
};
const DELAY_DEQUEUE: ParamInfo = ParamInfo {
    name: "delay_dequeue",
    default: "yes",
    help: "a sleeper with negative lag stays queued until it would be picked",
};
const PREEMPT_SHORT: ParamInfo = ParamInfo {
    name: "preempt_short",
    default: "yes",
    help: "a woken task with a shorter slice may end the current one's",
};
const RR_INTERVAL: ParamInfo =
    ParamInfo { name: "rr_interval", default: "6291456ns", help: "slice of every task (6 ms of 2^20 ns)" };
const BFS_AFFINITY: ParamInfo = ParamInfo {
    name: "affinity",
    default: "none",
    help: "how a task is kept near its cache: none, distance, or sticky (as in later versions)",
};

pub(super) const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "linux-2.2",
        summary: "goodness = counter + priority over one list; epochs of 210 ms slices (nice 0, HZ 100)",
        source: "Linux 2.2 as VTRR's paper describes it, details from memory",
        differs: "2.2's code was not read: rules as VTRR's paper describes them",
        uncertain: "from memory: the tick that takes the counter below zero (210 ms at nice 0), the halving at fork",
        params: &[HZ_100],
        make: |params| Ok(Box::new(Goodness::new(GoodnessVersion::V2_2, params.number(&HZ_100, 1, 10_000)?))),
    },
    PolicyInfo {
        name: "linux-2.4",
        summary: "goodness over one list, epochs of 10 to 110 ms slices (HZ 100), one queue for all CPUs",
        source: "Linux 2.4.16",
        differs: "no task shares its address space (goodness +1 in the original); ticks of all CPUs fall together",
        uncertain: "on several CPUs nothing was compared; on one, WARP's figures 7 to 9 agree",
        params: &[HZ_100],
        make: |params| Ok(Box::new(Goodness::new(GoodnessVersion::V2_4, params.number(&HZ_100, 1, 10_000)?))),
    },
    PolicyInfo {
        name: "o1-2.6.7",
        summary: "O(1): active and expired arrays per CPU, slices of 10 to 200 ms, interactive tasks stay active",
        source: "Linux 2.6.7 (slices as WARP states them, rules of 2.6.18 where not known)",
        differs: "every task counts as a user process, every sleep as interruptible; 2.6.18's rules where 2.6.7's are \
            not known",
        uncertain: "from memory: that a sleep is multiplied by 10 - bonus; interactive_credit is left out; the slices \
            are WARP's, 10 + 190 (19 - n) / 39 fits them",
        params: &[HZ_1000],
        make: |params| Ok(Box::new(O1::new(O1Version::V2_6_7, params.number(&HZ_1000, 1, 10_000)?))),
    },
    PolicyInfo {
        name: "o1-2.6.18",
        summary: "O(1): active and expired arrays per CPU, slices of 5 to 800 ms, balancing by scheduling domains",
        source: "Linux 2.6.18",
        differs: "every task counts as a user process, every sleep as interruptible; ticks of all CPUs fall together",
        uncertain: "from memory: the divisor of sleep_avg while running, the mixing of sleep_avg at exit, which \
            remembered load counts for the own CPU, load weight ~ slice; balancing constants beyond one package",
        params: &[HZ_1000],
        make: |params| Ok(Box::new(O1::new(O1Version::V2_6_18, params.number(&HZ_1000, 1, 10_000)?))),
    },
    PolicyInfo {
        name: "ebs",
        summary: "entitlement based: usage per share by an exponential filter, in O(1)'s priority levels",
        source: "Aurema's patch for Linux 2.6.2 (description of 2004, and WARP)",
        differs: "2.6.7's balancing; waiting tasks in an ordered set instead of lists per due time; one cap for all \
            tasks, no sinbin",
        uncertain: "no source is known, only a description of 2004: the filter's gain (here the exact exponential), \
            the decay of the highest usage (half-life 20 s is calibrated on WARP's 10 % between nice -20 and -10: \
            here 13 %), the mapping of ratios to priorities",
        params: &[HZ_1000, EBS_SLICE, EBS_HALF_LIFE, EBS_HIGHEST, EBS_CAP],
        make: |params| {
            Ok(Box::new(Ebs::new(EbsParams {
                hz: params.number(&HZ_1000, 1, 10_000)?,
                slice: params.span(&EBS_SLICE)?,
                half_life: params.span(&EBS_HALF_LIFE)?,
                highest_half_life: params.span(&EBS_HIGHEST)?,
                cap_pct: params.number(&EBS_CAP, 1, 100)?,
            })))
        },
    },
    PolicyInfo {
        name: "cfs-2.6.32",
        summary: "CFS: least virtual runtime first; latency 5 ms, granularity 1 ms, buddies, balancing by domains",
        source: "Linux 2.6.32.60",
        differs: "loads are sums of weights (as there); no groups, no bandwidth limits",
        uncertain: "the choice of a CPU at wakeup; Harmony's kernel moves hogs more often (30 moves from [8,0,0,0], 6 \
            here; 23 per second in [5,0,0,0], none here), not explained",
        params: &[HZ_1000, TICK_PHASE_0, LATENCY_5, MIN_GRANULARITY_1, WAKEUP_GRANULARITY, MIGRATION_COST],
        make: |params| {
            Ok(above(
                Cfs::new(cfs(
                    params,
                    CfsVersion::V2_6_32,
                    [&HZ_1000, &TICK_PHASE_0, &LATENCY_5, &MIN_GRANULARITY_1],
                )?),
                false,
            ))
        },
    },
    PolicyInfo {
        name: "cfs-6.1",
        summary: "CFS with the rules and constants of 6.1 (latency 6 ms, granularity 0.75 ms, idle CPU search at \
            wakeup)",
        source: "Linux 6.1 as specified; loads without decay",
        differs: "on several CPUs placement and balancing count runnable weights, where 6.1 takes decayed averages \
            (PELT) and group types; exits do not reschedule; no groups, no bandwidth limits",
        uncertain: "nothing known on one CPU, where it decides as real 6.1 does (schedlab agreement); on several the \
            choice of CPUs is an approximation",
        params: &[HZ_250, TICK_PHASE, LATENCY_6, MIN_GRANULARITY_075, WAKEUP_GRANULARITY, MIGRATION_COST],
        make: |params| {
            Ok(above(
                Cfs::new(cfs(
                    params,
                    CfsVersion::V6_1,
                    [&HZ_250, &TICK_PHASE, &LATENCY_6, &MIN_GRANULARITY_075],
                )?),
                false,
            ))
        },
    },
    PolicyInfo {
        name: "eevdf",
        summary: "EEVDF as in Linux 6.12: earliest virtual deadline among the eligible, delayed dequeue, run to parity",
        source: "Linux 6.12 as specified; Stoica, Abdel-Wahab 1995",
        differs: "on several CPUs placement and balancing count runnable weights, where 6.12 takes decayed averages \
            (PELT) and group types; the fair server holds bandwidth but does not run; no groups, no bandwidth limits",
        uncertain: "nothing known on one CPU, where it decides as real 6.12 does (schedlab agreement); on several the \
            choice of CPUs, and whether delayed tasks count for it, is an approximation",
        params: &[
            HZ_250,
            TICK_PHASE,
            BASE_SLICE,
            MIGRATION_COST,
            RUN_TO_PARITY,
            DELAY_DEQUEUE,
            PREEMPT_SHORT,
        ],
        make: |params| {
            Ok(above(
                Eevdf::new(EevdfParams {
                    hz: params.number(&HZ_250, 1, 10_000)?,
                    tick_phase: params.phase(&TICK_PHASE)?,
                    base_slice: params.tunable(&BASE_SLICE)?,
                    migration_cost: params.span(&MIGRATION_COST)?,
                    run_to_parity: params.yes_no(&RUN_TO_PARITY)?,
                    delay_dequeue: params.yes_no(&DELAY_DEQUEUE)?,
                    preempt_short: params.yes_no(&PREEMPT_SHORT)?,
                }),
                true,
            ))
        },
    },
    PolicyInfo {
        name: "bfs",
        summary: "BFS: one queue, earliest virtual deadline by a scan of all, slices of 6 ms",
        source: "Con Kolivas's patches for Linux 2.6.31 and 2.6.32 (v0.3xx as far as known)",
        differs: "no SCHED_ISO; ticks of all CPUs fall together",
        uncertain: "how versions 0.3xx keep tasks near their cache (three rules can be chosen; Harmony's shares fit \
            none); rr_interval grew with the number of CPUs (from memory; here it does not; Harmony's 163 \
            migrations/s fit 24 ms: rr_interval=25165824ns)",
        params: &[HZ_1000, RR_INTERVAL, BFS_AFFINITY],
        make: |params| {
            Ok(Box::new(Bfs::new(BfsParams {
                hz: params.number(&HZ_1000, 1, 10_000)?,
                rr_interval: params.span(&RR_INTERVAL)?,
                affinity: params.read(&BFS_AFFINITY, |value| match value {
                    "none" => Ok(Affinity::None),
                    "distance" => Ok(Affinity::Distance),
                    "sticky" => Ok(Affinity::Sticky),
                    _ => Err("expected none, distance or sticky".into()),
                })?,
            })))
        },
    },
];

fn cfs(
    params: &Params<'_>,
    version: CfsVersion,
    [hz, tick_phase, latency, min_granularity]: [&'static ParamInfo; 4],
) -> Result<CfsParams, PolicyError> {
    Ok(CfsParams {
        version,
        hz: params.number(hz, 1, 10_000)?,
        tick_phase: params.phase(tick_phase)?,
        latency: params.tunable(latency)?,
        min_granularity: params.tunable(min_granularity)?,
        wakeup_granularity: params.tunable(&WAKEUP_GRANULARITY)?,
        migration_cost: params.span(&MIGRATION_COST)?,
    })
}
