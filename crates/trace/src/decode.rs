//! Which of the trace's event numbers are which events, and where do their fields stand? Answered once per
//! file from its format texts, so that reading an event is a table look-up and a few loads.

use crate::comm::CommTable;
use crate::error::Problem;
use crate::event::{
    ACCEPT_CALLS, CONNECT_CALL, Carried, ChannelKind, CommId, Context, Direction, IN_PROGRESS,
    OBJECT_AFFINITY, OBJECT_CALLS, OBJECT_CHILD, OBJECT_FUTEX, OBJECT_LOCK, OBJECT_POLLED, ObjectCall, Pid,
    SchedEvent, SwitchSide, SyscallKind, Vector, Wake, sync_call,
};
use crate::format::{EventFormat, FieldKind, Number, Text, bytes_at, format_error, name_and_id};
use crate::marker;
use crate::state::StateDecoder;
use crate::write::EventSystem;
use schedlab_units::CpuId;

/// Reads events of one trace.
pub(crate) struct Decoder {
    common_type: Number,
    common_flags: Option<Number>,
    common_preempt: Option<Number>,
    common_pid: Number,
    /// Bytes that the common fields need.
    common_end: usize,
    /// By event number: row of `layouts`; 0 = none.
    rows: Vec<u8>,
    layouts: Vec<Layout>,
    pub states: StateDecoder,
    switch_id: u16,
}

/// What stands at the begin of every event.
#[derive(Clone, Copy)]
pub(crate) struct Common {
    pub pid: Pid,
    pub context: Context,
    pub preempt_count: u8,
    pub id: u16,
}

/// An event's fields and the least bytes a record of it has.
struct Layout {
    needs: usize,
    what: What,
}

enum What {
    Switch(Box<SwitchFields>),
    Wake {
        kind: WakeKind,
        comm: Text,
        pid: Number,
        prio: Number,
        target_cpu: Option<Number>,
    },
    Fork {
        parent: Number,
        child: Number,
        child_comm: Text,
    },
    Exec {
        pid: Number,
        old_pid: Number,
    },
    Exit {
        pid: Number,
        comm: Text,
        prio: Number,
    },
    Migrate {
        pid: Number,
        prio: Number,
        orig_cpu: Number,
        dest_cpu: Number,
    },
    PiSetPrio {
        pid: Number,
        old_prio: Number,
        new_prio: Number,
    },
    StatRuntime {
        pid: Number,
        runtime: Number,
    },
    Irq {
        irq: Number,
        entry: bool,
    },
    SoftIrq {
        vec: Number,
        phase: SoftIrqPhase,
    },
    Vector {
        vector: Vector,
        entry: bool,
    },
    CgroupAttach {
        pid: Number,
        path: Text,
        root: Number,
    },
    SysEnter {
        call: SyscallKind,
        arguments: [Option<Number>; 3],
    },
    SysExit {
        call: SyscallKind,
        ret: Number,
    },
    Object(ObjectNumbers),
    Stranger {
        busy: Number,
    },
    /// A text from here to the end.
    Print {
        at: usize,
    },
    Unknown,
}

struct SwitchFields {
    prev_comm: Text,
    prev_pid: Number,
    prev_prio: Number,
    prev_state: Number,
    next_comm: Text,
    next_pid: Number,
    next_prio: Number,
}

#[derive(Clone, Copy)]
enum SoftIrqPhase {
    Raise,
    Entry,
    Exit,
}

#[derive(Clone, Copy)]
enum WakeKind {
    Waking,
    Wakeup,
    WakeupNew,
}

/// Collects the fields of one format and how far they reach.
struct Fields<'a> {
    format: &'a EventFormat,
    needs: usize,
}

