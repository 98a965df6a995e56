//! Which fields has the JSON of a run? The one table of them: for the page, for the JSON Schema, and for the test
//! that holds both against what the program writes.
//!
//! ```
//! use schedlab_report::json_fields::{field_tables, json_schema};
//! assert!(field_tables().contains("| `cpu_ns`, `kernel_thread_ns`, `idle_ns` |"));
//! assert_eq!(json_schema()["properties"]["hz"]["type"], "integer");
//! assert_eq!(json_schema()["properties"]["switches"]["type"][1], "null"); // unknown, if its observer was half blind
//! ```

use serde_json::{Map, Value, json};
use std::fmt::Write;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// A whole number.
    Int,
    /// A whole number, or null: nobody could know it (`unknown` says why), or there is none.
    IntOrNull,
    /// A number from 0 to 1.
    Share,
    /// A text.
    Text,
    /// A text, or null: there is none.
    TextOrNull,
    /// Yes or no.
    Bool,
    /// Five whole numbers: `NAME_ns`, `NAME_mean_ns`, `NAME_p50_ns`, `NAME_p99_ns`, `NAME_max_ns`; null as those above.
    Distribution,
    /// Names with values that depend on the run.
    Names,
    /// An object whose fields have rows of their own.
    Object,
    /// A list of objects whose fields have rows of their own; null as above.
    Objects,
    /// A list of whole numbers.
    Ints,
    /// A list of texts.
    Texts,
}
use Holds::{
    Bool, Distribution, Int, IntOrNull, Ints, Names, Object, Objects, Share, Text, TextOrNull, Texts,
};

/// Fields that are explained together.
struct Fields {
    names: &'static str,
    holds: Holds,
    is_always_there: bool,
    meaning: &'static str,
}

/// An object: where it stands, and its fields.
struct Table {
    /// Places that have such objects, as `tasks[]`; the run itself is the empty text. A place can stand in two tables.
    places: &'static [&'static str],
    rows: &'static [Fields],
}

const fn row(names: &'static str, holds: Holds, meaning: &'static str) -> Fields {
    Fields { names, holds, is_always_there: true, meaning }
}

const fn maybe(names: &'static str, holds: Holds, meaning: &'static str) -> Fields {
    Fields { names, holds, is_always_there: false, meaning }
}

