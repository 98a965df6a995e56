use super::{Stride, scaled};
use crate::Wfq;
use crate::proportional::Discipline;
use crate::testing::{Life::*, Worked, assert_worked, cycle, random_shares, schedule_with};
use schedlab_stdx::Random;
use schedlab_units::TaskId;

#[test]
fn the_worked_example() {
    let worked = Worked { order: "ABAABC", sixths: (-5, 6), hundreds: (-500, 600) };
    assert_worked("stride", &|| Box::new(Stride::new(1)), worked);
}

#[test]
fn without_sleep_it_is_wfq() {
    let mut random = Random::new(13);
    for _ in 0..100 {
        let shares = random_shares(&mut random, 1..=40, 200);
        assert_eq!(cycle(&mut Stride::new(1), &shares), cycle(&mut Wfq::new(1), &shares));
    }
}

/// Equal tickets, quantum 10. After A, B, A the global pass is 15 and B's own start 10. B leaves and comes
/// back at once: it is where it was. WFQ forgives and forgets: there it starts at the queue's time.
#[test]
fn what_remains_is_restored() {
    let (a, b) = (TaskId(0), TaskId(1));
    let (mut stride, mut wfq) = (Stride::new(10), Wfq::new(10));
    for queue in [&mut stride as &mut dyn Discipline, &mut wfq] {
        queue.join(a, 1);
        queue.join(b, 1);
        for client in [a, b, a] {
            assert_eq!(queue.select(&|_| true), Some(client));
            queue.charge(client, 10);
            queue.put(client);
        }
        queue.leave(b);
        queue.join(b, 1);
    }
    let one = 1i128 << 64;
    assert_eq!(stride.clients[1].start.time(), 10 * one);
    assert_eq!(wfq.start(b), 15 * one);
    assert_eq!(scaled(12, 3, 4), 9, "a distance is service/tickets: 12 at 3 tickets is 9 at 4");
}

#[test]
fn a_sleeper_comes_back_where_it_was() {
    // as in wfq/tests.rs; B is half a ms behind the global pass when it leaves, and when it comes back
    // ms   0         1         2
    //      012345678901234567890123456789
    // cpu0 AABAAAAAAAABBBBAABBAABBAABAAAA
    let params = [("quantum", "2ms"), ("shares", "1")];
    let lives: [&[_]; 2] = [&[Run(20)], &[Run(1), Sleep(6), Run(9)]];
    assert_eq!(schedule_with("stride", &params, 1, 40, &lives), ["AABAAAAAAAABBBBAABBAABBAABAAAA"]);
}
