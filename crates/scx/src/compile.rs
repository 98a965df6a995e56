//! How does a scheduler in BPF C become an object that runs in the simulated kernel?
//!
//! ```text
//! linux.so (flavour scx) ── pahole ──> vmlinux.btf ── bpftool ──> vmlinux.h          once per kernel
//! scx_simple.bpf.c, unchanged ── gcc with linux/scx/include in front ── relocate ──> scheduler.o
//! linux/scx/support.c ── gcc with the kernel's own flags and headers ──> support.o   ──> scx_simple-<key>.so
//! ```
//!
//! The result lies in the kernel's folder in the cache, under a key over everything that goes into it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ScxError;
use super::names::essential;
use super::relocate;
use schedlab_btf::{Btf, Member};
use schedlab_linux::build::BuiltKernel;
use schedlab_linux::elf::Elf;
use schedlab_stdx::limits::{SOURCE_BYTES_MAX, read_bytes};

/// How the scheduler itself is compiled.
///
/// r15 is the virtual CPU in all kernel code; -fwrapv, -fno-strict-aliasing, -fno-delete-null-pointer-checks:
/// BPF has no undefined behaviour there; no vector registers: the simulated kernel does not save them; -gbtf:
/// the types of maps and settings; -g1: the line of a fault.
const FLAGS: [&str; 23] = [
    "-O2",
    "-g1",
    "-std=gnu11",
    "-fms-extensions",
    "-fPIC",
    "-ffixed-r15",
    "-fno-stack-protector",
    "-fcf-protection=none",
    "-fno-strict-aliasing",
    "-fno-delete-null-pointer-checks",
    "-fwrapv",
    "-fno-tree-loop-distribute-patterns",
    "-mgeneral-regs-only",
    "-D__bpf__",
    "-D__BPF__",
    "-D__TARGET_ARCH_x86",
    "-DBPF_NO_PRESERVE_ACCESS_INDEX",
    "-Wno-attributes",
    "-Wno-unknown-pragmas",
    "-Wno-incompatible-pointer-types",
    "-Wno-int-conversion",
    "-Wno-discarded-qualifiers",
    "-Werror=trampolines",
];

/// Names of the kernel's that support.c uses, so that a scheduler's variable of that name is not taken for them.
pub(super) const KERNEL_PREFIX: &str = "linux.";

/// A scheduler, compiled for one kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompiledScx {
    /// The shared object.
    pub object: PathBuf,
    /// The source.
    pub source: PathBuf,
    /// sha256 of the source file, for the record.
    pub source_sha256: String,
    /// The kernel's enumerators, one `NAME VALUE` a line.
    pub enumerators: PathBuf,
    /// Sub-schedulers, by the path of the control group that each is attached to.
    pub subs: BTreeMap<String, CompiledScx>,
}

impl CompiledScx {
    /// Gives each sub-scheduler an object file of its own, without a name, which stays open until the process
    /// ends. The dynamic loader takes a file only once, and two groups may have the same scheduler. To be
    /// called before the process is contained.
    ///
    /// # Errors
    /// An object cannot be read, or there is no memory for its copy.
    pub fn copy_subs(&mut self) -> std::io::Result<()> {
        for sub in self.subs.values_mut() {
            sub.object = super::object::copied(&fs::read(&sub.object)?)?;
        }
        Ok(())
    }
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> ScxError {
    let path = path.to_owned();
    move |source| ScxError::Io { doing, path, source }
}

fn run(command: &mut Command, doing: &'static str, package: &'static str) -> Result<Vec<u8>, ScxError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|source| {
        if source.kind() == std::io::ErrorKind::NotFound {
            ScxError::Tool { program: program.clone(), package }
        } else {
            ScxError::Io { doing: "run", path: program.clone().into(), source }
        }
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    const SHOWN: usize = 30;
    let text = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> = text.lines().filter(|l| !l.contains("warning:")).take(SHOWN).collect();
    Err(ScxError::Step { doing, text: errors.join("\n") })
}

/// bpftool is in /usr/sbin, which is not in everybody's PATH.
fn bpftool() -> Command {
    let sbin = Path::new("/usr/sbin/bpftool");
    Command::new(if sbin.is_file() { sbin.as_os_str() } else { "bpftool".as_ref() })
}

/// Whether all is here that a kernel with the class ext and a scheduler for it are built with, beyond what
/// every kernel needs.
pub fn check_tools() -> Result<(), ScxError> {
    let in_path = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
    };
    let bpftool = in_path("bpftool") || Path::new("/usr/sbin/bpftool").is_file();
    // the kernel's build makes a tool of its own that reads ELF
    let libelf =
        ["/usr/include/libelf.h", "/usr/local/include/libelf.h"].iter().any(|f| Path::new(f).is_file());
    for (there, program, package) in [
        (in_path("pahole"), "pahole", "dwarves"),
        (bpftool, "bpftool", "bpftool"),
        (in_path("objcopy"), "objcopy", "binutils"),
        (libelf, "libelf.h", "libelf-dev"),
    ] {
        if !there {
            return Err(ScxError::Tool { program: program.to_owned(), package });
        }
    }
    Ok(())
}

