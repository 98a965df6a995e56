use super::decay::decay;
use super::domains::{Domains, Level};
use super::lists::Lists;
use super::prio::PrioArrays;
use schedlab_units::{CpuId, Span, TaskId};

#[test]
fn lists_keep_order_under_every_operation() {
    let mut lists = Lists::new(2);
    let order = |lists: &Lists, l| lists.iter(l).map(|t| t.0).collect::<Vec<_>>();
    for task in [3, 1, 4] {
        lists.push_back(1, TaskId(task));
    }
    lists.push_front(1, TaskId(9));
    lists.insert_before(1, TaskId(7), TaskId(4));
    assert_eq!(order(&lists, 1), [9, 3, 1, 7, 4]);
    lists.remove(1, TaskId(9));
    lists.remove(1, TaskId(4));
    lists.remove(1, TaskId(1));
    assert_eq!(order(&lists, 1), [3, 7]);
    assert_eq!(lists.iter_back(1).map(|t| t.0).collect::<Vec<_>>(), [7, 3]);
    assert!(lists.is_empty(0) && lists.first(1) == Some(TaskId(3)));
}

#[test]
fn priority_arrays_find_the_best_level() {
    let mut arrays = PrioArrays::new(2, 140);
    for (task, level) in [(0, 139), (1, 64), (2, 63), (3, 63)] {
        arrays.push_back(1, level, TaskId(task));
    }
    assert_eq!(arrays.first(1), Some((63, TaskId(2))));
    assert_eq!(arrays.first(0), None);
    assert_eq!(arrays.iter(1).map(|(_, t)| t.0).collect::<Vec<_>>(), [2, 3, 1, 0]);
    assert_eq!(arrays.iter_back(1).map(|(_, t)| t.0).collect::<Vec<_>>(), [3, 2, 1, 0]);
    arrays.remove(1, 63, TaskId(2));
    arrays.remove(1, 63, TaskId(3));
    assert_eq!(arrays.first(1), Some((64, TaskId(1))));
    assert_eq!(arrays.level_from(1, 65), Some(139));
    assert_eq!(arrays.nr(1), 2);
}

#[test]
fn decay_agrees_with_the_formula() {
    let half_life = Span::from_s(5);
    for ms in [0, 1, 100, 2_500, 5_000, 7_321, 60_000] {
        let exact = 1e12 * 2f64.powf(-(ms as f64) / 5_000.0);
        let ours = decay(1_000_000_000_000, Span::from_ms(ms), half_life) as f64;
        assert!((ours - exact).abs() <= exact * 2e-6 + 1.0, "{ms} ms: {ours} and {exact}");
    }
}

#[test]
fn domains_follow_the_topology() {
    let domains = Domains::new(&"packages=2,llcs=1,cores=2,smt=2".parse().unwrap());
    let of_cpu5: Vec<_> = domains.of_cpu[5].iter().map(|&d| &domains.domains[d]).collect();
    let spans: Vec<Vec<u32>> = of_cpu5.iter().map(|d| d.span.iter().map(|c| c.0).collect()).collect();
    assert_eq!(spans, [vec![4, 5], vec![4, 5, 6, 7], (0..8).collect()]);
    assert_eq!(of_cpu5.iter().map(|d| d.groups.len()).collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!(of_cpu5[2].level, Level::Machine);
    assert_eq!(of_cpu5[1].groups[0].power, 1178);
    assert_eq!(domains.cache_of(CpuId(5)).len(), 4);
    let flat = Domains::new(&"4".parse().unwrap());
    assert_eq!((flat.domains.len(), flat.domains[0].groups.len()), (1, 4));
    assert!(Domains::new(&"1".parse().unwrap()).domains.is_empty());
}

/// Against a plain list, over ten thousand drawn operations.
#[test]
fn the_deadline_tree_finds_what_a_scan_finds() {
    use super::deadline_tree::DeadlineTrees;
    let mut trees = DeadlineTrees::new(2);
    let mut plain: Vec<(i64, u64, u32, i64)> = Vec::new();
    let mut state = 12345u64;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    for sequence in 0..10_000 {
        let task = draw(50) as u32;
        if let Some(place) = plain.iter().position(|&(_, _, t, _)| t == task) {
            plain.remove(place);
            trees.remove(1, TaskId(task));
        } else {
            let (deadline, vruntime) = (draw(100) as i64 - 50, draw(100) as i64 - 50);
            plain.push((deadline, sequence, task, vruntime));
            trees.insert(1, TaskId(task), deadline, sequence, vruntime);
        }
        plain.sort_unstable();
        let limit = draw(120) as i64 - 60;
        let scanned = plain.iter().find(|&&(_, _, _, v)| v <= limit).map(|&(_, _, t, _)| TaskId(t));
        assert_eq!(trees.first_eligible(1, |v| v <= limit), scanned);
        assert_eq!(trees.tasks(1), plain.iter().map(|&(_, _, t, _)| TaskId(t)).collect::<Vec<_>>());
    }
    assert_eq!(trees.first(0), None);
}
