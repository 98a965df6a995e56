//! A scheduler's object in the simulated kernel's process: how is it set up, watched and read?
//!
//! ```text
//! load      dlopen, imports written, settings written        before the kernel boots
//! prepare   maps, attach, programs of type "syscall"         in process 1, as the last step of the boot
//! exited?   the kernel has called exit(): stall, error       after every resume
//! account   settings, statistics, what was emulated          when the run is over
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_void};
use std::fs;
use std::io::Write as _;
use std::os::fd::FromRawFd as _;
use std::path::{Path, PathBuf};
use std::ptr;

use super::CompiledScx;
use super::abi::{Abi, ExitRecord, MAX_MEMBERS, Map, OpsMember, ScxRequest, Syscall, Userland};
use super::compile::KERNEL_PREFIX;
use super::names::{essential, lookup};
use super::userspace::{self, Call, Hardware, UserSpace};
use super::{semantics, settings};
use maps::MapInfo;
use schedlab_btf::{Btf, TypeId, TypeKind};
use schedlab_linux::InitCall as KernelCall;
use schedlab_linux::abi::Topo;
use schedlab_linux::callers::{Code, saved_chain};
use schedlab_linux::elf::{Elf, Symbol, SymbolKind};
use schedlab_linux::kernel::LoadedKernel;
use schedlab_linux::symbols::{Symbols, TEXT_START};

mod dump;
mod maps;

/// What `bpf_get_prandom_u32()` is: the kernel has to be asked for numbers before the first one is drawn.
const RANDOM: &str = "bpf_user_rnd_u32";

/// The scheduler has left, or was thrown out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScxExit {
    /// `SCX_EXIT_*`: from 1024 on an error.
    pub kind: u32,
    /// What the scheduler gave to `scx_bpf_exit()`.
    pub code: i64,
    /// The kernel's words for the kind: `runnable task stall`.
    pub reason: String,
    /// What happened: `hog[42] failed to run for 5.004s`.
    pub message: String,
    /// Where it was found, innermost first.
    pub stack: Vec<String>,
    /// The kernel's debug dump: runqueues, tasks, what the scheduler's dump() adds.
    pub dump: String,
}

impl std::fmt::Display for ScxExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        /// From here on the kinds are errors (`SCX_EXIT_ERROR`).
        const ERROR: u32 = 1024;
        let what = if self.kind >= ERROR { "the kernel threw it out" } else { "the scheduler left" };
        write!(f, "{what}: {}", self.reason)?;
        if !self.message.is_empty() {
            write!(f, " ({})", self.message)?;
        }
        if self.code != 0 {
            write!(f, ", exit code {}", self.code)?;
        }
        for frame in &self.stack {
            write!(f, "\n    at {frame}")?;
        }
        const SHOWN: usize = 120;
        let lines = self.dump.lines().filter(|l| !l.trim().is_empty());
        if !self.dump.is_empty() {
            write!(f, "\n  the kernel's dump:")?;
        }
        for line in lines.clone().take(SHOWN) {
            write!(f, "\n    {line}")?;
        }
        match lines.count().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n    and {more} more lines"),
        }
    }
}

/// A variable in memory.
#[derive(Clone, Copy)]
struct Variable {
    address: usize,
    id: TypeId,
}

/// A program of type "syscall" that process 1 calls, and what it is given.
struct PreparedCall {
    program: String,
    call: Box<Syscall>,
    context: Vec<u8>,
    _mask: Vec<u64>,
}

/// A loaded scheduler.
pub struct Scx {
    abi: *const Abi,
    name: String,
    btf: Btf,
    variables: BTreeMap<String, Variable>,
    maps: Vec<MapInfo>,
    request: Box<ScxRequest>,
    _maps: Vec<Map>,
    _members: Vec<OpsMember>,
    _userland: Option<Box<Userland>>,
    _names: Vec<CString>,
    calls: Vec<PreparedCall>,
    /// What stands for the user-space part.
    defaults: Vec<(String, String)>,
    given: BTreeSet<String>,
    /// The kernel's enumerators.
    enumerators: BTreeMap<String, i64>,
    /// Values when the run began.
    initial: BTreeMap<String, i128>,
    not_attached: Vec<String>,
    missing: Vec<&'static str>,
    nr_cpus: u32,
    source: String,
    kernel_text: usize,
    kernel_end: usize,
    /// Its own object, and where the code of that lies.
    text: (PathBuf, std::ops::Range<usize>),
    kernel_object: std::path::PathBuf,
    _library: libloading::os::unix::Library,
}

fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A number as it stands in memory.
///
/// # Safety
/// `bytes` bytes must be readable at the address.
unsafe fn peek(address: usize, bytes: u32) -> u64 {
    let mut raw = [0u8; 8];
    // SAFETY: the caller's promise; 1 to 8 bytes.
    unsafe { ptr::copy_nonoverlapping(address as *const u8, raw.as_mut_ptr(), bytes.min(8) as usize) };
    u64::from_le_bytes(raw)
}

impl Scx {
    /// Bring a scheduler into this process, beside the kernel; write its settings. Of `params` those that it
    /// has are taken.
    pub fn load(
        compiled: &CompiledScx,
        kernel: &LoadedKernel,
        kernel_object: &Path,
        cpus: &[Topo],
        params: &[(String, String)],
    ) -> Result<Scx, String> {
        Scx::load_for(compiled, kernel, kernel_object, cpus, params, None)
    }

    /// The same for a sub-scheduler, which is to be attached to the control group `group`.
    pub(crate) fn load_sub(
        compiled: &CompiledScx,
        kernel: &LoadedKernel,
        kernel_object: &Path,
        cpus: &[Topo],
        params: &[(String, String)],
        group: &str,
    ) -> Result<Scx, String> {
        Scx::load_for(compiled, kernel, kernel_object, cpus, params, Some(group))
    }

    fn load_for(
        compiled: &CompiledScx,
        kernel: &LoadedKernel,
        kernel_object: &Path,
        cpus: &[Topo],
        params: &[(String, String)],
        group: Option<&str>,
    ) -> Result<Scx, String> {
        let say = |path: &Path| {
            let path = path.display().to_string();
            move |e: std::io::Error| format!("{path}: {e}")
        };
        let data = fs::read(&compiled.object).map_err(say(&compiled.object))?;
        let elf = Elf::parse(&data).ok_or("the scheduler's object is damaged")?;
        let btf = elf
            .section(".BTF")
            .and_then(|s| Btf::parse(s.data).ok())
            .ok_or("the scheduler's object has no types")?;
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: the object has no constructors; it was compiled by `compile`.
        let library = unsafe { libloading::os::unix::Library::open(Some(&compiled.object), flags) }
            .map_err(|e| e.to_string())?;
        // SAFETY: the signature is scx_abi.h's.
        let get = unsafe { library.get::<unsafe extern "C" fn() -> *const Abi>(b"schedlab_scx_abi\0") }
            .map_err(|e| e.to_string())?;
        let symbols = elf.symbols();
        let of_get = symbols.iter().find(|s| s.name == "schedlab_scx_abi").map_or(0, |s| s.value);
        let base = (*get as usize).wrapping_sub(of_get as usize);
        let kernel_text = kernel.text().start as usize;
        make_writable(&elf, base).map_err(|e| format!("making the scheduler's data writable: {e}"))?;
        let imports = elf.imports();
        // (support.c's own names of kernel functions have a prefix)
        let draws_random = imports.iter().any(|(_, _, name)| name == RANDOM);
        link(imports, base, kernel_object, kernel_text)?;
        // SAFETY: a function of the object without arguments, which only reads constants.
        let abi = unsafe { get() };
        // SAFETY: the table is a static of the object.
        let table = unsafe { &*abi };
        if let Some(why) = table.check() {
            return Err(format!("the scheduler's object does not fit: {why}"));
        }
        let code = elf.sections.iter().filter(|s| s.is_code);
        let (low, high) = code.fold((u64::MAX, 0), |(l, h), s| (l.min(s.address), h.max(s.address + s.size)));
        // SAFETY: the object stays loaded as long as the process: `_library` is never dropped before it ends.
        unsafe { semantics::arm(base + low as usize..base + high as usize, table.faults) }
            .map_err(|e| e.to_string())?;
        let mut scx = Scx {
            abi,
            name: String::new(),
            variables: BTreeMap::new(),
            maps: Vec::new(),
            request: Box::new(ScxRequest::new(draws_random)),
            _maps: Vec::new(),
            _members: Vec::new(),
            _userland: None,
            _names: Vec::new(),
            calls: Vec::new(),
            defaults: Vec::new(),
            given: BTreeSet::new(),
            enumerators: BTreeMap::new(),
            initial: BTreeMap::new(),
            not_attached: Vec::new(),
            missing: Vec::new(),
            nr_cpus: cpus.len() as u32,
            source: format!("{} (sha256 {})", compiled.source.display(), &compiled.source_sha256[..12]),
            kernel_text,
            kernel_end: kernel.text().end as usize,
            text: (compiled.object.clone(), base + low as usize..base + high as usize),
            kernel_object: kernel_object.to_owned(),
            btf,
            _library: library,
        };
        scx.find_variables(&symbols, base);
        scx.find_ops(&elf, base)?;
        if let Some(group) = group {
            scx.find_group(group)?;
        }
        let enumerators = read_enumerators(&compiled.enumerators).map_err(say(&compiled.enumerators))?;
        let user_space = scx.user_space(cpus);
        scx.find_maps(&user_space)?;
        if user_space.decides {
            scx.find_userland();
        }
        scx.configure(user_space, params, &enumerators)?;
        scx.enumerators = enumerators;
        scx.find_programs(&elf, &symbols);
        Ok(scx)
    }