/// A new folder in `dir` for what is to be called `name` when it is done: no other process has it, nor
/// another thread of this one.
fn aside(dir: &Path, name: &str) -> Result<PathBuf, ScxError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let aside = dir.join(format!("{name}.tmp{}-{number}", std::process::id()));
    fs::create_dir_all(&aside).map_err(io("create", &aside))?;
    Ok(aside)
}

/// The kernel's types: `vmlinux.h`, `vmlinux.btf`, `enumerators`.
fn types(kernel: &BuiltKernel) -> Result<PathBuf, ScxError> {
    let dir = kernel.dir.join("scx");
    if dir.join("enumerators").is_file() {
        return Ok(dir);
    }
    let aside = aside(&kernel.dir, "scx")?;
    let (btf, header) = (aside.join("vmlinux.btf"), aside.join("vmlinux.h"));
    let mut option = std::ffi::OsString::from("--btf_encode_detached=");
    option.push(&btf);
    run(Command::new("pahole").arg(option).arg(kernel.object()), "reading the kernel's types", "dwarves")?;
    let text = run(
        bpftool().args(["btf", "dump", "file"]).arg(&btf).args(["format", "c"]),
        "writing vmlinux.h",
        "bpftool",
    )?;
    fs::write(&header, text).map_err(io("write", &header))?;
    let data = fs::read(&btf).map_err(io("read", &btf))?;
    let parsed = Btf::parse(&data).map_err(|why| ScxError::Damaged { path: btf.clone(), why: why.into() })?;
    let lines: String =
        parsed.enumerators().iter().map(|(name, value)| format!("{name} {value}\n")).collect();
    let list = aside.join("enumerators");
    fs::write(&list, lines).map_err(io("write", &list))?;
    match fs::rename(&aside, &dir) {
        Ok(()) => {}
        // another was first
        Err(_) if dir.join("enumerators").is_file() => drop(fs::remove_dir_all(&aside)),
        Err(error) => return Err(io("write", &dir)(error)),
    }
    Ok(dir)
}

/// Folders in which a scheduler's `<scx/common.bpf.h>` is looked for.
fn include_folders(kernel: &BuiltKernel, source: &Path, ours: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for above in source.ancestors().skip(1) {
        // sched_ext/scx: scheds/include; the kernel: tools/sched_ext/include
        for include in ["include", "scheds/include", "tools/sched_ext/include"] {
            let dir = above.join(include);
            if dir.join("scx/common.bpf.h").is_file() && dir != ours {
                found.push(dir);
            }
        }
        // a published crate, scx_bpfland-1.0.6: its scx_utils is beside it
        let name = above.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let (Some((_, version)), Some(parent)) = (name.rsplit_once('-'), above.parent()) {
            // (from 1.1 on: scx_cargo)
            for headers in ["scx_utils", "scx_cargo"] {
                let dir = parent.join(format!("{headers}-{version}/bpf_h"));
                if dir.join("scx/common.bpf.h").is_file() {
                    found.push(dir);
                }
            }
        }
        if !found.is_empty() {
            return found;
        }
    }
    vec![kernel.source.join("tools/sched_ext/include")]
}

