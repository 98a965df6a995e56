//! Durations in TOML: `"1.5ms"`, or an integer number of ns.

use schedlab_units::Span;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serializer};
use std::fmt;

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"4ms\"")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_i64<E: Error>(self, ns: i64) -> Result<Span, E> {
        u64::try_from(ns).map(Span::from_ns).map_err(|_| E::custom(format!("{ns} is negative")))
    }
    fn visit_u64<E: Error>(self, ns: u64) -> Result<Span, E> {
        Ok(Span::from_ns(ns))
    }
}

pub(super) fn serialize<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(span)
}

/// A duration; for `#[serde(deserialize_with = ...)]`.
///
/// # Errors
/// What is neither a text such as `"4ms"` nor a number of ns.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    deserializer.deserialize_any(DurationVisitor)
}

/// A duration that may be left out (with `#[serde(default)]`).
///
/// # Errors
/// As [`deserialize`].
pub fn deserialize_some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Span>, D::Error> {
    deserialize(deserializer).map(Some)
}

/// Lists of durations.
pub(super) mod list {
    use super::{Deserialize, Deserializer, Serializer, Span};
    use serde::Serialize;

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Item(#[serde(with = "super")] Span);

    pub fn serialize<S: Serializer>(spans: &[Span], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(spans.iter().map(|&span| Item(span)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Span>, D::Error> {
        Ok(Vec::<Item>::deserialize(deserializer)?.into_iter().map(|item| item.0).collect())
    }
}