impl Fields<'_> {
    fn number(&mut self, name: &str) -> Result<Number, Problem> {
        self.optional(name)?.ok_or_else(|| self.missing(name))
    }
    fn optional(&mut self, name: &str) -> Result<Option<Number>, Problem> {
        let Some(field) = self.format.field(name) else { return Ok(None) };
        if field.kind != FieldKind::Number {
            return Err(format_error(
                &self.format.name,
                format!("field {name} is no number but {}", field.ctype),
            ));
        }
        let number = Number::of(&self.format.name, field)?;
        self.needs = self.needs.max(number.end());
        Ok(Some(number))
    }
    fn text(&mut self, name: &str) -> Result<Text, Problem> {
        let field = self.format.field(name).ok_or_else(|| self.missing(name))?;
        let text = Text::of(&self.format.name, field)?;
        self.needs = self.needs.max(text.end());
        Ok(text)
    }
    fn missing(&self, name: &str) -> Problem {
        format_error(&self.format.name, format!("it has no field {name}"))
    }
}

impl Decoder {
    /// For these formats, `(system, format)`. All share the places of their common fields, as the kernel has it.
    ///
    /// # Errors
    /// [`Problem::Format`] if an event that this reader knows lacks a field it needs; [`Problem::NoSchedEvents`] if
    /// `sched_switch` is not among them.
    pub fn new(formats: &[(&str, EventFormat)]) -> Result<Decoder, Problem> {
        let switch =
            formats.iter().find(|(system, format)| *system == "sched" && format.name == "sched_switch");
        let Some((_, switch)) = switch else {
            return Err(Problem::NoSchedEvents {
                detail: "the trace has no format of sched_switch".to_string(),
            });
        };
        let mut common = Fields { format: switch, needs: 0 };
        let mut decoder = Decoder {
            common_type: common.number("common_type")?,
            common_flags: common.optional("common_flags")?,
            common_preempt: common.optional("common_preempt_count")?,
            common_pid: common.number("common_pid")?,
            common_end: common.needs,
            rows: Vec::new(),
            layouts: vec![Layout { needs: 0, what: What::Unknown }],
            states: StateDecoder::parse(&switch.print_fmt),
            switch_id: switch.id,
        };
        for (system, format) in formats {
            let mut fields = Fields { format, needs: decoder.common_end };
            let Some(what) = what(system, &mut fields)? else { continue };
            let row = u8::try_from(decoder.layouts.len()).expect("this reader knows fewer than 255 events");
            let id = usize::from(format.id);
            if decoder.rows.len() <= id {
                decoder.rows.resize(id + 1, 0);
            }
            decoder.rows[id] = row;
            decoder.layouts.push(Layout { needs: fields.needs, what });
        }
        Ok(decoder)
    }

    /// For the format texts of a trace.
    pub fn for_systems(systems: &[EventSystem]) -> Result<Decoder, Problem> {
        let mut formats = Vec::new();
        for system in systems {
            for text in &system.formats {
                // A format without name or number is of an event that cannot be met.
                let Ok((name, _)) = name_and_id(&String::from_utf8_lossy(text)) else { continue };
                if Decoder::knows(&system.name, &name) {
                    formats.push((system.name.as_str(), EventFormat::parse(text)?));
                }
            }
        }
        Decoder::new(&formats)
    }

    /// With ftrace's own events, of which `print` matters: our exports write markers with it. A format that
    /// makes no sense is left out.
    pub fn with_print(mut self, ftrace_events: &[Vec<u8>]) -> Decoder {
        let formats = ftrace_events.iter().filter_map(|text| EventFormat::parse(text).ok());
        let Some(print) = formats.into_iter().find(|format| format.name == "print") else { return self };
        let (Some(buf), Ok(row)) = (print.field("buf"), u8::try_from(self.layouts.len())) else {
            return self;
        };
        let (at, id) = (buf.offset as usize, usize::from(print.id));
        if self.rows.len() <= id {
            self.rows.resize(id + 1, 0);
        }
        if self.rows[id] == 0 {
            self.rows[id] = row;
            self.layouts.push(Layout { needs: at.max(self.common_end), what: What::Print { at } });
        }
        self
    }