const TABLES: &[Table] = &[
    Table { places: &[""], rows: RUN },
    Table {
        places: &["changed_experiment[]"],
        rows: &[row("what", Text, "what changed the experiment"), row("times", Int, "how many times")],
    },
    Table {
        places: &["longest_waits[]"],
        rows: &[
            row("task pid", Int, "who waited: number in the log, pid"),
            row("name", Text, "its name"),
            row("cause", Text, "`woken`, `preempted` or `new`: what the wait began with"),
            row("cpu end_cpu", Int, "where it began, and where it ended"),
            row("moves", Int, "assignments to another CPU in between"),
            row("start_ns end_ns", Int, "from when, until when"),
            row("meanwhile", Objects, "who had `cpu` then, the first eight"),
            maybe("explain", Text, "the command that explains it"),
        ],
    },
    Table {
        places: &["longest_waits[].meanwhile[]"],
        rows: &[
            row("task pid", Int, "who ran there"),
            row("name", Text, "its name"),
            row("ns", Int, "for how long"),
        ],
    },
    Table {
        places: &["idle_while_waiting_longest[]"],
        rows: &[
            row("from_ns to_ns", Int, "from when, until when"),
            row("idle_cpus idle_throughout", Ints, "CPUs that were idle at the beginning, and all the time"),
            row("waiting", Objects, "tasks that waited at the beginning"),
            row("queues", Ints, "tasks on each CPU's queue at the beginning, the running one among them"),
            row("began", Objects, "what happened at the beginning"),
            maybe("explain", Text, "the command that explains it"),
        ],
    },
    Table {
        places: &["idle_while_waiting_longest[].waiting[]"],
        rows: &[
            row("task pid cpu", Int, "who waited, and on which CPU's queue"),
            row("name", Text, "its name"),
            row("since_ns", Int, "since when"),
            row("throughout", Bool, "to the end of the stretch"),
        ],
    },
    Table {
        places: &["idle_while_waiting_longest[].began[]"],
        rows: &[
            row("what", Text, "`fell_idle`: a CPU did; `new`, `wakeup`, `preempted`: a task came to wait"),
            row("cpu", Int, "on which CPU"),
            maybe("task by", Int, "which task, and the CPU that put it there"),
        ],
    },
    Table {
        places: &["jobs[]"],
        rows: &[
            row("task pid", Int, "whose they are"),
            row("name", Text, "its name"),
            row("jobs with_deadline misses unfinished", Int, "how many jobs; how many did not end"),
            row("miss_share miss_share_low miss_share_high", Share, "misses by jobs, with a 95 % interval"),
            row("response tardiness", Distribution, "from release to end; how late"),
            row("bound_ns", IntOrNull, "longest response by theory, if one holds"),
            row("bound_theory", TextOrNull, "which theory"),
            row("lost_track", Bool, "releases could not be followed"),
            maybe("worst", Object, "the job with the longest response"),
            row("list", Objects, "each job"),
        ],
    },
    Table {
        places: &["jobs[].worst", "jobs[].list[]"],
        rows: &[
            row("job", Int, "its number, from 0"),
            row("release_ns", Int, "when it was released"),
            row(
                "end_ns deadline_ns",
                IntOrNull,
                "when it ended, and when it should have; null: it did not, there is none",
            ),
        ],
    },
    Table {
        places: &["known_tasks"],
        rows: &[
            row("tasks of", Int, "how many they are, of how many"),
            row("run_delay wakeup_latency", Distribution, "as above, of these tasks"),
            row("cpu_ns switches_voluntary switches_involuntary migrations", Int, "as in `tasks`, added up"),
        ],
    },
    Table {
        places: &["per_cpu[]"],
        rows: &[
            row("cpu", Int, "its number"),
            row("busy_ns kernel_thread_ns idle_ns switches", IntOrNull, "as above, of this CPU"),
            row("waiting_task_ns waiting_max", IntOrNull, "tasks that waited on its queue"),
            maybe("unknown", Objects, "what nobody could know of it"),
        ],
    },
    Table {
        places: &["tasks[]", "kernel_threads[]"],
        rows: &[
            row("id pid", Int, "number in the log, pid"),
            row("name", Text, "its name"),
            row("cpu_ns blocked_ns", IntOrNull, "time on a CPU, time asleep"),
            row("run_delay wakeup_latency", Distribution, "as above, of this task"),
            row(
                "preempted_wait_ns new_wait_ns",
                IntOrNull,
                "parts of the run delay: after a preemption, before the first run",
            ),
            row(
                "wakeups runs switches_voluntary switches_involuntary yields migrations assignments",
                IntOrNull,
                "counts",
            ),
            row("first_ns last_ns", IntOrNull, "first and last time on a CPU"),
            maybe("unknown", Objects, "what nobody could know of it"),
        ],
    },
    Table {
        places: &["tasks[]"],
        rows: &[
            row("nice", Int, "at the start"),
            row("policy", Text, "at the start"),
            row("finished", Bool, "the workload asks for nothing more of it"),
        ],
    },
    Table {
        places: &["recording"],
        rows: &[
            row(
                "events lost_events lost_places",
                Int,
                "events read, lost by the recorder, and at how many places",
            ),
            row("observer", Text, "who recorded"),
            row("hidden", Texts, "what it cannot see"),
            row("contended", Bool, "other programs had a part of the recorded machine's CPUs"),
            row("waited_for", Object, "what the recorded tasks waited for"),
            row("warnings", Texts, "what to know of this recording"),
        ],
    },
    Table {
        places: &["recording.waited_for"],
        rows: &[row(
            "program_ns kernel_ns stranger_ns idle_ns idle_exit_ns",
            Int,
            "their waits while the CPU had: a recorded task, a kernel thread, a stranger, nobody; and leaving idle",
        )],
    },
    Table {
        places: &["unknown[]", "per_cpu[].unknown[]", "tasks[].unknown[]", "kernel_threads[].unknown[]"],
        rows: &[
            row("field why", Text, "which field is null, and why"),
            maybe("seen", Int, "what was seen of it"),
        ],
    },
];

