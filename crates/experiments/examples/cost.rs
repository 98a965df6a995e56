//! The cost of scheduling from the command line: `cost SUBJECTS CLIENTS FOLDER`, where SUBJECTS is `all` or names such as
//! `vtrr,wfq,vtrr:insert=list`; and, started by itself under valgrind, `cost probe SUBJECT N`.

use schedlab_experiments::cost::{Config, Subject, all_subjects, instructions, measure, probe};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[1] == "probe" {
        return probe(&args[2], args[3].parse().unwrap()).unwrap();
    }
    let subjects = match args[1].as_str() {
        "all" => all_subjects(),
        names => names.split(',').map(|name| Subject::parse(name).unwrap()).collect(),
    };
    let clients = args[2].split(',').map(|n| n.parse().unwrap()).collect();
    let config = Config { subjects, clients, repetitions: 3 };
    let mut cost = measure(&config).unwrap();
    if let Err(error) = instructions(&config, &std::env::current_exe().unwrap(), &["probe".into()], &mut cost)
    {
        cost.remarks.push(error.to_string());
    }
    print!("{}", cost.table().to_text());
    println!("{}", cost.write(std::path::Path::new(&args[3])).unwrap()[0].display());
}