    /// The number that context switches have in this trace.
    pub fn switch_id(&self) -> u16 {
        self.switch_id
    }

    /// Whether a format of this system and name is of use here: parsing the others can be saved.
    pub fn knows(system: &str, event: &str) -> bool {
        match system {
            "sched" => SCHED_EVENTS.contains(&event),
            "irq" => IRQ_EVENTS.contains(&event),
            "irq_vectors" => vector(event).is_some(),
            "cgroup" => event == "cgroup_attach_task",
            "schedlab" => matches!(event, "object" | "stranger"),
            "syscalls" => syscall(event).is_some(),
            _ => false,
        }
    }

    /// Whether this record is a context switch.
    pub fn is_switch(&self, record: &[u8]) -> bool {
        let row = self.rows.get(self.common_type.get(record) as u16 as usize).copied().unwrap_or(0);
        matches!(self.layouts[usize::from(row)].what, What::Switch(_))
    }

    /// Reads one record. `Err` says what is wrong with it.
    #[inline(always)]
    pub fn decode(&self, record: &[u8], comms: &mut CommTable) -> Result<(Common, SchedEvent), &'static str> {
        if record.len() < self.common_end {
            return Err("an event is shorter than its common fields");
        }
        let flags = self.common_flags.map_or(0, |flags| flags.get(record) as u8);
        let common = Common {
            pid: Pid(self.common_pid.get_i32(record)),
            context: Context::from_flags(flags),
            preempt_count: self.common_preempt.map_or(0, |count| count.get(record) as u8),
            id: self.common_type.get(record) as u16,
        };
        let row = self.rows.get(usize::from(common.id)).copied().unwrap_or(0);
        let layout = &self.layouts[usize::from(row)];
        if record.len() < layout.needs {
            return Err("an event is shorter than its format says");
        }
        let pid = |number: Number| Pid(number.get_i32(record));
        let cpu = |number: Number| CpuId(number.get(record) as u32);
        let what = match &layout.what {
            What::Switch(fields) => self.switch(fields, record, comms)?,
            What::Wake { kind, comm: text, pid: number, prio, target_cpu } => {
                let pid = pid(*number);
                let wake = Wake {
                    pid,
                    comm: comm(comms, *text, pid, record)?,
                    prio: prio.get_i32(record),
                    target_cpu: target_cpu.map_or(CpuId(u32::MAX), cpu),
                };
                match kind {
                    WakeKind::Waking => SchedEvent::Waking(wake),
                    WakeKind::Wakeup => SchedEvent::Wakeup(wake),
                    WakeKind::WakeupNew => SchedEvent::WakeupNew(wake),
                }
            }
            What::Fork { parent, child, child_comm } => SchedEvent::Fork {
                parent: pid(*parent),
                child: pid(*child),
                child_comm: comm(comms, *child_comm, pid(*child), record)?,
            },
            What::Exec { pid: number, old_pid } => {
                SchedEvent::Exec { pid: pid(*number), old_pid: pid(*old_pid) }
            }
            What::Exit { pid: number, comm: text, prio } => SchedEvent::Exit {
                pid: pid(*number),
                comm: comm(comms, *text, pid(*number), record)?,
                prio: prio.get_i32(record),
            },
            What::Migrate { pid: number, prio, orig_cpu, dest_cpu } => SchedEvent::Migrate {
                pid: pid(*number),
                prio: prio.get_i32(record),
                orig_cpu: cpu(*orig_cpu),
                dest_cpu: cpu(*dest_cpu),
            },
            What::PiSetPrio { pid: number, old_prio, new_prio } => SchedEvent::PiSetPrio {
                pid: pid(*number),
                old_prio: old_prio.get_i32(record),
                new_prio: new_prio.get_i32(record),
            },
            What::StatRuntime { pid: number, runtime } => {
                SchedEvent::StatRuntime { pid: pid(*number), runtime_ns: runtime.get(record) as u64 }
            }
            What::Irq { irq, entry: true } => SchedEvent::IrqEntry { irq: irq.get_i32(record) },
            What::Irq { irq, entry: false } => SchedEvent::IrqExit { irq: irq.get_i32(record) },
            What::SoftIrq { vec, phase } => {
                let vec = vec.get(record) as u32;
                match phase {
                    SoftIrqPhase::Raise => SchedEvent::SoftIrqRaise { vec },
                    SoftIrqPhase::Entry => SchedEvent::SoftIrqEntry { vec },
                    SoftIrqPhase::Exit => SchedEvent::SoftIrqExit { vec },
                }
            }
            What::Vector { vector, entry: true } => SchedEvent::VectorEntry(*vector),
            What::Vector { vector, entry: false } => SchedEvent::VectorExit(*vector),
            What::CgroupAttach { pid: number, path, root } => {
                let range = path.range(record).ok_or("an event's text lies outside it")?;
                SchedEvent::CgroupAttach {
                    pid: pid(*number),
                    path: comms.intern_long(&record[range]),
                    root: root.get_i32(record),
                }
            }
            What::SysEnter { call, arguments } => {
                SchedEvent::SysEnter(call.with(arguments.map(|a| a.map_or(0, |a| a.get_i32(record)))))
            }
            What::SysExit { call, ret } => SchedEvent::SysExit { call: *call, ret: ret.get(record) },
            What::Object(numbers) => object(numbers.of(record)),
            What::Stranger { busy } => SchedEvent::Stranger { busy: busy.get(record) != 0 },
            What::Print { at } => {
                marker::event(&record[*at..], comms).unwrap_or(SchedEvent::Other { id: common.id })
            }
            What::Unknown => SchedEvent::Other { id: common.id },
        };
        Ok((common, what))
    }

    #[inline(always)]
    fn switch(
        &self,
        fields: &SwitchFields,
        record: &[u8],
        comms: &mut CommTable,
    ) -> Result<SchedEvent, &'static str> {
        let (prev, next) = (Pid(fields.prev_pid.get_i32(record)), Pid(fields.next_pid.get_i32(record)));
        Ok(SchedEvent::Switch {
            prev: SwitchSide {
                pid: prev,
                comm: comm(comms, fields.prev_comm, prev, record)?,
                prio: fields.prev_prio.get_i32(record),
            },
            prev_state: self.states.decode(fields.prev_state.get(record)),
            next: SwitchSide {
                pid: next,
                comm: comm(comms, fields.next_comm, next, record)?,
                prio: fields.next_prio.get_i32(record),
            },
        })
    }
}

