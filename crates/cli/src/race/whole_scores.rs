//! `race linux-6.12 --scoreboard --rows F`: which search finds which seeded bug of the whole scheduler, how soon?
//!
//! A search takes seconds to minutes and each bug costs a build, so the work is a list of lines. A line is added when
//! its search has been made, and a search whose line is there is not made again:
//!
//! ```text
//! bug               object  search  seed  most  schedules  end     cpu_s  scenario  finding
//! -                 8a1f..  mix     1     1000  1000       silent  2.71   wakeup    (the kernel as it is)
//! queued-unchecked  03bc..  random  1     3000  17         found   0.09   wakeup    invariant: .. on no queue
//! ```

use super::{RaceArgs, fault, seed_named, whole};
use crate::failure::{Failure, Result};
use crate::output;
use crate::ui::Ui;
use schedlab_race::compile::Compiled;
use schedlab_race::explore::{Aside, Finding, Plan};
use schedlab_race::seeded::{self, Seeded};
use schedlab_race::study::{self, Explained};
use schedlab_race::{MemoryModel, RaceError, Scenario, Strategy};
use schedlab_stdx::limits::{RACE_BYTES_MAX, read_text};
use std::io::Write;
use std::path::Path;

/// How is searched, and what it is called.
#[derive(Clone, Copy, Debug)]
struct Kind {
    strategy: Strategy,
    model: MemoryModel,
    /// Accesses that nothing orders are findings, too.
    races: bool,
    name: &'static str,
    /// Schedules of each scenario at most, from the number that was asked for.
    most: fn(u64) -> u64,
    /// Another seed makes no difference, or little.
    is_once: bool,
}

const fn kind(strategy: Strategy, model: MemoryModel, name: &'static str) -> Kind {
    Kind { strategy, model, races: false, name, most: |n| n, is_once: false }
}

/// Searches of the table: by order of events, and with late stores.
const BY_ORDER: [Kind; 7] = [
    MIX,
    kind(Strategy::Random, MemoryModel::Sc, "random"),
    kind(Strategy::Pct(3), MemoryModel::Sc, "pct-3"),
    kind(Strategy::Pos, MemoryModel::Sc, "pos"),
    kind(Strategy::Conflict, MemoryModel::Sc, "conflict"),
    Kind { most: |n| 10 * n, is_once: true, ..kind(Strategy::Bounded(1), MemoryModel::Sc, "one stop") },
    Kind { races: true, most: |n| n / 10, is_once: true, ..kind(Strategy::Mix, MemoryModel::Sc, "races") },
];
const WITH_LATE: [Kind; 2] =
    [kind(Strategy::Mix, MemoryModel::Tso, "tso"), kind(Strategy::Mix, MemoryModel::Lkmm, "lkmm")];
const MIX: Kind = kind(Strategy::Mix, MemoryModel::Sc, "mix");

impl Kind {
    /// The search of the kernel as it is that says what this one's findings must not be. Searches by order alone, at
    /// random, share one.
    fn of_plain(self) -> Kind {
        let is_own = self.model != MemoryModel::Sc || self.is_once;
        if is_own { self } else { MIX }
    }
}

/// What the kernel is called that has no bug.
const AS_IT_IS: &str = "-";
/// Bugs that need no late stores, and are searched with them all the same.
const OTHERS: [&str; 5] =
    ["distribute-twice", "no-completion", "push-rt-unchecked", "queued-unchecked", "stale-destination"];

/// The searches of a bug. One that needs late stores is not to be found by order alone, in the default search; one that
/// does no harm is not to be found by it, nor by the searches that are made once.
fn searches(seeded: &Seeded) -> Vec<Kind> {
    match &*seeded.needs {
        "weak" => [&[MIX][..], &WITH_LATE[..]].concat(),
        "harmless" => BY_ORDER.into_iter().filter(|kind| kind.name == MIX.name || kind.is_once).collect(),
        _ if OTHERS.contains(&&*seeded.name) => [&BY_ORDER[..], &WITH_LATE[..]].concat(),
        _ => BY_ORDER.to_vec(),
    }
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Silent,
    Found,
    /// The kernel does not come as far as the scenario, or refuses what it writes.
    Refused,
}

impl End {
    const ALL: [(End, &str); 3] = [(End::Silent, "silent"), (End::Found, "found"), (End::Refused, "refused")];

    fn name(self) -> &'static str {
        End::ALL.iter().find(|(end, _)| *end == self).map_or("", |(_, name)| name)
    }
}

/// A search that was made.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    bug: String,
    object: String,
    search: String,
    seed: u64,
    most: u64,
    schedules: u64,
    end: End,
    cpu_s: f64,
    scenario: String,
    finding: String,
}