const RUN: &[Fields] = &[
    row("schema", Int, "1"),
    row(
        "changed_experiment",
        Objects,
        "what makes it another experiment than the one that was asked for; empty if nothing does \
         ([what the numbers mean](results.md))",
    ),
    row("sched sched_version", Text, "the scheduler, its version"),
    row("params", Names, "parameters that were set"),
    row("workload", Text, "what ran"),
    row("cpus hz", Int, "CPUs of the machine; ticks a second, 0 where the scheduler has none"),
    row("duration_ns", Int, "how long the run was"),
    row("end", Text, "why it ended"),
    row("seed", IntOrNull, "the seed, null if nothing was varied"),
    row(
        "wall_ns kernel_ns",
        Int,
        "host time for it, and of that inside the scheduler; 0 with `--reproducible`",
    ),
    row("records", Int, "lines of the schedule log"),
    row(
        "switches migrations",
        IntOrNull,
        "switches of all CPUs; runs that began on another CPU than the one before",
    ),
    row(
        "assignments kernel_thread_assignments",
        IntOrNull,
        "`migrate` records, of tasks and of kernel threads; a task can be assigned several times before it runs",
    ),
    row(
        "cpu_ns kernel_thread_ns idle_ns",
        IntOrNull,
        "time of all CPUs in tasks, in the kernel's threads, idle",
    ),
    row("run_delay", Distribution, "waiting for a CPU while runnable"),
    row("wakeup_latency", Distribution, "from a wakeup to the task's first time on a CPU"),
    maybe("known_tasks", Object, "where the sums are unknown: those of the tasks that nobody lost sight of"),
    row(
        "waiting_task_ns waiting_max",
        IntOrNull,
        "integral of waiting tasks over time; most that waited at once",
    ),
    row(
        "idle_while_waiting_ns idle_while_waiting_max_ns idle_while_waiting_stretches",
        IntOrNull,
        "a CPU idle beside a task that it may run: time, longest, how often",
    ),
    row("idle_while_waiting_unknown_ns", Int, "time in which it is unknown"),
    row("idle_while_waiting_longest", Objects, "the longest such stretches"),
    row("longest_waits", Objects, "the longest waits"),
    row("dropped", Names, "what the import left out or made up: reason and count"),
    row("warnings notes", Texts, "the kernel's warnings; remarks"),
    maybe("scheduler", Names, "what a sched_ext scheduler counts about itself"),
    row(
        "account_differs_ns",
        Int,
        "by how much the log's account of CPU time differs from the workload's; 0",
    ),
    maybe("misses", Int, "missed deadlines, if the workload has jobs ([real-time answers](real-time.md))"),
    maybe("tardiness_max_ns", Int, "the latest job's tardiness"),
    maybe("jobs", Objects, "jobs by task"),
    maybe("observer", Text, "who saw it, if not the simulated machine"),
    maybe("hidden", Texts, "what that observer could not see"),
    maybe("unknown", Objects, "fields that nobody could know"),
    maybe("recording", Object, "of `report`: what is known of the recording itself"),
    row("per_cpu tasks kernel_threads", Objects, "a row for each"),
];

impl Fields {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.split(' ')
    }

    /// What a value of the field may be.
    fn schema(&self, name: &str, place: &str) -> Value {
        let inner = |list: &str| object(&format!("{}{name}{list}", dotted(place)));
        let mut schema = match self.holds {
            Int => json!({ "type": "integer" }),
            IntOrNull | Distribution => json!({ "type": ["integer", "null"] }),
            Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
            Text => json!({ "type": "string" }),
            TextOrNull => json!({ "type": ["string", "null"] }),
            Bool => json!({ "type": ["boolean", "null"] }),
            Names => json!({ "type": "object" }),
            Object => inner(""),
            Objects => json!({ "type": ["array", "null"], "items": inner("[]") }),
            Ints => json!({ "type": "array", "items": { "type": "integer" } }),
            Texts => json!({ "type": "array", "items": { "type": "string" } }),
        };
        schema["description"] = json!(self.meaning);
        schema
    }
}

/// A place as the beginning of the places within it.
fn dotted(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!("{place}.") }
}

/// The names that a field has in JSON.
fn written(name: &str, holds: Holds) -> Vec<String> {
    if holds != Distribution {
        return vec![name.to_owned()];
    }
    ["", "_mean", "_p50", "_p99", "_max"].map(|part| format!("{name}{part}_ns")).into()
}

fn object(place: &str) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for row in TABLES.iter().filter(|table| table.places.contains(&place)).flat_map(|table| table.rows) {
        for name in row.names().flat_map(|name| written(name, row.holds)) {
            properties.insert(name.clone(), row.schema(&name, place));
            if row.is_always_there {
                required.push(name);
            }
        }
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// The JSON Schema (draft 2020-12) of what `run --json` and `report --json` write. Fields that a later version
/// adds are no fault by it.
pub fn json_schema() -> Value {
    let mut schema = object("");
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("schedlab run --json");
    schema["properties"]["schema"]["const"] = json!(super::json::SCHEMA);
    schema
}

/// The tables of `docs/json.md`, in Markdown.
pub fn field_tables() -> String {
    let mut text = String::new();
    for table in TABLES {
        let places: Vec<String> = table.places.iter().map(|place| format!("`{place}`")).collect();
        let title = if table.places == [""] { "The run".to_owned() } else { places.join(", ") };
        let _ = write!(text, "\n## {title}\n\n| field | type | meaning |\n|---|---|---|\n");
        for row in table.rows {
            let names: Vec<String> = row.names().map(|name| format!("`{name}`")).collect();
            let holds = match row.holds {
                Int | IntOrNull => "integer",
                Share => "number",
                Text | TextOrNull => "text",
                Bool => "boolean",
                Distribution => "distribution",
                Names | Object => "object",
                Objects => "list of objects",
                Ints => "list of integers",
                Texts => "list of texts",
            };
            let there = if row.is_always_there { "" } else { ", if any" };
            let _ = writeln!(text, "| {} | {holds}{there} | {} |", names.join(", "), row.meaning);
        }
    }
    text
}
