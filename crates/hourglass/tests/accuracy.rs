//! Is inference right? A small study of native schedulers; `schedlab hourglass study` makes large ones, and of
//! real Linux too.

use schedlab_hourglass::{Question, StudyConfig, study};
use schedlab_lab::Subject;

fn config(runs: u32) -> StudyConfig {
    let subjects = ["eevdf", "rr"].map(|name| Subject::native(name).unwrap());
    StudyConfig { runs, seed: 0, jobs: 2, subjects: subjects.into() }
}

/// A few runs, for every build: an interval that misses the truth much too often shows here already.
/// Binomial: of 20 intervals that hold with 95 %, fewer than 15 do once in 3,000 times.
#[test]
fn intervals_hold_the_truth() {
    let found = study(&config(32), |_| {}).unwrap();
    println!("{}", found.summary());
    assert!(found.failed.is_empty(), "{:?}", found.failed);
    let asked = [Question::Tick, Question::Slice, Question::SwitchCost, Question::HiddenShare];
    for question in asked {
        assert!(found.scores[&question].given >= 5, "{}: nothing was answered", question.id());
    }
    for (question, score) in found.scores.iter().filter(|(_, score)| score.given > 0) {
        assert!(score.held_share().unwrap() >= 0.75, "{}: {:#?}", question.id(), score.off);
    }
}

/// Whatever the number of threads, a study is the same.
#[test]
fn a_study_comes_out_the_same_again() {
    let once = StudyConfig { jobs: 1, ..config(4) };
    assert_eq!(study(&once, |_| {}).unwrap(), study(&config(4), |_| {}).unwrap());
}