impl Row {
    fn line(&self) -> String {
        let Row { bug, object, search, seed, most, schedules, end, cpu_s, scenario, finding } = self;
        let (end, finding) = (end.name(), finding.replace(['\t', '\n'], " "));
        format!(
            "{bug}\t{object}\t{search}\t{seed}\t{most}\t{schedules}\t{end}\t{cpu_s:.2}\t{scenario}\t{finding}"
        )
    }

    fn read(line: &str) -> Option<Row> {
        let parts: Vec<&str> = line.split('\t').collect();
        let [bug, object, search, seed, most, schedules, end, cpu_s, scenario, finding] = parts[..] else {
            return None;
        };
        Some(Row {
            bug: bug.to_owned(),
            object: object.to_owned(),
            search: search.to_owned(),
            seed: seed.parse().ok()?,
            most: most.parse().ok()?,
            schedules: schedules.parse().ok()?,
            end: End::ALL.iter().find(|(_, name)| *name == end)?.0,
            cpu_s: cpu_s.parse().ok()?,
            scenario: scenario.to_owned(),
            finding: finding.to_owned(),
        })
    }
}

/// The lines that there are, and the file that they go on in.
struct Rows<'a> {
    path: Option<&'a Path>,
    rows: Vec<Row>,
}

impl Rows<'_> {
    fn open(path: Option<&Path>) -> Result<Rows<'_>> {
        let mut rows = Vec::new();
        if let Some(path) = path.filter(|path| path.exists()) {
            let name = path.display();
            let text = read_text(path, RACE_BYTES_MAX).map_err(|e| Failure::Input(format!("{name}: {e}")))?;
            for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
                let bad = || {
                    let what =
                        "expected ten fields with tabs between, as --rows writes them; take the line out";
                    Failure::Input(format!("{name}:{}: '{line}', {what}", n + 1))
                };
                rows.push(Row::read(line).ok_or_else(bad)?);
            }
        }
        Ok(Rows { path, rows })
    }

    /// Adds a line, on disk at once.
    fn add(&mut self, row: Row) -> Result<()> {
        if let Some(path) = self.path {
            let written = std::fs::File::options()
                .create(true)
                .append(true)
                .open(path)
                .and_then(|mut file| writeln!(file, "{}", row.line()));
            written.map_err(|e| Failure::Input(format!("{}: {e}", path.display())))?;
        }
        self.rows.push(row);
        Ok(())
    }

    fn of_bug<'a>(&'a self, bug: &'a str, search: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.bug == bug && row.search == search)
    }
}

/// CPU time of the processes that have ended, s.
fn cpu_s() -> f64 {
    // SAFETY: a plain structure that the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let s = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    s(usage.ru_utime) + s(usage.ru_stime)
}

/// What is explored of one object, and with what.
struct Search<'a> {
    bug: &'a str,
    compiled: &'a Compiled,
    kind: Kind,
    seed: u64,
    most: u64,
    /// Findings that the kernel without the bug has, too.
    known: &'a [String],
    /// Reasons that findings of this object have.
    explained: &'a [Explained],
}

impl Search<'_> {
    /// One scenario after the other, up to the first finding.
    fn run(&self, scenarios: &[Scenario]) -> Result<Row> {
        let plan = Plan {
            compiled: self.compiled.clone(),
            model: self.kind.model,
            strategy: self.kind.strategy,
            seed: self.seed,
            schedules: self.most,
            jobs: 1,
            findings: 1,
            from: 0,
            aside: Vec::new(),
            without: Vec::new(),
            races: self.kind.races,
        };
        let mut row = Row {
            bug: self.bug.to_owned(),
            object: self.compiled.key.clone(),
            search: self.kind.name.to_owned(),
            seed: self.seed,
            most: self.most,
            schedules: 0,
            end: End::Silent,
            cpu_s: 0.0,
            scenario: String::new(),
            finding: String::new(),
        };
        let before = cpu_s();
        for scenario in scenarios {
            row.scenario.clone_from(&scenario.name);
            let known = self.known.iter().map(|text| Aside { text: study::any_cpu(text), needs_stop: false });
            let explained = self.explained.iter().filter_map(|reason| reason.aside(&scenario.name));
            let plan = Plan { aside: explained.chain(known).collect(), ..plan.clone() };
            match plan.explore(scenario) {
                Ok(explored) => {
                    let is_new = |f: &&Finding| {
                        !self.known.contains(&f.text) && !self.explained.iter().any(|reason| reason.is(f))
                    };
                    let Some(new) = explored.findings.iter().find(is_new) else {
                        row.schedules += explored.schedules;
                        continue;
                    };
                    row.schedules += new.first_schedule + 1;
                    row.finding = format!("{}: {}", new.kind, new.text);
                    row.end = End::Found;
                }
                Err(RaceError::Refused(why)) => {
                    row.finding = why;
                    row.end = End::Refused;
                }
                Err(error) => return Err(fault(error)),
            }
            break;
        }
        row.cpu_s = cpu_s() - before;
        Ok(row)
    }
}

