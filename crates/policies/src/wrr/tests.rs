use super::Wrr;
use crate::testing::{Life::*, Worked, assert_worked, schedule_with};

#[test]
fn the_worked_example() {
    // specs/vtrr.md: -1 .. +1.5 quanta, and -100 .. +150
    let worked = Worked { order: "AAABBC", sixths: (-6, 9), hundreds: (-60_000, 90_000) };
    assert_worked("wrr", &|| Box::new(Wrr::new(1, 1)), worked);
}

#[test]
fn a_block_gives_the_rest_of_the_turn_up() {
    // A blocks at 2 for 1 ms: its third quantum is lost, and it stands behind B and C. C blocks at once when first
    // served, at 4, and is back in line at 10.
    // ms   0         1
    //      0123456789012
    // cpu0 AABBAAABBAACC
    let params = [("quantum", "1ms"), ("shares", "3,2,1")];
    let lives: [&[_]; 3] = [&[Run(2), Sleep(1), Run(5)], &[Run(4)], &[Sleep(6), Run(2)]];
    assert_eq!(schedule_with("wrr", &params, 1, 20, &lives), ["AABBAAABBAACC"]);
}

#[test]
fn nice_weights_give_turns_in_proportion() {
    // nice 0 has weight 1024 = one quantum of 10 ms; all are nice 0 here: round robin
    let lives: [&[_]; 2] = [&[Run(20)], &[Run(10)]];
    assert_eq!(schedule_with("wrr", &[], 1, 40, &lives), ["AAAAAAAAAABBBBBBBBBBAAAAAAAAAA"]);
}
