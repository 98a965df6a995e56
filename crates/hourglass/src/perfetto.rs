//! How does ui.perfetto.dev show a map? As slices on a track for each thread, in the JSON form that it reads
//! (Chrome's trace events). Gaps stand there with their cause; their colour is how sure that is.
//!
//! The schedule log's own Perfetto form is for logs that know what every CPU did, which a poller does not.

use crate::map::Map;
use crate::poll::What;
use serde_json::{Value, json};

/// Perfetto's names of colours, from sure to not sure.
fn colour(confidence_pct: u8) -> &'static str {
    match confidence_pct {
        95.. => "good",
        75..95 => "bad",
        _ => "terrible",
    }
}

impl Map {
    /// The map for ui.perfetto.dev. Times are us, as that form wants them.
    pub fn perfetto(&self) -> Value {
        let us = |ns: u64| ns as f64 / 1000.0;
        let mut events =
            vec![json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "hourglass"}})];
        for (index, thread) in self.threads.iter().enumerate() {
            let name = format!("{index} {}, {}", thread.plan.model, thread.plan.class);
            events.push(
                json!({"ph": "M", "pid": 1, "tid": index, "name": "thread_name", "args": {"name": name}}),
            );
            let slice = |name: &str, from: u64, to: u64, colour: &str, args: Value| {
                json!({"ph": "X", "pid": 1, "tid": index, "name": name, "ts": us(from), "dur": us(to - from),
                       "cname": colour, "args": args})
            };
            let mut since = None;
            for piece in &thread.pieces {
                let cpu = json!({"cpu": piece.cpu_from});
                if matches!(piece.what, What::Gap | What::Sleep)
                    && let Some(from) = since.replace(piece.to_ns).filter(|from| *from < piece.from_ns)
                {
                    events.push(slice("computes", from, piece.from_ns, "thread_state_running", cpu));
                }
                match piece.what {
                    What::Gap => {
                        let missed = piece.missed;
                        let args = json!({"confidence_pct": missed.confidence_pct, "switches": missed.switches,
                                          "cpu": piece.cpu_from, "cpu_afterwards": piece.cpu_to});
                        let colour = colour(missed.confidence_pct);
                        events.push(slice(missed.cause.name(), piece.from_ns, piece.to_ns, colour, args));
                    }
                    What::Job | What::Skip => {
                        let late = piece.what == What::Skip || piece.to_ns > piece.due_ns;
                        let name = if late { "deadline missed" } else { "deadline met" };
                        events.push(json!({"ph": "i", "s": "t", "pid": 1, "tid": index, "name": name,
                                           "ts": us(piece.due_ns)}));
                    }
                    What::Sleep => {}
                }
            }
        }
        json!({"displayTimeUnit": "ns", "traceEvents": events})
    }
}