/// Names of the schedulers in the kernel's own tools/sched_ext, without `scx_`.
pub fn of_kernel(kernel: &BuiltKernel) -> Vec<String> {
    let entries = fs::read_dir(kernel.source.join("tools/sched_ext")).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        Some(name.strip_prefix("scx_")?.strip_suffix(".bpf.c")?.to_owned())
    };
    let mut names: Vec<String> = entries.filter_map(name).collect();
    names.sort();
    names
}

/// The compiler's arguments for files of the kernel, without what hides names: what is referred to is elsewhere.
fn kernel_flags(kernel: &BuiltKernel) -> Result<Vec<String>, ScxError> {
    let damaged =
        |e: schedlab_linux::BuildError| ScxError::Damaged { path: kernel.dir.clone(), why: e.to_string() };
    let mut flags = schedlab_linux::build::sched_flags(kernel).map_err(damaged)?;
    flags.retain(|flag| flag != "-fvisibility=hidden");
    if let Some(at) = flags.iter().position(|flag| flag.ends_with("warp_hidden.h")) {
        flags.drain(at - 1..=at);
    }
    Ok(flags)
}

/// The files of a scheduler: `source`, and what the build script of its crate links to it
/// (`.add_source("src/bpf/idle.bpf.c")`, from scx_lavd 1.1 on).
fn sources(source: &Path) -> Vec<PathBuf> {
    let mut found = vec![source.to_owned()];
    // crate/src/bpf/main.bpf.c
    let Some(dir) = source.ancestors().nth(3) else { return found };
    let Ok(script) = fs::read_to_string(dir.join("build.rs")) else { return found };
    let argument = |text: &str| text.split('"').next().map(|file| dir.join(file));
    let named = |call: &str| script.split(call).skip(1).filter_map(argument).collect::<Vec<_>>();
    if named("enable_skel(\"").iter().any(|file| file == source) {
        found.extend(named("add_source(\"").into_iter().filter(|file| file.is_file()));
    }
    found
}

/// Compile a scheduler for this kernel, or find it compiled.
pub fn compile(kernel: &BuiltKernel, source: &Path) -> Result<CompiledScx, ScxError> {
    let source = fs::canonicalize(source).map_err(io("find", source))?;
    let text = read_bytes(&source, SOURCE_BYTES_MAX).map_err(io("read", &source))?;
    let ours = schedlab_linux::build::port_dir().map_err(|e| ScxError::Kernel(e.to_string()))?.join("scx");
    let dir = types(kernel)?;
    let mut arguments: Vec<std::ffi::OsString> = FLAGS.iter().map(|f| f.into()).collect();
    let mut include = |dir: &Path| {
        arguments.push("-I".into());
        arguments.push(dir.into());
    };
    include(&ours.join("include"));
    include(&dir);
    for dir in include_folders(kernel, &source, &ours.join("include")) {
        include(&dir);
    }
    let compiler = Command::new("gcc");
    let program = compiler.get_program().to_owned();
    let gcc = || {
        let mut gcc = Command::new(&program);
        gcc.env("LC_ALL", "C");
        gcc
    };
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for source in sources(&source) {
        part(&run(
            gcc().args(&arguments).arg("-E").arg("-P").arg(&source),
            "reading the scheduler's source",
            "gcc",
        )?);
    }
    part(kernel.key.as_bytes());
    part(kernel.compiler.as_bytes());
    part(FLAGS.join(" ").as_bytes());
    relocate::REVISION.iter().for_each(|source| part(source));
    for file in ["support.c", "userland.c", "glue.c", "scx_abi.h"] {
        let path = ours.join(file);
        part(&fs::read(&path).map_err(io("read", &path))?);
    }
    let key: String = hash.finalize().iter().take(6).map(|b| format!("{b:02x}")).collect();
    let stem = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = stem.split('.').next().unwrap_or_default();
    let object = dir.join(format!("{stem}-{key}.so"));
    let sum: String = Sha256::digest(&text).iter().map(|b| format!("{b:02x}")).collect();
    let enumerators = dir.join("enumerators");
    let compiled = CompiledScx { object, source, source_sha256: sum, enumerators, subs: BTreeMap::new() };
    if compiled.object.is_file() {
        return Ok(compiled);
    }
    let work = aside(&dir, &format!("{stem}-{key}"))?;
    let result = steps(kernel, &compiled, &work, &ours, &arguments, &gcc);
    drop(fs::remove_dir_all(&work));
    result.map(|()| compiled)
}