/// The scenarios of a bug, in its order.
fn scenarios_of(seeded: &Seeded, compiled: &Compiled, ui: &Ui) -> Result<Vec<Scenario>> {
    if seeded.scenarios.is_empty() {
        return whole::scenarios(compiled, None, ui);
    }
    let one =
        |name: &String| -> Result<Scenario> { Ok(whole::scenarios(compiled, Some(name), ui)?.remove(0)) };
    seeded.scenarios.iter().map(one).collect()
}

pub(super) fn scoreboard(target: &str, args: &RaceArgs, ui: &Ui) -> Result<()> {
    let series = target.split('+').next().unwrap_or_default();
    let series = series.strip_prefix(schedlab_race::whole::PREFIX).unwrap_or(series);
    let is_here = |s: &Seeded| {
        let kernel = if s.kernel.is_empty() { "6.12" } else { &s.kernel };
        s.target == "linux" && kernel == series
    };
    let mut bugs = seeded::all().map_err(fault)?;
    bugs.retain(is_here);
    if let Some(name) = &args.seeded {
        let wanted = seed_named(name, "linux")?;
        if !bugs.contains(&wanted) {
            bugs.push(wanted);
        }
    }
    let is_wanted = |s: &&Seeded| args.seeded.as_ref().is_none_or(|name| *name == s.name);
    let explained = study::explained().map_err(fault)?;
    let of = |compiled: &Compiled, model: MemoryModel, seeded: Option<&Seeded>| -> Vec<Explained> {
        let covers = |e: &&Explained| e.covers(&compiled.name, &compiled.kernel.1, model, seeded);
        explained.iter().filter(covers).cloned().collect()
    };
    let mut rows = Rows::open(args.rows.as_deref())?;
    let step = ui.step("scoreboard");
    for (n, seeded) in bugs.iter().filter(is_wanted).enumerate() {
        let missing = |rows: &Rows<'_>, kind: Kind, seed: u64| {
            let most = (kind.most)(args.schedules());
            !rows.of_bug(&seeded.name, kind.name).any(|row| row.seed == seed && row.most == most)
        };
        let wanted: Vec<(Kind, u64)> = searches(seeded)
            .into_iter()
            .flat_map(|kind| {
                let seeds = if kind.is_once { 1 } else { args.seeds };
                (1..=seeds).map(move |seed| (kind, seed))
            })
            .filter(|(kind, seed)| missing(&rows, *kind, *seed))
            .collect();
        if wanted.is_empty() {
            continue;
        }
        step.now(format!("scoreboard: {} of {}, {}", n + 1, bugs.len(), seeded.name));
        // the kernel as it is comes first: a bug's finding is one that this does not have
        let flavours: String = seeded.flavours.iter().map(|flavour| format!("+{flavour}")).collect();
        let plain = whole::compiled(&format!("{target}{flavours}"), None, ui)?;
        let scenarios = scenarios_of(seeded, &plain, ui)?;
        let mut known: Vec<(&str, String)> = Vec::new();
        let mut kinds: Vec<Kind> = wanted.iter().map(|(kind, _)| kind.of_plain()).collect();
        kinds.dedup_by_key(|kind| kind.name);
        for (kind, scenario) in kinds.iter().flat_map(|kind| scenarios.iter().map(move |s| (*kind, s))) {
            let is_it = |row: &&Row| row.object == plain.key && row.scenario == scenario.name;
            if !rows.of_bug(AS_IT_IS, kind.name).any(|row| is_it(&row)) {
                let search = Search {
                    bug: AS_IT_IS,
                    compiled: &plain,
                    kind,
                    seed: 1,
                    most: (kind.most)(args.schedules()),
                    known: &[],
                    explained: &of(&plain, kind.model, None),
                };
                let row = search.run(std::slice::from_ref(scenario))?;
                rows.add(row)?;
            }
            let found = rows.of_bug(AS_IT_IS, kind.name).filter(is_it).filter(|row| row.end == End::Found);
            known.extend(
                found.filter_map(|row| Some((kind.name, row.finding.split_once(": ")?.1.to_owned()))),
            );
        }
        let compiled = whole::compiled(target, Some(&seeded.name), ui)?;
        for (kind, seed) in wanted {
            let (bug, most) = (&seeded.name, (kind.most)(args.schedules()));
            let explained = &of(&compiled, kind.model, Some(seeded));
            let of_kind = known.iter().filter(|(name, _)| *name == kind.of_plain().name);
            let known = &of_kind.map(|(_, text)| text.clone()).collect::<Vec<_>>();
            let search = Search { bug, compiled: &compiled, kind, seed, most, known, explained };
            let row = search.run(&scenarios)?;
            ui.say(row.line().replace('\t', " "));
            rows.add(row)?;
        }
    }
    drop(step);
    let text = table(&bugs, &rows);
    let value = serde_json::json!({
        "schema": 1, "target": target,
        "rows": rows.rows.iter().map(|row| serde_json::json!({
            "bug": row.bug, "object": row.object, "search": row.search, "seed": row.seed, "most": row.most,
            "schedules": row.schedules, "end": row.end.name(), "cpu_s": row.cpu_s, "scenario": row.scenario,
            "finding": row.finding,
        })).collect::<Vec<_>>(),
    });
    if !output::json_value(args.json.as_deref(), &value)? {
        print!("{text}");
    }
    Ok(())
}

