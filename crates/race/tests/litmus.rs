//! Litmus tests, the kernel's own and generated ones, against what herd7 says of them: which outcomes there are.
//!
//! `tests/verdicts.txt` has herd7's answers, so that no herd7 is needed here; the long test asks it again. To write the
//! file anew: `VERDICTS_WRITE=1 cargo test --release -p schedlab-race --test litmus herd7_says -- --ignored`.

mod common;

use schedlab_linux::build::{self, BuildOptions};
use schedlab_race::compile::{Compiled, own_target};
use schedlab_race::explore::Plan;
use schedlab_race::litmus::herd::{Axioms, Herd};
use schedlab_race::litmus::{Litmus, generate, outcome, together};
use schedlab_race::{MemoryModel, Scenario, Strategy};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Of the kernel's own tests, those whose outcome is allowed and not modelled.
const MISSED: usize = 4;
/// Generated tests.
const GENERATED: usize = 2000;
/// Compiled at once.
const BATCH: usize = 100;
/// herd7's time for a test, s.
const SECONDS: u32 = 120;

fn plan_of(compiled: &Compiled, model: MemoryModel, strategy: Strategy, schedules: u64) -> Plan {
    Plan { jobs: 1, findings: usize::MAX, ..common::plan_of(compiled.clone(), model, strategy, schedules) }
}

fn compiled(source: &str) -> Compiled {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("litmus.c");
    std::fs::write(&path, source).unwrap();
    own_target(&path, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

/// Whether the outcome of a test's last line is seen under each of the three models.
fn seen(litmus: &Litmus, schedules: u64) -> [bool; 3] {
    let compiled = compiled(&litmus.source);
    [MemoryModel::Sc, MemoryModel::Tso, MemoryModel::Lkmm].map(|model| {
        let plan = plan_of(&compiled, model, Strategy::Mix, schedules);
        let scenario = Scenario::parse("own", &plan.describe().unwrap().1.unwrap()).unwrap();
        !plan.explore(&scenario).unwrap().findings.is_empty()
    })
}

fn kernel_source() -> PathBuf {
    build::add("6.12", &BuildOptions::default(), &mut |_| {}).unwrap().source
}

fn parse(name: &str, text: &str) -> Litmus {
    Litmus::parse(name, text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The tests of tools/memory-model, by name.
fn kernels_own() -> Vec<(Litmus, String)> {
    let dir = kernel_source().join("tools/memory-model/litmus-tests");
    let mut paths: Vec<_> = std::fs::read_dir(&dir).unwrap().flatten().map(|e| e.path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "litmus"));
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        (parse(&path.display().to_string(), &text), text)
    };
    paths.iter().map(read).collect()
}

/// What herd7 says of one test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    /// All outcomes, and of which kind each is.
    outcomes: BTreeMap<String, Kind>,
}

/// Why an outcome that herd7 allows need not be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It must be.
    Modelled,
    /// Load buffering: a load sees a store that comes later.
    LoadBuffering,
    /// A store reaches two CPUs in different order.
    NotMultiCopyAtomic,
    /// A store is seen before an earlier load of its CPU has its value.
    StoreOvertakes,
    /// Something comes between the load and the store of an atomic operation with a result.
    AtomicInTwoSteps,
    /// `smp_mb__before_atomic()` orders no more than the operation, and what is behind that.
    BesideAtomic,
}

impl Kind {
    /// What is not modelled.
    const MISSED: [Kind; 5] = [
        Kind::LoadBuffering,
        Kind::NotMultiCopyAtomic,
        Kind::StoreOvertakes,
        Kind::AtomicInTwoSteps,
        Kind::BesideAtomic,
    ];