fn types_in(section: &[u8]) -> Result<Btf, ScxError> {
    Btf::parse(section).map_err(|why| ScxError::Layout(format!("the types (.BTF) are unreadable: {why}")))
}

/// One of the scheduler's files becomes an object, its accesses to the kernel's types relocated.
fn compile_part(
    (number, source): (usize, &Path),
    (header, kernels): (&str, &Btf),
    work: &Path,
    arguments: &[std::ffi::OsString],
    gcc: &dyn Fn() -> Command,
) -> Result<PathBuf, ScxError> {
    let read = |path: &Path| fs::read(path).map_err(io("read", path));
    let compile = |from: &Path, to: &Path| {
        let mut gcc = gcc();
        gcc.args(arguments).args(["-gbtf", "-c", "-o"]).arg(to).arg(from);
        run(&mut gcc, "compiling the scheduler", "gcc")
    };
    let types_of = |object: &Path| {
        let object = read(object)?;
        let types = Elf::parse(&object).and_then(|e| e.section(".BTF").map(|s| s.data.to_vec()));
        types_in(&types.unwrap_or_default())
    };
    let mut preprocess = gcc();
    preprocess.args(arguments).arg("-E").arg(source);
    if number > 0 {
        // libraries have functions that are both weak and always_inline, which gcc refuses
        preprocess.arg("-Dalways_inline=unused");
    }
    let text = run(&mut preprocess, "reading the scheduler's source", "gcc")?;
    let mut text = relocate::decoded(&text);
    let is_needed = relocate::is_needed(&text, header);
    if is_needed {
        let declared = match relocate::probe(&text, header, kernels)? {
            Some(probe) => {
                let (from, to) =
                    (work.join(format!("probe{number}.i")), work.join(format!("probe{number}.o")));
                fs::write(&from, relocate::encoded(&probe)).map_err(io("write", &from))?;
                compile(&from, &to)?;
                types_of(&to)?
            }
            None => Btf::default(),
        };
        text = relocate::apply(&text, header, &declared, kernels)?;
    }
    let (from, part) = (work.join(format!("part{number}.i")), work.join(format!("part{number}.o")));
    fs::write(&from, relocate::encoded(&text)).map_err(io("write", &from))?;
    compile(&from, &part)?;
    if is_needed {
        relocate::check(&types_of(&part)?, kernels)?;
    }
    Ok(part)
}

/// The kernel's names in support.o are set apart from the scheduler's.
fn set_names_apart(support: &Path, work: &Path) -> Result<(), ScxError> {
    let data = fs::read(support).map_err(io("read", support))?;
    let damaged = || ScxError::Damaged { path: support.to_owned(), why: "not an object".into() };
    let elf = Elf::parse(&data).ok_or_else(damaged)?;
    let renames: String = elf
        .symbols()
        .iter()
        .filter(|s| s.section == 0 && !s.name.is_empty() && !s.name.starts_with("schedlab_"))
        .filter(|s| !s.name.starts_with("_GLOBAL_"))
        .map(|s| format!("{} {KERNEL_PREFIX}{}\n", s.name, s.name))
        .collect();
    let list = work.join("renames");
    fs::write(&list, renames).map_err(io("write", &list))?;
    let mut option = std::ffi::OsString::from("--redefine-syms=");
    option.push(&list);
    run(Command::new("objcopy").arg(option).arg("--weaken").arg(support), "renaming", "binutils")?;
    Ok(())
}

