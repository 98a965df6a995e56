//! Build a kernel, or find it built: `cargo run --release --example add -- 6.12 [HZ [NR_CPUS]] [check]`.

use schedlab_linux::build::{self, BuildOptions};

fn main() {
    let arg: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default| arg.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let options = BuildOptions { hz: number(1, 250), nr_cpus: number(2, 64), flavours: Vec::new() };
    let mut last = "";
    let mut show = |p: build::Progress| {
        if p.step != last || p.done.is_multiple_of(50) {
            last = p.step;
            eprintln!("{} {}/{}", p.step, p.done, p.total);
        }
    };
    let start = std::time::Instant::now();
    let kernel = match build::add(&arg[0], &options, &mut show) {
        Ok(kernel) => kernel,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    println!("{} {} in {:.2} s", kernel.name(), kernel.object().display(), start.elapsed().as_secs_f64());
    if arg.iter().any(|a| a == "check") {
        let report = build::check(&kernel, &mut show).unwrap();
        println!(
            "{} identical, {} differ, {} generated, {} of the port, {} of the compiler; kernel/sched {:?}, left out: {:?}",
            report.identical,
            report.differ.len(),
            report.generated,
            report.port.len(),
            report.compiler.len(),
            report.sched_pin,
            report.sched_out
        );
    }
}
