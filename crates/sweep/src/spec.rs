//! Which runs? A description in TOML: four ways to spread values, and tables that leave runs out.
//!
//! ```toml
//! [grid]                          # every combination
//! sched = ["rr", "eevdf"]
//! seed = "1-100"
//! duration = "2s"
//!
//! [zip]                           # side by side: lists of one length
//! workload = ["small.txt", "large.txt"]
//! cpus = [2, 8]
//!
//! [[list]]                        # row by row
//! param.quantum = "5ms"
//! [[list]]
//! param.quantum = "20ms"
//!
//! [latin]                         # a Latin hypercube: each axis evenly, all together by chance
//! samples = 40
//! seed = 1
//! set.load = { from = 0.1, to = 0.9 }
//!
//! [[except]]                      # leaves out what has all of this; [[only]] keeps what has all of it
//! sched = "rr"
//! cpus = { min = 4 }
//! ```
//!
//! The runs are the product of the four ways, less what is left out. Runs are numbered, the first axis outermost,
//! and made from their number: a description of ten million runs takes no memory.

use crate::axes::{Axis, Values, latin_rows, values_of};
use crate::error::SweepError;
use crate::only::Condition;
use crate::trial::Trial;
use crate::value::Value;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// More runs than these are a typing error.
pub const RUNS_MAX: u64 = 10_000_000;
/// Rows of a list, points of a hypercube.
const ROWS_MAX: usize = 1_000_000;

/// A description that has been read and checked.
#[derive(Clone, Debug)]
pub struct Sweep {
    text: SourceText,
    base: PathBuf,
    axes: Vec<(Axis, usize)>,
    blocks: Vec<Block>,
    only: Vec<Condition>,
    except: Vec<Condition>,
    nr_candidates: u64,
}

/// The file, for errors.
#[derive(Clone, Debug)]
pub(crate) struct SourceText {
    pub name: String,
    pub text: String,
}

/// One digit of a run's number: an axis of the grid, or rows that set several axes at once.
#[derive(Clone, Debug)]
enum Block {
    Axis(usize, Values),
    Rows(Vec<Vec<(usize, Value, usize)>>),
    /// Whole runs; then there is no other block.
    Trials(Vec<Trial>),
}

impl Block {
    fn len(&self) -> u64 {
        match self {
            Block::Axis(_, values) => values.len(),
            Block::Rows(rows) => rows.len() as u64,
            Block::Trials(trials) => trials.len() as u64,
        }
    }
}

/// A value that a run has on an axis: which, what, and where it is written (a byte of the text).
pub(crate) struct Chosen<'a> {
    pub axis: &'a Axis,
    pub value: Value,
    pub at: usize,
}

impl SourceText {
    /// The line of a byte, from 1, and its text.
    fn line(&self, at: usize) -> (usize, String) {
        let at = at.min(self.text.len());
        let before = &self.text.as_bytes()[..at];
        let line = before.iter().filter(|byte| **byte == b'\n').count();
        (line + 1, self.text.lines().nth(line).unwrap_or_default().to_owned())
    }

    pub(crate) fn at(&self, at: usize, what: impl Into<String>) -> SweepError {
        let (line, text) = self.line(at);
        SweepError::At { file: self.name.clone(), line, text, what: what.into() }
    }

    fn whole(&self, what: impl Into<String>) -> SweepError {
        SweepError::File { file: self.name.clone(), what: what.into() }
    }
}

impl Sweep {
    /// From a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// It cannot be read, or as [`Sweep::parse`].
    pub fn load(path: &Path) -> Result<Sweep, SweepError> {
        let name = path.display().to_string();
        let text = schedlab_workload::limits::read_toml(path).map_err(|error| SweepError::File {
            file: name.clone(),
            what: format!("cannot be read: {error}"),
        })?;
        let base = path.parent().unwrap_or(Path::new(""));
        Sweep::parse(&name, &text, base)
    }

