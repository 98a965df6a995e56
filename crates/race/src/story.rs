//! What happened in a schedule, point by point? A column a CPU, with source lines and values.

use serde::{Deserialize, Serialize};

/// What a CPU did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happened {
    /// A call of the scenario begins.
    Begin {
        /// Which of the CPU's.
        call: usize,
    },
    /// It returns.
    End {
        /// Which of the CPU's.
        call: usize,
        /// What it returned.
        result: i64,
    },
    /// A load or store.
    Access {
        /// Where.
        address: usize,
        /// Bytes.
        size: u32,
        /// A store.
        is_write: bool,
        /// READ_ONCE(), WRITE_ONCE() and other volatile ones.
        marked: bool,
        /// What is there before it: of a load, what it sees.
        value: u64,
        /// Others may see it later.
        late: bool,
    },
    /// An atomic operation.
    Atomic {
        /// Where.
        address: usize,
        /// Bytes.
        size: u32,
        /// Before.
        old: u64,
        /// After.
        new: u64,
    },
    /// A barrier.
    Barrier {
        /// `RACE_MB`, ...
        kind: u32,
    },
    /// A lock was taken.
    Lock {
        /// Which.
        address: usize,
    },
    /// A lock is released.
    Unlock {
        /// Which.
        address: usize,
    },
    /// Sleep and wakeup.
    Sleep {
        /// In words.
        what: String,
    },
    /// A late store of this CPU becomes visible.
    Flush {
        /// Where.
        address: usize,
        /// What.
        value: u64,
    },
    /// The load after this sees an old value.
    Stale {
        /// How many stores old.
        age: u8,
    },
    /// A word of the target's.
    Note {
        /// What.
        text: String,
    },
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Who.
    pub cpu: u8,
    /// At which of its points.
    pub at: u32,
    /// Where in the code; 0: nowhere.
    pub code: usize,
    /// What.
    pub happened: Happened,
}

use std::collections::BTreeMap;

use crate::scenario::Scenario;

/// A schedule as it happened.
#[derive(Clone, Debug)]
pub struct Story {
    events: Vec<Event>,
    scenario: Scenario,
    names: BTreeMap<usize, String>,
    lines: BTreeMap<usize, String>,
}

/// A line of the story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Who.
    pub cpu: usize,
    /// At which of its points.
    pub at: u32,
    /// Another CPU had the line before.
    pub is_switch: bool,
    /// What it did.
    pub what: String,
    /// Where in the source.
    pub place: String,
}

fn barrier_name(kind: u32) -> &'static str {
    ["full barrier", "read barrier", "write barrier", "acquire", "release"]
        .get(kind as usize)
        .copied()
        .unwrap_or("barrier")
}

impl Story {
    pub(crate) fn new(
        events: Vec<Event>,
        scenario: Scenario,
        names: BTreeMap<usize, String>,
        lines: BTreeMap<usize, String>,
    ) -> Story {
        Story { events, scenario, names, lines }
    }

    /// How many CPUs have columns.
    pub fn nr_cpus(&self) -> usize {
        self.scenario.cpus.len()
    }

    fn name(&self, address: usize) -> &str {
        self.names.get(&address).map_or("memory", String::as_str)
    }

    /// Addresses by name, small numbers in decimal, large ones in hexadecimal.
    fn number(&self, value: u64) -> String {
        match self.names.get(&(value as usize)) {
            Some(name) => format!("&{name}"),
            None if value < 4096 => value.to_string(),
            None => format!("{value:#x}"),
        }
    }

    fn call(&self, cpu: u8, call: usize) -> String {
        let calls = self.scenario.cpus.get(usize::from(cpu));
        let Some(call) = calls.and_then(|calls| calls.get(call)) else { return "call".into() };
        let args: String = call.args.iter().map(|a| format!(" {a}")).collect();
        format!("{}{args}", call.op)
    }

    /// What is stored by an access: what the same CPU's next look at it would show. Told by the next event that reads
    /// there.
    fn stored(&self, n: usize, address: usize, size: u32) -> Option<u64> {
        self.events[n + 1..].iter().find_map(|event| match &event.happened {
            Happened::Access { address: a, size: s, value, .. } if *a == address && *s == size => {
                Some(*value)
            }
            Happened::Atomic { address: a, size: s, old, .. } if *a == address && *s == size => Some(*old),
            _ => None,
        })
    }

