//! Schedulers that give each task a share of the CPU in proportion to its weight.

use super::{ParamInfo, Params, PolicyError, PolicyInfo};
use crate::proportional::{Discipline, Proportional, Shares};
use crate::{Drr, Eevdf1995, Insert, Lottery, Reset, Sfq, Stride, Vtrr, Wf2q, Wfq, WfqList, Wrr};
use schedlab_machine::policy::Policy;

const QUANTUM: ParamInfo =
    ParamInfo { name: "quantum", default: "10ms", help: "time of a quantum, the unit of every decision" };
const SHARES: ParamInfo = ParamInfo {
    name: "shares",
    default: "weight",
    help: "'weight': the weight of the nice value; or a list by task id such as 3,2,1, whose last number stands for \
        all further tasks",
};
const CREDIT: ParamInfo = ParamInfo {
    name: "credit",
    default: "10ms",
    help: "time that a task earns per turn, times its share (or its weight / 1024)",
};
const REQUEST: ParamInfo = ParamInfo {
    name: "quantum",
    default: "10ms",
    help: "service that a task asks for at a time (its request)",
};
const SEED: ParamInfo = ParamInfo { name: "seed", default: "1", help: "seed of the drawings" };
const INSERT: ParamInfo = ParamInfo {
    name: "insert",
    default: "neighbours",
    help: "how a joining task's place is found: list, neighbours, tree or array (equal shares then in order of \
        arrival)",
};
const RESET: ParamInfo = ParamInfo {
    name: "reset",
    default: "incremental",
    help: "how counters are reset at the end of a cycle: pass or incremental (equal schedules)",
};

fn make<D: Discipline + 'static>(params: &Params<'_>, discipline: D) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(Proportional::new(discipline, shares(params)?)))
}

fn shares(params: &Params<'_>) -> Result<Shares, PolicyError> {
    params.read(&SHARES, |value| {
        value.parse().map_err(|error: crate::proportional::ParseSharesError| error.to_string())
    })
}

fn quantum_ns(params: &Params<'_>) -> Result<u64, PolicyError> {
    params.span(&QUANTUM).map(|span| span.as_ns())
}