    /// From a text; `file` names it in errors, `base` is where relative paths begin.
    ///
    /// # Errors
    /// A mistake, with its line: an unknown axis, an empty one, too many runs, a value that no run can have.
    pub fn parse(file: &str, text: &str, base: &Path) -> Result<Sweep, SweepError> {
        let source = SourceText { name: file.to_owned(), text: text.to_owned() };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            source.at(at, error.message().to_owned())
        })?;
        let (axes, blocks) = (Vec::new(), Vec::new());
        let mut sweep = Sweep {
            text: source,
            base: base.to_owned(),
            axes,
            blocks,
            only: Vec::new(),
            except: Vec::new(),
            nr_candidates: 1,
        };
        // the order in the text decides which axis is outermost
        let mut sections: Vec<_> = table.get_ref().iter().collect();
        sections.sort_by_key(|(name, _)| name.span().start);
        for (name, section) in &sections {
            sweep.section(name, section)?;
        }
        for (name, section) in &sections {
            sweep.conditions(name.get_ref(), section)?;
        }
        sweep.check()?;
        Ok(sweep)
    }

    /// Runs that are known one by one; `name` names them in errors.
    pub fn of_trials(name: &str, trials: Vec<Trial>, base: &Path) -> Sweep {
        Sweep {
            text: SourceText { name: name.to_owned(), text: String::new() },
            base: base.to_owned(),
            axes: Vec::new(),
            nr_candidates: trials.len() as u64,
            blocks: vec![Block::Trials(trials)],
            only: Vec::new(),
            except: Vec::new(),
        }
    }

    /// Where relative paths begin.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The file, as it was named.
    pub fn name(&self) -> &str {
        &self.text.name
    }

    /// Numbers of runs there are, before any is left out.
    pub fn nr_candidates(&self) -> u64 {
        self.nr_candidates
    }

    /// The run of this number; `None`: it is left out.
    ///
    /// # Panics
    /// There is no such number.
    pub fn candidate(&self, index: u64) -> Option<Trial> {
        if let [Block::Trials(trials)] = self.blocks.as_slice() {
            return trials.get(index as usize).cloned();
        }
        let chosen = self.chosen(index);
        if !self.is_wanted(&chosen) {
            return None;
        }
        let mut trial = Trial::default();
        for Chosen { axis, value, .. } in &chosen {
            axis.put(value, &mut trial);
        }
        trial.sched = kernel_name(&chosen).unwrap_or(trial.sched);
        Some(trial)
    }

    /// All runs, in order of their numbers.
    pub fn trials(&self) -> impl Iterator<Item = Trial> + '_ {
        (0..self.nr_candidates).filter_map(|index| self.candidate(index))
    }

    fn chosen(&self, index: u64) -> Vec<Chosen<'_>> {
        assert!(index < self.nr_candidates, "there is no run {index}");
        let mut rest = index;
        let mut digits: Vec<u64> = Vec::with_capacity(self.blocks.len());
        for block in self.blocks.iter().rev() {
            digits.push(rest % block.len());
            rest /= block.len();
        }
        let mut chosen = Vec::with_capacity(self.axes.len());
        for (block, digit) in self.blocks.iter().zip(digits.into_iter().rev()) {
            match block {
                Block::Axis(axis, values) => {
                    let (value, at) = values.get(digit);
                    chosen.push(Chosen { axis: &self.axes[*axis].0, value, at });
                }
                Block::Rows(rows) => chosen.extend(rows[digit as usize].iter().map(|(axis, value, at)| {
                    Chosen { axis: &self.axes[*axis].0, value: value.clone(), at: *at }
                })),
                Block::Trials(_) => {}
            }
        }
        chosen
    }

    fn is_wanted(&self, chosen: &[Chosen<'_>]) -> bool {
        let holds = |condition: &Condition| condition.holds(chosen);
        !self.except.iter().any(holds) && (self.only.is_empty() || self.only.iter().any(holds))
    }

    /// An error of one run's setting, at the place where the description says so.
    pub(crate) fn place(&self, index: u64, error: SweepError) -> SweepError {
        let SweepError::Setting { axis, value, what, kind } = &error else { return error };
        if *kind != schedlab_lab::FailureKind::Input {
            return error;
        }
        let chosen = self.chosen(index);
        let is_of = |one: &&Chosen<'_>| {
            let name = one.axis.to_string();
            name == *axis
                || (axis == "sched" && matches!(one.axis, Axis::Kernel | Axis::Flavour))
                || (axis == "machine" && *one.axis == Axis::Cpus)
                || (axis == "generate" && name.starts_with("set."))
        };
        match chosen.iter().find(is_of).or_else(|| chosen.iter().find(|one| one.axis.to_string() == "sched"))
        {
            Some(one) => self.text.at(one.at, format!("{axis} = {value}: {what}")),
            None => self.text.whole(format!("{axis} = {value}: {what}")),
        }
    }
}

