//! What does each event's program write? The very bytes that ftrace would: its format text says where each
//! field stands, the kernel's description of its types says where the field's value is.
//!
//! ```text
//! sched_waking   fields of events/sched/sched_waking/format      from the tracepoint's argument, a task_struct
//!                comm  offset 8  size 16                         task->comm
//!                pid   offset 24 size 4                          task->pid
//! sample         time u64 | lost so far u32 | length u32 | the record as ftrace writes it
//! ```
//!
//! So everything that reads a trace reads these records too. Not taken: names of files executed and of
//! interrupts (they are empty; the readers do not need them), and what is not worth a program: a field
//! without a source is zero.

use schedlab_trace::{EventFormat, Field, FieldKind};

use super::insn::{Asm, FRAME, Helper, If, Label, R0, R1, R2, R3, R6, R7, R8, R9, Size};
use super::locks::{self, LockFunction};
use super::objects::{self, Which};
use schedlab_btf::{Btf, Named, TypeId};
use std::collections::BTreeMap;

/// Bytes before the record in a sample.
pub(super) const SAMPLE_HEAD: usize = 16;
/// Bytes of a task's name.
const COMM: u32 = 16;
/// Bytes kept of a control group's path.
const PATH: u32 = 256;
/// The state that programs share with the recorder: a switch; then by CPU how many events were lost, and
/// where the kernel counts the interrupts that it is in.
pub(super) const STATE_CPUS: usize = 1024;
/// Bytes of it.
pub(super) const STATE_BYTES: usize = STATE_HEAD + STATE_PER_CPU * STATE_CPUS;
/// Bytes before the CPUs' parts, and of each.
pub(super) const STATE_HEAD: usize = 16;
pub(super) const STATE_PER_CPU: usize = 16;
/// Places from a CPU's base on, which is that of the state plus [`STATE_PER_CPU`] per CPU.
const LOST: i32 = STATE_HEAD as i32;
const COUNT_AT: i32 = STATE_HEAD as i32 + 8;
/// Greater than any sample: how far beyond the mark a ring may be for the event that wakes the reader to be recognised.
const MARK_WINDOW: i32 = 1024;

const RB_NO_WAKEUP: i32 = 1;
const RB_FORCE_WAKEUP: i32 = 2;

/// Bit of `prev_state` as the program writes it: preempted. The state when it died is in the upper half.
pub(super) const PREEMPTED: u32 = 1 << 31;

/// Where a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attach {
    /// A tracepoint.
    Tracepoint(TypeId),
    /// The beginning of a function.
    Enter(TypeId),
    /// Its end.
    Exit(TypeId),
}

/// Where a field's value comes from. Arguments are counted from 0.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    /// An argument.
    Arg(u32),
    /// A member, by its path, of what an argument points to.
    Member(u32, &'static str),
    /// The name of the task that an argument points to.
    Comm(u32),
    /// A text that an argument points to.
    Text(u32),
    /// An empty text.
    Empty,
    /// `prev_state`: argument with the state (none: the task's own), argument that says whether it was preempted.
    State { prev: u32, state: Option<u32> },
    /// The priority that the second task lends to the first.
    Lent,
    /// A member of what a member points to: struct of the first, its member, member there.
    Through(u32, &'static str, &'static str),
    /// What a function returns, behind so many arguments.
    Returned(u32),
    /// What stands on the program's own stack.
    Stack(i32),
}

/// Fields of a record with their sources.
type Fields = Vec<(&'static str, Source)>;

/// A program, ready to be loaded.
pub(super) struct Program {
    pub attach: Attach,
    pub code: Vec<u8>,
}

/// Everything that programs of one recording share.
pub(super) struct Generator<'a> {
    pub btf: &'a Btf,
    /// Types by kind and name.
    pub types: &'a BTreeMap<(Named, String), TypeId>,
    /// Map of rings by CPU.
    pub rings: i32,
    /// Map with the shared state.
    pub state: i32,
    /// Bytes in a ring at which the reader is woken.
    pub mark: i32,
    /// Hierarchy of control groups whose moves are wanted.
    pub hierarchy: Option<u32>,
    /// Where the kernel counts the interrupts that a CPU is in.
    pub interrupts: InterruptCount,
    /// Format of `sys_enter_sched_yield`, if switches are to tell yields.
    pub yields: Option<EventFormat>,
    /// The function that a program for the C library's locks is for.
    pub lock: LockFunction,
}

