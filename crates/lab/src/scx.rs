//! How does a sched_ext scheduler in BPF C come onto a kernel? Found, compiled for the kernel that has the class, with
//! its sub-schedulers.
//!
//! ```text
//! scx:PATH.bpf.c          the file, on Linux 6.12
//! scx:simple              scx_simple.bpf.c of the kernel's own tools/sched_ext
//! scx:lavd                scx_lavd of its published crate, in the version that this kernel was tried with
//! scx:lavd-1.0.6          the same, in this version
//! scx:simple@7.2          the same of 7.2, on 7.2; also the name of a tree of yours
//! ```
//!
//! The parameter `sub@/GROUP=WHAT` attaches a sub-scheduler to a control group: WHAT as behind `scx:`, on the same
//! kernel.

use crate::kernels;
use crate::spec::ScxSpec;
use crate::subject::{Setting, SubjectError};
use schedlab_linux::BuiltKernel;
use schedlab_runner::LinuxObject;
use schedlab_scx::{self as scx, CompiledScx, Published};
use std::path::{Path, PathBuf};

/// The flavour of kernel that has the class ext.
const FLAVOUR: &str = "scx";

/// The kernel with the class, and the scheduler compiled for it.
pub(crate) fn object(
    asked: &ScxSpec,
    name: &str,
    params: &[(String, String)],
    setting: Setting<'_>,
) -> Result<LinuxObject, SubjectError> {
    let subs = params.iter().filter_map(|(param, what)| match scx::sub_of(param) {
        Some((scx::ATTACHED, group)) => {
            let sub = ScxSpec { what: what.clone(), kernel: asked.kernel.clone() };
            Some((group.to_owned(), sub, format!("--param {param}={what}")))
        }
        _ => None,
    });
    let subs: Vec<(String, ScxSpec, String)> = subs.collect();
    // a misspelt path should not cost a kernel build
    check(asked, format!("--sched {name}"))?;
    subs.iter().try_for_each(|(_, sub, option)| check(sub, option.clone()))?;
    scx::check_tools()?;
    let kernel = kernels::packaged(&asked.kernel, &[FLAVOUR.to_owned()], setting)?;
    let mut compiled = compiled(asked, &kernel, setting)?;
    let mut programs = compiled.source_sha256[..12].to_owned();
    for (group, sub, _) in subs {
        let sub = self::compiled(&sub, &kernel, setting)?;
        programs.push_str(&format!("+{}@{group}", &sub.source_sha256[..12]));
        compiled.subs.insert(group, sub);
    }
    Ok(LinuxObject {
        name: name.to_owned(),
        version: format!("{programs} on {}", kernel.version),
        scx: Some(compiled),
        ..LinuxObject::of(&kernel)
    })
}

/// A scheduler by itself, compiled for that kernel in these flavours: for one who runs it on a relative of that kernel,
/// in which the types lie as in it. A flavour moves a task's fields: `uclamp` puts its clamps before the CPUs that it
/// may use. `option` names what asked for it, for messages.
///
/// # Errors
/// There is no such scheduler, or it or its kernel cannot be built.
pub fn extension(
    asked: &ScxSpec,
    flavours: &[String],
    option: String,
    setting: Setting<'_>,
) -> Result<CompiledScx, SubjectError> {
    check(asked, option)?;
    scx::check_tools()?;
    let kernel = kernels::packaged(&asked.kernel, flavours, setting)?;
    compiled(asked, &kernel, setting)
}

fn check(asked: &ScxSpec, option: String) -> Result<(), SubjectError> {
    if asked.is_path() && !Path::new(&asked.what).is_file() {
        return Err(SubjectError::NoFile { path: asked.what.clone(), option });
    }
    Ok(())
}

fn compiled(
    asked: &ScxSpec,
    kernel: &BuiltKernel,
    setting: Setting<'_>,
) -> Result<CompiledScx, SubjectError> {
    let source = source(asked, kernel, setting)?;
    let _step = setting.progress.step(format!("compiling {} for Linux {}", source.display(), kernel.version));
    scx::compile(kernel, &source)
        .map_err(|error| SubjectError::Compile { path: source.display().to_string(), error })
}

fn source(asked: &ScxSpec, kernel: &BuiltKernel, setting: Setting<'_>) -> Result<PathBuf, SubjectError> {
    if asked.is_path() {
        return Ok(PathBuf::from(&asked.what));
    }
    let name = asked.what.strip_prefix("scx_").unwrap_or(&asked.what);
    let file = kernel.source.join(format!("tools/sched_ext/scx_{name}.bpf.c"));
    if file.is_file() {
        return Ok(file);
    }
    let known = scx::of_kernel(kernel).join(", ");
    let why = match Published::parse(name, &asked.kernel) {
        None => String::new(),
        Some(published) => {
            if let Some(file) = published.find() {
                return Ok(file);
            }
            let what = format!("fetching scx_{} {} by cargo", published.name, published.version);
            let _step = setting.progress.step(what);
            match published.fetch() {
                Ok(file) => return Ok(file),
                Err(error) => format!("\n{error}"),
            }
        }
    };
    Err(SubjectError::NoScx(format!(
        "Linux {} has no scheduler '{name}' in tools/sched_ext (it has {known}), and it is no published crate \
         scx_{name}; a file of your own: scx:PATH.bpf.c{why}",
        kernel.version
    )))
}
