//! The schedulers that ignore what a task asks for.

use super::{ParamInfo, PolicyInfo};
use crate::{Fifo, Mlfq, RoundRobin, Ule, UleParams};

const QUANTUM: ParamInfo = ParamInfo {
    name: "quantum",
    default: "10ms",
    help: "how long a task may run before the next in line has its turn",
};
const LEVELS: ParamInfo = ParamInfo { name: "levels", default: "3", help: "number of levels, 1 to 16" };
const BOOST: ParamInfo =
    ParamInfo { name: "boost", default: "1s", help: "after which all tasks go back to the highest level" };
const FIRST_QUANTUM: ParamInfo = ParamInfo {
    name: "quantum",
    default: "10ms",
    help: "allotment at the highest level, doubled at each below",
};
const STATHZ: ParamInfo = ParamInfo { name: "hz", default: "127", help: "ticks per second (stathz)" };
const ULE_SLICE: ParamInfo =
    ParamInfo { name: "slice", default: "94ms", help: "slice of a task alone on its CPU" };
const THRESHOLD: ParamInfo =
    ParamInfo { name: "threshold", default: "30", help: "a score below this is interactive, 0 to 99" };

pub(super) const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "fifo",
        summary: "first in, first out: a task runs until it blocks; one queue for all CPUs, no tick",
        source: "Conway, Maxwell, Miller 1967",
        differs: "several CPUs share the queue (the original has one CPU); nice values and policies are ignored",
        uncertain: "",
        params: &[],
        make: |_| Ok(Box::new(Fifo::default())),
    },
    PolicyInfo {
        name: "rr",
        summary: "round robin: a fixed quantum each; one queue for all CPUs",
        source: "Kleinrock 1964",
        differs: "several CPUs share the queue; nice values and policies are ignored; who blocks starts with a full \
            quantum",
        uncertain: "",
        params: &[QUANTUM],
        make: |params| Ok(Box::new(RoundRobin::new(params.span(&QUANTUM)?))),
    },
    PolicyInfo {
        name: "mlfq",
        summary: "multi-level feedback queue: who uses up its allotment sinks, a boost lifts all; one queue for all \
            CPUs",
        source: "Corbato 1962; Arpaci-Dusseau, Three Easy Pieces, chapter 8",
        differs: "one queue for all CPUs; nice values and policies are ignored",
        uncertain: "constants are a choice, not the textbook's",
        params: &[LEVELS, FIRST_QUANTUM, BOOST],
        make: |params| {
            let levels = params.number(&LEVELS, 1, 16)? as usize;
            Ok(Box::new(Mlfq::new(levels, params.span(&FIRST_QUANTUM)?, params.span(&BOOST)?)))
        },
    },
    PolicyInfo {
        name: "ule",
        summary: "like FreeBSD's ULE: interactivity score, calendar for the others, a queue per CPU with stealing",
        source: "Roberson 2003; Bouron et al. 2018 (constants from memory)",
        differs: "priorities within a class by score or usage, without FreeBSD's numbers for kernel threads",
        uncertain: "all constants are from memory (stathz 127, slice 12 ticks, history of 5 s, threshold 30); \
            FreeBSD's code was not read; no number of it was checked",
        params: &[STATHZ, ULE_SLICE, THRESHOLD],
        make: |params| {
            Ok(Box::new(Ule::new(UleParams {
                hz: params.number(&STATHZ, 1, 10_000)?,
                slice: params.span(&ULE_SLICE)?,
                threshold: params.number(&THRESHOLD, 0, 99)?,
            })))
        },
    },
];
