//! What happens on a whole scheduler's CPUs, as text.
//!
//! ```text
//! cpus 2                          # or: topology llcs=2,cores=2, as behind --topology
//! from 20ms                       # until then the tasks come into being; schedules differ from here on
//! for 4ms                         # so long
//! with psi                        # flavours that the kernel must have: linux-6.12+psi
//! since 5.11                      # older kernels have not what is asked for
//! sched simple                    # this sched_ext scheduler is attached; with scx goes without saying
//! param sched_rt_runtime_us -1    # as --param has it
//! pinned 2 3                      # these tasks sleep and compute in migrate_disable() sections, every other time
//! waits 4                         # this task sleeps as if for a device: uninterruptibly, and counted so
//! mutex 2 3                       # these tasks sleep and compute with a mutex that lends priority, every other time
//! at 21ms cpu1 off                # the experimenter writes: a tunable, a file, or a CPU on or off
//! may refuse                      # the kernel may refuse what is written; else the scenario is refused
//! schedlab-workload 1             # from here on: a workload (docs/workloads.md)
//! - INIT 0 0 1 runnable name=a
//! ...
//! ```

use schedlab_topology::Topology;
use schedlab_units::Span;

use crate::RaceError;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WholeScenario {
    pub(crate) cpus: u32,
    /// How they hang together: by default they share all caches.
    pub(crate) topology: Option<Topology>,
    pub(crate) from: Span,
    pub(crate) length: Span,
    pub(crate) params: Vec<(String, String)>,
    /// Flavours that the kernel must have.
    pub(crate) flavours: Vec<String>,
    /// The oldest kernel that has what is asked for.
    pub(crate) since: (u32, u32),
    /// A sched_ext scheduler, as behind `scx:`; empty: none.
    pub(crate) sched: String,
    /// The kernel may refuse what is written.
    pub(crate) may_refuse: bool,
    /// Tasks that enter and leave migrate_disable() at their blocks.
    pub(crate) pinned: Vec<u32>,
    /// Tasks whose sleeps are those of one that waits for a device.
    pub(crate) waits: Vec<u32>,
    /// Tasks that share a mutex which lends its owner priority.
    pub(crate) mutex: Vec<u32>,
    /// When, what, its value.
    pub(crate) writes: Vec<(Span, String, String)>,
    /// The workload's text.
    pub(crate) workload: String,
}

/// Most CPUs of a scenario.
const CPUS_MAX: u32 = 16;

impl WholeScenario {
    /// Reads the text form.
    ///
    /// # Errors
    /// The line, what it holds and what was expected.
    pub(crate) fn parse(name: &str, text: &str) -> Result<WholeScenario, RaceError> {
        let bad = |line: usize, value: &str, expected: &str| RaceError::Text {
            file: name.to_owned(),
            line,
            value: value.to_owned(),
            expected: expected.to_owned(),
        };
        let mut scenario = WholeScenario {
            cpus: 0,
            topology: None,
            from: Span::ZERO,
            length: Span::ZERO,
            params: Vec::new(),
            flavours: Vec::new(),
            since: (0, 0),
            sched: String::new(),
            may_refuse: false,
            pinned: Vec::new(),
            waits: Vec::new(),
            mutex: Vec::new(),
            writes: Vec::new(),
            workload: String::new(),
        };
        for (n, whole) in text.lines().enumerate() {
            let n = n + 1;
            if whole.starts_with("schedlab-workload") {
                scenario.workload = text.lines().skip(n - 1).flat_map(|line| [line, "\n"]).collect();
                break;
            }
            let line = whole.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let span = |word: &str| word.parse::<Span>().map_err(|e| bad(n, word, &format!("a time: {e}")));
            match words[..] {
                [] => {}
                ["cpus", number] => {
                    let cpus = number.parse().ok().filter(|cpus| (2..=CPUS_MAX).contains(cpus));
                    scenario.cpus = cpus.ok_or_else(|| bad(n, number, &format!("2 to {CPUS_MAX} CPUs")))?;
                }
                ["topology", sizes] => {
                    let topology = sizes.parse::<Topology>().map_err(|e| bad(n, sizes, &e.to_string()))?;
                    let cpus = Some(topology.nr_cpus()).filter(|cpus| (2..=CPUS_MAX).contains(cpus));
                    scenario.cpus = cpus.ok_or_else(|| bad(n, sizes, &format!("2 to {CPUS_MAX} CPUs")))?;
                    scenario.topology = Some(topology);
                }
                ["from", time] => scenario.from = span(time)?,
                ["for", time] => scenario.length = span(time)?,
                ["param", name, value] => scenario.params.push((name.to_owned(), value.to_owned())),
                ["with", ref flavours @ ..] if !flavours.is_empty() => {
                    scenario.flavours.extend(flavours.iter().map(|&flavour| flavour.to_owned()));
                }
                ["since", series] => {
                    scenario.since =
                        series_number(series).ok_or_else(|| bad(n, series, "a version: 5.11"))?;
                }
                ["may", "refuse"] => scenario.may_refuse = true,
                ["sched", what] => scenario.sched = what.to_owned(),
                [which @ ("pinned" | "waits" | "mutex"), ref pids @ ..] if !pids.is_empty() => {
                    let list = match which {
                        "pinned" => &mut scenario.pinned,
                        "waits" => &mut scenario.waits,
                        _ => &mut scenario.mutex,
                    };
                    for pid in pids {
                        let pid =
                            pid.parse().map_err(|_| bad(n, pid, "the pid of a task of the workload"))?;
                        list.push(pid);
                    }
                }
                ["at", time, name, value, ref more @ ..] => {
                    let value = more.iter().fold(value.to_owned(), |text, word| text + " " + word);
                    scenario.writes.push((span(time)?, name.to_owned(), value));
                }
                _ => {
                    let expected = "'cpus N', 'topology SIZES', 'from TIME', 'for TIME', 'with FLAVOUR', \
                                    'since VERSION', 'sched NAME', 'param NAME VALUE', 'pinned PID', \
                                    'waits PID', 'mutex PID', 'at TIME NAME VALUE', 'may refuse' \
                                    or a workload's first line";
                    return Err(bad(n, whole, expected));
                }
            }
        }
        let last = text.lines().count();
        if scenario.cpus == 0 || scenario.length == Span::ZERO {
            return Err(bad(last, "", "'cpus N' and 'for TIME' before the workload"));
        }
        if scenario.workload.is_empty() {
            return Err(bad(last, "", "a workload, from its line 'schedlab-workload 1' on"));
        }
        if !scenario.sched.is_empty() && !scenario.flavours.iter().any(|flavour| flavour == EXT) {
            scenario.flavours.push(EXT.to_owned());
        }
        Ok(scenario)
    }

