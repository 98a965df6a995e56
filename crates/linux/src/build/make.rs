//! The kernel's own build, for our architecture, and the final link.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cache::files_below;
use super::config::{Pin, Wanted};
use super::{BuildError, BuildProgress, io, profile, tools, tree};
use schedlab_process::contain::Yard;

pub(super) struct Job<'a> {
    pub(super) dir: &'a Path,
    pub(super) source: &'a Path,
    pub(super) port: &'a Path,
    pub(super) wanted: &'a Wanted,
    pub(super) pin: &'a Pin,
    /// The version is one that the port was tried with: then every configuration line must come out as written.
    pub(super) tried: bool,
    /// Objects stay for the next build of the same tree.
    pub(super) incremental: bool,
    /// The distributor's package, whose checksum is known: its scripts are not somebody's.
    pub(super) is_pinned: bool,
}

/// Builds `linux.so` in the job's folder; returns remarks for the user.
pub(super) fn build(
    job: &Job<'_>,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Vec<String>, BuildError> {
    let (tree, objects) = (job.dir.join("src"), job.dir.join("build"));
    fs::create_dir_all(&objects).map_err(io("create", &objects))?;
    tree::lay_beside(job.source, job.port, &job.wanted.headers, &tree)?;
    let mut last = Stage::Plain;
    if let Some(workload) = &job.wanted.profile {
        let (counts, counting) = (job.dir.join("profile"), job.dir.join("counting.so"));
        if !counts.is_dir() {
            stage(job, &tree, &objects, Stage::Counting, &counting, progress)?;
            profile::train(&counting, workload, &objects, &counts, progress)?;
        }
        // what the first kernel leaves, also where its build was interrupted before this line
        let made_from = fs::read_to_string(objects.join("wanted.config")).unwrap_or_default();
        if made_from.ends_with(profile::COUNTING) {
            super::cache::remove_dir(&objects)?;
        }
        match fs::remove_file(&counting) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io("remove", &counting)(e)),
            _ => {}
        }
        profile::lay_beside(&counts, &objects)?;
        last = Stage::Profiled;
    }
    let remarks = stage(job, &tree, &objects, last, &job.dir.join("linux.so"), progress)?;
    if last == Stage::Profiled {
        profile::check_use(&objects)?;
    }
    if !job.incremental {
        tidy(&objects)?;
    }
    Ok(remarks)
}

/// Which of its two builds a profile-guided kernel is in; others have one.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Plain,
    Counting,
    Profiled,
}

/// Configures, compiles and links `object`; returns remarks for the user.
fn stage(
    job: &Job<'_>,
    tree: &Path,
    objects: &Path,
    stage: Stage,
    object: &Path,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Vec<String>, BuildError> {
    progress(BuildProgress { step: "configuring", done: 0, total: 0 });
    let mut remarks = configure(job, tree, objects, stage)?;
    remarks.extend(compile(job, objects, stage, progress)?);
    progress(BuildProgress { step: "linking", done: 0, total: 0 });
    link(job, tree, objects, object)?;
    Ok(remarks)
}

fn make(directory: &Path) -> Command {
    let mut make = Command::new("make");
    // whoever builds it, wherever and whenever: the same kernel, with the same banner
    make.arg("-C").arg(directory).args([
        "ARCH=warp",
        "LC_ALL=C",
        "KBUILD_BUILD_TIMESTAMP=1970-01-01",
        "KBUILD_BUILD_USER=schedlab",
        "KBUILD_BUILD_HOST=schedlab",
    ]);
    // a make that runs us, and its settings, are none of the kernel's business
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "CROSS_COMPILE", "KBUILD_OUTPUT"] {
        make.env_remove(name);
    }
    make.env("LC_ALL", "C");
    make
}

/// A tree's Makefiles and scripts are programs of whoever made it: they write into the folder of this build,
/// and have no network. Returns what this host could not do of that, for the tree of somebody.
fn contain(command: &mut Command, job: &Job<'_>) -> Result<Option<String>, BuildError> {
    let (yard, missing) = Yard::around(job.dir).map_err(io("open", job.dir))?;
    // of compilers and scripts
    let temporary = job.dir.join("tmp");
    fs::create_dir_all(&temporary).map_err(io("create", &temporary))?;
    command.env("TMPDIR", temporary);
    yard.hold(command);
    let all: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let is_said = !job.is_pinned && !all.is_empty();
    Ok(is_said.then(|| format!("its build was contained in part only: {}", all.join("; "))))
}