    fn find_variables(&mut self, symbols: &[Symbol], base: usize) {
        let mut addresses: BTreeMap<&str, Option<u64>> = BTreeMap::new();
        for s in symbols.iter().filter(|s| s.section != 0 && s.kind == SymbolKind::Variable) {
            // static variables of one name in several files cannot be distinguished
            addresses.entry(&s.name).and_modify(|known| *known = None).or_insert(Some(s.value));
        }
        for (name, id) in self.btf.variables() {
            // of a static variable within a function the symbol has a number behind the name: those have no
            // name to be set by
            let Some(Some(value)) = addresses.get(name) else { continue };
            let address = base + *value as usize;
            let known = self.variables.entry(name.to_owned()).or_insert(Variable { address, id });
            // another file may have declared an array without its length
            if self.btf.size(id) > self.btf.size(known.id) {
                known.id = id;
            }
        }
    }

    fn find_ops(&mut self, elf: &Elf<'_>, base: usize) -> Result<(), String> {
        let all: Vec<(String, TypeId)> =
            [".struct_ops.link", ".struct_ops"].iter().flat_map(|s| self.btf.section(s)).collect();
        let of = |id: TypeId| match self.btf.kind(self.btf.plain(id).0) {
            TypeKind::Composite { name, members, bytes, .. } if name.starts_with("sched_ext_ops") => {
                Some((members.clone(), *bytes, name == "sched_ext_ops_cid"))
            }
            _ => None,
        };
        let found = all.iter().find_map(|(name, id)| Some((name.clone(), of(*id)?)));
        let (ops, (members, bytes, is_cid)) = found
            .ok_or("it defines no struct sched_ext_ops (SCX_OPS_DEFINE): is it a sched_ext scheduler?")?;
        let variable = *self.variables.get(&ops).ok_or("its struct sched_ext_ops has no symbol")?;
        self.variables.insert("ops".to_owned(), variable);
        if members.len() > MAX_MEMBERS {
            return Err(format!("its struct sched_ext_ops has {} members", members.len()));
        }
        for m in &members {
            let offset = m.offset_bits / 8;
            let size = self.btf.size(m.id);
            let is_function = match self.btf.kind(self.btf.plain(m.id).0) {
                TypeKind::Pointer(to) => {
                    matches!(self.btf.kind(self.btf.plain(*to).0), TypeKind::Prototype(_))
                }
                _ => false,
            };
            // SAFETY: within the object's struct sched_ext_ops.
            let function = unsafe { peek(variable.address + offset as usize, size) } as usize;
            let at = function.wrapping_sub(base) as u64;
            let section =
                elf.sections.iter().find(|s| s.size > 0 && (s.address..s.address + s.size).contains(&at));
            let sleeps = is_function && section.is_some_and(|s| s.name.starts_with("struct_ops.s"));
            // exit() is always recorded: 2; init() can be asked to run on a CPU: 3
            let sleepable = match m.name.as_str() {
                "exit" => 2,
                "init" if sleeps || is_cid => 3,
                _ => u32::from(sleeps),
            };
            if m.name == "name" {
                // SAFETY: as above.
                let bytes = unsafe {
                    std::slice::from_raw_parts(
                        (variable.address + offset as usize) as *const u8,
                        size as usize,
                    )
                };
                self.name = text_of(bytes);
            }
            self._members.push(OpsMember { offset, size, is_function: u32::from(is_function), sleepable });
        }
        self.request.members = self._members.as_mut_ptr();
        self.request.nr_members = self._members.len() as u32;
        self.request.ops = variable.address as *mut c_void;
        self.request.ops_size = u64::from(bytes);
        self.request.is_cid = u32::from(is_cid);
        Ok(())
    }

