//! What people read: one thought a sentence.

use schedlab_tidy::{files, root, sentences};
use std::path::PathBuf;

/// A sentence has no more words.
const MOST_WORDS: usize = 40;
/// The sentences of a page have fewer words on average.
const MEAN_WORDS: usize = 20;

/// The pages of the repository: README and its like, docs, the notes beside code, samples.
fn pages() -> Vec<PathBuf> {
    let root = root();
    let top =
        std::fs::read_dir(&root).expect("the checkout").filter_map(Result::ok).map(|entry| entry.path());
    let mut pages: Vec<PathBuf> = top.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    for folder in ["docs", "linux", "samples", "python"] {
        pages.extend(files(&root.join(folder), ".md"));
    }
    pages.sort();
    pages
}

#[test]
fn no_sentence_is_longer_than_one_breath() {
    let mut faults = Vec::new();
    for path in pages() {
        let text = std::fs::read_to_string(&path).expect("a page");
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        let found = sentences(&text);
        for long in found.iter().filter(|sentence| sentence.nr_words > MOST_WORDS) {
            faults.push(format!("{name}:{}: {} words: {}", long.line, long.nr_words, long.text));
        }
        let (number, words) = found
            .iter()
            .filter(|sentence| !sentence.in_table)
            .fold((0, 0), |(number, words), sentence| (number + 1, words + sentence.nr_words));
        if words >= MEAN_WORDS * number.max(1) {
            faults.push(format!(
                "{name}: {words} words in {number} sentences, {MEAN_WORDS} on average are too many"
            ));
        }
    }
    assert!(faults.is_empty(), "{} faults against short sentences:\n{}", faults.len(), faults.join("\n"));
}

/// Forms of "to be" that make a passive.
const TO_BE: [&str; 7] = ["is", "are", "was", "were", "be", "been", "being"];
/// Its comment says so, too; but its bytes are in the keys of all kernels and of all kept results.
const KEPT: &str = "linux/arch-warp/include/asm/processor.h";

/// The passive hides who says what to whom; and to see a difference is to distinguish.
#[test]
fn nothing_is_a_passive_of_tell() {
    let root = root();
    let mut all = pages();
    for (folder, end) in
        [("crates", ".rs"), ("linux", ".c"), ("linux", ".h"), ("python", ".py"), ("scripts", ".sh")]
    {
        all.extend(files(&root.join(folder), end));
    }
    all.retain(|path| path != &root.join(KEPT));
    let mut faults = Vec::new();
    for path in all {
        let text = std::fs::read_to_string(&path).expect("a text");
        let name = path.strip_prefix(&root).expect("below the root").display().to_string();
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> =
                line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
            let is_passive = |pair: &[&str]| TO_BE.contains(&pair[0]) && pair[1] == "told";
            let is_denied = |three: &[&str]| is_passive(&[three[0], three[2]]) && three[1] == "not";
            if words.windows(2).any(is_passive) || words.windows(3).any(is_denied) {
                faults.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{} passives of \"tell\":\n{}", faults.len(), faults.join("\n"));
}