/// `linux-V+A` of the axes `kernel` and `flavour`.
fn kernel_name(chosen: &[Chosen<'_>]) -> Option<String> {
    let of = |wanted: Axis| chosen.iter().find(|one| *one.axis == wanted).map(|one| one.value.to_string());
    let kernel = of(Axis::Kernel)?;
    let flavours = of(Axis::Flavour).filter(|flavours| !flavours.is_empty());
    Some(format!("linux-{kernel}{}", flavours.map_or(String::new(), |flavours| format!("+{flavours}"))))
}

/// Reading.
/// An axis with its place in the text, and what is said of it.
type Entry<'a> = ((Axis, usize), &'a Spanned<DeValue<'a>>);

impl Sweep {
    fn section(
        &mut self,
        name: &Spanned<impl AsRef<str>>,
        section: &Spanned<DeValue<'_>>,
    ) -> Result<(), SweepError> {
        let at = name.span().start;
        let name = name.get_ref().as_ref();
        match (name, section.get_ref()) {
            ("grid", DeValue::Table(table)) => {
                for (axis, value) in self.entries(table)? {
                    let values = values_of(&axis.0, value, &self.text)?;
                    let axis = self.add(axis)?;
                    self.blocks.push(Block::Axis(axis, values));
                }
                Ok(())
            }
            ("zip", DeValue::Table(table)) => self.zip(table, at),
            ("list", DeValue::Array(rows)) => self.list(rows, at),
            ("latin", DeValue::Table(table)) => self.latin(table, at),
            ("only" | "except", DeValue::Array(_)) => Ok(()),
            ("grid" | "zip" | "latin", _) => Err(self.text.at(at, format!("expected a table, [{name}]"))),
            ("list" | "only" | "except", _) => Err(self.text.at(at, format!("expected tables, [[{name}]]"))),
            _ => Err(self.text.at(
                at,
                format!(
                    "'{name}' is not known here; expected [grid], [zip], [[list]], [latin], [[only]] or \
                     [[except]]"
                ),
            )),
        }
    }

    /// The entries of a table in order of the text, `param` and `set` opened.
    fn entries<'a>(&self, table: &'a DeTable<'a>) -> Result<Vec<Entry<'a>>, SweepError> {
        let mut all = Vec::new();
        for (name, value) in table.iter() {
            let (text, at) = (name.get_ref().as_ref(), name.span().start);
            match (text, value.get_ref()) {
                ("param" | "set", DeValue::Table(inner)) => {
                    for (name, value) in inner.iter() {
                        let full = format!("{text}.{}", name.get_ref());
                        let axis = Axis::of(&full).map_err(|what| self.text.at(name.span().start, what))?;
                        all.push(((axis, name.span().start), value));
                    }
                }
                _ => {
                    let axis = Axis::of(text).map_err(|what| self.text.at(at, what))?;
                    all.push(((axis, at), value));
                }
            }
        }
        all.sort_by_key(|((_, at), _)| *at);
        Ok(all)
    }

    /// The axis's number; it is new.
    fn add(&mut self, (axis, at): (Axis, usize)) -> Result<usize, SweepError> {
        if let Some((_, before)) = self.axes.iter().find(|(known, _)| *known == axis) {
            let (line, _) = self.text.line(*before);
            return Err(self
                .text
                .at(at, format!("the axis {axis} is given in line {line} already; name it once")));
        }
        self.axes.push((axis, at));
        Ok(self.axes.len() - 1)
    }

    fn zip(&mut self, table: &DeTable<'_>, at: usize) -> Result<(), SweepError> {
        let mut columns = Vec::new();
        for (axis, value) in self.entries(table)? {
            let values = values_of(&axis.0, value, &self.text)?;
            let name = axis.0.to_string();
            let place = axis.1;
            columns.push((self.add(axis)?, values, name, place));
        }
        let Some((_, first, first_name, _)) = columns.first() else {
            return Err(self.text.at(at, "[zip] has no axis; give lists of one length, or remove it"));
        };
        let nr_rows = self.few(first.len(), at)?;
        if let Some((_, values, name, place)) = columns.iter().find(|column| column.1.len() != first.len()) {
            return Err(self.text.at(
                *place,
                format!(
                    "{name} has {} values, and {first_name} {}; lists in [zip] go side by side and have one length",
                    values.len(),
                    first.len()
                ),
            ));
        }
        let row = |row: u64| {
            let cell = |(axis, values, _, _): &(usize, Values, String, usize)| {
                let (value, at) = values.get(row);
                (*axis, value, at)
            };
            columns.iter().map(cell).collect()
        };
        self.blocks.push(Block::Rows((0..nr_rows).map(row).collect()));
        Ok(())
    }

    fn list(&mut self, rows: &[Spanned<DeValue<'_>>], at: usize) -> Result<(), SweepError> {
        let before = self.axes.len();
        let mut all = Vec::new();
        for row in rows {
            let DeValue::Table(table) = row.get_ref() else {
                return Err(self.text.at(row.span().start, "expected tables, [[list]]"));
            };
            let mut cells = Vec::new();
            for (axis, value) in self.entries(table)? {
                let values = values_of(&axis.0, value, &self.text)?;
                if values.len() != 1 {
                    let what = format!("{} has {} values; a row of [[list]] has one", axis.0, values.len());
                    return Err(self.text.at(axis.1, what));
                }
                let known = self.axes[before..].iter().position(|(known, _)| *known == axis.0);
                let number = match known {
                    Some(position) => before + position,
                    None => self.add(axis)?,
                };
                let (value, at) = values.get(0);
                cells.push((number, value, at));
            }
            all.push(cells);
        }
        self.few(all.len() as u64, at)?;
        self.blocks.push(Block::Rows(all));
        Ok(())
    }

    fn latin(&mut self, table: &DeTable<'_>, at: usize) -> Result<(), SweepError> {
        let number = |name: &str| -> Result<Option<u64>, SweepError> {
            let Some((key, value)) = table.get_key_value(name) else { return Ok(None) };
            match Value::of(value.get_ref()) {
                Ok(Value::Int(number)) if number >= 0 => Ok(Some(number as u64)),
                _ => Err(self
                    .text
                    .at(key.span().start, format!("{name}: expected a whole number, not below 0"))),
            }
        };
        let samples = number("samples")?
            .ok_or_else(|| self.text.at(at, "[latin] has no samples; say how many points: samples = 40"))?;
        let seed = number("seed")?.unwrap_or(1);
        let nr_rows = self.few(samples, at)?;
        let mut rest = table.clone();
        rest.remove("samples");
        rest.remove("seed");
        let mut axes = Vec::new();
        for (axis, value) in self.entries(&rest)? {
            let spread = crate::axes::spread_of(&axis.0, value, &self.text)?;
            axes.push((self.add(axis)?, spread));
        }
        if axes.is_empty() {
            return Err(self
                .text
                .at(at, "[latin] has no axis; give ranges, such as cpus = { from = 1, to = 64 }"));
        }
        self.blocks.push(Block::Rows(latin_rows(nr_rows as usize, seed, &axes)));
        Ok(())
    }

    /// As many as may be held in memory, and one at least.
    fn few(&self, nr: u64, at: usize) -> Result<u64, SweepError> {
        match nr {
            0 => Err(self.text.at(at, "there is nothing in it: no run comes of it; give one value at least")),
            _ if nr > ROWS_MAX as u64 => Err(self
                .text
                .at(at, format!("{nr} rows; at most {ROWS_MAX}: make several sweeps into one folder"))),
            _ => Ok(nr),
        }
    }

    fn conditions(&mut self, name: &str, section: &Spanned<DeValue<'_>>) -> Result<(), SweepError> {
        let ("only" | "except", DeValue::Array(tables)) = (name, section.get_ref()) else { return Ok(()) };
        for table in tables.iter() {
            let DeValue::Table(inner) = table.get_ref() else {
                return Err(self.text.at(table.span().start, format!("expected tables, [[{name}]]")));
            };
            let mut condition = Condition::default();
            for ((axis, at), value) in self.entries(inner)? {
                if self.axes.iter().all(|(known, _)| *known != axis) {
                    let what = format!("{axis} is no axis of this sweep, so that nothing has such a value");
                    return Err(self.text.at(at, what));
                }
                condition.and(axis, value).map_err(|what| self.text.at(at, what))?;
            }
            if condition.is_empty() {
                return Err(self
                    .text
                    .at(table.span().start, format!("[[{name}]] says nothing; name an axis")));
            }
            let list = if name == "only" { &mut self.only } else { &mut self.except };
            list.push(condition);
        }
        Ok(())
    }

    /// What concerns several axes.
    fn check(&mut self) -> Result<(), SweepError> {
        let at_of = |wanted: &Axis| self.axes.iter().find(|(axis, _)| axis == wanted).map(|(_, at)| *at);
        if self.axes.is_empty() {
            return Err(self
                .text
                .whole("it has no axis; a sweep begins with [grid] and, say, sched = [\"rr\"]"));
        }
        for (one, other, what) in [
            (
                Axis::Workload,
                Axis::Generate,
                "a run has a workload: workload = \"FILE\" or generate = \"KIND\"",
            ),
            (Axis::Sched, Axis::Kernel, "a run has a scheduler: sched = \"NAME\" or kernel = \"6.12\""),
            (Axis::Cpus, Axis::Machine, "a run has a machine: cpus = 4 or machine = \"packages=2,cores=4\""),
        ] {
            match (at_of(&one), at_of(&other)) {
                (None, None) => return Err(self.text.whole(format!("{what}; neither is given"))),
                (Some(_), Some(at)) => return Err(self.text.at(at, format!("{what}, not both"))),
                _ => {}
            }
        }
        let set = self.axes.iter().find(|(axis, _)| matches!(axis, Axis::Set(_)));
        for (axis, needs) in [
            (set, Axis::Generate),
            (self.axes.iter().find(|(axis, _)| *axis == Axis::Flavour), Axis::Kernel),
            (self.axes.iter().find(|(axis, _)| *axis == Axis::Perturb), Axis::Seed),
        ] {
            if let (Some((axis, at)), None) = (axis, at_of(&needs)) {
                return Err(self.text.at(*at, format!("{axis} goes with {needs}, which is not given")));
            }
        }
        let product = self.blocks.iter().try_fold(1_u128, |all, block| all.checked_mul(block.len().into()));
        match product {
            Some(nr) if nr <= u128::from(RUNS_MAX) => self.nr_candidates = nr as u64,
            many => {
                let many = many.map_or("more than 2^128".to_owned(), |nr| nr.to_string());
                let largest = self.blocks.iter().filter_map(|block| match block {
                    Block::Axis(axis, values) => Some((values.len(), &self.axes[*axis])),
                    Block::Rows(_) | Block::Trials(_) => None,
                });
                let at = largest.max_by_key(|(nr, _)| *nr).map_or(0, |(_, (_, at))| *at);
                return Err(self.text.at(
                    at,
                    format!(
                        "this asks for {many} runs; at most {RUNS_MAX}: give fewer values, or a Latin \
                         hypercube ([latin]), which spreads a number of points that you choose"
                    ),
                ));
            }
        }
        Ok(())
    }
}