    fn mark(self) -> &'static str {
        match self {
            Kind::Modelled => "",
            Kind::LoadBuffering => "-",
            Kind::NotMultiCopyAtomic => "*",
            Kind::StoreOvertakes => "+",
            Kind::AtomicInTwoSteps => "%",
            Kind::BesideAtomic => "&",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Modelled => "modelled",
            Kind::LoadBuffering => "load buffering",
            Kind::NotMultiCopyAtomic => "not multi-copy atomic",
            Kind::StoreOvertakes => "a store that overtakes a load",
            Kind::AtomicInTwoSteps => "an atomic operation in two steps",
            Kind::BesideAtomic => "a barrier beside an atomic operation",
        }
    }
}

fn sum(text: &str) -> u32 {
    // FNV-1a
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

const VERDICTS: &str = include_str!("verdicts.txt");

/// The kernel's own tests by name, and the generated ones by number, each with its text's checksum.
type Verdicts = (BTreeMap<String, String>, Vec<(u32, Kept)>);

fn kept() -> Verdicts {
    let mut own = BTreeMap::new();
    let mut generated = Vec::new();
    for line in VERDICTS.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["own", name, verdict] => drop(own.insert(name.to_owned(), verdict.to_owned())),
            ["generated", number, sum, ref outcomes @ ..] => {
                assert_eq!(number.parse(), Ok(generated.len()), "{line}");
                let outcome = |word: &&str| {
                    let marked = Kind::MISSED.into_iter().find(|kind| word.ends_with(kind.mark()));
                    let kind = marked.unwrap_or(Kind::Modelled);
                    (word.trim_end_matches(['-', '*', '+', '%', '&']).to_owned(), kind)
                };
                let outcomes = outcomes.iter().map(outcome).collect();
                generated.push((u32::from_str_radix(sum, 16).unwrap(), Kept { outcomes }));
            }
            _ => panic!("verdicts.txt: {line}"),
        }
    }
    (own, generated)
}

fn generated(number: usize) -> Vec<String> {
    generate::tests().take(number).collect()
}

/// What the explorer sees of each test: all outcomes, drawn and with few deviations.
fn outcomes(plan: &Plan, scenario: &Scenario) -> BTreeSet<String> {
    let explored = plan.explore(scenario).unwrap();
    let letters = |text: &str| outcome(text).unwrap_or_else(|| panic!("{}: {text}", scenario.name));
    explored.findings.iter().map(|finding| letters(&finding.text)).collect()
}

/// What a comparison says.
#[derive(Clone, Debug, Default)]
struct Compared {
    /// Outcomes that are allowed and not seen, of each kind of [`Kind::MISSED`].
    missed: [usize; 5],
    /// Seen, and herd7 forbids them, or allows them by what is not modelled.
    forbidden: Vec<String>,
    /// Allowed, not seen, and of no kind.
    unnamed: Vec<String>,
}

impl Compared {
    fn judge(&self) {
        for (kind, missed) in Kind::MISSED.iter().zip(self.missed) {
            println!("not seen, {}: {missed}", kind.name());
        }
        assert!(self.forbidden.is_empty(), "{}", self.forbidden.join("\n"));
        assert!(self.unnamed.is_empty(), "not seen, of no kind: {}", self.unnamed.join("\n"));
    }
}