fn steps(
    kernel: &BuiltKernel,
    compiled: &CompiledScx,
    work: &Path,
    ours: &Path,
    arguments: &[std::ffi::OsString],
    gcc: &dyn Fn() -> Command,
) -> Result<(), ScxError> {
    let (scheduler, glue, support) = (work.join("scheduler.o"), work.join("glue.o"), work.join("support.o"));
    let read = |path: &Path| fs::read(path).map_err(io("read", path));
    let kernels = types_in(&read(&compiled.enumerators.with_file_name("vmlinux.btf"))?)?;
    let header = compiled.enumerators.with_file_name("vmlinux.h");
    let header = relocate::decoded(header.as_os_str().as_encoded_bytes());
    let mut parts = Vec::new();
    for (number, source) in sources(&compiled.source).iter().enumerate() {
        parts.push(compile_part((number, source), (&header, &kernels), work, arguments, gcc)?);
    }
    run(
        Command::new("ld").arg("-r").arg("-o").arg(&scheduler).args(&parts),
        "linking its files",
        "binutils",
    )?;
    let has_cids = kernels
        .composites()
        .any(|(name, _, members)| name == "scx_enable_cmd" && members.iter().any(|m| m.name == "arena_map"));
    let cids: &[&str] = if has_cids { &["-DSCHEDLAB_CID"] } else { &[] };
    run(
        gcc().args(arguments).args(cids).args(["-c", "-o"]).arg(&glue).arg(ours.join("glue.c")),
        "compiling glue.c",
        "gcc",
    )?;
    run(
        gcc()
            .current_dir(kernel.dir.join("build"))
            .args(kernel_flags(kernel)?)
            .args(cids)
            .arg("-I")
            .arg(ours)
            .args(["-g0", "-c", "-o"])
            .arg(&support)
            .arg(ours.join("support.c")),
        "compiling support.c",
        "gcc",
    )?;
    let object = read(&scheduler)?;
    layouts_agree(&object, &kernels)?;
    set_names_apart(&support, work)?;
    let configured = configuration(kernel)?;
    unresolved(kernel, &object, &configured)?;
    let stubs = work.join("stubs.o");
    let source = work.join("stubs.s");
    let mut text = implicit_arguments(&object, &kernels);
    text.push_str(&configuration_values(&object, &configured));
    fs::write(&source, text).map_err(io("write", &source))?;
    run(gcc().args(["-c", "-o"]).arg(&stubs).arg(&source), "compiling stubs", "gcc")?;
    // imports become weak: the dynamic loader leaves them at 0, and the simulator fills them in
    run(
        Command::new("objcopy")
            .args(["--weaken", "--rename-section", ".maps=scx_maps,alloc,load,data,contents"])
            .arg(&scheduler),
        "renaming",
        "binutils",
    )?;
    let aside = work.join("scheduler.so");
    run(
        gcc()
            .args(["-shared", "-nostdlib", "-o"])
            .arg(&aside)
            .args([&scheduler, &glue, &support, &stubs])
            .arg("-Wl,-Bsymbolic,-z,norelro,-z,now,-z,noexecstack,--build-id=none"),
        "linking the scheduler",
        "gcc",
    )?;
    fs::rename(&aside, &compiled.object).map_err(io("write", &compiled.object))
}

/// Functions of the kernel's that take the calling program as their last argument (from 6.19 on): a scheduler
/// calls them without it. A few instructions in between put it in.
fn implicit_arguments(scheduler: &[u8], kernels: &Btf) -> String {
    /// Registers of arguments, in order.
    const ARGUMENTS: [&str; 6] = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"];
    let mut text = String::from(".section .note.GNU-stack,\"\",@progbits\n.text\n");
    let Some(elf) = Elf::parse(scheduler) else { return text };
    let known = kernels.with_program();
    for symbol in elf.symbols().iter().filter(|s| s.section == 0) {
        let name = symbol.name.as_str();
        // BPF's helpers are called with it by our headers
        let is_of_scx =
            name.trim_start_matches('_').starts_with("scx_bpf_") || name.starts_with("bpf_iter_scx");
        let found = [name, essential(name)].into_iter().find_map(|n| Some((n, known.get(n)?)));
        let Some((function, place)) = found.filter(|_| is_of_scx) else { continue };
        let Some(register) = ARGUMENTS.get(*place) else { continue };
        text.push_str(&format!(
            ".globl {name}\n.weak {KERNEL_PREFIX}{function}\n.type {name}, @function\n{name}:\n\
                \tlea scx_aux_shared(%rip), %{register}\n\tjmp {KERNEL_PREFIX}{function}@PLT\n"
        ));
    }
    text
}