fn configure(job: &Job<'_>, tree: &Path, objects: &Path, stage: Stage) -> Result<Vec<String>, BuildError> {
    fs::create_dir_all(objects).map_err(io("create", objects))?;
    let (wanted, config) = (objects.join("wanted.config"), objects.join(".config"));
    let mut text = job.wanted.text().to_owned();
    if stage == Stage::Counting {
        text.push_str(profile::COUNTING);
    }
    let same = fs::read_to_string(&wanted).is_ok_and(|old| old == text);
    if !same || !config.is_file() || kconfig_changed(objects, &config)? {
        let mut command = make(tree);
        contain(&mut command, job)?;
        command.arg(format!("O={}", objects.display()));
        let aside = objects.join("asked.config");
        fs::write(&aside, text).map_err(io("write", &aside))?;
        command.arg(format!("KCONFIG_ALLCONFIG={}", aside.display())).arg("allnoconfig");
        run_logged(&mut command, "configuring the kernel", &job.dir.join("configure.log"), &mut |_| {})?;
        fs::rename(&aside, &wanted).map_err(io("write", &wanted))?;
    }
    let text = fs::read_to_string(&config).map_err(io("read", &config))?;
    let missing = job.wanted.missing_in(&text);
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let lines = missing.join(", ");
    if !job.tried {
        return Ok(vec![format!("its configuration has not: {lines}")]);
    }
    Err(BuildError::Config { series: job.pin.series.clone(), lines, config })
}

/// Whether one of the Kconfig files that the configuration was made from has changed since.
fn kconfig_changed(objects: &Path, config: &Path) -> Result<bool, BuildError> {
    let list = objects.join("include/config/auto.conf.cmd");
    let Ok(text) = fs::read_to_string(&list) else { return Ok(true) };
    let made = fs::metadata(config).and_then(|m| m.modified()).map_err(io("read", config))?;
    let mut files =
        text.lines().map(|l| l.trim().trim_end_matches('\\').trim()).filter(|l| l.contains("Kconfig"));
    Ok(files.any(|file| {
        let file = file.replace("$(srctree)", "../src");
        let changed = fs::metadata(objects.join(file)).and_then(|m| m.modified());
        changed.is_ok_and(|time| time > made)
    }))
}

/// The flavours' `VAR=VALUE`s. Of several values of KCFLAGS on a command line make takes the last: here they
/// are one, with what this stage needs.
fn make_args(wanted: &[String], stage: Stage) -> Vec<String> {
    let (mut flags, mut args): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    for arg in wanted {
        match arg.strip_prefix("KCFLAGS=") {
            Some(value) => flags.push(value),
            None => args.push(arg.clone()),
        }
    }
    if stage == Stage::Profiled {
        flags.push(profile::USING);
    }
    if !flags.is_empty() {
        args.push(format!("KCFLAGS={}", flags.join(" ")));
    }
    args
}

fn compile(
    job: &Job<'_>,
    objects: &Path,
    stage: Stage,
    progress: &mut dyn FnMut(BuildProgress),
) -> Result<Option<String>, BuildError> {
    let mut done = 0;
    let mut command = make(objects);
    let uncontained = contain(&mut command, job)?;
    command.arg(format!("-j{}", tools::jobs())).arg("KCONFIG_NOSILENTUPDATE=");
    command.args(make_args(&job.wanted.make_args, stage));
    command.args(job.pin.target.split(' '));
    let log = job.dir.join("build.log");
    run_logged(&mut command, "compiling the kernel", &log, &mut |line| {
        // "  CC      kernel/fork.o"
        if line.trim_start().starts_with("CC ") {
            done += 1;
            let total = if job.incremental { 0 } else { job.pin.files.max(done) };
            progress(BuildProgress { step: "compiling", done, total });
        }
    })?;
    Ok(uncontained)
}