pub(super) const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        name: "wrr",
        summary: "weighted round robin: each in turn, for its share of quanta at a stretch; one queue for all CPUs",
        source: "Nieh, Vaill, Zhong 2001 (section 2.1)",
        differs: "one queue for all CPUs; who blocks or yields loses the rest of its turn",
        uncertain: "",
        params: &[QUANTUM, SHARES],
        make: |params| make(params, Wrr::new(quantum_ns(params)?, shares(params)?.unit())),
    },
    PolicyInfo {
        name: "drr",
        summary: "deficit round robin: whole quanta per turn, what is left of a turn counts for the next; one queue \
            for all CPUs",
        source: "Shreedhar, Varghese 1995",
        differs: "quanta of CPU time take the place of packets; who blocks loses its deficit",
        uncertain: "",
        params: &[QUANTUM, SHARES, CREDIT],
        make: |params| {
            let credit_ns = params.span(&CREDIT)?.as_ns();
            make(params, Drr::new(quantum_ns(params)?, credit_ns, shares(params)?.unit()))
        },
    },
    PolicyInfo {
        name: "wfq",
        summary: "weighted fair queueing by a heap: least virtual finishing time; one queue for all CPUs",
        source: "Demers, Keshav, Shenker 1989; Parekh, Gallager 1993",
        differs: "virtual time advances by service over the shares of the runnable, not of those that the fluid \
            system would still serve; no credit for sleeping",
        uncertain: "",
        params: &[QUANTUM, SHARES],
        make: |params| make(params, Wfq::new(quantum_ns(params)?)),
    },
    PolicyInfo {
        name: "wfq-list",
        summary: "weighted fair queueing by a list searched at each decision, as VTRR's paper compares; one queue for \
            all CPUs",
        source: "Nieh, Vaill, Zhong 2001 (section 4.2)",
        differs: "as wfq, found by a search of the whole list at each decision",
        uncertain: "",
        params: &[QUANTUM, SHARES],
        make: |params| make(params, WfqList::new(quantum_ns(params)?)),
    },
    PolicyInfo {
        name: "sfq",
        summary: "start-time fair queueing: least virtual starting time; one queue for all CPUs",
        source: "Goyal, Guo, Vin 1996",
        differs: "ties go to the larger share (the paper leaves them open)",
        uncertain: "",
        params: &[QUANTUM, SHARES],
        make: |params| make(params, Sfq::new(quantum_ns(params)?)),
    },
    PolicyInfo {
        name: "wf2q",
        summary: "worst-case fair weighted fair queueing: least finishing time of those not ahead; one queue for all \
            CPUs",
        source: "Bennett, Zhang 1996",
        differs: "virtual time as for wfq; if nobody is eligible, who will be first is served",
        uncertain: "",
        params: &[QUANTUM, SHARES],
        make: |params| make(params, Wf2q::new(quantum_ns(params)?)),
    },
    PolicyInfo {
        name: "stride",
        summary: "stride scheduling: least pass, distances kept while asleep; one queue for all CPUs",
        source: "Waldspurger, Weihl 1995",
        differs: "strides are not rounded to integers (the original truncates 2^20 / tickets, and drifts)",
        uncertain: "",
        params: &[QUANTUM, SHARES],
        make: |params| make(params, Stride::new(quantum_ns(params)?)),
    },
    PolicyInfo {
        name: "lottery",
        summary: "lottery scheduling: a ticket is drawn for each quantum; one drawing for all CPUs",
        source: "Waldspurger, Weihl 1994",
        differs: "random numbers of our own generator; no currencies or ticket transfers",
        uncertain: "",
        params: &[QUANTUM, SHARES, SEED],
        make: |params| {
            let seed = params.value(&SEED, "a whole number from 0")?;
            make(params, Lottery::new(quantum_ns(params)?, seed))
        },
    },
    PolicyInfo {
        name: "vtrr",
        summary: "virtual-time round robin: from the largest share on, back to it when the next has had its due; \
            O(1); one queue for all CPUs",
        source: "Nieh, Vaill, Zhong 2001",
        differs: "where the paper leaves it open: the counter of a joining client is rounded down and put between its \
            neighbours'; parts of quanta are charged exactly; see the essay",
        uncertain: "the formulas are restored from a text that had lost its digits, and checked by worked examples; \
            figures of the paper that are not in that text are from memory and marked so by 'reproduce vtrr'",
        params: &[QUANTUM, SHARES, INSERT, RESET],
        make: |params| {
            let insert = params.read(&INSERT, |value| match value {
                "list" => Ok(Insert::List),
                "neighbours" => Ok(Insert::Neighbours),
                "tree" => Ok(Insert::Tree),
                "array" => Ok(Insert::Array),
                _ => Err("expected list, neighbours, tree or array".into()),
            })?;
            let reset = params.read(&RESET, |value| match value {
                "pass" => Ok(Reset::Pass),
                "incremental" => Ok(Reset::Incremental),
                _ => Err("expected pass or incremental".into()),
            })?;
            make(params, Vtrr::new(quantum_ns(params)?, insert, reset))
        },
    },
    PolicyInfo {
        name: "eevdf-1995",
        summary: "earliest eligible virtual deadline first, as published; one queue for all CPUs",
        source: "Stoica, Abdel-Wahab 1995",
        differs: "one request size for all; a client that stops early is charged what it used; service is not \
            preempted within a request",
        uncertain: "the rules for joining with lag, leaving and V's steps are from memory of the paper, which was not \
            at hand: of its three strategies the one that keeps the lag",
        params: &[REQUEST, SHARES],
        make: |params| make(params, Eevdf1995::new(quantum_ns(params)?)),
    },
];
