//! The optional `key=value` words of INIT, FORK and PRIO.

use super::TextProblem;
use super::lex::{Word, split, unquote};
use super::statement::{Parsed, Pids, cpus, fault, near, number, one_pid, span};
use crate::ParamChange;
use schedlab_units::{CpuSet, DeadlineParams, Nice, SchedParams, SchedPolicy, Span};

/// The words given.
#[derive(Default)]
pub(super) struct Attributes {
    pub name: Option<String>,
    /// Policy and all that belongs to it.
    pub params: Option<SchedParams>,
    /// Nice alone (PRIO).
    pub nice: Option<Nice>,
    pub affinity: Option<CpuSet>,
    /// Path, and where it stands in the line.
    pub cgroup: Option<(String, usize, usize)>,
    pub kernel_thread: bool,
    pub row: Option<u32>,
    pub target: Option<Pids>,
}

impl Attributes {
    /// Keys of INIT and FORK.
    pub const TASK: &'static [&'static str] = &[
        "name", "policy", "nice", "prio", "runtime", "deadline", "period", "affinity", "cgroup", "kernel",
        "row",
    ];
    /// Keys of PRIO.
    pub const PRIO: &'static [&'static str] = &[
        "policy", "nice", "prio", "runtime", "deadline", "period", "affinity", "cgroup", "target", "renice",
    ];

    pub fn parse(words: &[Word<'_>], keys: &'static [&'static str]) -> Parsed<Attributes> {
        let mut attributes = Attributes::default();
        if words.is_empty() {
            return Ok(attributes);
        }
        let is_prio = keys == Attributes::PRIO;
        let mut seen: Vec<&str> = Vec::new();
        let (mut policy, mut nice, mut prio) = (None, None, None);
        let (mut runtime, mut deadline, mut period) = (None, None, None);
        let mut of_policy = None; // the first word that makes sense only beside policy=
        for (i, &word) in words.iter().enumerate() {
            if i == 0 && is_prio && !word.text.contains('=') {
                // WARP's sched_param: the nice value
                seen.push("nice");
                nice = Some(nice_value(word)?);
                continue;
            }
            let Some((key, value)) = word.text.split_once('=') else {
                return fault(word, TextProblem::Word, expected(word.text, keys), "");
            };
            let Some(&key) = keys.iter().find(|&&known| known == key) else {
                return fault(Word { text: key, at: word.at }, TextProblem::Word, expected(key, keys), "");
            };
            if seen.contains(&key) {
                return fault(word, TextProblem::Extra, format!("{key}= stands here twice"), "keep one");
            }
            seen.push(key);
            let value = Word { text: value, at: word.at + key.len() + 1 };
            match key {
                "name" => attributes.name = Some(unquote(value)?.into_owned()),
                "policy" => {
                    policy = Some(value.text.parse::<SchedPolicy>().or_else(|_| {
                        let expected = "expected normal, batch, idle, fifo, rr, deadline or ext";
                        fault(value, TextProblem::Value, expected, "")
                    })?);
                }
                "nice" => nice = Some(nice_value(value)?),
                "renice" => attributes.nice = Some(nice_value(value)?),
                "prio" => prio = Some(number::<u8>(value, "a real-time priority, 1 to 99")?),
                "runtime" => runtime = Some(span(value)?),
                "deadline" => deadline = Some(span(value)?),
                "period" => period = Some(span(value)?),
                "affinity" => attributes.affinity = Some(cpus(value)?),
                "cgroup" => {
                    let path = unquote(value)?.into_owned();
                    attributes.cgroup = Some((path, value.at, value.text.len()));
                }
                "kernel" => {
                    attributes.kernel_thread = match value.text {
                        "yes" => true,
                        "no" => false,
                        _ => return fault(value, TextProblem::Value, "expected yes or no", ""),
                    }
                }
                "row" => attributes.row = Some(number(value, "the task's row, from 0")?),
                _ => attributes.target = Some(one_pid(value)?),
            }
            if matches!(key, "prio" | "runtime" | "deadline" | "period") {
                of_policy.get_or_insert(word);
            }
        }
        if let (None, Some(word)) = (policy, of_policy) {
            let needs =
                if word.text.starts_with("prio") { "policy=fifo or policy=rr" } else { "policy=deadline" };
            return fault(
                word,
                TextProblem::Value,
                format!("makes sense only together with {needs}"),
                "add it",
            );
        }
        let deadline = deadline_params(words, runtime, deadline, period)?;
        let given = policy.is_some() || (nice.is_some() && !is_prio);
        if given {
            attributes.params = Some(SchedParams {
                policy: policy.unwrap_or_default(),
                nice: nice.unwrap_or_default(),
                rt_priority: prio.unwrap_or_default(),
                deadline,
            });
        } else if let Some(nice) = nice
            && attributes.nice.replace(nice).is_some()
        {
            let extra = words.iter().find(|word| word.text.starts_with("renice=")).copied();
            let extra = extra.unwrap_or(words[0]);
            return fault(
                extra,
                TextProblem::Extra,
                "nice= without policy= says the same as renice=",
                "keep one",
            );
        }
        Ok(attributes)
    }
}

/// Of a name that a task gets because it has none, `task-4194304`.
const TASK_NAME_BYTES: u64 = 12;

impl Attributes {
    /// What a task with these words takes beyond its fixed size.
    pub fn nr_bytes(&self) -> u64 {
        self.name.as_ref().map_or(TASK_NAME_BYTES, |name| name.len() as u64)
            + self.affinity.as_ref().map_or(0, |cpus| size_of_val(cpus.words()) as u64)
    }
}

/// Reads the words of a PRIO, without `target=`; the control group's path stands beside, since its number is
/// the workload's. `None`: not such words.
pub fn parse_change_words(words: &str) -> Option<(ParamChange, Option<String>)> {
    let mut list = Vec::new();
    split(words, &mut list).ok()?;
    let attributes = Attributes::parse(&list, Attributes::PRIO).ok()?;
    if attributes.target.is_some() {
        return None;
    }
    let Attributes { params, nice, affinity, cgroup, .. } = attributes;
    Some((ParamChange { target: None, params, nice, affinity, cgroup: None }, cgroup.map(|(path, ..)| path)))
}

/// `deadline` and `period` default to each other, as in `sched_setattr(2)`.
fn deadline_params(
    words: &[Word<'_>],
    runtime: Option<Span>,
    deadline: Option<Span>,
    period: Option<Span>,
) -> Parsed<Option<DeadlineParams>> {
    match (runtime, deadline.or(period), period.or(deadline)) {
        (None, None, _) => Ok(None),
        (Some(runtime), Some(deadline), Some(period)) => {
            Ok(Some(DeadlineParams { runtime, deadline, period }))
        }
        _ => {
            let lone = |key: &str| words.iter().find(|word| word.text.starts_with(key)).copied();
            let word =
                ["runtime=", "deadline=", "period="].iter().find_map(|key| lone(key)).unwrap_or(words[0]);
            let expected = "expected runtime= together with deadline=, period= or both";
            fault(word, TextProblem::Value, expected, "")
        }
    }
}

fn nice_value(word: Word<'_>) -> Parsed<Nice> {
    word.text.parse().or_else(|_| fault(word, TextProblem::Value, "expected a nice value, -20 to 19", ""))
}

fn expected(key: &str, keys: &[&str]) -> String {
    let list = format!("expected {}=", keys.join("=, "));
    match keys.iter().find(|known| near(key, known)) {
        Some(known) => format!("{list}; did you mean {known}=?"),
        None => list,
    }
}
