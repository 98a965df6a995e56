use crate::testing::{Life::*, schedule};

#[test]
fn one_cpu_serves_in_order_of_arrival() {
    // ms   0         1
    //      0123456789012345678
    // cpu0 AAAABBBBCCCCAA        A sleeps 2 ms at 4 and waits for B and C
    let log = schedule("fifo", 1, 20, &[&[Run(4), Sleep(2), Run(2)], &[Run(4)], &[Run(4)]]);
    assert_eq!(log, ["AAAABBBBCCCCAA"]);
}

#[test]
fn a_woken_task_takes_an_idle_cpu() {
    // ms   0         1
    //      012345678901
    // cpu0 AAAACCCC
    // cpu1 BB....BB            B sleeps 4 ms at 2, and cpu1 is idle meanwhile: C came first
    let log = schedule("fifo", 2, 20, &[&[Run(4)], &[Run(2), Sleep(4), Run(2)], &[Run(4)]]);
    assert_eq!(log, ["AAAA..BB", "BBCCCC"]);
}
