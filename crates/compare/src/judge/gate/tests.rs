//! The grammar, what conditions mean, and that no text makes the reader fail.

use super::*;
use crate::cases::subjects::TaskGroup;
use crate::judge::comparison::Comparison;
use crate::measure::MetricValues;
use crate::measure::metric::{METRICS, find, ids};
use proptest::prelude::*;

fn gate(text: &str) -> Gate {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_documented_conditions() {
    let parts = |text: &str| {
        let gate = gate(text);
        (gate.subject, gate.metric.get().name(), gate.op, gate.quantity, gate.threshold)
    };
    let name = |text: &str| text.to_string();
    use Op::*;
    use Quantity::*;
    assert_eq!(parts("p99>5%"), (None, name("run_delay.p99"), Above, Relative, 0.05));
    assert_eq!(parts("migrations<-10%"), (None, name("migrations"), Below, Relative, -0.1));
    assert_eq!(parts("wakeup_latency.max>+2ms"), (None, name("wakeup_latency.max"), Above, Change, 2e6));
    assert_eq!(parts("latency.max > 20 ms"), (None, name("wakeup_latency.max"), Above, Value, 2e7));
    assert_eq!(parts("share_error>=+1pt"), (None, name("share_error"), AtLeast, Change, 0.01));
    assert_eq!(
        parts("cc1:run_delay.p99>5%"),
        (Some(name("cc1")), name("run_delay.p99"), Above, Relative, 0.05)
    );
    assert_eq!(
        parts("kworker/0:1:cpu<=1.5s"),
        (Some(name("kworker/0:1")), name("cpu"), AtMost, Value, 1.5e9)
    );
    assert_eq!(parts("jain<0.9"), (None, name("jain"), Below, Value, 0.9));
    assert_eq!(parts("lag>1ms"), (None, name("service_error.max"), Above, Value, 1e6));
    assert_eq!(parts("idle>1ms").1, "idle_while_waiting");
    assert_eq!(parts("idle.max>1ms").1, "idle_while_waiting.max");
}

#[test]
fn the_caret_stands_under_what_is_wrong() {
    for (text, marked, words) in [
        ("p98>5%", "p98", "no metric 'p98'"),
        ("run_delay.p98>5%", "p98", "no statistic 'p98'"),
        ("delay>5%", "delay", "several statistics"),
        ("migrations.max>5", "max", "no statistic"),
        ("p99>", "", "threshold is missing"),
        (">5%", "", "metric is missing"),
        ("p99 5%", "p99 5%", "no comparison"),
        ("p99>5", "5", "no unit"),
        ("p99>five", "five", "not a number"),
        ("p99>5.%", "5.", "not a number"),
        ("p99>+%", "+", "not a number"),
        ("p99>5weeks", "weeks", "no unit"),
        ("migrations>5ms", "ms", "no unit of migrations"),
        ("share_error>2", "2", "no unit"),
        (":p99>5%", "", "name is missing"),
        ("cc1:jain<1", "jain", "tasks have no jain"),
        ("größe>5%", "größe", "no metric"),
    ] {
        let error = text.parse::<Gate>().unwrap_err();
        let shown: String = text.chars().skip(error.at).take(error.length).collect();
        if marked.is_empty() {
            assert_eq!(error.length, 1, "{text}");
        } else {
            assert_eq!(shown, marked, "{text}");
        }
        assert!(error.problem.contains(words), "{text}: {}", error.problem);
        let lines: Vec<String> = error.to_string().lines().map(str::to_string).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[2].find('^'), Some(2 + error.at));
    }
}

/// Two contenders with these run delays (p99, in ms) by seed; nobody was ever woken.
fn samples(base: &[f64], other: &[f64]) -> Samples {
    let p99 = find("run_delay", "p99").unwrap();
    let run = |ms: &f64| {
        let value = |id: MetricId| (id == p99).then_some(ms * 1e6);
        let values: Vec<Option<f64>> = ids().map(value).collect();
        Ok(MetricValues { subjects: vec![values.clone()], values, ..MetricValues::default() })
    };
    let subject = TaskGroup { label: "cc1".into(), tasks: vec![], group: None };
    Samples {
        runs: vec![base.iter().map(run).collect(), other.iter().map(run).collect()],
        subjects: vec![subject],
    }
}

fn outcome(text: &str, base: &[f64], other: &[f64]) -> ConditionOutcome {
    let samples = samples(base, other);
    gate(text).judge(&samples, &Comparison::new(&samples, 1, 0.95), 0.95).outcome
}