/// Compares some generated tests with what is kept of them.
fn compare(numbers: &[usize], texts: &[String], kept: &[(u32, Kept)], most: u64) -> Compared {
    let tests: Vec<Litmus> = numbers.iter().map(|&n| parse("generated", &texts[n])).collect();
    let (source, scenarios) = together(&tests);
    let compiled = compiled(&source);
    let mut compared = Compared::default();
    for (number, scenario) in numbers.iter().zip(&scenarios) {
        let (checksum, kept) = &kept[*number];
        let text = &texts[*number];
        assert_eq!(*checksum, sum(text), "{text}: another text than herd7 was asked about");
        let mut seen = BTreeSet::new();
        for model in [MemoryModel::Sc, MemoryModel::Tso, MemoryModel::Lkmm] {
            seen.extend(outcomes(&plan_of(&compiled, model, Strategy::Mix, 400), scenario));
        }
        // more of the weak model until nothing is missed that it has
        let is_missed = |seen: &BTreeSet<String>| {
            kept.outcomes.iter().any(|(one, kind)| *kind == Kind::Modelled && !seen.contains(one))
        };
        let mut schedules = 4000;
        while is_missed(&seen) && schedules <= most {
            let plan = plan_of(&compiled, MemoryModel::Lkmm, Strategy::Mix, schedules);
            seen.extend(outcomes(&plan, scenario));
            schedules *= 10;
        }
        let forbidden = seen.iter().filter(|one| kept.outcomes.get(*one) != Some(&Kind::Modelled));
        compared.forbidden.extend(forbidden.map(|one| format!("{one} of {text}")));
        for (one, kind) in kept.outcomes.iter().filter(|(one, _)| !seen.contains(*one)) {
            match Kind::MISSED.iter().position(|missed| missed == kind) {
                Some(place) => compared.missed[place] += 1,
                None => compared.unnamed.push(format!("{one} of {text}")),
            }
        }
    }
    compared
}

#[test]
fn the_kernels_own_tests_show_what_herd7_allows() {
    let (verdicts, _) = kept();
    let tests = kernels_own();
    assert_eq!((tests.len(), verdicts.len()), (35, 35));
    let mut missed = Vec::new();
    for (litmus, _) in &tests {
        let verdict = &verdicts[&litmus.name];
        assert_eq!(*verdict, litmus.verdict, "{}: herd7 agrees with the file's comment", litmus.name);
        let [sc, tso, lkmm] = seen(litmus, 4000);
        println!("{:<50} herd7 {verdict:<10} sc {sc:<5} tso {tso:<5} lkmm {lkmm}", litmus.name);
        assert!(!sc || tso, "{}: what order alone shows, tso shows", litmus.name);
        match verdict.as_str() {
            "Never" => assert!(!sc && !tso && !lkmm, "{} is seen", litmus.name),
            "Sometimes" if !lkmm => missed.push(litmus.name.as_str()),
            _ => {}
        }
    }
    let named =
        |name: &&str| VERDICTS.lines().any(|line| line.starts_with("# missed ") && line.ends_with(name));
    assert!(missed.iter().all(named), "{missed:?}");
    assert_eq!(missed.len(), MISSED);
}

/// The kernel's model, then each with one of [`Kind::MISSED`] less.
const AXIOMS: [Axioms; 6] = [
    Axioms::Kernel,
    Axioms::NoLoadBuffering,
    Axioms::MultiCopyAtomic,
    Axioms::LoadsBeforeStores,
    Axioms::AtomicsInOneStep,
    Axioms::FullBesideAtomics,
];

