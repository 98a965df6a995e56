//! Which real Linux is there, and how does one come by another? Packaged releases, trees and tarballs that have a name,
//! trees by path.

use crate::progress::Progress;
use crate::subject::Setting;
use schedlab_linux::build::{self, Origin};
use schedlab_linux::{BuildError, BuildOptions, BuiltKernel};
use std::path::Path;

/// CPUs up to which the small, faster build serves.
const SMALL_BUILD_CPUS: u32 = 64;
const LARGE_BUILD_CPUS: u32 = 1024;

/// A version that `--sched` can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `linux-6.12`
    pub name: String,
    /// One line.
    pub summary: String,
    /// Whether its first run has no build to wait for.
    pub built: bool,
}

/// The versions that there is a port for, and the user's own kernels. Built: by the present port, as it is without
/// further options (an object of an older port would be built again before its first run).
pub fn versions() -> Vec<Version> {
    let installed = build::installed().unwrap_or_default();
    let packaged = packaged_series().into_iter().map(|series| {
        let summary = format!("Linux {series}, unmodified, from Debian's package linux-source-{series}");
        (series, summary)
    });
    let own = build::named().unwrap_or_default().into_iter().map(|named| {
        let summary = match named.origin {
            Origin::Tree => format!("your tree {}, as it is when the run starts", named.path.display()),
            _ => format!("your tarball {}", named.path.display()),
        };
        (named.name, summary)
    });
    packaged
        .chain(own)
        .map(|(series, summary)| Version {
            name: format!("linux-{series}"),
            summary,
            built: match build::find(&series, &BuildOptions::default()) {
                Ok(found) => found.is_some() || is_own_and_built(&installed, &series),
                Err(_) => false,
            },
        })
        .collect()
}

/// The series that there is a port for: `6.1`, `6.12`.
pub fn packaged_series() -> Vec<String> {
    build::known_series().unwrap_or_default()
}

/// The port that replays a recording of this release (`6.18.44-fc`): the newest that is not newer, which has nothing
/// that the recorded kernel had not; the oldest if all are newer, `linux-6.12` if the release is not known. What is
/// built already does not matter, so that a command says the same on every machine.
pub fn port_for(release: &str) -> String {
    let series = packaged_series();
    let chosen = newest_not_newer(release, series.iter().map(String::as_str)).unwrap_or("6.12");
    format!("linux-{chosen}")
}

fn newest_not_newer<'a>(release: &str, series: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = place(release)?;
    let mut known: Vec<(u32, &str)> = series.filter_map(|name| Some((place(name)?, name))).collect();
    known.sort_unstable();
    let older = known.partition_point(|(place, _)| *place <= wanted);
    known.get(older.saturating_sub(1)).map(|(_, name)| *name)
}

/// The release's place in the row of all: 5.19 is followed by 6.0, 6.19 by 7.0.
fn place(release: &str) -> Option<u32> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(major * 20 + minor)
}

/// A tree of the user's is built again before each run, what has changed of it.
fn is_own_and_built(installed: &[BuiltKernel], name: &str) -> bool {
    installed.iter().any(|kernel| kernel.series == name && kernel.origin == Origin::Tree)
}

/// What `linux-V` says behind the hyphen.
pub(crate) fn series_of(name: &str) -> Option<&str> {
    name.strip_prefix("linux-")
}

/// Whether there is a kernel of this name (`linux-6.12`), or could be: else the name may be a native scheduler's
/// (`linux-2.4`).
pub(crate) fn is_known(name: &str) -> bool {
    series_of(name).is_some_and(is_known_series)
}

/// The same of what stands behind `linux-`.
pub(crate) fn is_known_series(series: &str) -> bool {
    packaged_series().iter().any(|known| known == series)
        || build::named().unwrap_or_default().iter().any(|named| named.name == series)
}

fn options(flavours: &[String], setting: Setting<'_>) -> BuildOptions {
    let nr_cpus = if setting.nr_cpus <= SMALL_BUILD_CPUS { SMALL_BUILD_CPUS } else { LARGE_BUILD_CPUS };
    BuildOptions { hz: setting.hz, nr_cpus, flavours: flavours.to_vec() }
}

