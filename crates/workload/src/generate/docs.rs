//! What do a generator's settings mean? Written into the TOML that is printed, so that it can be edited
//! without looking anything up.

use super::{KINDS, Spec};

/// Meaning of each field, for all kinds; where a kind means something of its own, `kind.field`.
const FIELDS: &[(&str, &str)] = &[
    ("seed", "names what is drawn: the same seed gives the same workload, on every machine"),
    ("tasks", "how many tasks"),
    ("nices", "nice values, in turn"),
    ("fairbench.nices", "levels of nice, each with tasks_per_level tasks"),
    ("hogs.nices", "nice values, one task each"),
    ("counts", "tasks on CPU 0, 1, ...: bound there until the release"),
    ("release", "when they may go to every CPU, all at one instant"),
    ("tasks_per_level", "tasks at each level"),
    ("cpu", "CPU time of each task, then it ends"),
    ("run", "CPU time of each turn"),
    ("sleep", "elapsed time asleep after each turn"),
    ("sleeps", "lengths of sleep, each with tasks_per_level tasks"),
    ("nice", "nice value of all"),
    ("stagger", "task i starts i times this later"),
    ("duration", "how long each task lasts if it never waits for a CPU"),
    ("groups", "groups of senders and receivers, independent of each other"),
    ("senders", "senders in each group"),
    ("receivers", "receivers in each group; every sender sends to each"),
    ("turns", "messages from each sender to each receiver"),
    ("send", "CPU time to send a message"),
    ("receive", "CPU time to receive one"),
    ("window", "messages a sender may have on the way before it waits"),
    (
        "objects",
        "true: each receiver has a socket of `window` messages, and who waits is decided as they run (docs/objects.md)",
    ),
    (
        "server.objects",
        "true: requests and answers go through semaphores; the next one comes with the first answer (docs/objects.md)",
    ),
    ("forkstorm.objects", "true: a parent waits for whichever child ends first (docs/objects.md)"),
    ("messengers", "message threads, each with workers of its own"),
    ("workers", "workers of each message thread"),
    ("requests", "requests to each message thread"),
    ("mode", "open: requests come as they come; closed: a worker's next one comes after its answer"),
    ("between", "time from one request to the next (mode open)"),
    ("arrivals.between", "time from one arrival to the next"),
    ("dispatch", "CPU time of the message thread for each request"),
    ("service", "CPU time of each task"),
    ("server.service", "CPU time of a worker for each request"),
    ("forkstorm.service", "CPU time of each child"),
    ("execstorm.service", "CPU time of each program"),
    ("think", "time that the worker sleeps half-way through a request"),
    ("parents", "parents, independent of each other"),
    ("children", "children of each parent"),
    ("at_once", "children of one parent alive at once; then it waits for the oldest one's end"),
    ("fork", "CPU time of a fork"),
    ("shells", "shells, independent of each other"),
    ("commands", "commands that each shell runs, one after the other"),
    ("exec", "CPU time of the child from the fork until its program begins"),
    ("load", "how long a device takes to read the program; 0: it is in memory"),
    ("periodic.tasks", "how many tasks"),
    ("utilisation", "sum of their utilisations, in CPUs"),
    ("method", "how utilisations are drawn: uunifast, or randfixedsum where the bounds are tight"),
    ("utilisation_min", "no task alone has less"),
    ("utilisation_max", "no task alone has more"),
    ("period_min", "shortest period; periods are drawn log-uniformly"),
    ("period_max", "longest period"),
    ("policy", "deadline, rate_monotonic (fifo, shorter periods first) or normal"),
    ("reserve", "deadline only: the reserved runtime is this times the runtime needed"),
];

/// Distributions, where a field is one.
const DISTRIBUTIONS: &str = "\
# A distribution is a length of time, always the same, or one of
#   { uniform = { min = \"1ms\", max = \"3ms\" } }              { exponential = { mean = \"10ms\" } }
#   { pareto = { min = \"1ms\", shape = 1.05, max = \"100s\" } }  (process lifetimes: shape 1.05 to 1.25)
#   { log_normal = { median = \"1ms\", sigma = 1.2 } }
#   { empirical = [[0, \"1us\"], [0.5, \"20us\"], [1, \"3ms\"]] }  (share, length; `schedlab workload fit` measures one)
";

/// Fields that are distributions.
const DISTRIBUTED: [&str; 7] = ["between", "service", "think", "load", "run", "sleep", "distribution"];

impl Spec {
    /// Its kind, as in the TOML.
    pub fn kind(&self) -> &'static str {
        match self {
            Spec::Fairbench(_) => "fairbench",
            Spec::Responsebench(_) => "responsebench",
            Spec::Hogs(_) => "hogs",
            Spec::Sleepers(_) => "sleepers",
            Spec::Start(_) => "start",
            Spec::Hackbench(_) => "hackbench",
            Spec::Server(_) => "server",
            Spec::Forkstorm(_) => "forkstorm",
            Spec::Execstorm(_) => "execstorm",
            Spec::Periodic(_) => "periodic",
            Spec::Arrivals(_) => "arrivals",
            Spec::Random(_) => "random",
        }
    }

    /// As TOML with the meaning of every field: a file to edit.
    pub fn to_documented_toml(&self) -> String {
        let kind = self.kind();
        let what = KINDS.iter().find(|(name, _)| *name == kind).map_or("", |(_, what)| what);
        let has_distributions = !matches!(self, Spec::Sleepers(_) | Spec::Responsebench(_));
        let mut out = format!("# {what}\n");
        let mut is_said = false;
        let lines = inline(self);
        // (left out elsewhere while it is at its default: workloads made before it was there keep their notes)
        let unsaid =
            matches!(self, Spec::Hackbench(hackbench) if !hackbench.objects).then_some("objects = false");
        for line in lines.lines().chain(unsaid) {
            let field = line.split(' ').next().unwrap_or_default();
            if field == "kind" {
                out.push_str(&format!("{line}\n"));
                continue;
            }
            if !is_said && has_distributions && DISTRIBUTED.contains(&field) {
                is_said = true;
                out.push_str(&format!("\n{DISTRIBUTIONS}"));
            }
            let own = format!("{kind}.{field}");
            let meaning = FIELDS
                .iter()
                .find(|(name, _)| *name == own)
                .or(FIELDS.iter().find(|(name, _)| *name == field));
            let meaning = meaning.map_or("", |(_, meaning)| meaning);
            out.push_str(&format!("\n# {meaning}\n{line}\n"));
        }
        out
    }
}

/// One line per field: distributions as inline tables.
fn inline(spec: &Spec) -> String {
    let table = toml::Table::try_from(spec).expect("a struct of numbers, texts and lists has a TOML form");
    let mut out = String::new();
    // in the order of the struct
    let order = spec.to_toml();
    let mut names: Vec<(&String, &toml::Value)> = table.iter().collect();
    let place = |name: &str| {
        let as_key = order.find(&format!("\n{name} =")).or(order.find(&format!("{name} =")));
        let as_table = order.find(&format!("[{name}"));
        as_key.into_iter().chain(as_table).min().unwrap_or(usize::MAX)
    };
    names.sort_by_key(|(name, _)| place(name));
    for (name, value) in names {
        out.push_str(&format!("{name} = {value}\n"));
    }
    out
}