#[test]
fn conditions_are_met_when_the_ensemble_shows_them() {
    let base = [10.0, 12.0, 11.0, 13.0];
    let sure = [12.0, 14.0, 13.0, 15.0]; // +2 ms in every pair: +17.4 % of 11.5 ms
    assert_eq!(outcome("p99>5%", &base, &sure), ConditionOutcome::Met);
    assert_eq!(outcome("cc1:p99>5%", &base, &sure), ConditionOutcome::Met);
    assert_eq!(outcome("p99>17.3%", &base, &sure), ConditionOutcome::Met);
    assert_eq!(outcome("p99>17.4%", &base, &sure), ConditionOutcome::NotMet);
    assert_eq!(outcome("p99>+1.9ms", &base, &sure), ConditionOutcome::Met);
    assert_eq!(outcome("p99>+2ms", &base, &sure), ConditionOutcome::NotMet);
    assert_eq!(outcome("p99>=+2ms", &base, &sure), ConditionOutcome::Met);
    assert_eq!(outcome("p99<5%", &base, &sure), ConditionOutcome::NotMet);
    // its own value: mean 13.5, interval of 3 degrees of freedom 13.5 -+ 3.182 * 0.6455
    assert_eq!(outcome("p99>11.4ms", &base, &sure), ConditionOutcome::Met);
    assert_eq!(outcome("p99>11.5ms", &base, &sure), ConditionOutcome::Open);
    assert_eq!(outcome("p99<15.6ms", &base, &sure), ConditionOutcome::Met);
    assert_eq!(outcome("p99>14ms", &base, &sure), ConditionOutcome::NotMet);
    // once more, once less: not shown
    let noisy = [18.0, 7.0, 19.0, 8.0];
    assert_eq!(outcome("p99>5%", &base, &noisy), ConditionOutcome::Open);
    // one run: the estimate
    assert_eq!(outcome("p99>5%", &[10.0], &[11.0]), ConditionOutcome::Met);
    assert_eq!(
        outcome("p99>5%", &[0.0], &[1.0]),
        ConditionOutcome::Met,
        "from nothing to something is infinitely more"
    );
    assert_eq!(outcome("p99>5%", &[0.0], &[0.0]), ConditionOutcome::NotMet);
    // nothing to judge
    assert_eq!(outcome("latency.p99>5%", &base, &sure), ConditionOutcome::NoData);
    assert_eq!(outcome("latency.p99>5ms", &base, &sure), ConditionOutcome::NoData);
    assert_eq!(outcome("ld:p99>5%", &base, &sure), ConditionOutcome::NoData);
}

proptest! {
    /// Whatever is typed is a condition or an error whose caret lies within the text or just behind it.
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        if let Err(error) = text.parse::<Gate>() {
            prop_assert!(error.at + error.length <= text.chars().count() + 1, "{error:?}");
            prop_assert!(error.length >= 1 && !error.to_string().is_empty());
        }
    }

    /// The same of texts that are nearly right.
    #[test]
    fn nearly_right_text_is_read_or_refused(
        text in "([a-z0-9/:]{0,8}:)?(p99|p90|run_delay|latency|migrations|share_error|jain|x)?(\\.(p99|max|mean|y)?)?[<>]?=? ?[-+]?[0-9.]{0,6} ?(%|ms|us|ns|s|pt|x)?"
    ) {
        match text.parse::<Gate>() {
            Ok(gate) => prop_assert_eq!(gate.text, text),
            Err(error) => prop_assert!(error.at + error.length <= text.chars().count() + 1, "{:?}", error),
        }
    }

    /// What is written in the normal form reads back as the same condition.
    #[test]
    fn the_normal_form_reads_back(
        metric in 0..METRICS.len(),
        op in 0usize..4,
        quantity in 0usize..3,
        threshold in -1_000_000i64..1_000_000,
        with_subject in any::<bool>(),
    ) {
        let id = MetricId(metric);
        let quantity = [Quantity::Relative, Quantity::Change, Quantity::Value][quantity];
        // thirty-seconds are exact in binary and in decimal
        let threshold = if quantity == Quantity::Value { threshold.abs() } else { threshold } as f64 / 32.0;
        let gate = Gate {
            subject: (with_subject && id.get().per_task).then(|| "a name:1".to_string()),
            metric: id,
            op: [Op::Above, Op::AtLeast, Op::Below, Op::AtMost][op],
            quantity,
            threshold,
            text: String::new(),
        };
        let back: Gate = gate.to_string().parse().unwrap();
        prop_assert!((back.threshold - gate.threshold).abs() <= 1e-12 * gate.threshold.abs(), "{gate}");
        prop_assert_eq!(Gate { threshold, text: String::new(), ..back }, gate);
    }
}
