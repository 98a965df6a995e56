use crate::testing::{Life::*, schedule};

#[test]
fn the_quantum_rotates_tasks() {
    // ms   0         1         2
    //      012345678901234567890123
    // cpu0 AAAAAAAAAABBBBBBBBBBAAAA      quantum 10 ms; B is done after 10 ms exactly
    let log = schedule("rr", 1, 30, &[&[Run(14)], &[Run(10)]]);
    assert_eq!(log, ["AAAAAAAAAABBBBBBBBBBAAAA"]);
}

#[test]
fn a_block_gives_a_new_quantum() {
    // ms   0         1         2
    //      0123456789012345678901234567
    // cpu0 AAAAAAAABBBBBBBBBBAAAAAAAAAABBAA   A blocks at 8 for 1 ms, then has 10 ms before B's rest
    let log = schedule("rr", 1, 40, &[&[Run(8), Sleep(1), Run(12)], &[Run(12)]]);
    assert_eq!(log, ["AAAAAAAABBBBBBBBBBAAAAAAAAAABBAA"]);
}