    /// Where the number of its control group goes: the support code finds it when the group is there.
    fn find_group(&mut self, group: &str) -> Result<(), String> {
        const ID: &str = "sub_cgroup_id";
        let place = |scx: &Scx, variable: &str, path: &str| {
            let variable = scx.variables.get(variable)?;
            let place = settings::resolve(&scx.btf, variable.id, path).ok()?;
            (place.bytes == 8).then_some((variable.address + place.offset as usize) as *mut c_void)
        };
        let in_ops = place(self, "ops", &format!(".{ID}"))
            .ok_or("its struct sched_ext_ops has no sub_cgroup_id: Linux has sub-schedulers from 7.1 on")?;
        self.request.cgroup_ids = [in_ops, place(self, ID, "").unwrap_or(ptr::null_mut())];
        let group = CString::new(group).map_err(|_| "its path holds a NUL")?;
        self.request.cgroup = group.as_ptr();
        self._names.push(group);
        Ok(())
    }

    /// Where a user-space part that decides hears of tasks and says what it decides, by the names that scx_userland
    /// has for it.
    fn find_userland(&mut self) {
        /// Its option -b.
        const BATCH: u32 = 8;
        let at = |name: &str| self.variables.get(name).map(|v| v.address as *mut c_void);
        let [Some(pid), Some(queued), Some(scheduled), Some(enqueued), Some(dispatched)] =
            ["usersched_pid", "nr_queued", "nr_scheduled", "enqueued", "dispatched"].map(at)
        else {
            return;
        };
        let meeting = Userland { pid, queued, scheduled, enqueued, dispatched, batch: BATCH, reserved: 0 };
        self.request.userland = &raw const **self._userland.insert(Box::new(meeting));
    }

    fn user_space(&self, cpus: &[Topo]) -> UserSpace {
        let names: Vec<&str> = self.variables.keys().map(String::as_str).collect();
        let size_of = |wanted: &str| {
            self.btf.composites().filter(|(name, ..)| *name == wanted).map(|(_, bytes, _)| bytes).max()
        };
        userspace::defaults(&self.name, &names, &Hardware { cpus, size_of: &size_of })
    }

    fn configure(
        &mut self,
        user_space: UserSpace,
        params: &[(String, String)],
        enumerators: &BTreeMap<String, i64>,
    ) -> Result<(), String> {
        let given: Vec<(String, String)> =
            params.iter().filter(|(name, _)| self.has(name)).cloned().collect();
        for (path, value) in &user_space.settings {
            // enumerators of other versions stay 0, as in every loader
            if !path.starts_with("__SCX_") || enumerators.contains_key(value) {
                self.set(path, value, enumerators)?;
            }
        }
        for (path, value) in &given {
            self.set(path, value, enumerators)?;
        }
        self.given = given.iter().map(|(name, _)| name.clone()).collect();
        let stated = user_space.settings.into_iter().filter(|(name, _)| !self.given.contains(name));
        self.defaults = stated.filter(|(name, _)| !name.starts_with("__SCX_")).collect();
        self.missing = user_space.missing;
        if let Some(cpu) = user_space.init_on.and_then(|name| self.get(name, "")) {
            self.request.init_cpu = cpu as i64;
        }
        for Call { program, context, mask } in user_space.calls {
            let call = Syscall {
                program: ptr::null_mut(),
                context: ptr::null_mut(),
                mask: mask.as_ptr(),
                mask_words: mask.len() as u64,
                next: ptr::null_mut(),
            };
            self.calls.push(PreparedCall { program, call: Box::new(call), context, _mask: mask });
        }
        self.initial = self.numbers().into_iter().map(|(name, _, value)| (name, value)).collect();
        Ok(())
    }

