//! From TOML to a mix.

use super::fields::{Document, Fields, Found, Value};
use super::overrides::Override;
use super::{Mix, MixError, Origin, Part, Rule};
use crate::check::params_flaw;
use crate::generate::{GenerateError, Spec};
use crate::limits::TIMES_MAX;
use crate::tools::Selector;
use crate::{Cgroup, CpuMax};
use schedlab_units::{DeadlineParams, SchedPolicy, Span};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const WINDOW_MAX: Span = Span::MAX;

impl Mix {
    /// Reads the text of a mix. `path` is named in errors, and its folder is where its workloads are looked for.
    pub fn parse(path: &Path, text: &str) -> Result<Mix, MixError> {
        let document = Document { path, text };
        let table = DeTable::parse(text).or_else(|error| {
            let at = error.span().unwrap_or(0..0);
            document.fault(&at, error.message().to_string(), "")
        })?;
        let mut fields = Fields::new(document, table);
        let mut mix = Mix {
            path: path.to_path_buf(),
            text: text.to_string(),
            duration: None,
            groups: Vec::new(),
            parts: Vec::new(),
        };
        mix.duration = fields.value("duration", Document::span)?;
        let groups = fields.tables("cgroup")?;
        let parts = fields.tables("part")?;
        let end = fields.at.end;
        fields.finish()?;
        for group in groups {
            mix.groups.push(cgroup(group)?);
        }
        for part in parts {
            mix.parts.push(self::part(part)?);
        }
        if mix.parts.is_empty() {
            let at = end.min(text.len())..text.len();
            return document.fault(&at, "the mix has no part; expected [[part]] with workload = \"...\"", "");
        }
        Ok(mix)
    }
}

fn cgroup(mut fields: Fields<'_>) -> Found<(Cgroup, std::ops::Range<usize>)> {
    let (document, whole) = (fields.document, fields.at.clone());
    let Some((path, at)) = fields.get("path", Document::group)? else {
        return document.fault(&whole, "a group needs path = \"/...\"", "");
    };
    if path == "/" {
        return document.fault(&at, "the root has no settings; set them on a group below it", "");
    }
    let weight =
        fields.value("weight", |d, value| d.number(value, "expected a weight, 1 to 10000", 1..=10_000))?;
    let max = fields.value("max", cpu_max)?;
    let cpuset = fields.value("cpuset", Document::cpus)?;
    fields.finish()?;
    Ok((Cgroup { path, weight: weight.map(|weight| weight as u32), max, cpuset }, at))
}

/// `"50ms/100ms"`, or `"50ms"` in the default period.
fn cpu_max(document: Document<'_>, value: &Value<'_>) -> Found<CpuMax> {
    let expected =
        "expected quota/period such as \"50ms/100ms\", a quota of at least 1ms and a period of 1ms to 1s";
    let parse = |text: &str| {
        let (quota, period) = text.split_once('/').unwrap_or((text, "100ms"));
        let max = CpuMax { quota: quota.parse().ok()?, period: period.parse().ok()? };
        let ms = Span::from_ms(1);
        (max.quota >= ms && (ms..=Span::from_s(1)).contains(&max.period)).then_some(max)
    };
    match value.get_ref().as_str().and_then(parse) {
        Some(max) => Ok(max),
        None => document.fault(&value.span(), expected, ""),
    }
}

