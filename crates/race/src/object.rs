//! How is a target's object loaded, and what is where in it?

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

use crate::abi::{self, CPUS_MAX, Table};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use object::{Object, ObjectSymbol};

/// An operation that a scenario can name.
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) nr_args: usize,
    pub(crate) code: usize,
    /// One of the paper's hooks: (cpu, key).
    pub(crate) is_hook: bool,
}

/// A loaded target.
pub(crate) struct Target {
    pub(crate) base: usize,
    pub(crate) table: *mut Table,
    /// Start and length.
    pub(crate) private: [usize; 2],
    /// What is put back after each schedule.
    pub(crate) writable: Vec<(usize, usize)>,
    pub(crate) init: Option<unsafe extern "C" fn(c_int) -> c_int>,
    pub(crate) cleanup: abi::Alone,
    pub(crate) start: abi::Alone,
    pub(crate) begin: abi::Alone,
    pub(crate) check: abi::Alone,
    pub(crate) rest: abi::Alone,
    pub(crate) ops: Vec<Operation>,
    pub(crate) scenario: Option<String>,
    cpu_base: usize,
    cpu_stride: usize,
    /// Names of data, by address in the object.
    names: Vec<(usize, usize, String)>,
}

/// A text of the object's; empty for null.
///
/// # Safety
/// Null, or a text that ends in 0.
unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

struct Segments {
    near: usize,
    base: usize,
    writable: Vec<(usize, usize)>,
    relro: Option<(usize, usize)>,
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader's description, and our own structure.
    unsafe {
        let (info, found) = (&*info, &mut *data.cast::<Segments>());
        let base = info.dlpi_addr as usize;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        let range = |h: &libc::Elf64_Phdr| {
            let start = base + h.p_vaddr as usize;
            (start, start + h.p_memsz as usize)
        };
        let is_it = headers
            .iter()
            .filter(|h| h.p_type == libc::PT_LOAD)
            .any(|h| (range(h).0..range(h).1).contains(&found.near));
        if !is_it {
            return 0;
        }
        found.base = base;
        for header in headers {
            match header.p_type {
                libc::PT_LOAD if header.p_flags & libc::PF_W != 0 => found.writable.push(range(header)),
                libc::PT_GNU_RELRO => found.relro = Some(range(header)),
                _ => {}
            }
        }
        1
    }
}

/// `ranges` without what lies in `hole`.
fn without(ranges: Vec<(usize, usize)>, hole: (usize, usize)) -> Vec<(usize, usize)> {
    let mut left = Vec::new();
    for (start, end) in ranges {
        let (a, b) = (hole.0.clamp(start, end), hole.1.clamp(start, end));
        left.extend([(start, a), (b, end)].into_iter().filter(|(s, e)| s < e));
    }
    left
}

impl Target {
    /// Loads an object that [`crate::compile`] made.
    ///
    /// # Errors
    /// It is none, or of another version; in words.
    pub(crate) fn load(path: &Path) -> Result<Target, String> {
        let damaged = |why: String| format!("{}: {why}; remove it, and it is built again", path.display());
        // SAFETY: the object has no constructors but those of the compiler; the process that loads it exists for that.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|e| damaged(format!("cannot be loaded: {e}")))?;
        // SAFETY: the symbols have these types in objects of ours; the library is never closed.
        let (target, table, private) = unsafe {
            let missing = |e: libloading::Error| damaged(format!("is no target: {e}"));
            let target: *const abi::Target = library
                .get::<*const abi::Target>(b"schedlab_race_target\0")
                .map_err(missing)?
                .into_raw()
                .cast();
            let table: *mut Table =
                library.get::<*mut Table>(b"schedlab_race_engine\0").map_err(missing)?.into_raw().cast();
            let private: *const [usize; 2] = library
                .get::<*const [usize; 2]>(b"schedlab_race_private\0")
                .map_err(missing)?
                .into_raw()
                .cast();
            (&*target, table, *private)
        };
        std::mem::forget(library);
        if target.version != abi::VERSION || target.size as usize != size_of::<abi::Target>() {
            return Err(damaged(format!("is for version {} of schedlab_race.h", target.version)));
        }
        let mut found = Segments { near: table as usize, base: 0, writable: Vec::new(), relro: None };
        // SAFETY: the callback gets our structure, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
        let mut writable = found.writable;
        let page = |at: usize| at.next_multiple_of(4096);
        for hole in [found.relro.map(|(s, e)| (s, page(e))), Some((private[0], private[1]))] {
            writable = without(writable, hole.unwrap_or((0, 0)));
        }
        // the table that the hooks call is ours
        writable = without(writable, (table as usize, table as usize + size_of::<Table>()));
        // SAFETY: what the target says of itself.
        let (ops, scenario) = unsafe { (operations(target), text(target.scenario)) };
        Ok(Target {
            base: found.base,
            table,
            private: [private[0], private[1].saturating_sub(private[0])],
            writable,
            init: target.init,
            cleanup: target.cleanup,
            start: target.start,
            begin: target.begin,
            check: target.check,
            rest: target.rest,
            ops,
            scenario: (!scenario.is_empty()).then_some(scenario),
            cpu_base: target.cpu_base as usize,
            cpu_stride: target.cpu_stride,
            names: names(path),
        })
    }