/// Tells a connection from what is sent over it.
const CONNECTION: u64 = 1 << 63;

/// The fields of `schedlab:object`.
pub(crate) struct ObjectFields {
    pub key: u64,
    pub kind: i64,
    pub room: i64,
    pub call: i64,
    pub ret: i32,
    pub other: u64,
}

/// Where a record has them.
struct ObjectNumbers {
    key: Number,
    kind: Number,
    room: Number,
    call: Number,
    ret: Number,
    /// Recordings of earlier versions have none.
    other: Option<Number>,
}

impl ObjectNumbers {
    fn of(&self, record: &[u8]) -> ObjectFields {
        ObjectFields {
            key: self.key.get(record) as u64,
            kind: self.kind.get(record),
            room: self.room.get(record),
            call: self.call.get(record),
            ret: self.ret.get_i32(record),
            other: self.other.map_or(0, |other| other.get(record) as u64),
        }
    }
}

/// What a call did to an object.
pub(crate) fn object(fields: ObjectFields) -> SchedEvent {
    known_object(fields).unwrap_or(SchedEvent::UnknownObject)
}

/// `None`: kind, call or amount is not known.
fn known_object(ObjectFields { key, kind, room, call, ret, other }: ObjectFields) -> Option<SchedEvent> {
    match kind {
        OBJECT_FUTEX | OBJECT_LOCK => {
            return sync_call((kind, call), (key, other), room as u32, ret);
        }
        OBJECT_AFFINITY => return Some(SchedEvent::Affinity { pid: Pid(room as i32), mask: key }),
        OBJECT_POLLED => return Some(SchedEvent::Polled),
        OBJECT_CHILD => return Some(SchedEvent::ChildTaken),
        _ => {}
    }
    let (_, kind, _) = ChannelKind::ALL.iter().find(|(number, ..)| *number == kind)?;
    let connection = match call {
        CONNECT_CALL if ret == -IN_PROGRESS => Some((Direction::Send, Carried::ConnectionBegun)),
        CONNECT_CALL => Some((Direction::Send, Carried::Connection)),
        other => ACCEPT_CALLS.contains(&other).then_some((Direction::Receive, Carried::Connection)),
    };
    if let Some((direction, what)) = connection {
        let key = key ^ CONNECTION;
        let call = ObjectCall { key, kind: *kind, direction, what, amount: 1, room: 0 };
        return Some(SchedEvent::Object(call));
    }
    let (number, is_second) = (call & 0xffff, call >> 16 != 0);
    let direction = match OBJECT_CALLS.iter().find(|(known, _)| *known == number) {
        _ if is_second => Direction::Send,
        Some((_, direction)) => *direction,
        None => return None,
    };
    let returned = u32::try_from(ret).ok()?;
    let room = room as u32;
    let (amount, room) = match kind {
        ChannelKind::Eventfd => (room, 0),
        ChannelKind::Queue => (1, room),
        _ => (returned, room),
    };
    let call = ObjectCall { key, kind: *kind, direction, what: Carried::Data, amount, room };
    Some(SchedEvent::Object(call))
}