    /// Programs that are run by request, and those that something other than the scheduler class would call.
    fn find_programs(&mut self, elf: &Elf<'_>, symbols: &[Symbol]) {
        let base = self.abi as usize
            - symbols.iter().find(|s| s.name == "schedlab_scx").map_or(0, |s| s.value as usize);
        let mut next: *mut c_void = ptr::null_mut();
        for PreparedCall { program, call, context, .. } in self.calls.iter_mut().rev() {
            let address = symbols
                .iter()
                .find(|s| s.name == *program && s.section != 0)
                .map(|s| base + s.value as usize);
            call.program = address.unwrap_or(0) as *mut c_void;
            call.context = context.as_mut_ptr().cast();
            call.next = next;
            next = call.context;
        }
        const HOOKS: [&str; 10] = [
            "tp_btf",
            "fentry",
            "fexit",
            "kprobe",
            "kretprobe",
            "tracepoint",
            "tp/",
            "raw_tp",
            "perf_event",
            "lsm",
        ];
        let hooks = elf.sections.iter().map(|s| s.name.trim_start_matches('?'));
        self.not_attached =
            hooks.filter(|n| HOOKS.iter().any(|h| n.starts_with(h))).map(str::to_owned).collect();
    }

    /// Whether a `--param` of this name is the scheduler's.
    pub fn has(&self, name: &str) -> bool {
        let (variable, _) = settings::split(name);
        // NAME@/GROUP is a sub-scheduler's
        super::sub_of(name).is_none()
            && self.variables.contains_key(variable)
            && self.maps.iter().all(|m| m.name != variable)
    }

    fn set(&mut self, path: &str, value: &str, enumerators: &BTreeMap<String, i64>) -> Result<(), String> {
        let (name, rest) = settings::split(path);
        let variable = self.variables.get(name).ok_or_else(|| format!("it has no variable {name}"))?;
        let place =
            settings::resolve(&self.btf, variable.id, rest).map_err(|why| format!("{path}: {why}"))?;
        let number = settings::number(value, enumerators, place.bytes, place.signed)
            .map_err(|why| format!("{path}: {why}"))?;
        let to = (variable.address + place.offset as usize) as *mut u8;
        let bytes = number.to_le_bytes();
        // SAFETY: within the variable, by its type; the object's data is writable; nothing runs yet.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, place.bytes as usize) };
        Ok(())
    }

    fn get(&self, name: &str, path: &str) -> Option<i128> {
        let variable = self.variables.get(name)?;
        let place = settings::resolve(&self.btf, variable.id, path).ok()?;
        // SAFETY: within the variable, by its type.
        let raw = unsafe { peek(variable.address + place.offset as usize, place.bytes) };
        Some(settings::show(place, raw))
    }