    /// What register r15 holds on this CPU.
    pub(crate) fn cpu_register(&self, cpu: usize) -> usize {
        if self.cpu_base == 0 {
            0
        } else {
            self.cpu_base + self.cpu_stride * if cpu < CPUS_MAX { cpu } else { 0 }
        }
    }

    /// `cp+16` for an address of the target's data.
    pub(crate) fn name_of(&self, at: usize) -> String {
        let inside = at.wrapping_sub(self.base);
        let next = self.names.partition_point(|(start, _, _)| *start <= inside);
        match next.checked_sub(1).map(|n| &self.names[n]) {
            Some((start, size, name)) if inside < start + (*size).max(1) => match inside - start {
                0 => name.clone(),
                offset => format!("{name}+{offset}"),
            },
            _ => "memory".into(),
        }
    }
}

/// Whether an object has what [`Target::load`] looks for first.
pub(crate) fn is_target(path: &Path) -> bool {
    let Ok(bytes) = std::fs::read(path) else { return false };
    let Ok(file) = object::File::parse(&*bytes) else { return false };
    file.dynamic_symbols().any(|s| s.is_definition() && s.name() == Ok("schedlab_race_target"))
}

/// Objects of data by address, size and name.
fn names(path: &Path) -> Vec<(usize, usize, String)> {
    let Ok(bytes) = std::fs::read(path) else { return Vec::new() };
    let Ok(file) = object::File::parse(&*bytes) else { return Vec::new() };
    let mut names: Vec<(usize, usize, String)> = file
        .symbols()
        .filter(|s| s.kind() == object::SymbolKind::Data && s.size() > 0)
        .filter_map(|s| Some((s.address() as usize, s.size() as usize, s.name().ok()?.to_owned())))
        .collect();
    names.sort();
    names
}

/// Hooks that a scenario can name.
pub(crate) const HOOKS: [&str; 8] =
    ["preempt", "finish", "find", "enqueue", "dequeue", "pull_preempt", "pull_finish", "pull_find"];

/// The paper's hooks, then the target's own operations.
///
/// # Safety
/// The structure is as the header says.
unsafe fn operations(target: &abi::Target) -> Vec<Operation> {
    let mut all = Vec::new();
    let hooks = [
        (target.preempt, "KEY: this CPU's first task has this key now"),
        (target.finish, "KEY: that task has ended, the next one has this key; -1: none"),
        (target.find, "KEY: the CPU for a task with this key"),
        (target.enqueue, "KEY: into this CPU's ready queue"),
        (target.dequeue, "KEY: out of this CPU's ready queue"),
        (target.pull_preempt, "KEY: this CPU's second task has this key now"),
        (target.pull_finish, "KEY: that task has gone, the next one has this key; -1: none"),
        (target.pull_find, "KEY: the CPU whose second task goes before this key; -1: any"),
    ];
    for (name, (hook, help)) in HOOKS.into_iter().zip(hooks) {
        if let Some(hook) = hook {
            all.push(Operation {
                name: name.into(),
                help: help.into(),
                nr_args: 1,
                code: hook as usize,
                is_hook: true,
            });
        }
    }
    let mut at = target.ops;
    // SAFETY: a list that ends with a name of NULL.
    unsafe {
        while !at.is_null() && !(*at).name.is_null() {
            let op = &*at;
            if let Some(run) = op.run {
                let name = text(op.name);
                all.retain(|o| o.name != name);
                all.push(Operation {
                    name,
                    help: text(op.help),
                    nr_args: op.nr_args.max(0) as usize,
                    code: run as usize,
                    is_hook: false,
                });
            }
            at = at.add(1);
        }
    }
    all
}
