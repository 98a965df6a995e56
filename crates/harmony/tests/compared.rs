//! How often is a difference found where there is none?

use schedlab_harmony::compared::Comparison;
use schedlab_harmony::data::{Data, Effort};
use schedlab_harmony::experiments::Depth;
use schedlab_harmony::model::Model;
use schedlab_lab::Subject;
use schedlab_topology::Topology;

/// A policy against itself with other seeds: the chance of any finding is 1 % (Holm), so that two or more of 20 pairs
/// have a chance of 1.7 %, and four or more of 100 (`PAIRS=100`) one of 1.8 %.
#[test]
#[ignore = "long: 40 quick models of a native scheduler, a minute on two cores"]
fn a_policy_hardly_ever_differs_from_itself() {
    let topology = Topology::flat(4).unwrap();
    let subject = Subject::native("eevdf").unwrap();
    let model = |seed| {
        let effort = Effort { depth: Depth::Quick, seed, jobs: schedlab_runner::pool::cores() };
        Model::of(&Data::collect(&subject, &topology, effort, |_, _| {}).unwrap(), "eevdf", "")
    };
    let pairs = std::env::var("PAIRS").map_or(20, |pairs| pairs.parse().expect("PAIRS is a number"));
    let (mut found, mut nr_found) = (Vec::new(), 0);
    for pair in 0..pairs {
        let compared = Comparison::of(&model(2 * pair + 1), &model(2 * pair + 2));
        nr_found += u64::from(compared.rows.iter().any(|row| row.is_found()));
        let differ = compared.rows.iter().filter(|row| row.is_found());
        found.extend(differ.map(|row| format!("seeds {} and {}: {}", 2 * pair + 1, 2 * pair + 2, row.id)));
    }
    println!("{nr_found} of {pairs} pairs differ: {found:?}");
    assert!(nr_found <= (pairs / 33).max(1), "{found:#?}");
}
