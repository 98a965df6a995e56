//! The study of fairness from the command line: `cargo run --release -p schedlab-experiments --example fairness -- COMBINATIONS
//! SCHEDULERS TOTALS CLIENTS [uniform|exponential [FOLDER]]`, for example `100 wfq,vtrr 1024,2048 4,8,16,32,64,128`.

use schedlab_experiments::fairness::{Config, Point, Spread, study};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let numbers = |text: &str| text.split(',').map(|n| n.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let (totals, clients) = (numbers(&args[3]), numbers(&args[4]));
    let config = Config {
        contenders: Config::contenders(&args[2].split(',').collect::<Vec<_>>()).unwrap(),
        points: totals
            .iter()
            .flat_map(|&total| clients.iter().map(move |&n| Point { nr_clients: n as u32, total }))
            .collect(),
        combinations: args[1].parse().unwrap(),
        spread: if args.get(5).is_some_and(|s| s == "exponential") {
            Spread::Exponential
        } else {
            Spread::Uniform
        },
        seed: 1,
        threads: None,
    };
    let started = std::time::Instant::now();
    let study = study(&config).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    print!("{}", study.summary());
    if let Some(folder) = args.get(6) {
        println!("{}", study.write(std::path::Path::new(folder)).unwrap()[0].display());
    }
    let sets = config.points.len() as f64 * f64::from(config.combinations);
    println!(
        "{sets} sets of shares, {} schedulers, {seconds:.2} s: {:.0} sets/min",
        config.contenders.len(),
        sets / seconds * 60.0
    );
}
