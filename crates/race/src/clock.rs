//! Does the kernel trust this machine's TSC? What it says of its clocks.
//!
//! ```text
//! available_clocksource    tsc hpet acpi_pm      a kernel that finds the TSC unstable takes it out
//! current_clocksource      tsc                   what bpf_ktime_get_ns() reads
//! ```
//!
//! The processor's own word (invariant or not) and two readings of the rate come beside it: [`crate::cost`].

use std::path::{Path, PathBuf};

use crate::RaceError;

/// Where the kernel names its clocks.
const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
/// Names another folder, so that a test can have a machine with another clock.
const FOLDER_VARIABLE: &str = "SCHEDLAB_CLOCKSOURCE";
/// Clocks that read the TSC and scale it: the TSC itself, and those of hypervisors.
const OF_TSC: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];

/// The folder that is asked.
pub fn folder() -> PathBuf {
    std::env::var_os(FOLDER_VARIABLE).map_or_else(|| PathBuf::from(FOLDER), PathBuf::from)
}

/// Whether cycles mean a time: the kernel has the TSC among its clocks, or says nothing of clocks.
///
/// # Errors
/// [`RaceError::Clock`]: it has taken the TSC out.
pub fn is_trusted(folder: &Path) -> Result<(), RaceError> {
    known(folder, "available_clocksource", &["tsc"])
}

/// Whether the kernel's own time is the TSC's.
///
/// # Errors
/// [`RaceError::Clock`]: it is another one, which is slower to read and steps further.
pub fn is_kernels(folder: &Path) -> Result<(), RaceError> {
    known(folder, "current_clocksource", &OF_TSC)
}

fn known(folder: &Path, file: &str, expected: &'static [&'static str]) -> Result<(), RaceError> {
    let place = folder.join(file);
    let Ok(value) = std::fs::read_to_string(&place) else { return Ok(()) };
    match value.split_whitespace().any(|name| expected.contains(&name)) {
        true => Ok(()),
        false => {
            Err(RaceError::Clock { place, value: value.trim().to_owned(), expected: expected.join(" or ") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_has_taken_the_tsc_out_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert!(is_trusted(folder.path()).is_ok(), "nothing is said");
        write("available_clocksource", "tsc hpet acpi_pm \n");
        write("current_clocksource", "tsc\n");
        assert!(is_trusted(folder.path()).is_ok() && is_kernels(folder.path()).is_ok());
        write("current_clocksource", "kvm-clock\n");
        assert!(is_kernels(folder.path()).is_ok());
        write("available_clocksource", "hpet acpi_pm \n");
        write("current_clocksource", "hpet\n");
        for (found, value) in
            [(is_trusted(folder.path()), "hpet acpi_pm"), (is_kernels(folder.path()), "hpet")]
        {
            let Err(RaceError::Clock { place, value: found, .. }) = found else { panic!("{found:?}") };
            assert!(place.starts_with(folder.path()) && found == value);
        }
    }
}
