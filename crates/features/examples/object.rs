//! Run scenarios on a kernel object by hand: `cargo run --release -p schedlab-features --example object --
//! linux.so 6.12 [NAME...]`.

use schedlab_features::{FeatureCell, ScenarioBench, all};
use schedlab_runner::LinuxObject;

fn main() {
    let arg: Vec<String> = std::env::args().skip(1).collect();
    let [object, version, names @ ..] = &arg[..] else {
        eprintln!("usage: object LINUX.SO VERSION [NAME...]");
        std::process::exit(2);
    };
    let (major, minor) = version.split_once('.').expect("a version such as 6.12");
    let kernel = LinuxObject {
        name: format!("linux-{version}"),
        version: version.clone(),
        hz: 250,
        nr_cpus: std::env::var("NR_CPUS").ok().and_then(|n| n.parse().ok()).unwrap_or(64),
        object: object.into(),
        scx: None,
    };
    let bench =
        ScenarioBench { kernel: kernel.clone(), version: (major.parse().unwrap(), minor.parse().unwrap()) };
    for feature in all().iter().filter(|f| names.is_empty() || names.iter().any(|n| n == f.name)) {
        if feature.nr_cpus > kernel.nr_cpus {
            continue;
        }
        let start = std::time::Instant::now();
        let cell = bench.run(feature);
        let text = match &cell {
            FeatureCell::Ran(f) => {
                format!(
                    "{:<8} {}   expected {}",
                    if f.as_expected { "ok" } else { "DIFFERS" },
                    f.found,
                    f.expected
                )
            }
            FeatureCell::Absent { why } => format!("absent   {why}"),
            FeatureCell::Failed { why } => format!("FAILED   {why}"),
            FeatureCell::NotBuilt { how } => format!("not built {how}"),
        };
        println!("{:<16} {:>5.2} s  {text}", feature.name, start.elapsed().as_secs_f64());
    }
}
