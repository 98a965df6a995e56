//! What the paper printed, as far as it is remembered, beside what we find.

use crate::cost::{Cost, PAPER};
use crate::fairness::Study;
use schedlab_report::table::{Column, Table, short};
use serde_json::Value;

/// One published value: where, what, how much, and whether it could be verified.
struct Published {
    place: &'static str,
    quantity: &'static str,
    value: &'static str,
    status: &'static str,
}

const UNVERIFIED: &str = "unverified";
const TEXT: &str = "from the text";

/// Lowest to highest error over the domain, of the points' means.
fn range(study: &Study, sched: &str) -> Value {
    let table = study.domain_table();
    // the last row of a scheduler holds all points together
    let row = (0..table.rows.len()).rev().find(|&row| table.text(row, "sched") == sched);
    row.and_then(|row| {
        let low = table.number(row, "error_low_mean_tu")?;
        let high = table.number(row, "error_high_mean_tu")?;
        Some(format!("{} .. {} tu", short(low), short(high)))
    })
    .into()
}

/// The table.
pub(super) fn table(study: &Study, cost: Option<&Cost>) -> Table {
    let columns = vec![
        Column::new("where", "", "place in the paper"),
        Column::new("quantity", "", "what"),
        Column::new("published", "", "the paper's value"),
        Column::new("status", "", "whether the published value could be verified"),
        Column::new("ours", "", "found here; - = not measured in this run"),
    ];
    let mut table = Table::new("vtrr-published", "Published values beside ours", columns);
    let vtrr_ns = cost.and_then(|cost| {
        let rows = cost.rows.iter().filter(|row| row.label == "vtrr" && row.nr_clients <= 200);
        rows.filter_map(|row| row.select_wall_ns).max_by(f64::total_cmp)
    });
    let vtrr_ns: Value = vtrr_ns.map(|ns| format!("{} ns (our host)", short(ns))).into();
    let rows = [
        (
            Published {
                place: "section 2",
                quantity: "WRR, shares 3,2,1: error range",
                value: "-1 .. 1.5 tu",
                status: UNVERIFIED,
            },
            example("wrr", &[3, 2, 1]),
        ),
        (
            Published {
                place: "section 2",
                quantity: "WRR, shares 300,200,100: error range",
                value: "-100 .. 150 tu",
                status: UNVERIFIED,
            },
            example("wrr", &[300, 200, 100]),
        ),
        (
            Published {
                place: "section 2",
                quantity: "WFQ, shares 3,2,1: error range",
                value: "-5/6 .. 1 tu",
                status: UNVERIFIED,
            },
            example("wfq", &[3, 2, 1]),
        ),
        (
            Published {
                place: "section 3",
                quantity: "VTRR, shares 3,2,1: repeats",
                value: "A,B,C,A,B,A",
                status: UNVERIFIED,
            },
            order("vtrr"),
        ),
        (
            Published {
                place: "figures 1, 2",
                quantity: "WRR: mean error range over the domain",
                value: "-398 .. 479 tu",
                status: UNVERIFIED,
            },
            range(study, "wrr"),
        ),
        (
            Published {
                place: "figures 1, 3",
                quantity: "VTRR: mean error range over the domain",
                value: "-3.8 .. 10.6 tu",
                status: UNVERIFIED,
            },
            range(study, "vtrr"),
        ),
        (
            Published {
                place: "figure 4",
                quantity: "WFQ: mean error range over the domain",
                value: "-1 .. 2 tu",
                status: UNVERIFIED,
            },
            range(study, "wfq"),
        ),
        (
            Published {
                place: "section 4.1",
                quantity: "WF2Q: error mathematically bounded",
                value: "within 1 tu",
                status: TEXT,
            },
            range(study, "wf2q"),
        ),
        (
            Published {
                place: "figure 5",
                quantity: "VTRR: time to select, 1 to 200 clients",
                value: "< 800 ns (433 MHz)",
                status: UNVERIFIED,
            },
            vtrr_ns,
        ),
    ];
    let figure5 = PAPER.iter().map(|ratio| {
        let status = if ratio.in_text { TEXT } else { UNVERIFIED };
        let [instructions, wall] = cost.map(|cost| ratio.measured(cost)).unwrap_or_default();
        let published =
            Published { place: "figure 5", quantity: ratio.quantity, value: ratio.published, status };
        (published, Value::from(instructions.or(wall)))
    });
    for (published, ours) in rows.into_iter().chain(figure5) {
        let Published { place, quantity, value, status } = published;
        table.push(vec![place.into(), quantity.into(), value.into(), status.into(), ours]);
    }
    table
}

fn example(sched: &str, shares: &[u64]) -> Value {
    use schedlab_policies::proportional::quantum;
    let errors = crate::fairness::find(sched).map(|contender| {
        quantum::serve(&mut *(contender.make)(3, 0), shares, shares.iter().sum(), |_, _, _| {})
            .from_start_tu()
    });
    errors.map(|(low, high)| format!("{} .. {} tu", short(low), short(high))).into()
}

fn order(sched: &str) -> Value {
    let order = crate::fairness::find(sched).map(|contender| {
        schedlab_policies::proportional::quantum::order(&mut *(contender.make)(3, 0), &[3, 2, 1], 6)
    });
    order.map(|order| order.chars().map(String::from).collect::<Vec<_>>().join(",")).into()
}
