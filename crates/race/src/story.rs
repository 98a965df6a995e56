//! What happened in a schedule, point by point? A column a CPU, with source lines and values.

use serde::{Deserialize, Serialize};

/// A note: from here on others see what the CPU has stored.
pub(crate) const SEEN: &str = "its late stores are seen";

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
        /// What a store leaves there; `None`: not known, or a load.
        new: Option<u64>,
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
        /// Which one.
        how: AtomicHow,
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
    /// The locks that the CPU holds by now, where the story leaves out what is between. This is no line.
    Holds {
        /// Which.
        addresses: Vec<usize>,
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

/// An atomic operation, as schedlab_race.h has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtomicHow {
    /// `RACE_ADD`, ...
    pub op: u32,
    /// `RACE_RELAXED`, ...
    pub order: u32,
    /// Somebody looks at the old value.
    pub has_result: bool,
    /// What is added, stored, ...
    pub argument: u64,
    /// Of `RACE_SWAP_IF`.
    pub expected: u64,
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

use std::collections::{BTreeMap, BTreeSet};

use crate::scenario::Scenario;
use crate::schedule::{Choice, ChoiceKind, NOBODY};

/// A schedule as it happened.
#[derive(Clone, Debug)]
pub struct Story {
    events: Vec<Event>,
    scenario: Scenario,
    names: BTreeMap<usize, String>,
    lines: BTreeMap<usize, (String, String)>,
    deciding: Option<Choice>,
}

/// A page of more lines has those around the switches once more at its top.
const LONG: usize = 60;
/// So many lines before and after a switch, and before the end.
const AROUND: usize = 6;

/// Lines by which another CPU goes on, those around them, the first and the last.
fn near_switches(rows: &[Row]) -> BTreeSet<usize> {
    let cuts = (0..rows.len()).filter(|number| *number == 0 || !rows[*number].before.is_empty());
    let mut shown = BTreeSet::new();
    let mut next = 0;
    for cut in cuts.chain([rows.len()]) {
        let from = cut.saturating_sub(AROUND);
        // a gap of a few lines is none
        shown.extend(if from < next + AROUND { next } else { from }..(cut + AROUND).min(rows.len()));
        next = cut + AROUND;
    }
    shown
}

/// The longest round of a loop that is known as one, in lines.
const ROUND: usize = 12;
/// So few lines are not folded.
const FEW: usize = 8;

/// Rounds of a loop that pass the same places as the rounds around them: the first of these lines, and how many. The
/// first round and the last one are shown.
fn folded(rows: &[Row]) -> Vec<(usize, usize)> {
    let is_alike = |a: &Row, b: &Row| {
        a.cpu == b.cpu
            && a.place == b.place
            && a.holds == b.holds
            && b.before.is_empty()
            && !b.place.is_empty()
    };
    let mut all = Vec::new();
    let mut at = 0;
    while at < rows.len() {
        let is_whole = |round: usize| {
            rows[at..rows.len().min(at + round)]
                .windows(2)
                .all(|two| two[1].cpu == two[0].cpu && two[1].before.is_empty())
        };
        let alike = |round: usize| {
            (at + round..rows.len()).take_while(|n| is_alike(&rows[n - round], &rows[*n])).count() / round
        };
        // as a loop's rounds: the shortest that the most lines are made of
        let best = (1..=ROUND)
            .filter(|round| is_whole(*round))
            .map(|round| (alike(round) * round, round))
            .max_by_key(|(lines, round)| (*lines, std::cmp::Reverse(*round)));
        match best {
            Some((lines, round)) if lines >= round + FEW => {
                all.push((at + round, lines - round));
                at += round + lines;
            }
            _ => at += 1,
        }
    }
    all
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
    /// What stands there; empty: it is not known.
    pub text: String,
    /// The locks that this CPU holds after it.
    pub holds: Vec<String>,
    /// What is to be said before it: which CPU stands where, and what decides.
    pub before: String,
}

impl Row {
    /// Where in the source, what stands there, and which locks are held.
    fn source(&self) -> String {
        let mut source = self.place.clone();
        if !self.text.is_empty() {
            source += &format!(": {}", self.text);
        }
        if !self.holds.is_empty() {
            source += &format!("  holds {}", self.holds.join(", "));
        }
        source
    }
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
        lines: BTreeMap<usize, (String, String)>,
    ) -> Story {
        Story { events, scenario, names, lines, deciding: None }
    }

    /// The choice without which all would end well.
    pub(crate) fn decides(&mut self, choice: Option<Choice>) {
        self.deciding = choice;
    }

    /// How many CPUs have columns.
    pub fn nr_cpus(&self) -> usize {
        self.scenario.cpus.len()
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    pub(crate) fn name(&self, address: usize) -> &str {
        self.names.get(&address).map_or("memory", String::as_str)
    }

    /// Addresses by name, small numbers in decimal, large ones in hexadecimal.
    pub(crate) fn number(&self, value: u64) -> String {
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

    /// What is stored by an access, if it was not noted: what the next look at it shows. Of a late store that is the
    /// next look of its own CPU.
    fn stored(&self, n: usize, (address, size): (usize, u32), late_on: Option<u8>) -> Option<u64> {
        let mut looks =
            self.events[n + 1..].iter().filter(|event| late_on.is_none_or(|cpu| event.cpu == cpu));
        looks.find_map(|event| match &event.happened {
            Happened::Access { address: a, size: s, value, .. } if *a == address && *s == size => {
                Some(*value)
            }
            Happened::Atomic { address: a, size: s, old, .. } if *a == address && *s == size => Some(*old),
            _ => None,
        })
    }

    /// Of a store that may be late: whether other CPUs did something before it was seen.
    fn lateness(&self, n: usize, cpu: u8, address: usize) -> &'static str {
        let mut others = false;
        for event in &self.events[n + 1..] {
            others |= event.cpu != cpu;
            let is_seen = match &event.happened {
                Happened::Flush { address: a, .. } => *a == address,
                Happened::Note { text } => text == SEEN,
                _ => false,
            };
            if is_seen && event.cpu == cpu {
                return if others { ", late" } else { "" };
            }
        }
        if others { ", late to the end" } else { "" }
    }

    fn access(&self, n: usize, event: &Event) -> String {
        let Happened::Access { address, size, is_write, marked, value, late, new } = &event.happened else {
            return String::new();
        };
        let name = self.name(*address);
        let (open, close) = match (marked, is_write) {
            (true, false) => ("READ_ONCE(", ")"),
            (true, true) => ("WRITE_ONCE(", ")"),
            _ => ("", ""),
        };
        if !is_write {
            return format!("load {open}{name}{close} = {}", self.number(*value));
        }
        let late = if *late { self.lateness(n, event.cpu, *address) } else { "" };
        let late_on = (!late.is_empty()).then_some(event.cpu);
        match new.or_else(|| self.stored(n, (*address, *size), late_on)) {
            Some(new) => {
                format!(
                    "store {open}{name}{close} = {} (was {}){late}",
                    self.number(new),
                    self.number(*value)
                )
            }
            None => format!("store {open}{name}{close} (was {}){late}", self.number(*value)),
        }
    }

    fn what(&self, n: usize, event: &Event) -> String {
        match &event.happened {
            Happened::Begin { call } => format!("{} {{", self.call(event.cpu, *call)),
            Happened::End { result, .. } => format!("}} = {result}"),
            Happened::Access { .. } => self.access(n, event),
            Happened::Atomic { address, old, new, .. } => {
                format!("atomic {} {} -> {}", self.name(*address), self.number(*old), self.number(*new))
            }
            Happened::Barrier { kind } => barrier_name(*kind).into(),
            Happened::Lock { address } => format!("lock {}", self.name(*address)),
            Happened::Unlock { address } => format!("unlock {}", self.name(*address)),
            Happened::Holds { .. } => String::new(),
            Happened::Sleep { what } => what.clone(),
            Happened::Flush { address, value } => {
                format!("its late store {} = {} is seen now", self.name(*address), self.number(*value))
            }
            Happened::Stale { age: 1 } => "sees what was before the last store:".into(),
            Happened::Stale { age } => format!("sees what was {age} stores ago:"),
            Happened::Note { text } => text.clone(),
        }
    }

    /// What is said where another CPU goes on.
    fn switched(&self, from: usize, to: usize, at: u32) -> String {
        let decides = self.deciding.filter(|choice| {
            choice.what == ChoiceKind::To(to as u8)
                && (usize::from(choice.cpu) == from && choice.at > at || choice.cpu == NOBODY && at == 0)
        });
        match decides {
            Some(_) => format!("cpu{to} goes on: this decides"),
            None => format!("cpu{to} goes on"),
        }
    }

    /// All lines, in the order in which they happened.
    pub fn rows(&self) -> Vec<Row> {
        let mut last: Option<(usize, u32)> = None;
        let mut rows = Vec::new();
        let mut held: Vec<Vec<String>> = vec![Vec::new(); usize::from(u8::MAX) + 1];
        for (n, event) in self.events.iter().enumerate() {
            let cpu = usize::from(event.cpu);
            let is_switch = last.is_some_and(|(other, _)| other != cpu);
            if let Happened::Holds { addresses } = &event.happened {
                held[cpu] = addresses.iter().map(|address| self.name(*address).to_owned()).collect();
                continue;
            }
            let mut before = match last {
                Some((other, at)) if is_switch => self.switched(other, cpu, at),
                _ => String::new(),
            };
            if let Happened::Lock { address } = &event.happened {
                held[cpu].push(self.name(*address).to_owned());
            }
            if let Happened::Unlock { address } = &event.happened {
                let name = self.name(*address);
                held[cpu].retain(|lock| lock != name);
            }
            let is_late = match event.happened {
                Happened::Flush { .. } => self.deciding.map(|c| matches!(c.what, ChoiceKind::Flush(_))),
                Happened::Stale { .. } => self.deciding.map(|c| matches!(c.what, ChoiceKind::Stale(_))),
                _ => None,
            };
            if is_late == Some(true)
                && self.deciding.is_some_and(|c| usize::from(c.cpu) == cpu && c.at.abs_diff(event.at) < 2)
            {
                let comma = if before.is_empty() { "" } else { "; " };
                before.push_str(&format!("{comma}what comes now decides"));
            }
            let (place, text) = self.lines.get(&event.code).cloned().unwrap_or_default();
            let (what, holds) = (self.what(n, event), held[cpu].clone());
            rows.push(Row { cpu, at: event.at, is_switch, what, place, text, holds, before });
            last = Some((cpu, event.at));
        }
        rows
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        const WIDTHS: std::ops::RangeInclusive<usize> = 46..=64;
        let rows = self.rows();
        let longest = rows.iter().map(|row| row.what.chars().count() + 2).max().unwrap_or(0);
        let column = longest.clamp(*WIDTHS.start(), *WIDTHS.end());
        let mut text = format!("{:>6}  ", "point");
        for cpu in 0..self.nr_cpus() {
            text.push_str(&format!("{:<column$}", format!("cpu{cpu}")));
        }
        text.push_str("source\n");
        let folded = folded(&rows);
        for (number, row) in rows.iter().enumerate() {
            if let Some((_, left_out)) = folded.iter().find(|(first, _)| *first == number) {
                let indent = " ".repeat(column * row.cpu);
                text.push_str(&format!("{:>6}  {indent}... {left_out} lines as these\n", ""));
            }
            if folded.iter().any(|(first, left_out)| (*first..first + left_out).contains(&number)) {
                continue;
            }
            if !row.before.is_empty() {
                let line = format!("- - {} ", row.before);
                let rest = (column * self.nr_cpus()).saturating_sub(line.len()) / 2;
                text.push_str(&format!("{:>6}  {line}{}\n", "", "- ".repeat(rest)));
            }
            let shown: String = row.what.chars().take(column - 1).collect();
            let line = format!(
                "{:>6}  {}{shown:<width$}{}",
                row.at,
                " ".repeat(column * row.cpu),
                row.source(),
                width = column * (self.nr_cpus() - row.cpu)
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
            cells.push(Cell::text(row.source()).tone(Tone::Soft));
            cells
        };
        let mark = |row: &Row| {
            let mut cells = vec![Cell::text(""); self.nr_cpus() + 2];
            cells[row.cpu + 1] = Cell::text(row.before.as_str()).tone(Tone::Soft);
            cells
        };
        let rows = self.rows();
        let line = |this: &Row| (!this.before.is_empty()).then(|| mark(this)).into_iter().chain([row(this)]);
        let all = Grid { head, rows: rows.iter().flat_map(line).collect() };
        if rows.len() > LONG {
            let shown = near_switches(&rows);
            let left_out = |nr: usize| {
                let mut cells = vec![Cell::text(""); self.nr_cpus() + 2];
                cells[self.nr_cpus() + 1] = Cell::text(format!("{nr} lines, below")).tone(Tone::Soft);
                cells
            };
            let (mut lines, mut next) = (Vec::new(), 0);
            for (number, this) in rows.iter().enumerate().filter(|(number, _)| shown.contains(number)) {
                lines.extend((number > next).then(|| left_out(number - next)));
                lines.extend(line(this));
                next = number + 1;
            }
            page.section("Around the switches, and the end", "switches");
            page.grid(&Grid { head: all.head.clone(), rows: lines });
            page.section("All of it", "all");
        }
        page.grid(&all);
        page.section("Who calls what", "scenario");
        page.command(&self.scenario.text);
        page.html()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_a_loop_are_folded() {
        let row = |place: &str| Row {
            cpu: 0,
            at: 0,
            is_switch: false,
            what: String::new(),
            place: place.into(),
            text: String::new(),
            holds: Vec::new(),
            before: String::new(),
        };
        let rows = |places: &str| places.chars().map(|c| row(&c.to_string())).collect::<Vec<_>>();
        // ten rounds of two lines: the first and the last are left
        let loops = rows(&format!("x{}y", "ab".repeat(10)));
        assert_eq!(folded(&loops), [(3, 16)]);
        assert_eq!(folded(&rows("abababab")), []);
        // another CPU goes on within
        let mut broken = rows(&"a".repeat(16));
        broken[8].before = "cpu1 goes on".into();
        assert_eq!(folded(&broken), []);
        broken.extend(rows(&"a".repeat(10)));
        assert_eq!(folded(&broken), [(9, 16)]);
    }

    #[test]
    fn a_long_page_begins_with_the_lines_around_switches() {
        let row = |number: usize| Row {
            cpu: 0,
            at: number as u32,
            is_switch: false,
            what: String::new(),
            place: String::new(),
            text: String::new(),
            holds: Vec::new(),
            before: if number == 20 { "cpu0 goes on".into() } else { String::new() },
        };
        let shown = |nr: usize| near_switches(&(0..nr).map(row).collect::<Vec<_>>());
        assert!(shown(80).into_iter().eq((0..6).chain(14..26).chain(74..80)));
        // four lines between the switch and the end are there, too
        assert!(shown(36).into_iter().eq((0..6).chain(14..36)));
    }
}