fn link(job: &Job<'_>, tree: &Path, objects: &Path, object: &Path) -> Result<(), BuildError> {
    let port = tree.join("arch/warp");
    let log = job.dir.join("link.log");
    let mut preprocess = Command::new("gcc");
    preprocess.current_dir(objects).args(["-E", "-P", "-x", "assembler-with-cpp", "-nostdinc"]).args([
        "-D__ASSEMBLY__",
        "-D__ASSEMBLER__",
        "-DLINKER_SCRIPT",
        "-D__KERNEL__",
    ]);
    for include in [
        port.join("include"),
        PathBuf::from("arch/warp/include/generated"),
        tree.join("include"),
        PathBuf::from("include"),
        port.join("include/uapi"),
        PathBuf::from("arch/warp/include/generated/uapi"),
        tree.join("include/uapi"),
        PathBuf::from("include/generated/uapi"),
    ] {
        preprocess.arg("-I").arg(include);
    }
    for forced in ["include/linux/compiler-version.h", "include/linux/kconfig.h"] {
        if tree.join(forced).is_file() {
            preprocess.arg("-include").arg(tree.join(forced));
        }
    }
    preprocess.arg(port.join("kernel/warp.lds.S")).args(["-o", "warp.lds"]);
    run_logged(&mut preprocess, "preparing the link", &log, &mut |_| {})?;
    let mut ld = Command::new("gcc");
    // aside first: a run may have the last one loaded
    let aside = object.with_extension("so.new");
    ld.current_dir(objects).args(["-shared", "-fPIC", "-o"]).arg(&aside).args(&job.wanted.link_args).args([
        "-Wl,-Bsymbolic,-z,notext,--no-undefined,--build-id=sha1,-T,warp.lds",
        &format!("-Wl,--version-script={}", port.join("kernel/exports.map").display()),
        "-Wl,--whole-archive",
    ]);
    // before 6.1 there is one archive per top-level folder, and which of them exist depends on the configuration
    let archives =
        job.pin.archives.iter().filter(|a| job.pin.archives.len() == 1 || objects.join(a).is_file());
    ld.args(archives).args(["-Wl,--no-whole-archive", "lib/lib.a"]);
    run_logged(&mut ld, "linking the kernel", &log, &mut |_| {})?;
    fs::rename(&aside, object).map_err(io("write", object))
}

/// Objects are in the library now; what `check` and debuggers need (dependency files, generated headers) stays.
fn tidy(objects: &Path) -> Result<(), BuildError> {
    for file in files_below(objects)? {
        if file.extension().is_some_and(|e| e == "o" || e == "a") {
            fs::remove_file(&file).map_err(io("remove", &file))?;
        }
    }
    Ok(())
}

/// Run a command with its output in a log file; each line is shown to `line`, too.
pub(super) fn run_logged(
    command: &mut Command,
    step: &'static str,
    log: &Path,
    line: &mut dyn FnMut(&str),
) -> Result<(), BuildError> {
    let mut file = fs::File::create(log).map_err(io("create", log))?;
    let program = PathBuf::from(command.get_program());
    let (reader, writer) = std::io::pipe().map_err(io("run", &program))?;
    let errors = writer.try_clone().map_err(io("run", &program))?;
    command.stdin(Stdio::null()).stdout(writer).stderr(errors);
    // make passes SIGTERM on to its compilers and removes the file that it was making
    schedlab_process::ends_with_us(command, libc::SIGTERM);
    let mut child = command.spawn().map_err(io("run", &program))?;
    // the command holds the pipe's other ends: let go of ours, so that the end is seen
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).map_err(io("read from", &program))? > 0 {
        file.write_all(&bytes).map_err(io("write", log))?;
        line(&String::from_utf8_lossy(&bytes));
        bytes.clear();
    }
    let status = child.wait().map_err(io("run", &program))?;
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&fs::read(log).map_err(io("read", log))?).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    // the first errors say more than make's farewell
    let mut shown: Vec<&str> = lines
        .iter()
        .filter(|l| l.contains("error:") || l.contains("undefined ref"))
        .copied()
        .take(10)
        .collect();
    shown.extend(&lines[lines.len().saturating_sub(20)..]);
    Err(BuildError::Step { step, log: log.to_owned(), tail: shown.join("\n") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_several_flavours_are_all_passed() {
        let wanted = ["KCFLAGS=-g1", "GCOV_PROFILE_fair.o=y", "KCFLAGS=-DX"].map(str::to_owned);
        assert_eq!(make_args(&wanted, Stage::Plain), ["GCOV_PROFILE_fair.o=y", "KCFLAGS=-g1 -DX"]);
        let profiled = make_args(&wanted[1..2], Stage::Profiled);
        assert_eq!(profiled, ["GCOV_PROFILE_fair.o=y".to_owned(), format!("KCFLAGS={}", profile::USING)]);
        assert_eq!(make_args(&[], Stage::Counting), Vec::<String>::new());
    }

    #[test]
    fn a_failing_step_shows_its_errors_and_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut lines = 0;
        let script = "echo fine; echo 'a.c:1: error: no' >&2; seq 30; exit 3";
        let result = run_logged(Command::new("sh").args(["-c", script]), "trying", &log, &mut |_| lines += 1);
        let message = result.unwrap_err().to_string();
        assert!(message.starts_with(&format!(
            "trying failed; last lines of {}:\na.c:1: error: no\n11\n",
            log.display()
        )));
        assert_eq!(lines, 32);
    }
}