#[inline(always)]
fn comm(comms: &mut CommTable, text: Text, pid: Pid, record: &[u8]) -> Result<CommId, &'static str> {
    if text.is_array_of_16() {
        return Ok(comms.intern(pid.0, bytes_at(record, text.offset())));
    }
    match text.range(record) {
        Some(range) => Ok(comms.intern_text(pid.0, &record[range])),
        None => Err("an event's text lies outside it"),
    }
}

const SCHED_EVENTS: [&str; 10] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
    "sched_migrate_task",
    "sched_pi_setprio",
    "sched_stat_runtime",
];

const IRQ_EVENTS: [&str; 5] =
    ["irq_handler_entry", "irq_handler_exit", "softirq_raise", "softirq_entry", "softirq_exit"];

/// The interrupt behind `X_entry` (true) or `X_exit` (false).
fn vector(event: &str) -> Option<(Vector, bool)> {
    let (name, entry) = match event.strip_suffix("_entry") {
        Some(name) => (name, true),
        None => (event.strip_suffix("_exit")?, false),
    };
    Vector::NAMES.iter().find(|(known, _)| *known == name).map(|(_, vector)| (*vector, entry))
}

/// The call behind `sys_enter_X` (true) or `sys_exit_X` (false).
fn syscall(event: &str) -> Option<(SyscallKind, bool)> {
    let (name, enter) = match event.strip_prefix("sys_enter_") {
        Some(name) => (name, true),
        None => (event.strip_prefix("sys_exit_")?, false),
    };
    SyscallKind::NAMES.iter().find(|(known, _)| *known == name).map(|(_, call)| (*call, enter))
}

/// Names of the arguments that are numbers.
fn argument_names(call: SyscallKind) -> &'static [&'static str] {
    match call {
        SyscallKind::SchedYield | SyscallKind::Execve | SyscallKind::Setsid => &[],
        SyscallKind::Nice => &["increment"],
        SyscallKind::SetPriority => &["which", "who", "niceval"],
        SyscallKind::SchedSetScheduler => &["pid", "policy"],
        SyscallKind::SchedSetParam | SyscallKind::SchedSetAttr | SyscallKind::SchedSetAffinity => &["pid"],
    }
}