/// herd7's answers as the file has them.
fn asked(herd: &Herd) -> String {
    let own = kernels_own();
    let texts = generated(GENERATED);
    let tests: Vec<Litmus> = texts.iter().map(|text| parse("generated", text)).collect();
    let mut out = format!(
        "# herd7 {}, tools/memory-model of Linux 6.12; written by tests/litmus.rs\n\
         # own NAME VERDICT; generated NUMBER CHECKSUM OUTCOMES: the values of what 'locations' lists, a letter each\n\
         # OUTCOME- only with load buffering; OUTCOME* only if a store reaches two CPUs in different order;\n\
         # OUTCOME+ only if a store is seen before an earlier load of its CPU has its value;\n\
         # OUTCOME% only if something comes between the load and the store of an atomic operation with a result;\n\
         # OUTCOME& only if smp_mb__before_atomic() or smp_mb__after_atomic() is no full barrier\n",
        herd.version()
    );
    let own_texts: Vec<&str> = own.iter().map(|(_, text)| text.as_str()).collect();
    let all = AXIOMS.map(|axioms| herd.ask(&own_texts, axioms, SECONDS).unwrap());
    for (n, whole) in all[0].iter().enumerate() {
        for (m, kind) in Kind::MISSED.iter().enumerate() {
            let observed = [&all[m][n], &all[m + 1][n]].map(|verdict| verdict.observation.as_str());
            if observed == ["Sometimes", "Never"] {
                let _ = writeln!(out, "# missed by {}: {}", kind.name(), whole.name);
            }
        }
        let _ = writeln!(out, "own {} {}", whole.name, whole.observation);
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let all = AXIOMS.map(|axioms| herd.ask(&texts, axioms, SECONDS).unwrap());
    for (n, test) in tests.iter().enumerate() {
        let [whole, stronger @ ..] = [0, 1, 2, 3, 4, 5].map(|m| -> BTreeSet<String> {
            let letters = |o| test.letters(o).unwrap_or_else(|| panic!("{}: {o:?}", texts[n]));
            all[m][n].outcomes.iter().map(letters).collect()
        });
        let _ = write!(out, "generated {n} {:08x}", sum(texts[n]));
        for one in &whole {
            let without = stronger.iter().position(|outcomes| !outcomes.contains(one));
            let kind = without.map_or(Kind::Modelled, |n| Kind::MISSED[n]);
            let _ = write!(out, " {one}{}", kind.mark());
        }
        out.push('\n');
    }
    out
}

#[test]
#[ignore = "long: downloads herd7 and runs it on 2,035 tests, six times"]
fn herd7_says_what_is_kept() {
    let herd = Herd::new(build::herd::herd7().unwrap(), &kernel_source()).unwrap();
    let now = asked(&herd);
    if std::env::var_os("VERDICTS_WRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verdicts.txt");
        std::fs::write(path, &now).unwrap();
        return;
    }
    for (now, kept) in now.lines().zip(VERDICTS.lines()).skip(1) {
        assert_eq!(now, kept);
    }
    assert_eq!(now.lines().count(), VERDICTS.lines().count());
}

#[test]
fn all_generated_tests_show_what_herd7_allows() {
    let (_, kept) = kept();
    assert_eq!(kept.len(), GENERATED);
    let texts = generated(GENERATED);
    let numbers: Vec<usize> = (0..GENERATED).collect();
    let mut all = Compared::default();
    let (even, odd): (Vec<_>, Vec<_>) = numbers.chunks(BATCH).enumerate().partition(|(at, _)| at % 2 == 0);
    let half = |of: Vec<(usize, &[usize])>| -> Vec<Compared> {
        of.into_iter().map(|(_, numbers)| compare(numbers, &texts, &kept, 400_000)).collect()
    };
    let halves = std::thread::scope(|scope| {
        [even, odd].map(|of| scope.spawn(|| half(of))).map(|thread| thread.join().unwrap())
    });
    for these in halves.into_iter().flatten() {
        all.missed.iter_mut().zip(these.missed).for_each(|(all, one)| *all += one);
        all.forbidden.extend(these.forbidden);
        all.unnamed.extend(these.unnamed);
    }
    let outcomes: usize = kept.iter().map(|(_, kept)| kept.outcomes.len()).sum();
    println!("{GENERATED} tests, {outcomes} outcomes that herd7 allows");
    all.judge();
}

#[test]
fn the_shape_of_the_finding_in_cpupri_is_seen_by_late_loads_alone() {
    let path = build::port().unwrap().join("race/litmus/cpupri-next-level.litmus");
    let mut litmus = Litmus::parse("shape", &std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(litmus.verdict, "Sometimes");
    assert_eq!(seen(&litmus, 5000), [false, false, true]);
    litmus.source = litmus.source.replace("r1 = READ_ONCE(*mask1);", "r1 = READ_ONCE(*mask1); smp_rmb();");
    assert_eq!(seen(&litmus, 5000), [false; 3], "a read barrier mends it");
}
