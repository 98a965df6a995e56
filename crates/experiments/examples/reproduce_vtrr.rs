//! Every table and figure of the paper on VTRR, without costs: `reproduce_vtrr FOLDER`.

use schedlab_experiments::vtrr::{ReproduceConfig, reproduce};

fn main() {
    let folder = std::env::args().nth(1).expect("a folder to write to");
    let reproduction = reproduce(&ReproduceConfig::default()).unwrap();
    print!("{}", reproduction.summary());
    println!("{}", reproduction.write(std::path::Path::new(&folder)).unwrap()[0].display());
}
