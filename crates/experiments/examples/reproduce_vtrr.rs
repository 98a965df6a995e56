//! Every table and figure of the paper on VTRR: `reproduce_vtrr FOLDER [cost]`; with `cost`, costs are measured too (in host time;
//! the example `cost` counts instructions).

use schedlab_experiments::cost::{Config, Subject, measure};
use schedlab_experiments::vtrr::{ReproduceConfig, reproduce};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut config = ReproduceConfig::default();
    if args.get(2).is_some_and(|arg| arg == "cost") {
        let names = ["vtrr", "wfq", "wfq-list", "linux-2.2", "linux-2.4"];
        let subjects = names.iter().filter_map(|name| Subject::parse(name).ok()).collect();
        config.cost = measure(&Config { subjects, clients: vec![1, 50, 100, 200], repetitions: 3 }).ok();
    }
    let reproduction = reproduce(&config).unwrap();
    print!("{}", reproduction.summary());
    println!("{}", reproduction.write(std::path::Path::new(&args[1])).unwrap()[0].display());
}