    /// All variables that are numbers, and the numbers in variables that are structures or short arrays of
    /// either: name, whether constant, value. (Constant arrays are tables.)
    fn numbers(&self) -> Vec<(String, bool, i128)> {
        let mut found = Vec::new();
        for (name, variable) in &self.variables {
            // longer ones hold something for each CPU or task
            const ELEMENTS: u32 = 64;
            let is_map = self.maps.iter().any(|m| m.name == *name);
            let paths: Vec<String> = match self.btf.kind(self.btf.plain(variable.id).0) {
                TypeKind::Array { element, length }
                    if *length <= ELEMENTS && !is_map && !self.btf.plain(variable.id).1 =>
                {
                    let inner = match self.btf.kind(self.btf.plain(*element).0) {
                        TypeKind::Composite { members, .. } => {
                            members.iter().map(|m| format!(".{}", m.name)).collect()
                        }
                        _ => vec![String::new()],
                    };
                    let of = |index| inner.iter().map(move |path| format!("[{index}]{path}"));
                    (0..*length).flat_map(of).collect()
                }
                // (the operations, maps, and what libbpf's user_exit_info is for are no statistics)
                TypeKind::Composite { members, name: kind, .. }
                    if kind != "user_exit_info" && !kind.starts_with("sched_ext_ops") && !is_map =>
                {
                    members.iter().map(|m| format!(".{}", m.name)).collect()
                }
                TypeKind::Composite { .. } => continue,
                _ => vec![String::new()],
            };
            for path in paths {
                let Ok(place) = settings::resolve(&self.btf, variable.id, &path) else { continue };
                // SAFETY: within the variable, by its type.
                let raw = unsafe { peek(variable.address + place.offset as usize, place.bytes) };
                found.push((format!("{name}{path}"), place.is_const, settings::show(place, raw)));
            }
        }
        found
    }

    /// What process 1 has to call, in this order.
    pub(crate) fn calls(&mut self) -> Vec<KernelCall> {
        // SAFETY: the table is a static of the object.
        let table = unsafe { &*self.abi };
        let request: *mut ScxRequest = &mut *self.request;
        let name = &self.name;
        let one = |what: String, function: u64, argument: u64| KernelCall { what, function, argument };
        let mut list = vec![one(format!("making the maps of {name}"), table.load as u64, request as u64)];
        for PreparedCall { program, call, .. } in &mut self.calls {
            let call: *mut Syscall = &mut **call;
            list.push(one(format!("running {program}"), table.call as u64, call as u64));
        }
        list.push(one(format!("attaching {name}"), table.attach as u64, request as u64));
        list
    }

    /// What the kernel said about a refusal: `map task_ctx_stor`.
    pub(crate) fn refused(&self) -> String {
        text_of(&self.request.failed)
    }

    fn record(&self) -> *const ExitRecord {
        // SAFETY: the table and the record are statics of the object.
        unsafe { (*self.abi).exit }
    }

    /// Whether the kernel has called the scheduler's exit().
    #[inline]
    pub(crate) fn has_exited(&self) -> bool {
        // SAFETY: as for `record`; nothing runs.
        unsafe { ptr::read_volatile(&raw const (*self.record()).exited) != 0 }
    }

    /// The kernel's kind of its exit, if it has exited.
    #[inline]
    pub(crate) fn exit_kind(&self) -> u32 {
        // SAFETY: as for `record`; nothing runs.
        unsafe { ptr::read_volatile(&raw const (*self.record()).kind) }
    }

    /// Why the scheduler is gone, if it is.
    pub fn exit(&self) -> Option<ScxExit> {
        if !self.has_exited() {
            return None;
        }
        // SAFETY: as for `record`; written once, before `exited`.
        let r = unsafe { &*self.record() };
        let names = Names::read(&self.kernel_object, self.kernel_text);
        let names = names.unwrap_or_default();
        let (start, end) = (self.kernel_text as u64, self.kernel_end as u64);
        let (object, text) = &self.text;
        let code: Vec<Code> = Code::of_kernel(&self.kernel_object, start, end)
            .into_iter()
            .chain(Code::of_scheduler(object, text.start as u64, text.end as u64))
            .collect();
        // (scx_ops_exit_kind(), scx_vexit(): what saved the stack)
        let begins =
            |name: &str| name.starts_with("scx_") && (name.contains("exit") || name.contains("error"));
        let saved = &r.stack[..(r.nr_stack as usize).min(r.stack.len())];
        Some(ScxExit {
            kind: r.kind,
            code: r.code,
            reason: text_of(&r.reason),
            message: text_of(&r.message),
            stack: saved_chain(saved, &code, begins).iter().map(ToString::to_string).collect(),
            dump: names.replace(&dump::with_callers(&text_of(&r.dump), &code)),
        })
    }