fn part(mut fields: Fields<'_>) -> Found<Part> {
    let (document, at) = (fields.document, fields.at.clone());
    let path = fields.get("workload", Document::string)?;
    let generate = fields.take("generate");
    let (origin, origin_at) = match (path, generate) {
        (Some((path, at)), None) => (Origin::Path(PathBuf::from(path)), at),
        (None, Some(value)) => {
            let at = value.span();
            (Origin::Generate(Box::new(spec(document, value)?)), at)
        }
        (Some((_, at)), Some(_)) => {
            return document.fault(&at, "a part has either workload or generate", "make two parts of them");
        }
        (None, None) => {
            let expected = "a part needs workload = \"...\" or generate = { kind = \"...\" }";
            return document.fault(&at, expected, "");
        }
    };
    let mut part = Part { origin, origin_at, at: at.clone(), ..Part::default() };
    let times = |d: Document<'_>, value: &Value<'_>| {
        d.number(value, "expected how often, 1 to 1000000", 1..=i64::from(TIMES_MAX))
    };
    part.start = fields.value("start", Document::span)?.unwrap_or_default();
    if let Some((copies, at)) = fields.get("copies", times)? {
        (part.copies, part.copies_at) = (copies as u32, at);
    }
    if let Some((every, at)) = fields.get("every", Document::span)? {
        if part.copies == 1 {
            return document.fault(
                &at,
                "copies begin so long after each other, but there is only one",
                "add copies = N",
            );
        }
        part.every = every;
    }
    if let Some((repeat, at)) = fields.get("repeat", times)? {
        (part.repeat, part.repeat_at) = (repeat as u32, at);
    }
    let from = fields.value("from", Document::span)?;
    let to = fields.get("to", Document::span)?;
    if from.is_some() || to.is_some() {
        let from = from.unwrap_or_default();
        let (to, at) = to.unwrap_or((WINDOW_MAX, 0..0));
        if to <= from {
            return document.fault(&at, format!("expected a time after from, {from}"), "");
        }
        part.window = Some((from, to));
    }
    part.prefix = fields.value("prefix", Document::string)?.unwrap_or_default();
    part.cgroup_root = fields.get("cgroup_root", Document::group)?;
    let tasks = fields.tables("task")?;
    part.rules.push(rule(&mut fields, Selector::default())?);
    fields.finish()?;
    for mut fields in tasks {
        let names = fields.value("name", |d, value| d.list(value, |item| d.string(item)))?;
        let pid = |d: Document<'_>, value: &Value<'_>| {
            d.number(value, "expected a pid from 1", 1..=i64::from(u32::MAX))
        };
        let pids = fields.value("pid", |d, value| d.list(value, |item| pid(d, item)))?;
        let cgroups = fields.value("in_cgroup", |d, value| d.list(value, |item| d.group(item)))?;
        let select = Selector {
            names: names.unwrap_or_default(),
            pids: pids.unwrap_or_default().into_iter().map(|pid| pid as u32).collect(),
            cgroups: cgroups.unwrap_or_default(),
            kernel: fields.value("kernel", Document::flag)?,
            children: fields.value("children", Document::flag)?.unwrap_or_default(),
        };
        if select.is_all() {
            let expected = "which tasks? expected name, pid, in_cgroup or kernel";
            return document.fault(
                &fields.at,
                expected,
                "or put the settings into the part, for all its tasks",
            );
        }
        let rule = rule(&mut fields, select)?;
        fields.finish()?;
        part.rules.push(rule);
    }
    Ok(part)
}

/// A generator's settings.
fn spec(document: Document<'_>, value: Value<'_>) -> Found<Spec> {
    let at = value.span();
    let DeValue::Table(table) = value.into_inner() else {
        return document.fault(
            &at,
            "expected a generator's settings, such as { kind = \"hogs\", nices = [0, 5] }",
            "",
        );
    };
    Spec::from_table("", document.text, Spanned::new(at.clone(), table)).or_else(|error| match error {
        GenerateError::Toml { place: Some(place), message, .. } => document.fault(&place, message, ""),
        GenerateError::Toml { message, .. } => document.fault(&at, message, ""),
        other => document.fault(&at, other.to_string().trim_start_matches(": ").to_string(), ""),
    })
}

fn rule(fields: &mut Fields<'_>, select: Selector) -> Found<Rule> {
    let document = fields.document;
    let at = fields.at.clone();
    let cpu_scale = fields.value("cpu_scale", Document::factor)?;
    let sleep_scale = fields.value("sleep_scale", Document::factor)?;
    let cpu_limit = fields.value("cpu_limit", Document::span)?;
    let nice = fields.value("nice", Document::nice)?;
    let policy = fields.get("policy", Document::policy)?;
    let prio =
        fields.get("prio", |d, value| d.number(value, "expected a real-time priority, 1 to 99", 1..=99))?;
    let runtime = fields.get("runtime", Document::span)?;
    let deadline = fields.get("deadline", Document::span)?;
    let period = fields.get("period", Document::span)?;
    let affinity = fields.value("affinity", Document::cpus)?;
    let cgroup = fields.value("cgroup", Document::group)?;
    for (given, needs) in [
        (prio.as_ref().map(|(_, at)| at), [SchedPolicy::Fifo, SchedPolicy::RoundRobin]),
        (runtime.as_ref().map(|(_, at)| at), [SchedPolicy::Deadline; 2]),
        (deadline.as_ref().map(|(_, at)| at), [SchedPolicy::Deadline; 2]),
        (period.as_ref().map(|(_, at)| at), [SchedPolicy::Deadline; 2]),
    ] {
        if let Some(at) = given
            && !policy.as_ref().is_some_and(|(policy, _)| needs.contains(policy))
        {
            let expected = format!("makes sense only with policy = \"{}\"", needs[0].name());
            return document.fault(at, expected, "");
        }
    }
    let policy_at = policy.as_ref().map_or(at.clone(), |(_, at)| at.clone());
    let over = Override {
        nice,
        policy: policy.map(|(policy, _)| policy),
        rt_priority: prio.map_or(0, |(prio, _)| prio as u8),
        deadline: match (runtime, deadline.or(period.clone()), period) {
            (Some((runtime, _)), Some((deadline, _)), period) => Some(DeadlineParams {
                runtime,
                deadline,
                period: period.map_or(deadline, |(period, _)| period),
            }),
            _ => None,
        },
        affinity,
        cgroup,
    };
    if let Some(flaw) = over.policy.and_then(|_| params_flaw(&over.params(Default::default()))) {
        return document.fault(&policy_at, flaw.to_string(), "");
    }
    Ok(Rule { select, at, cpu_scale, sleep_scale, cpu_limit, over })
}
