//! How do costs relate to each other, in the paper on VTRR and here?

use super::{Cost, Row};
use schedlab_report::table::{Column, Table, short};

/// A ratio of two costs of selecting a client that the paper states.
pub(crate) struct PaperRatio {
    /// In words.
    pub quantity: &'static str,
    /// As published.
    pub published: &'static str,
    /// Whether the published value was read in the text; it is remembered else.
    pub in_text: bool,
    above: (&'static str, u32),
    below: (&'static str, u32),
}

/// All of figure 5. Its Linux is 2.2.
pub(crate) const PAPER: [PaperRatio; 4] = [
    PaperRatio {
        quantity: "Linux 2.2 / VTRR, 200 clients each",
        published: "> 100 x",
        in_text: false,
        above: ("linux-2.2", 200),
        below: ("vtrr", 200),
    },
    PaperRatio {
        quantity: "Linux 2.2 with 1 client / VTRR with 200",
        published: "10 x",
        in_text: false,
        above: ("linux-2.2", 1),
        below: ("vtrr", 200),
    },
    PaperRatio {
        quantity: "WFQ by heap / VTRR, 200 clients each",
        published: "> 6 x",
        in_text: false,
        above: ("wfq", 200),
        below: ("vtrr", 200),
    },
    PaperRatio {
        quantity: "WFQ by list / VTRR, 200 clients each",
        published: "grows linearly",
        in_text: true,
        above: ("wfq-list", 200),
        below: ("vtrr", 200),
    },
];

impl PaperRatio {
    fn of(&self, cost: &Cost, pick: fn(&Row) -> Option<f64>) -> Option<f64> {
        let find = |(label, n): (&str, u32)| cost.row(label, n).and_then(pick);
        Some(find(self.above)? / find(self.below)?)
    }

    /// Measured, in instructions and in ns of this host: `73 x`.
    pub(crate) fn measured(&self, cost: &Cost) -> [Option<String>; 2] {
        let picks: [fn(&Row) -> Option<f64>; 2] = [|row| row.select_instructions, |row| row.select_wall_ns];
        picks.map(|pick| self.of(cost, pick).map(|ratio| format!("{} x", short(ratio))))
    }
}

/// The paper's ratios beside ours; `None` if this run measured none of them.
pub(super) fn table(cost: &Cost) -> Option<Table> {
    let columns = vec![
        Column::new("quantity", "", "costs of selecting a client, one over the other"),
        Column::new("published", "", "in the paper on VTRR, of times on a CPU of 433 MHz"),
        Column::new("status", "", "whether the published value could be verified"),
        Column::new("instructions", "", "ratio of instructions here"),
        Column::new("wall", "", "ratio of host times here"),
    ];
    let mut table = Table::new("cost-ratios", "The paper's ratios beside ours", columns);
    for ratio in &PAPER {
        let [instructions, wall] = ratio.measured(cost);
        if instructions.is_some() || wall.is_some() {
            let status = if ratio.in_text { "from the text" } else { "unverified" };
            table.push(vec![
                ratio.quantity.into(),
                ratio.published.into(),
                status.into(),
                instructions.into(),
                wall.into(),
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_the_two_named() {
        let row = |label: &str, nr_clients, instructions| Row {
            label: label.into(),
            nr_clients,
            select_instructions: Some(instructions),
            ..Row::default()
        };
        let rows = vec![row("linux-2.2", 200, 3000.0), row("vtrr", 200, 100.0), row("vtrr", 1, 7.0)];
        let cost = Cost { rows, ..Cost::default() };
        let table = table(&cost).expect("one of the ratios was measured");
        assert_eq!(table.rows.len(), 1);
        assert_eq!(table.text(0, "instructions"), "30.00 x");
    }
}