    /// What is to be reported when the run is over: group, name, value.
    pub(crate) fn account(&self) -> Vec<(String, String, String)> {
        let mut rows = Vec::new();
        let mut row = |group: &str, name: &str, value: String| {
            rows.push((group.to_owned(), name.to_owned(), value));
        };
        row("scheduler", "name", self.name.clone());
        row("scheduler", "source", self.source.clone());
        for (name, value) in &self.defaults {
            row("defaults", name, value.clone());
        }
        for what in &self.missing {
            row("scheduler", "not done", (*what).to_owned());
        }
        for program in &self.not_attached {
            row("scheduler", "not attached", program.clone());
        }
        for (name, is_const, value) in self.numbers() {
            if name.starts_with("__SCX_") {
            } else if is_const {
                row("settings", &name, value.to_string());
            } else if self.initial.get(&name) != Some(&value) {
                row("statistics", &name, value.to_string());
            }
        }
        for map in &self.maps {
            let sums = self.sums(map);
            let is_kernels = |name: &str| self.enumerators.contains_key(name);
            let names = self.btf.names_of_counters(sums.len(), "stat", is_kernels);
            for (index, value) in sums.into_iter().enumerate() {
                let index = names.as_ref().map_or(index.to_string(), |names| names[index].to_owned());
                row("statistics", &format!("{}[{index}]", map.name), value.to_string());
            }
        }
        let counts = semantics::counts();
        if counts.divisions > 0 {
            row("emulated", "divisions by zero", counts.divisions.to_string());
        }
        if counts.loads > 0 {
            row("emulated", "loads through bad pointers", counts.loads.to_string());
        }
        rows
    }
}

/// A setting of a scheduler, as its object has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScxSetting {
    /// Variable.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u32,
    /// Its value unless something else is asked for.
    pub default: i128,
    /// A constant to the scheduler: an option. Else a variable that it changes itself.
    pub is_option: bool,
}

/// What `--param` can set by name alone: numbers, options first.
pub fn settings_of(compiled: &CompiledScx) -> Result<Vec<ScxSetting>, String> {
    let data = fs::read(&compiled.object).map_err(|e| format!("{}: {e}", compiled.object.display()))?;
    let elf = Elf::parse(&data).ok_or("the scheduler's object is damaged")?;
    let btf = elf
        .section(".BTF")
        .and_then(|s| Btf::parse(s.data).ok())
        .ok_or("the scheduler's object has no types")?;
    let symbols = elf.symbols();
    let mut found = Vec::new();
    for (name, id) in btf.variables().filter(|(name, _)| !name.starts_with("__SCX_")) {
        let Ok(place) = settings::resolve(&btf, id, "") else { continue };
        let Some(symbol) = symbols.iter().find(|s| s.name == name && s.section != 0) else { continue };
        let Some(section) = elf.sections.get(symbol.section as usize) else { continue };
        let at = symbol.value.wrapping_sub(section.address) as usize;
        // without bytes in the file: zeros
        let bytes = section.data.get(at..at + place.bytes as usize).unwrap_or(&[]);
        let raw = bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        let default = settings::show(place, raw);
        found.push(ScxSetting {
            name: name.to_owned(),
            bytes: place.bytes,
            default,
            is_option: place.is_const,
        });
    }
    found.sort_by(|a, b| (!a.is_option, &a.name).cmp(&(!b.is_option, &b.name)));
    Ok(found)
}

/// Names for addresses within the kernel object: functions and variables.
#[derive(Default)]
struct Names {
    symbols: Symbols,
    /// Where the object is loaded.
    base: u64,
}

impl Names {
    fn read(object: &Path, kernel_text: usize) -> Option<Names> {
        let data = fs::read(object).ok()?;
        let symbols = Symbols::of(&Elf::parse(&data)?, &[SymbolKind::Function, SymbolKind::Variable]);
        let base = (kernel_text as u64).wrapping_sub(symbols.text_start());
        (symbols.text_start() != 0).then_some(Names { symbols, base })
    }

    fn of(&self, address: u64) -> Option<String> {
        let (name, inside) = self.symbols.find(address.wrapping_sub(self.base))?;
        Some(if inside == 0 { name.to_owned() } else { format!("{name}+{inside:#x}") })
    }

