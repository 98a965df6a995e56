//! Which crate stands on which? As the manifests say.

use std::collections::BTreeMap;
use std::path::Path;

/// A crate of the workspace and those of ours that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its folder below `crates/`.
    pub name: String,
    /// Folders of the crates that its `[dependencies]` name, in order.
    pub needs: Vec<String>,
    /// 0 = it needs no crate of ours; else one above the highest that it needs.
    pub floor: usize,
}

/// All crates of the checkout `root`, in order of floor, then of name. `tidy` itself is left out: no crate may need it.
///
/// # Panics
/// If a manifest cannot be read, or crates need each other in a circle (cargo would not have built this).
pub fn manifests(root: &Path) -> Vec<Manifest> {
    let mut needs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut folders: BTreeMap<String, String> = BTreeMap::new();
    for entry in std::fs::read_dir(root.join("crates")).expect("the folder of crates").flatten() {
        let Ok(text) = std::fs::read_to_string(entry.path().join("Cargo.toml")) else { continue };
        let manifest: toml::Table = text.parse().expect("a manifest is TOML");
        let folder = entry.file_name().to_string_lossy().into_owned();
        let package = manifest["package"]["name"].as_str().expect("a package has a name").to_owned();
        let named = manifest.get("dependencies").and_then(toml::Value::as_table);
        let named = named.into_iter().flatten().map(|(name, _)| name.clone());
        needs.insert(folder.clone(), named.filter(|name| name.starts_with("schedlab")).collect());
        folders.insert(package, folder);
    }
    let mut floors: BTreeMap<String, usize> = BTreeMap::new();
    let needs: BTreeMap<String, Vec<String>> = needs
        .into_iter()
        .map(|(name, packages)| {
            let mut needed: Vec<String> = packages.iter().map(|package| folders[package].clone()).collect();
            needed.sort();
            (name, needed)
        })
        .collect();
    while floors.len() < needs.len() {
        let before = floors.len();
        for (name, needed) in &needs {
            let below: Option<Vec<usize>> = needed.iter().map(|name| floors.get(name).copied()).collect();
            if let Some(below) = below {
                floors.insert(name.clone(), below.into_iter().max().map_or(0, |highest| highest + 1));
            }
        }
        assert!(floors.len() > before, "crates need each other in a circle: {needs:?}");
    }
    let mut all: Vec<Manifest> = needs
        .into_iter()
        .filter(|(name, _)| name != "tidy")
        .map(|(name, needs)| Manifest { floor: floors[&name], name, needs })
        .collect();
    all.sort_by(|a, b| (a.floor, &a.name).cmp(&(b.floor, &b.name)));
    all
}

/// The floors as text, highest first; beside each crate the crates that it names in its manifest and that
/// nothing below it gives it already.
pub fn drawing(manifests: &[Manifest]) -> String {
    let by_name: BTreeMap<&str, &Manifest> = manifests.iter().map(|m| (m.name.as_str(), m)).collect();
    let mut below: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for manifest in manifests {
        let mut all: Vec<&str> = Vec::new();
        for need in &manifest.needs {
            all.push(need);
            all.extend(&below[need.as_str()]);
        }
        all.sort_unstable();
        all.dedup();
        below.insert(&manifest.name, all);
    }
    let mut text = String::new();
    let width = manifests.iter().map(|m| m.name.len()).max().unwrap_or(0);
    let highest = manifests.iter().map(|m| m.floor).max().unwrap_or(0);
    for floor in (0..=highest).rev() {
        for (place, manifest) in manifests.iter().filter(|m| m.floor == floor).enumerate() {
            let label = if place == 0 { floor.to_string() } else { String::new() };
            let is_given = |need: &str| {
                let others = manifest.needs.iter().filter(|other| other.as_str() != need);
                others.into_iter().any(|other| below[other.as_str()].contains(&need))
            };
            let direct: Vec<&str> =
                manifest.needs.iter().map(String::as_str).filter(|need| !is_given(need)).collect();
            debug_assert!(direct.iter().all(|need| by_name.contains_key(need)));
            let line = format!("{label:>2}  {:<width$}  {}", manifest.name, direct.join(" "));
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}