fn what(system: &str, fields: &mut Fields<'_>) -> Result<Option<What>, Problem> {
    if !Decoder::knows(system, &fields.format.name) {
        return Ok(None);
    }
    if let Some((call, enter)) = syscall(&fields.format.name) {
        if !enter {
            return Ok(Some(What::SysExit { call, ret: fields.number("ret")? }));
        }
        let mut arguments = [None; 3];
        for (argument, name) in arguments.iter_mut().zip(argument_names(call)) {
            *argument = Some(fields.number(name)?);
        }
        return Ok(Some(What::SysEnter { call, arguments }));
    }
    if system == "irq_vectors"
        && let Some((vector, entry)) = vector(&fields.format.name)
    {
        return Ok(Some(What::Vector { vector, entry }));
    }
    let name = fields.format.name.clone();
    let mut wake = |kind| -> Result<What, Problem> {
        Ok(What::Wake {
            kind,
            comm: fields.text("comm")?,
            pid: fields.number("pid")?,
            prio: fields.number("prio")?,
            target_cpu: fields.optional("target_cpu")?,
        })
    };
    Ok(Some(match name.as_str() {
        "sched_waking" => wake(WakeKind::Waking)?,
        "sched_wakeup" => wake(WakeKind::Wakeup)?,
        "sched_wakeup_new" => wake(WakeKind::WakeupNew)?,
        "sched_switch" => What::Switch(Box::new(SwitchFields {
            prev_comm: fields.text("prev_comm")?,
            prev_pid: fields.number("prev_pid")?,
            prev_prio: fields.number("prev_prio")?,
            prev_state: fields.number("prev_state")?,
            next_comm: fields.text("next_comm")?,
            next_pid: fields.number("next_pid")?,
            next_prio: fields.number("next_prio")?,
        })),
        "sched_process_fork" => What::Fork {
            parent: fields.number("parent_pid")?,
            child: fields.number("child_pid")?,
            child_comm: fields.text("child_comm")?,
        },
        "sched_process_exec" => What::Exec { pid: fields.number("pid")?, old_pid: fields.number("old_pid")? },
        "sched_process_exit" => What::Exit {
            pid: fields.number("pid")?,
            comm: fields.text("comm")?,
            prio: fields.number("prio")?,
        },
        "sched_migrate_task" => What::Migrate {
            pid: fields.number("pid")?,
            prio: fields.number("prio")?,
            orig_cpu: fields.number("orig_cpu")?,
            dest_cpu: fields.number("dest_cpu")?,
        },
        "sched_pi_setprio" => What::PiSetPrio {
            pid: fields.number("pid")?,
            old_prio: fields.number("oldprio")?,
            new_prio: fields.number("newprio")?,
        },
        "sched_stat_runtime" => {
            What::StatRuntime { pid: fields.number("pid")?, runtime: fields.number("runtime")? }
        }
        "irq_handler_entry" => What::Irq { irq: fields.number("irq")?, entry: true },
        "irq_handler_exit" => What::Irq { irq: fields.number("irq")?, entry: false },
        "cgroup_attach_task" => What::CgroupAttach {
            pid: fields.number("pid")?,
            path: fields.text("dst_path")?,
            root: fields.number("dst_root")?,
        },
        "object" => What::Object(ObjectNumbers {
            key: fields.number("key")?,
            kind: fields.number("kind")?,
            room: fields.number("room")?,
            call: fields.number("call")?,
            ret: fields.number("ret")?,
            other: fields.optional("other")?,
        }),
        "stranger" => What::Stranger { busy: fields.number("busy")? },
        "softirq_raise" => What::SoftIrq { vec: fields.number("vec")?, phase: SoftIrqPhase::Raise },
        "softirq_entry" => What::SoftIrq { vec: fields.number("vec")?, phase: SoftIrqPhase::Entry },
        _ => What::SoftIrq { vec: fields.number("vec")?, phase: SoftIrqPhase::Exit },
    }))
}