    /// A text with names in place of such addresses: what it says does not depend on where the object is loaded.
    fn replace(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("0x") {
            let (before, number) = rest.split_at(at);
            out.push_str(before);
            let digits = number[2..].find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(number.len() - 2);
            let (word, after) = number.split_at(2 + digits);
            let address = u64::from_str_radix(&word[2..], 16).ok().filter(|_| digits > 8);
            match address.and_then(|a| self.of(a)) {
                Some(name) => out.push_str(&name),
                None => out.push_str(word),
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

fn read_enumerators(path: &Path) -> std::io::Result<BTreeMap<String, i64>> {
    let text = fs::read_to_string(path)?;
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    Ok(text.lines().filter_map(pair).collect())
}

/// A file without a name that has these bytes: where it is opened as long as the process lives. (What its
/// number is the dynamic loader takes for the object's name: it is never closed.)
pub(super) fn copied(data: &[u8]) -> std::io::Result<PathBuf> {
    // SAFETY: the name is a text that ends in NUL.
    let fd = unsafe { libc::memfd_create(c"sub-scheduler".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made, and which nothing else has.
    let mut file = std::mem::ManuallyDrop::new(unsafe { fs::File::from_raw_fd(fd) });
    file.write_all(data)?;
    Ok(PathBuf::from(format!("/proc/self/fd/{fd}")))
}

/// Settings are constants to the scheduler: its read-only data is written to before it runs.
fn make_writable(elf: &Elf<'_>, base: usize) -> std::io::Result<()> {
    const PAGE: u64 = 4096;
    for s in elf.sections.iter().filter(|s| s.is_loaded && !s.is_code && s.size > 0) {
        let from = s.address / PAGE * PAGE;
        let len = (s.address + s.size).next_multiple_of(PAGE) - from;
        let code = elf.sections.iter().filter(|c| c.is_code && c.size > 0);
        if code.into_iter().any(|c| c.address < from + len && from < c.address + c.size) {
            continue; // shares a page with code: dynamic linking's own tables
        }
        // SAFETY: pages of the object's data; adding write permission breaks no one's assumption.
        let failed = unsafe {
            libc::mprotect(
                (base + from as usize) as *mut c_void,
                len as usize,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if failed != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// What a compiler calls of its own accord, and the kernel object has from the host's C library, too; else 0.
fn host_function(name: &str) -> usize {
    match name {
        "memset" => libc::memset as *const () as usize,
        "memcpy" => libc::memcpy as *const () as usize,
        "memmove" => libc::memmove as *const () as usize,
        "memcmp" => libc::memcmp as *const () as usize,
        _ => 0,
    }
}

/// Write the addresses of the kernel's functions and variables where the object refers to them. What the
/// kernel has not stays 0.
fn link(
    imports: Vec<(u64, i64, String)>,
    base: usize,
    kernel_object: &Path,
    kernel_text: usize,
) -> Result<(), String> {
    let plain = |name: &str| name.strip_prefix(KERNEL_PREFIX).unwrap_or(name).to_owned();
    let mut wanted: BTreeSet<String> = imports.iter().map(|(_, _, name)| plain(name)).collect();
    wanted.extend(imports.iter().map(|(_, _, name)| essential(&plain(name)).to_owned()));
    wanted.insert(TEXT_START.to_owned());
    let data = fs::read(kernel_object).map_err(|e| format!("{}: {e}", kernel_object.display()))?;
    let kernel = Elf::parse(&data).ok_or("the kernel object is damaged")?;
    let known = lookup(&kernel.symbols(), &wanted);
    let text = *known.get(TEXT_START).ok_or("the kernel object has no symbol table")? as usize;
    for (at, addend, name) in imports {
        let name = plain(&name);
        let value = match known.get(&name).or_else(|| known.get(essential(&name))) {
            Some(value) => (kernel_text - text + *value as usize).wrapping_add(addend as usize),
            None => host_function(&name),
        };
        // SAFETY: a slot that the dynamic loader has just filled, in data made writable.
        unsafe { ((base + at as usize) as *mut usize).write_unaligned(value) };
    }
    Ok(())
}
