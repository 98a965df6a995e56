//! docs/write-a-scheduler.md: its code is the example's, and does what the page says.

#[path = "../examples/my_scheduler.rs"]
#[allow(dead_code)] // its main draws the same picture
mod my_scheduler;

use my_scheduler::LeastServiceFirst;
use schedlab_machine::contract;
use schedlab_machine::drawn::{Life::*, schedule};

const GUIDE: &str = include_str!("../../../docs/write-a-scheduler.md");
const EXAMPLE: &str = include_str!("../examples/my_scheduler.rs");

#[test]
fn the_page_shows_the_example() {
    let code = EXAMPLE.split_once("// begin\n").unwrap().1.split_once("// end\n").unwrap().0;
    assert!(
        GUIDE.contains(&format!("```rust\n{code}```\n")),
        "docs/write-a-scheduler.md differs from examples/my_scheduler.rs"
    );
}

#[test]
fn the_drawing_is_right() {
    // A has 4 ms, B is served from 4; at 10 A wakes with 4 of service and B has had 6. A runs 5 (9), B 5
    // (11), A its last 3 (12), B the rest.
    let lives: [&[_]; 2] = [&[Run(4), Sleep(6), Run(8)], &[Run(20)]];
    let drawing = schedule(Box::new(LeastServiceFirst::default()), 1, 60, &lives);
    assert_eq!(drawing, ["AAAABBBBBBAAAAABBBBBAAABBBBBBBBB"]);
    assert!(GUIDE.contains(&format!("assert_eq!(drawing, [\"{}\"]);", drawing[0])));
}

#[test]
fn it_keeps_the_contract() {
    contract::check(&|| Box::new(LeastServiceFirst::default()), 0..100).unwrap();
}