/// A packaged release, or a tree or tarball with a name; built if it is not there yet.
pub(crate) fn packaged(
    series: &str,
    flavours: &[String],
    setting: Setting<'_>,
) -> Result<BuiltKernel, BuildError> {
    let options = options(flavours, setting);
    match build::find(series, &options)? {
        Some(kernel) => Ok(kernel),
        None => {
            announce(series, &options, setting.progress);
            obtain(series, &options, setting.progress)
        }
    }
}

/// Whether [`packaged`] finds it built.
pub(crate) fn is_built(series: &str, flavours: &[String], setting: Setting<'_>) -> Result<bool, BuildError> {
    Ok(build::find(series, &options(flavours, setting))?.is_some())
}

/// A build takes minutes, and nobody asked for it: what is built, why another one does not serve, and how long it
/// took before.
fn announce(series: &str, options: &BuildOptions, progress: &dyn Progress) {
    let built: Vec<BuiltKernel> = build::installed().unwrap_or_default();
    let mut of_series: Vec<&BuiltKernel> = built.iter().filter(|kernel| kernel.series == series).collect();
    of_series.sort_by_key(|kernel| (kernel.options() != *options, std::cmp::Reverse(kernel.build_s)));
    let time = match of_series.first() {
        Some(kernel) => format!("as one for up to {} CPUs took {} s here", kernel.nr_cpus, kernel.build_s),
        None => "some minutes".to_string(),
    };
    let why = if options.nr_cpus > SMALL_BUILD_CPUS {
        format!(" (machines of more than {SMALL_BUILD_CPUS} CPUs have a build of their own)")
    } else {
        String::new()
    };
    progress.say(&format!("note: {} is built first, once: {time}{why}", what(series, options)));
}

/// A tree by its path, brought up to date. A folder's name can have a plus.
pub(crate) fn tree(path: &str, flavours: &[String], setting: Setting<'_>) -> Result<BuiltKernel, BuildError> {
    let whole = format!("{path}{}", build::plus(flavours));
    let (path, flavours) = if Path::new(&whole).is_dir() { (&*whole, &[][..]) } else { (path, flavours) };
    let options = options(flavours, setting);
    let kernel = with_progress(&what(path, &options), setting.progress, |heard| {
        build::add_tree(Path::new(path), &options, heard)
    })?;
    remark(&kernel, setting.progress);
    Ok(kernel)
}

/// Builds a version, or finds it built.
///
/// # Errors
/// It cannot be fetched or built.
pub fn obtain(
    version: &str,
    options: &BuildOptions,
    progress: &dyn Progress,
) -> Result<BuiltKernel, BuildError> {
    let kernel =
        with_progress(&what(version, options), progress, |heard| build::add(version, options, heard))?;
    remark(&kernel, progress);
    Ok(kernel)
}

fn what(name: &str, options: &BuildOptions) -> String {
    let flavours = build::plus(&options.flavours);
    format!("Linux {name}{flavours} (HZ={}, up to {} CPUs)", options.hz, options.nr_cpus)
}

fn remark(kernel: &BuiltKernel, progress: &dyn Progress) {
    for remark in &kernel.remarks {
        progress.say(&format!("note: {remark}"));
    }
}

/// Does some work of a build and shows how far it is.
///
/// # Errors
/// The work's.
pub fn with_progress<T>(
    what: &str,
    progress: &dyn Progress,
    work: impl FnOnce(&mut dyn FnMut(build::BuildProgress)) -> Result<T, BuildError>,
) -> Result<T, BuildError> {
    let step = progress.step(format!("{what}: looking for it"));
    let mut last = "";
    work(&mut |progress| {
        let text = match (progress.done, progress.total) {
            (0, 0) => format!("{what}: {}", progress.step),
            (done, 0) => format!("{what}: {}, {done} files", progress.step),
            (done, total) => format!("{what}: {}, {done} of {total}", progress.step),
        };
        if progress.step == last {
            step.progress(text);
        } else {
            last = progress.step;
            step.now(text);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_replayed_by_the_newest_port_that_is_not_newer() {
        let series = ["7.2", "5.10", "6.12", "6.1"];
        let port = |release| newest_not_newer(release, series.into_iter());
        assert_eq!(port("6.18.44-fc-v669"), Some("6.12"));
        assert_eq!(port("6.12.3"), Some("6.12"));
        assert_eq!(port("6.6.1"), Some("6.1"));
        assert_eq!(port("7.4-rc1"), Some("7.2"));
        assert_eq!(port("5.4.0"), Some("5.10"));
        assert_eq!(port("unknown"), None);
    }
}