    /// All lines, in the order in which they happened.
    pub fn rows(&self) -> Vec<Row> {
        let mut last = None;
        let mut rows = Vec::new();
        for (n, event) in self.events.iter().enumerate() {
            let what = match &event.happened {
                Happened::Begin { call } => format!("{} {{", self.call(event.cpu, *call)),
                Happened::End { result, .. } => format!("}} = {result}"),
                Happened::Access { address, size, is_write, marked, value, late } => {
                    let name = self.name(*address);
                    let (open, close) = match (marked, is_write) {
                        (true, false) => ("READ_ONCE(", ")"),
                        (true, true) => ("WRITE_ONCE(", ")"),
                        _ => ("", ""),
                    };
                    if *is_write {
                        let new = match self.stored(n, *address, *size) {
                            Some(new) if !late => {
                                format!(" (was {}, then {})", self.number(*value), self.number(new))
                            }
                            _ => format!(" (was {})", self.number(*value)),
                        };
                        format!("store {open}{name}{close}{new}")
                    } else {
                        format!("load {open}{name}{close} = {}", self.number(*value))
                    }
                }
                Happened::Atomic { address, old, new, .. } => {
                    format!("atomic {} {} -> {}", self.name(*address), self.number(*old), self.number(*new))
                }
                Happened::Barrier { kind } => barrier_name(*kind).into(),
                Happened::Lock { address } => format!("lock {}", self.name(*address)),
                Happened::Unlock { address } => format!("unlock {}", self.name(*address)),
                Happened::Sleep { what } => what.clone(),
                Happened::Flush { address, value } => {
                    format!("its late store {} = {} is seen now", self.name(*address), self.number(*value))
                }
                Happened::Stale { age } => format!("sees what was {age} stores ago:"),
                Happened::Note { text } => text.clone(),
            };
            let place = self.lines.get(&event.code).cloned().unwrap_or_default();
            let cpu = usize::from(event.cpu);
            rows.push(Row { cpu, at: event.at, is_switch: last.is_some_and(|l| l != cpu), what, place });
            last = Some(cpu);
        }
        rows
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        const WIDTH: usize = 46;
        let rows = self.rows();
        let mut text = format!("{:>6}  ", "point");
        for cpu in 0..self.nr_cpus() {
            text.push_str(&format!("{:<WIDTH$}", format!("cpu{cpu}")));
        }
        text.push_str("source\n");
        for row in &rows {
            if row.is_switch {
                text.push_str(&format!("{:>6}  {}\n", "", "- ".repeat(WIDTH * self.nr_cpus() / 2)));
            }
            let shown: String = row.what.chars().take(WIDTH - 1).collect();
            let line = format!(
                "{:>6}  {}{shown:<width$}{}",
                row.at,
                " ".repeat(WIDTH * row.cpu),
                row.place,
                width = WIDTH * (self.nr_cpus() - row.cpu)
            );
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// As a page.
    pub fn html(&self, title: &str) -> String {
        use schedlab_report::page::Page;
        use schedlab_report::table::{Cell, Grid, Tone};
        let mut page = Page::new(title);
        page.note(
            "From top to bottom as it happened; a column a CPU. The number counts the CPU's own points.",
        );
        let mut head = vec![Cell::number("point")];
        head.extend((0..self.nr_cpus()).map(|cpu| Cell::text(format!("cpu{cpu}"))));
        head.push(Cell::text("source"));
        let row = |row: &Row| {
            let mut cells = vec![Cell::number(row.at.to_string())];
            for cpu in 0..self.nr_cpus() {
                let tone = if row.is_switch { Tone::Bold } else { Tone::Plain };
                let text = if cpu == row.cpu { row.what.as_str() } else { "" };
                cells.push(Cell::text(text).tone(tone));
            }
            cells.push(Cell::text(row.place.as_str()).tone(Tone::Soft));
            cells
        };
        page.grid(&Grid { head, rows: self.rows().iter().map(row).collect() });
        page.section("Who calls what", "scenario");
        page.command(&self.scenario.text);
        page.html()
    }
}
