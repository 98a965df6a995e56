//! How often is a difference found where there is none?

use schedlab_harmony::compared::Comparison;
use schedlab_harmony::data::{Data, Effort};
use schedlab_harmony::experiments::Depth;
use schedlab_harmony::model::Model;
use schedlab_lab::Subject;
use schedlab_topology::Topology;

/// A policy against itself with other seeds: the chance of any finding is 1 % (Holm), so that two or more of 20 pairs
/// have a chance of 1.7 %.
#[test]
#[ignore = "long: 40 quick models of a native scheduler, a minute on two cores"]
fn a_policy_hardly_ever_differs_from_itself() {
    let topology = Topology::flat(4).unwrap();
    let subject = Subject::native("eevdf").unwrap();
    let model = |seed| {
        let effort = Effort { depth: Depth::Quick, seed, jobs: schedlab_runner::pool::cores() };
        Model::of(&Data::collect(&subject, &topology, effort, |_, _| {}).unwrap(), "eevdf", "")
    };
    let mut found = Vec::new();
    for pair in 0..20 {
        let compared = Comparison::of(&model(2 * pair + 1), &model(2 * pair + 2));
        let differ = compared.rows.iter().filter(|row| row.is_found());
        found.extend(differ.map(|row| format!("seeds {} and {}: {}", 2 * pair + 1, 2 * pair + 2, row.id)));
    }
    assert!(found.len() <= 1, "{found:#?}");
}