/// The kernel's configuration, by name.
fn configuration(kernel: &BuiltKernel) -> Result<BTreeMap<String, String>, ScxError> {
    let path = kernel.dir.join("build/.config");
    let text = fs::read_to_string(&path).map_err(io("read", &path))?;
    let options = text.lines().filter(|line| line.starts_with("CONFIG_")).filter_map(|l| l.split_once('='));
    Ok(options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// `extern ... CONFIG_X __kconfig`: constants with the configuration's values, as libbpf makes them: y is 1,
/// m is 2 (of an enumeration libbpf_tristate), numbers and texts are themselves. Weak ones that the kernel
/// has not are 0.
fn configuration_values(scheduler: &[u8], configured: &BTreeMap<String, String>) -> String {
    let mut text = String::from(".section .rodata\n");
    let Some(elf) = Elf::parse(scheduler) else { return text };
    for symbol in elf.symbols().iter().filter(|s| s.section == 0 && s.name.starts_with("CONFIG_")) {
        let name = &symbol.name;
        let value = match configured.get(name).map(String::as_str) {
            Some("y") => ".quad 1".to_owned(),
            Some("m") => ".quad 2".to_owned(),
            Some(quoted) if quoted.starts_with('"') => format!(".asciz {quoted}"),
            Some(number) => format!(".quad {number}"),
            None => ".quad 0".to_owned(),
        };
        text.push_str(&format!(".balign 8\n.globl {name}\n.type {name}, @object\n{name}:\n\t{value}\n"));
    }
    text
}

/// Every function that the scheduler needs must be there; weak ones may be missing, as in BPF.
fn unresolved(
    kernel: &BuiltKernel,
    scheduler: &[u8],
    configured: &BTreeMap<String, String>,
) -> Result<(), ScxError> {
    let object = kernel.object();
    let data = fs::read(&object).map_err(io("read", &object))?;
    let damaged = |path: &Path| ScxError::Damaged { path: path.to_owned(), why: "not an object".into() };
    let elf = Elf::parse(&data).ok_or_else(|| damaged(&object))?;
    let known: BTreeSet<String> =
        elf.symbols().into_iter().filter(|s| s.section != 0).map(|s| s.name).collect();
    let scheduler = Elf::parse(scheduler).ok_or_else(|| damaged(&object))?;
    let missing: Vec<String> = scheduler
        .symbols()
        .into_iter()
        .filter(|s| s.section == 0 && !s.is_weak && !s.name.is_empty() && !known.contains(&s.name))
        .filter(|s| !s.name.starts_with("schedlab_") && !s.name.starts_with("_GLOBAL_"))
        .filter(|s| !["memset", "memcpy", "memmove", "memcmp"].contains(&s.name.as_str()))
        .filter(|s| s.name != "LINUX_KERNEL_VERSION" && !configured.contains_key(&s.name))
        .map(|s| s.name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ScxError::Missing { kernel: format!("Linux {}", kernel.version), names: missing.join(", ") })
}

/// gcc's layout of the types in vmlinux.h against the kernel's own.
///
/// vmlinux.h cannot say that an enumeration is packed into one byte: structures that hold such a one come out
/// differently, and are let pass (inode, bio, request_queue: none that schedulers look into).
fn layouts_agree(scheduler: &[u8], theirs: &Btf) -> Result<(), ScxError> {
    let Some(section) = Elf::parse(scheduler).and_then(|e| e.section(".BTF").map(|s| s.data.to_vec())) else {
        return Err(ScxError::Layout("the scheduler's object has no types (.BTF)".into()));
    };
    let ours = types_in(&section)?;
    let mut known = BTreeMap::<&str, Vec<_>>::new();
    for (name, bytes, members) in theirs.composites().filter(|c| !c.0.is_empty()) {
        known.entry(name).or_default().push((bytes, members));
    }
    let mut differ = BTreeSet::new();
    for (name, bytes, members) in ours.composites() {
        let Some(candidates) = known.get(name) else { continue };
        let same = |(size, kernels): &(u32, &[Member])| {
            *size == bytes
                && members
                    .iter()
                    .filter(|m| !m.name.is_empty())
                    .all(|m| kernels.iter().any(|k| k.name == m.name && k.offset_bits == m.offset_bits))
        };
        let packed = candidates.iter().any(|(_, kernels)| theirs.holds_packed_enum(kernels));
        if !packed && !candidates.iter().any(same) {
            differ.insert(name.to_owned());
        }
    }
    if differ.is_empty() {
        return Ok(());
    }
    Err(ScxError::Layout(differ.into_iter().collect::<Vec<_>>().join(", ")))
}
