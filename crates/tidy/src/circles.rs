//! Which modules of a crate name each other in a circle?

use std::collections::{BTreeMap, BTreeSet};

/// Groups of two or more that reach each other, each in order of name. `edges` says whom each one names.
///
/// ```
/// use std::collections::{BTreeMap, BTreeSet};
/// let edge = |from: &str, to: &[&str]| (from.to_string(), to.iter().map(|t| t.to_string()).collect::<BTreeSet<_>>());
/// let edges = BTreeMap::from([edge("args", &["run"]), edge("run", &["args", "ui"]), edge("ui", &[])]);
/// assert_eq!(schedlab_tidy::circles(&edges), [["args", "run"]]);
/// ```
pub fn circles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|from| (from.as_str(), reach(edges, from))).collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for from in edges.keys().map(String::as_str) {
        if seen.contains(from) || !reached[from].contains(from) {
            continue;
        }
        let together = |to: &&str| reached.get(*to).is_some_and(|back| back.contains(from));
        let circle: Vec<&str> = reached[from].iter().copied().filter(together).collect();
        seen.extend(&circle);
        if circle.len() > 1 {
            found.push(circle.into_iter().map(str::to_owned).collect());
        }
    }
    found
}

/// Whom `from` reaches in one step or more.
fn reach<'a>(edges: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut ahead: Vec<&str> = vec![from];
    while let Some(at) = ahead.pop() {
        for to in edges.get(at).into_iter().flatten() {
            if reached.insert(to.as_str()) {
                ahead.push(to);
            }
        }
    }
    reached
}