/// Where the kernel's preempt_count of a CPU is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterruptCount {
    /// A variable that programs may name, and the place in it.
    Variable(TypeId, u32),
    /// A kernel that does not tell programs where its variables are: so far from the CPU's run queue, which
    /// the current task knows.
    FromRunqueue(i32),
}

impl InterruptCount {
    /// How it is found here. `named`: whether programs may name the kernel's variables.
    pub(super) fn find(
        btf: &Btf,
        types: &BTreeMap<(Named, String), TypeId>,
        named: bool,
    ) -> Result<InterruptCount, Unsupported> {
        let variable = |name: &str| types.get(&(Named::Variable, name.to_owned())).copied();
        let hot = || {
            let of = types.get(&(Named::Struct, "pcpu_hot".to_owned()))?;
            Some((variable("pcpu_hot")?, btf.path(*of, "preempt_count")?))
        };
        let missing = "the kernel does not describe its preempt_count";
        let (count, offset) = match variable("__preempt_count") {
            Some(id) => (id, 0),
            None => hot().ok_or(missing)?,
        };
        if named {
            return Ok(InterruptCount::Variable(count, offset));
        }
        let place = |id| btf.place_per_cpu(id).map(|at| at as i32);
        let queue = variable("runqueues").and_then(place).ok_or(missing)?;
        Ok(InterruptCount::FromRunqueue(place(count).ok_or(missing)? + offset as i32 - queue))
    }
}

/// The wanted event has no program here; why.
pub(super) type Unsupported = String;

/// `sched_yield`'s number (arch/x86/entry/syscalls/syscall_64.tbl).
const SCHED_YIELD: i32 = 24;
/// `PF_KTHREAD` (include/linux/sched.h): its place for registers holds none.
const KERNEL_THREAD: i32 = 0x0020_0000;

/// The event of what happens at an object, without its system; the same, written by programs at the C library's locks.
const OBJECT: &str = "object";
const LOCK: &str = "lock";

/// A system call.
struct Call {
    /// Its name in the events, behind sys_enter_.
    name: &'static str,
    /// The function that does it.
    function: &'static str,
    /// Its arguments: name of the field, register.
    arguments: &'static [(&'static str, &'static str)],
}

const fn call(
    name: &'static str,
    function: &'static str,
    arguments: &'static [(&'static str, &'static str)],
) -> Call {
    Call { name, function, arguments }
}

/// The calls. (`sched_yield` shows in the switch that it causes: the registers of a task that leaves its
/// CPU still runnable say in which call it is.)
const CALLS: &[Call] = &[
    call("setpriority", "__x64_sys_setpriority", &[("which", "di"), ("who", "si"), ("niceval", "dx")]),
    call(
        "sched_setscheduler",
        "__x64_sys_sched_setscheduler",
        &[("pid", "di"), ("policy", "si"), ("param", "dx")],
    ),
    call("sched_setattr", "__x64_sys_sched_setattr", &[("pid", "di"), ("uattr", "si"), ("flags", "dx")]),
    call(
        "sched_setaffinity",
        "__x64_sys_sched_setaffinity",
        &[("pid", "di"), ("len", "si"), ("user_mask_ptr", "dx")],
    ),
    call("setsid", "__x64_sys_setsid", &[]),
];

/// Types that programs may need.
pub(super) fn wanted_types() -> Vec<(Named, String)> {
    let structs = ["task_struct", "cfs_rq", "pt_regs", "cgroup", "cgroup_root", "kernfs_node", "pcpu_hot"];
    let mut wanted: Vec<(Named, String)> =
        structs.iter().map(|name| (Named::Struct, (*name).to_owned())).collect();
    wanted.extend(objects::STRUCTS.iter().map(|name| (Named::Struct, (*name).to_owned())));
    wanted
        .extend(["__preempt_count", "pcpu_hot", "runqueues"].map(|name| (Named::Variable, name.to_owned())));
    wanted.extend(CALLS.iter().map(|call| (Named::Function, call.function.to_owned())));
    wanted
}

