//! probe
use schedlab_policies::lab::*;
use schedlab_units::Span;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    for sched in args[2].split(',') {
        let mut lab = Lab::new(sched, 1);
        for p in &args[3..] {
            let (k, v) = p.split_once('=').unwrap();
            lab = lab.param(k, v);
        }
        match args[1].as_str() {
            "fair" => {
                let d = Span::from_s(180);
                let m = lab.run(d, &fairbench(d)).unwrap();
                let s = m.group_shares(5);
                print!("{sched:10}");
                for (g, share) in s.iter().enumerate() {
                    let avg: f64 = (0..5).map(|i| m.cpu[g * 5 + i].as_s_f64()).sum::<f64>() / 5.0;
                    print!(" {:.4} ({avg:.2}s)", share);
                }
                println!();
            }
            "fair20" => {
                let d = Span::from_s(20);
                let m = lab.run(d, &fairbench(d)).unwrap();
                println!("{sched:10} {:?}", m.group_shares(5));
            }
            "resp20" | "resp" | "respslack" => {
                let d = Span::from_s(if args[1] == "resp" { 180 } else { 20 });
                let m = lab
                    .run(
                        d,
                        &if args[1] == "resp" {
                            responsebench_usleep(d, 1)
                        } else if args[1] == "respslack" {
                            let mut t = responsebench(d);
                            for t in &mut t {
                                let Step::Sleep(ms) = t.steps[1] else { panic!() };
                                t.steps[0] = Step::RunFor(Span::from_us(
                                    std::env::var("RUN").unwrap().parse().unwrap(),
                                ));
                                t.steps[1] = Step::SleepFor(Span::from_ms(ms) + Span::from_us(60));
                            }
                            t
                        } else {
                            responsebench(d)
                        },
                    )
                    .unwrap();
                print!("{sched:10}");
                for g in 0..5 {
                    let cpu: f64 = (0..5).map(|i| m.cpu[g * 5 + i].as_ms_f64()).sum::<f64>() / 5.0;
                    let worst = (0..5).map(|i| m.worst_wait(g * 5 + i).as_ms_f64()).fold(0.0, f64::max);
                    print!("  {cpu:.0} ms worst {worst:.0}");
                }
                println!();
            }
            _ => {}
        }
    }
}