    /// What the kernel of this name (`linux-6.12+psi`) and version (`6.12.117-1`) lacks.
    pub(crate) fn lacks(&self, target: &str, version: &str) -> Option<String> {
        if series_number(version).is_some_and(|number| number < self.since) {
            return Some(format!("Linux {}.{} or later", self.since.0, self.since.1));
        }
        let has: Vec<&str> = flavours_of(target).collect();
        let lacks: Vec<&str> =
            self.flavours.iter().map(String::as_str).filter(|flavour| !has.contains(flavour)).collect();
        (!lacks.is_empty()).then(|| format!("{target}+{}", lacks.join("+")))
    }
}

/// The flavour that has the class ext.
const EXT: &str = "scx";

/// `psi` and `scx` of `linux-6.12+psi+scx`.
pub(crate) fn flavours_of(target: &str) -> impl Iterator<Item = &str> {
    target.split('+').skip(1)
}

/// `6.12` and `6.12.117-1` as (6, 12).
fn series_number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Whether a version is of one of these series; without series: any is.
pub(crate) fn is_of_series(kernels: &[String], version: &str) -> bool {
    let number = series_number(version);
    kernels.is_empty() || kernels.iter().any(|series| number.is_some() && series_number(series) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_of_a_series_by_its_first_two_numbers() {
        let series = ["5.10".to_owned(), "6.1".to_owned()];
        assert!(is_of_series(&series, "5.10.262-1") && is_of_series(&series, "6.1"));
        assert!(!is_of_series(&series, "6.12.117-1") && !is_of_series(&series, "mine"));
        assert!(is_of_series(&[], "6.12.117-1") && is_of_series(&[], "mine"));
    }

    #[test]
    fn a_scenario_is_read_and_its_mistakes_are_reported() {
        let text = "cpus 2 # two\nfrom 20ms\nfor 4ms\nat 21ms cpu1 off\nschedlab-workload 1\n- INIT 0 0 1 runnable\n";
        let scenario = WholeScenario::parse("s", text).unwrap();
        assert_eq!((scenario.cpus, scenario.from, scenario.length), (2, Span::from_ms(20), Span::from_ms(4)));
        assert_eq!(scenario.writes, [(Span::from_ms(21), "cpu1".to_owned(), "off".to_owned())]);
        assert_eq!(scenario.workload, "schedlab-workload 1\n- INIT 0 0 1 runnable\n");
        let text = "cpus 2\nfor 1ms\nwith psi\nsince 5.11\nsched simple\npinned 2 3\nwaits 4\nmutex 5 6\n\
                    may refuse\nat 1ms /x/cpu.max 1000 4000\nschedlab-workload 1\n";
        let scenario = WholeScenario::parse("s", text).unwrap();
        assert_eq!(
            (scenario.flavours.join(" ").as_str(), scenario.pinned.as_slice(), scenario.may_refuse),
            ("psi scx", &[2, 3][..], true)
        );
        assert_eq!((scenario.waits.as_slice(), scenario.mutex.as_slice()), (&[4][..], &[5, 6][..]));
        assert_eq!(scenario.writes, [(Span::from_ms(1), "/x/cpu.max".to_owned(), "1000 4000".to_owned())]);
        let lacks = |target, version| scenario.lacks(target, version);
        assert_eq!(lacks("linux-5.10+psi+scx", "5.10.223-1").as_deref(), Some("Linux 5.11 or later"));
        assert_eq!(lacks("linux-mine+psi+scx", "5.10.0 (object 12)").as_deref(), Some("Linux 5.11 or later"));
        assert_eq!(lacks("linux-6.12+psi", "6.12.117-1").as_deref(), Some("linux-6.12+psi+scx"));
        assert_eq!(lacks("linux-mine+scx+psi", "6.13.0-rc2"), None);
        let text = "topology llcs=2,cores=2\nfor 1ms\nschedlab-workload 1\n";
        let scenario = WholeScenario::parse("s", text).unwrap();
        assert_eq!((scenario.cpus, scenario.topology.map(|t| t.nr_cpus())), (4, Some(4)));
        let wrong = |text: &str| WholeScenario::parse("s", text).unwrap_err().to_string();
        assert!(wrong("cpus 1\n").starts_with("s:1: '1', expected 2 to 16 CPUs"));
        assert!(wrong("cpus 2\nfrom soon\n").starts_with("s:2: 'soon', expected a time"));
        assert!(wrong("cpus 2\nfro 1ms\n").starts_with("s:2: 'fro 1ms', expected 'cpus N'"));
        assert!(wrong("cpus 2\nfor 1ms\n").contains("expected a workload"));
    }
}