/// The name of the type that describes a tracepoint.
pub(super) fn trace_type(event: &str) -> String {
    // the ends of system calls say what happens at objects
    let event = if event == OBJECT { "sys_exit" } else { event };
    format!("btf_trace_{event}")
}

impl Generator<'_> {
    fn type_of(&self, kind: Named, name: &str) -> Result<TypeId, Unsupported> {
        let id = self.types.get(&(kind, name.to_owned()));
        id.copied().ok_or_else(|| format!("the kernel does not describe {name}"))
    }

    pub(super) fn offset(&self, of: &str, path: &str) -> Result<u32, Unsupported> {
        let id = self.type_of(Named::Struct, of)?;
        self.btf.path(id, path).ok_or_else(|| format!("struct {of} has no {path} here"))
    }

    /// The program for an event, `system:name`, with this format.
    pub(super) fn program(&self, name: &str, format: &EventFormat) -> Result<Program, Unsupported> {
        let (system, event) = crate::events::split(name);
        let (attach, sources) = match system {
            "syscalls" => self.call(event)?,
            _ => {
                let id = self.type_of(Named::Typedef, &trace_type(event))?;
                (Attach::Tracepoint(id), self.tracepoint(event, id)?)
            }
        };
        Ok(Program { attach, code: self.code(event, format, &sources)? })
    }

    /// The program for a function of the C library's locks: the event of objects, with this format.
    pub(super) fn lock_program(
        &mut self,
        function: LockFunction,
        format: &EventFormat,
    ) -> Result<Vec<u8>, Unsupported> {
        self.lock = function;
        self.code(LOCK, format, &locks::fields())
    }

    /// The fields of a system call's event.
    fn call(&self, event: &str) -> Result<(Attach, Fields), Unsupported> {
        let name = event.strip_prefix("sys_enter_").or_else(|| event.strip_prefix("sys_exit_"));
        let call = CALLS.iter().find(|call| Some(call.name) == name);
        let Call { function, arguments, .. } = call.ok_or("no program for this system call")?;
        let function = self.type_of(Named::Function, function)?;
        if event.starts_with("sys_exit_") {
            let parameters = self.btf.parameters(function).unwrap_or_default().len() as u32;
            return Ok((Attach::Exit(function), vec![("ret", Source::Returned(parameters))]));
        }
        let register =
            |(field, register): &(&'static str, &'static str)| (*field, Source::Member(0, register));
        Ok((Attach::Enter(function), arguments.iter().map(register).collect()))
    }

    /// The fields of a tracepoint's event.
    fn tracepoint(&self, event: &str, id: TypeId) -> Result<Fields, Unsupported> {
        use Source::{Arg, Comm, Empty, Member, Text, Through};
        let mut parameters = self.btf.parameters(id).ok_or("its arguments are not described")?;
        if parameters.is_empty() {
            return Err("its arguments are not described".to_owned());
        }
        // the first is the tracer's own
        parameters.remove(0);
        let is_task = |name: &&str| *name == "task_struct";
        Ok(match event {
            OBJECT => objects::fields(),
            "sched_switch" => {
                let tasks: Vec<u32> =
                    (0..).zip(&parameters).filter(|(_, name)| is_task(name)).map(|(i, _)| i).collect();
                let [prev, next] = tasks[..] else { return Err("it does not pass two tasks".to_owned()) };
                // since 5.18 the state is passed, in 5.18 and 5.19 before the tasks
                let state = (1..).zip(&parameters[1..]).find(|(_, name)| !is_task(name)).map(|(i, _)| i);
                vec![
                    ("prev_comm", Comm(prev)),
                    ("prev_pid", Member(prev, "pid")),
                    ("prev_prio", Member(prev, "prio")),
                    ("prev_state", Source::State { prev, state }),
                    ("next_comm", Comm(next)),
                    ("next_pid", Member(next, "pid")),
                    ("next_prio", Member(next, "prio")),
                ]
            }
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => vec![
                ("comm", Comm(0)),
                ("pid", Member(0, "pid")),
                ("prio", Member(0, "prio")),
                ("target_cpu", Member(0, CPU_OF_TASK)),
            ],
            "sched_process_fork" => vec![
                ("parent_comm", Comm(0)),
                ("parent_pid", Member(0, "pid")),
                ("child_comm", Comm(1)),
                ("child_pid", Member(1, "pid")),
            ],
            "sched_process_exec" => {
                vec![("filename", Empty), ("pid", Member(0, "pid")), ("old_pid", Arg(1))]
            }
            "sched_process_exit" => {
                vec![("comm", Comm(0)), ("pid", Member(0, "pid")), ("prio", Member(0, "prio"))]
            }
            "sched_migrate_task" => vec![
                ("comm", Comm(0)),
                ("pid", Member(0, "pid")),
                ("prio", Member(0, "prio")),
                ("orig_cpu", Member(0, CPU_OF_TASK)),
                ("dest_cpu", Arg(1)),
            ],
            "sched_pi_setprio" => vec![
                ("comm", Comm(0)),
                ("pid", Member(0, "pid")),
                ("oldprio", Member(0, "prio")),
                ("newprio", Source::Lent),
            ],
            "sched_stat_runtime" => {
                vec![("comm", Comm(0)), ("pid", Member(0, "pid")), ("runtime", Arg(1))]
            }
            "cgroup_attach_task" => vec![
                ("dst_root", Through(0, "root", "hierarchy_id")),
                ("dst_level", Member(0, "level")),
                ("dst_id", Through(0, "kn", "id")),
                ("pid", Member(2, "pid")),
                ("dst_path", Text(1)),
                ("comm", Comm(2)),
            ],
            "irq_handler_entry" => vec![("irq", Arg(0)), ("name", Empty)],
            "irq_handler_exit" => vec![("irq", Arg(0)), ("ret", Arg(2))],
            "softirq_raise" | "softirq_entry" | "softirq_exit" => vec![("vec", Arg(0))],
            _ if event.ends_with("_entry") || event.ends_with("_exit") => vec![("vector", Arg(0))],
            _ => return Err("no program for this event".to_owned()),
        })
    }

    /// The struct that a member belongs to, by the event.
    fn struct_of(event: &str, argument: u32) -> &'static str {
        match event {
            _ if event.starts_with("sys_") || event == OBJECT || event == LOCK => "pt_regs",
            "cgroup_attach_task" if argument == 0 => "cgroup",
            _ => "task_struct",
        }
    }

    fn code(
        &self,
        event: &str,
        format: &EventFormat,
        sources: &[(&'static str, Source)],
    ) -> Result<Vec<u8>, Unsupported> {
        let field = |name: &str| format.field(name).ok_or_else(|| format!("its format has no {name}"));
        // Texts whose field holds place and length stand behind the fields.
        let fixed = format.fields.iter().map(|f| f.offset + f.size).max().unwrap_or(0);
        let mut length = fixed;
        let mut texts = BTreeMap::new();
        for (name, source) in sources {
            let room = match source {
                Source::Comm(_) => COMM,
                Source::Text(_) => PATH,
                Source::Empty => 1,
                _ => continue,
            };
            if field(name)?.kind != FieldKind::Array {
                texts.insert(*name, (length, room));
                length += room;
            }
        }
        let length = length.next_multiple_of(8);

        let mut asm = Asm::default();
        let (out, lost) = (asm.label(), asm.label());
        asm.mov(R6, R1);
        asm.map_value(R7, self.state);
        asm.load(Size::Long, R1, R7, 0);
        asm.jump(If::Eq(0), R1, out);
        if let (Some(wanted), "cgroup_attach_task") = (self.hierarchy, event) {
            self.through(&mut asm, event, 0, "root", "hierarchy_id")?;
            asm.jump(If::Ne(wanted as i32), R2, out);
        }
        let write = |asm: &mut Asm| self.record(asm, (event, format), sources, (length, &texts), (out, lost));
        match event {
            OBJECT => {
                let second = asm.label();
                self.object_of_call(&mut asm, Which::First, second)?;
                write(&mut asm)?;
                asm.here(second);
                asm.map_value(R7, self.state);
                self.object_of_call(&mut asm, Which::Second, out)?;
            }
            LOCK => self.lock_of_call(&mut asm)?,
            _ => {}
        }
        write(&mut asm)?;
        asm.here(out);
        asm.set(R0, 0);
        asm.exit();
        asm.here(lost);
        asm.set(R1, 1);
        asm.atomic_add(R7, LOST, R1);
        asm.set(R0, 0);
        asm.exit();
        Ok(asm.finish())
    }

    /// Writes the record. r7: the state, and this CPU's part of it then.
    fn record(
        &self,
        asm: &mut Asm,
        (event, format): (&str, &EventFormat),
        sources: &[(&'static str, Source)],
        (length, texts): (u32, &BTreeMap<&str, (u32, u32)>),
        (out, lost): (Label, Label),
    ) -> Result<(), Unsupported> {
        asm.call(Helper::SmpProcessorId);
        asm.mov(R8, R0);
        asm.and(R8, STATE_CPUS as i32 - 1);
        asm.store(Size::Word, FRAME, -4, R8);
        asm.map(R1, self.rings);
        asm.mov(R2, FRAME);
        asm.add(R2, -4);
        asm.call(Helper::MapLookup);
        asm.jump(If::Eq(0), R0, out);
        asm.mov(R9, R0);
        asm.shift_left(R8, STATE_PER_CPU.ilog2() as i32);
        asm.add_reg(R7, R8);
        if let (Some(yields), "sched_switch") = (&self.yields, event) {
            self.yielded(asm, yields, sources)?;
        }
        self.begin(asm, format, length, lost)?;
        for (name, source) in sources {
            let field = format.field(name).ok_or_else(|| format!("its format has no {name}"))?;
            self.field(asm, event, field, texts.get(name).copied(), *source)?;
        }
        self.end(asm);
        Ok(())
    }

    /// r8: a sample for a record of this length, with time, losses and what every event begins with.
    fn begin(
        &self,
        asm: &mut Asm,
        format: &EventFormat,
        length: u32,
        lost: Label,
    ) -> Result<(), Unsupported> {
        let sample = SAMPLE_HEAD as i32 + length as i32;
        asm.mov(R1, R9);
        asm.set(R2, sample);
        asm.set(R3, 0);
        asm.call(Helper::RingbufReserve);
        asm.jump(If::Eq(0), R0, lost);
        asm.mov(R8, R0);
        for at in (0..sample).step_by(8) {
            asm.store_value(Size::Long, R8, at, 0);
        }
        asm.call(Helper::KtimeGetNs);
        asm.store(Size::Long, R8, 0, R0);
        asm.load(Size::Long, R1, R7, LOST as u32);
        asm.store(Size::Word, R8, 8, R1);
        asm.store_value(Size::Word, R8, 12, length as i32);
        self.common(asm, format)
    }

    /// Hands the sample on; the reader is woken when the ring has just come to the mark.
    fn end(&self, asm: &mut Asm) {
        let quiet = asm.label();
        asm.mov(R1, R9);
        asm.set(R2, 0);
        asm.call(Helper::RingbufQuery);
        asm.add(R0, -self.mark);
        asm.set(R2, RB_NO_WAKEUP);
        asm.jump(If::Ge(MARK_WINDOW), R0, quiet);
        asm.set(R2, RB_FORCE_WAKEUP);
        asm.here(quiet);
        asm.mov(R1, R8);
        asm.call(Helper::RingbufSubmit);
    }

    /// Before a switch: if the task that leaves is runnable, was not preempted and is in `sched_yield`, its call.
    fn yielded(
        &self,
        asm: &mut Asm,
        format: &EventFormat,
        sources: &[(&'static str, Source)],
    ) -> Result<(), Unsupported> {
        let Some((prev, Some(state))) = sources.iter().find_map(|(_, source)| match source {
            Source::State { prev, state } => Some((*prev, *state)),
            _ => None,
        }) else {
            return Err("the switch does not pass its state".to_owned());
        };
        let no = asm.label();
        asm.load(Size::Long, R1, R6, 0);
        asm.and(R1, 1);
        asm.jump(If::Ne(0), R1, no);
        asm.load(Size::Long, R1, R6, 8 * state);
        asm.shift_left(R1, 32);
        asm.jump(If::Ne(0), R1, no);
        asm.load(Size::Long, R1, R6, 8 * prev);
        asm.load(Size::Word, R2, R1, self.offset("task_struct", "flags")?);
        asm.jump(If::Has(KERNEL_THREAD), R2, no);
        asm.call(Helper::TaskPtRegs);
        asm.load(Size::Long, R1, R0, self.offset("pt_regs", "orig_ax")?);
        asm.jump(If::Ne(SCHED_YIELD), R1, no);
        let fixed = format.fields.iter().map(|f| f.offset + f.size).max().unwrap_or(0);
        let full = asm.label();
        self.begin(asm, format, fixed.next_multiple_of(8), full)?;
        self.end(asm);
        asm.jump(If::Always, R0, no);
        asm.here(full);
        asm.set(R1, 1);
        asm.atomic_add(R7, LOST, R1);
        asm.here(no);
        Ok(())
    }

    /// What every event begins with: its number, the interrupt it happened in, the task.
    fn common(&self, asm: &mut Asm, format: &EventFormat) -> Result<(), Unsupported> {
        let place = |name: &str| {
            let field = format.field(name).ok_or_else(|| format!("its format has no {name}"))?;
            Ok::<i32, Unsupported>(SAMPLE_HEAD as i32 + field.offset as i32)
        };
        asm.store_value(Size::Half, R8, place("common_type")?, i32::from(format.id));
        asm.call(Helper::CurrentPidTgid);
        asm.store(Size::Word, R8, place("common_pid")?, R0);
        // include/linux/preempt.h: softirqs at bit 8, hardware interrupts at 16, NMIs at 20
        match self.interrupts {
            InterruptCount::Variable(variable, offset) => {
                asm.variable(R1, variable);
                asm.call(Helper::ThisCpuPtr);
                asm.load(Size::Word, R1, R0, offset);
            }
            InterruptCount::FromRunqueue(distance) => self.count_by_queue(asm, distance)?,
        }
        asm.set(R2, 0);
        for (bits, flag) in [(0x0000_0100, 0x10), (0x000f_0000, 0x08), (0x00f0_0000, 0x40)] {
            let (has, on) = (asm.label(), asm.label());
            asm.jump(If::Has(bits), R1, has);
            asm.jump(If::Always, R0, on);
            asm.here(has);
            asm.or(R2, flag);
            asm.here(on);
        }
        asm.store(Size::Byte, R8, place("common_flags")?, R2);
        asm.store(Size::Byte, R8, place("common_preempt_count")?, R1);
        Ok(())
    }

    /// r1 = preempt_count. Its address is found once for each CPU: the current task knows its queue, the
    /// queue its CPU's.
    fn count_by_queue(&self, asm: &mut Asm, distance: i32) -> Result<(), Unsupported> {
        let known = asm.label();
        asm.load(Size::Long, R3, R7, COUNT_AT as u32);
        asm.jump(If::Ne(0), R3, known);
        asm.call(Helper::CurrentTask);
        asm.load(Size::Long, R3, R0, self.offset("task_struct", "se.cfs_rq")?);
        asm.add(R3, self.offset("cfs_rq", "rq")? as i32);
        asm.mov(R1, FRAME);
        asm.add(R1, -16);
        asm.set(R2, 8);
        asm.call(Helper::ProbeReadKernel);
        asm.load(Size::Long, R3, FRAME, -16);
        asm.add(R3, distance);
        asm.store(Size::Long, R7, COUNT_AT, R3);
        asm.here(known);
        asm.store_value(Size::Long, FRAME, -16, 0);
        asm.mov(R1, FRAME);
        asm.add(R1, -16);
        asm.set(R2, 4);
        asm.call(Helper::ProbeReadKernel);
        asm.load(Size::Word, R1, FRAME, -16);
        Ok(())
    }

    /// r2 = argument->member->inner
    fn through(
        &self,
        asm: &mut Asm,
        event: &str,
        argument: u32,
        member: &str,
        inner: &str,
    ) -> Result<(), Unsupported> {
        let of = Self::struct_of(event, argument);
        let (offset, id) = (self.btf.member(self.type_of(Named::Struct, of)?, member))
            .ok_or_else(|| format!("struct {of} has no {member} here"))?;
        let to = self.btf.pointed_to(id).ok_or_else(|| format!("{of}.{member} is no pointer here"))?;
        let inner_offset =
            self.btf.path(to, inner).ok_or_else(|| format!("{of}.{member} has no {inner} here"))?;
        asm.load(Size::Long, R1, R6, 8 * argument);
        asm.load(Size::Long, R1, R1, offset);
        // hierarchy_id is an int, a node's id a long
        let size = if inner == "id" { Size::Long } else { Size::Word };
        asm.load(size, R2, R1, inner_offset);
        Ok(())
    }

    fn field(
        &self,
        asm: &mut Asm,
        event: &str,
        field: &Field,
        text: Option<(u32, u32)>,
        source: Source,
    ) -> Result<(), Unsupported> {
        let place = SAMPLE_HEAD as i32 + field.offset as i32;
        let size = Size::of(field.size);
        let size = || size.ok_or_else(|| format!("{} has {} bytes", field.name, field.size));
        if let Some((at, room)) = text {
            asm.store_value(Size::Word, R8, place, (room << 16 | at) as i32);
        }
        match source {
            Source::Arg(argument) | Source::Returned(argument) => {
                asm.load(Size::Long, R2, R6, 8 * argument);
                asm.store(size()?, R8, place, R2);
            }
            Source::Member(argument, path) => {
                let of = Self::struct_of(event, argument);
                let offset = match path {
                    // since 5.16 on x86; before, and elsewhere, a task's own
                    CPU_OF_TASK => self.offset(of, CPU_OF_TASK).or_else(|_| self.offset(of, "cpu"))?,
                    _ => self.offset(of, path)?,
                };
                asm.load(Size::Long, R1, R6, 8 * argument);
                asm.load(if of == "pt_regs" { Size::Long } else { Size::Word }, R2, R1, offset);
                asm.store(size()?, R8, place, R2);
            }
            Source::Through(argument, member, inner) => {
                self.through(asm, event, argument, member, inner)?;
                asm.store(size()?, R8, place, R2);
            }
            Source::Comm(argument) => {
                let to = match (text, field.kind) {
                    (Some((at, _)), _) => SAMPLE_HEAD as i32 + at as i32,
                    (None, FieldKind::Array) if field.size == COMM => place,
                    _ => return Err(format!("{} has {} bytes", field.name, field.size)),
                };
                let offset = self.offset("task_struct", "comm")?;
                asm.load(Size::Long, R1, R6, 8 * argument);
                for half in [0, 8] {
                    asm.load(Size::Long, R2, R1, offset + half);
                    asm.store(Size::Long, R8, to + half as i32, R2);
                }
            }
            Source::Text(argument) => {
                let (at, room) = text.ok_or("its text stands among the fields")?;
                asm.mov(R1, R8);
                asm.add(R1, SAMPLE_HEAD as i32 + at as i32);
                asm.set(R2, room as i32);
                asm.load(Size::Long, R3, R6, 8 * argument);
                asm.call(Helper::ProbeReadKernelStr);
            }
            Source::Stack(at) => {
                let size = size()?;
                asm.load(size, R2, FRAME, at);
                asm.store(size, R8, place, R2);
            }
            Source::Empty => {}
            Source::State { prev, state } => self.state(asm, field, prev, state)?,
            Source::Lent => self.lent(asm, place)?,
        }
        Ok(())
    }

    /// As it is, with [`PREEMPTED`] and the state at death; the reader makes of it what ftrace would.
    fn state(&self, asm: &mut Asm, field: &Field, prev: u32, state: Option<u32>) -> Result<(), Unsupported> {
        if field.size != 8 {
            return Err(format!("prev_state has {} bytes, expected 8", field.size));
        }
        let place = SAMPLE_HEAD as i32 + field.offset as i32;
        match state {
            Some(argument) => asm.load(Size::Long, R2, R6, 8 * argument),
            None => {
                let own = self.offset("task_struct", "__state").map(|offset| (offset, Size::Word));
                let (offset, size) =
                    own.or_else(|_| self.offset("task_struct", "state").map(|offset| (offset, Size::Long)))?;
                asm.load(Size::Long, R1, R6, 8 * prev);
                asm.load(size, R2, R1, offset);
            }
        }
        asm.and(R2, i32::MAX);
        asm.load(Size::Long, R1, R6, 0);
        asm.and(R1, 1);
        asm.shift_left(R1, 31);
        asm.or_reg(R2, R1);
        asm.store(Size::Word, R8, place, R2);
        asm.load(Size::Long, R1, R6, 8 * prev);
        asm.load(Size::Word, R2, R1, self.offset("task_struct", "exit_state")?);
        asm.store(Size::Word, R8, place + 4, R2);
        Ok(())
    }

    /// The lesser of the task's own priority and the lender's, if there is one (a task with a pid).
    fn lent(&self, asm: &mut Asm, place: i32) -> Result<(), Unsupported> {
        let (pid, prio) = (self.offset("task_struct", "pid")?, self.offset("task_struct", "prio")?);
        let (own, end) = (asm.label(), asm.label());
        asm.load(Size::Long, R1, R6, 0);
        asm.load(Size::Word, R2, R1, self.offset("task_struct", "normal_prio")?);
        asm.load(Size::Long, R1, R6, 8);
        asm.jump(If::Eq(0), R1, own);
        asm.load(Size::Word, R3, R1, pid);
        asm.jump(If::Eq(0), R3, own);
        asm.load(Size::Word, R3, R1, prio);
        asm.shift_left(R3, 32);
        asm.mov(R0, R2);
        asm.shift_left(R0, 32);
        asm.jump(If::LeReg(R3), R0, own);
        asm.load(Size::Word, R2, R1, prio);
        asm.here(own);
        asm.jump(If::Always, R0, end);
        asm.here(end);
        asm.store(Size::Word, R8, place, R2);
        Ok(())
    }
}

/// Where a task says on which CPU it is.
const CPU_OF_TASK: &str = "thread_info.cpu";

/// What ftrace shows for the state that a task left a CPU in (`__trace_sched_switch_state`,
/// include/trace/events/sched.h).
pub(super) fn reported_state(raw: u64) -> u64 {
    /// What TASK_REPORT covers: S, D, T, t, X, Z, P.
    const REPORT: u32 = 0x7f;
    const REPORT_IDLE: u64 = 0x80;
    const REPORT_MAX: u64 = 0x100;
    const UNINTERRUPTIBLE: u32 = 2;
    const NOLOAD: u32 = 0x400;
    const RTLOCK_WAIT: u32 = 0x1000;
    const FROZEN: u32 = 0x8000;
    let (state, exit_state) = (raw as u32, (raw >> 32) as u32);
    if state & PREEMPTED != 0 {
        return REPORT_MAX;
    }
    if state & (UNINTERRUPTIBLE | NOLOAD) == (UNINTERRUPTIBLE | NOLOAD) {
        return REPORT_IDLE;
    }
    if state & (RTLOCK_WAIT | FROZEN) != 0 {
        return u64::from(UNINTERRUPTIBLE);
    }
    match (state | exit_state) & REPORT {
        0 => 0,
        bits => 1 << bits.ilog2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_that_ftrace_shows() {
        // running, S, D, idle (D | NOLOAD), preempted although S, dying as X (EXIT_DEAD | EXIT_ZOMBIE -> Z,
        // as fls gives)
        for (raw, shown) in [
            (0, 0),
            (1, 1),
            (2, 2),
            (0x402, 0x80),
            (u64::from(PREEMPTED | 1), 0x100),
            (0x80 | 0x10 << 32, 0x10),
            (0x80 | 0x20 << 32, 0x20),
            (0x8000, 2),
            (0x101, 1),
        ] {
            assert_eq!(reported_state(raw), shown, "{raw:x}");
        }
    }
}
