//! The command line itself, with the schedulers of this repository.

use std::process::ExitCode;

fn main() -> ExitCode {
    schedlab::main_with(&[])
}