/// The median, of which what was not found is the greatest.
fn median<'a>(
    rows: impl Iterator<Item = &'a Row>,
    number: impl Fn(&Row) -> f64,
) -> (usize, usize, Option<f64>) {
    let mut all: Vec<f64> = Vec::new();
    let mut nr = 0;
    for row in rows {
        nr += 1;
        if row.end == End::Found {
            all.push(number(row));
        }
    }
    all.sort_by(f64::total_cmp);
    (all.len(), nr, if nr == 0 { None } else { all.get((nr - 1) / 2).copied() })
}

/// The committed form: of each search the median schedule, how many seeds found it, and the median of CPU s.
fn table(bugs: &[Seeded], rows: &Rows<'_>) -> String {
    let mut text = String::from("| bug | undoes |");
    let kinds = || BY_ORDER.iter().chain(&WITH_LATE);
    kinds().for_each(|kind| text.push_str(&format!(" {} |", kind.name)));
    text.push_str(" most often found as |\n|---|---|");
    kinds().for_each(|_| text.push_str("---|"));
    text.push_str("---|\n");
    for seeded in bugs {
        let fix = match (&*seeded.needs, seeded.fix.split(' ').next().unwrap_or_default()) {
            ("harmless", _) => "harmless",
            ("weak", "") => "mutation, late stores",
            (_, "") => "mutation",
            (_, fix) => fix,
        };
        text.push_str(&format!("| `{}` | {fix} |", seeded.name));
        let mut said: Vec<(usize, &str)> = Vec::new();
        for kind in kinds() {
            let all = || rows.of_bug(&seeded.name, kind.name);
            let (found, nr, schedules) = median(all(), |row| row.schedules as f64);
            let (_, _, cpu) = median(all(), |row| row.cpu_s);
            match (nr, schedules, cpu) {
                (0, ..) => text.push_str(" |"),
                (_, Some(schedules), Some(cpu)) => {
                    text.push_str(&format!(" {schedules:.0}, {found} of {nr}, {cpu:.1} s |"));
                }
                _ => text.push_str(&format!(" {found} of {nr} |")),
            }
            for row in all().filter(|row| row.end != End::Silent) {
                match said.iter_mut().find(|(_, text)| *text == row.finding) {
                    Some((times, _)) => *times += 1,
                    None => said.push((1, &row.finding)),
                }
            }
        }
        let most = said.iter().max_by_key(|(times, _)| *times).map_or("", |(_, text)| text);
        text.push_str(&format!(" {} |\n", most.replace('|', "\\|")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(end: End, schedules: u64) -> Row {
        Row {
            bug: "b".into(),
            object: "o".into(),
            search: "random".into(),
            seed: 1,
            most: 3000,
            schedules,
            end,
            cpu_s: 1.5,
            scenario: "wakeup".into(),
            finding: "warn: a".into(),
        }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let one = row(End::Found, 7);
        assert_eq!(one.line(), "b\to\trandom\t1\t3000\t7\tfound\t1.50\twakeup\twarn: a");
        assert_eq!(Row::read(&one.line()), Some(one));
        assert_eq!(Row::read("b\to"), None);
    }

    #[test]
    fn what_was_not_found_is_beyond_every_number() {
        let [a, b, c] = [row(End::Found, 9), row(End::Found, 3), row(End::Silent, 3000)];
        let of = |rows: &[&Row]| median(rows.iter().copied(), |row| row.schedules as f64);
        assert_eq!(of(&[&a, &b, &c]), (2, 3, Some(9.0)));
        assert_eq!(of(&[&a, &c, &c]), (1, 3, None));
        assert_eq!(of(&[]), (0, 0, None));
    }
}
