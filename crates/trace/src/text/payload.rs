//! What does the rest of an event's line say? Fields by name, as the kernel prints them; or trace-cmd's shorter form.

use super::line::number;
use crate::comm::{CommTable, padded};
use crate::decode::{ObjectFields, object};
use crate::event::{Pid, SchedEvent, SwitchSide, SyscallKind, Wake};
use crate::marker::{self, Marker};
use crate::state::TaskState;
use schedlab_units::CpuId;

/// Reads fields from front to back.
struct Fields<'a> {
    rest: &'a [u8],
}

type Expected = &'static str;

impl<'a> Fields<'a> {
    #[inline]
    fn eat<const N: usize>(&mut self, token: &[u8; N]) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
    /// `KEY=` must come next.
    #[inline]
    fn key<const N: usize>(&mut self, key: &[u8; N], expected: Expected) -> Result<(), Expected> {
        if self.eat(key) { Ok(()) } else { Err(expected) }
    }
    /// Text up to `end`, which is eaten.
    #[inline]
    fn until<const N: usize>(&mut self, end: &[u8; N], expected: Expected) -> Result<&'a [u8], Expected> {
        // Most names have no blank: the first place where `end` may begin is the one. They have 15 bytes at
        // most: a search for long texts would take longer to begin.
        const NAME: usize = 16;
        let mut from = 0;
        loop {
            let near = &self.rest[from..self.rest.len().min(from + NAME)];
            let at = match near.iter().position(|byte| *byte == end[0]) {
                Some(at) => from + at,
                None => from + memchr::memchr(end[0], &self.rest[from..]).ok_or(expected)?,
            };
            if self.rest[at..].starts_with(end) {
                let text = &self.rest[..at];
                self.rest = &self.rest[at + N..];
                return Ok(text);
            }
            from = at + 1;
        }
    }
    /// A name up to `end`, which is eaten; as the 16 bytes that it would have in the kernel.
    #[inline]
    fn name<const N: usize>(&mut self, end: &[u8; N], expected: Expected) -> Result<[u8; 16], Expected> {
        let start = self.rest;
        let text = self.until(end, expected)?;
        // 16 bytes are nearly always there: taken at once, without what lies behind the name
        Ok(match start.first_chunk::<16>() {
            Some(bytes) if text.len() < 16 => {
                (u128::from_le_bytes(*bytes) & ((1 << (8 * text.len())) - 1)).to_le_bytes()
            }
            Some(bytes) => *bytes,
            None => padded(text),
        })
    }
    #[inline]
    fn signed(&mut self, expected: Expected) -> Result<i64, Expected> {
        let negative = self.eat(b"-");
        let (value, length) = number(self.rest);
        let value = i64::try_from(value).map_err(|_| expected)?;
        if length == 0 {
            return Err(expected);
        }
        self.rest = &self.rest[length..];
        Ok(if negative { -value } else { value })
    }
    fn hex(&mut self, expected: Expected) -> Result<u64, Expected> {
        let length = self.rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let digits = std::str::from_utf8(&self.rest[..length]).map_err(|_| expected)?;
        self.rest = &self.rest[length..];
        u64::from_str_radix(digits, 16).map_err(|_| expected)
    }
    #[inline]
    fn number(&mut self, expected: Expected) -> Result<i32, Expected> {
        self.signed(expected)?.try_into().map_err(|_| expected)
    }
    /// What comes after the first `key` in the rest.
    fn skip_to<const N: usize>(&mut self, key: &[u8; N], expected: Expected) -> Result<(), Expected> {
        self.until(key, expected).map(|_| ())
    }
}

/// Reads an event; `None`: one that says nothing about scheduling. `Err` says what is missing.
#[inline]
pub(super) fn parse(
    name: &[u8],
    payload: &[u8],
    comms: &mut CommTable,
) -> Result<Option<SchedEvent>, Expected> {
    let mut fields = Fields { rest: payload };
    let fields = &mut fields;
    Ok(Some(match name {
        b"sched_switch" => switch(fields, comms)?,
        b"sched_waking" => SchedEvent::Waking(wake(fields, comms)?),
        b"sched_wakeup" => SchedEvent::Wakeup(wake(fields, comms)?),
        b"sched_wakeup_new" => SchedEvent::WakeupNew(wake(fields, comms)?),
        b"sched_stat_runtime" => {
            const EXPECTED: Expected = "comm=NAME pid=N runtime=N";
            fields.skip_to(b" pid=", EXPECTED)?;
            let pid = Pid(fields.number(EXPECTED)?);
            fields.key(b" runtime=", EXPECTED)?;
            SchedEvent::StatRuntime { pid, runtime_ns: fields.signed(EXPECTED)?.unsigned_abs() }
        }
        b"sched_migrate_task" => {
            const EXPECTED: Expected = "comm=NAME pid=N prio=N orig_cpu=N dest_cpu=N";
            fields.skip_to(b" pid=", EXPECTED)?;
            let pid = Pid(fields.number(EXPECTED)?);
            fields.key(b" prio=", EXPECTED)?;
            let prio = fields.number(EXPECTED)?;
            fields.key(b" orig_cpu=", EXPECTED)?;
            let orig_cpu = CpuId(fields.number(EXPECTED)? as u32);
            fields.key(b" dest_cpu=", EXPECTED)?;
            SchedEvent::Migrate { pid, prio, orig_cpu, dest_cpu: CpuId(fields.number(EXPECTED)? as u32) }
        }
        b"sched_process_fork" => {
            const EXPECTED: Expected = "comm=NAME pid=N child_comm=NAME child_pid=N";
            fields.skip_to(b" pid=", EXPECTED)?;
            let parent = Pid(fields.number(EXPECTED)?);
            fields.key(b" child_comm=", EXPECTED)?;
            let comm = fields.until(b" child_pid=", EXPECTED)?;
            let child = Pid(fields.number(EXPECTED)?);
            SchedEvent::Fork { parent, child, child_comm: comms.intern_text(child.0, comm) }
        }
        b"sched_process_exec" => {
            const EXPECTED: Expected = "filename=NAME pid=N old_pid=N";
            fields.skip_to(b" pid=", EXPECTED)?;
            let pid = Pid(fields.number(EXPECTED)?);
            fields.key(b" old_pid=", EXPECTED)?;
            SchedEvent::Exec { pid, old_pid: Pid(fields.number(EXPECTED)?) }
        }
        b"sched_process_exit" => {
            const EXPECTED: Expected = "comm=NAME pid=N prio=N";
            fields.key(b"comm=", EXPECTED)?;
            let comm = fields.until(b" pid=", EXPECTED)?;
            let pid = Pid(fields.number(EXPECTED)?);
            fields.key(b" prio=", EXPECTED)?;
            SchedEvent::Exit { pid, comm: comms.intern_text(pid.0, comm), prio: fields.number(EXPECTED)? }
        }
        b"sched_pi_setprio" => {
            const EXPECTED: Expected = "comm=NAME pid=N oldprio=N newprio=N";
            fields.skip_to(b" pid=", EXPECTED)?;
            let pid = Pid(fields.number(EXPECTED)?);
            fields.key(b" oldprio=", EXPECTED)?;
            let old_prio = fields.number(EXPECTED)?;
            fields.key(b" newprio=", EXPECTED)?;
            SchedEvent::PiSetPrio { pid, old_prio, new_prio: fields.number(EXPECTED)? }
        }
        b"object" if payload.starts_with(b"key=") => object_call(fields)?,
        b"stranger" => {
            const EXPECTED: Expected = "busy=0 or busy=1";
            fields.key(b"busy=", EXPECTED)?;
            SchedEvent::Stranger { busy: fields.number(EXPECTED)? != 0 }
        }
        b"irq_handler_entry" | b"irq_handler_exit" => {
            const EXPECTED: Expected = "irq=N";
            fields.key(b"irq=", EXPECTED)?;
            let irq = fields.number(EXPECTED)?;
            if name.ends_with(b"entry") { SchedEvent::IrqEntry { irq } } else { SchedEvent::IrqExit { irq } }
        }
        b"softirq_entry" | b"softirq_exit" => {
            const EXPECTED: Expected = "vec=N";
            fields.key(b"vec=", EXPECTED)?;
            let vec = fields.number(EXPECTED)? as u32;
            if name.ends_with(b"entry") {
                SchedEvent::SoftIrqEntry { vec }
            } else {
                SchedEvent::SoftIrqExit { vec }
            }
        }
        [b's', b'y', b's', b'_', ..] => return syscall(name, payload),
        // The kernel and trace-cmd print where it came from first: `0: `, `0x0: `, a function.
        b"print" | b"tracing_mark_write" => {
            let at = memchr::memmem::find(payload, Marker::OURS.as_bytes());
            return Ok(at.and_then(|at| marker::event(&payload[at..], comms)));
        }
        _ => return Ok(None),
    }))
}

fn object_call(fields: &mut Fields<'_>) -> Result<SchedEvent, Expected> {
    const EXPECTED: Expected = "key=HEX kind=N room=N call=N ret=N other=HEX";
    fields.key(b"key=", EXPECTED)?;
    let key = fields.hex(EXPECTED)?;
    fields.key(b" kind=", EXPECTED)?;
    let kind = fields.signed(EXPECTED)?;
    fields.key(b" room=", EXPECTED)?;
    let room = fields.signed(EXPECTED)?;
    fields.key(b" call=", EXPECTED)?;
    let call = fields.signed(EXPECTED)?;
    fields.key(b" ret=", EXPECTED)?;
    let ret = fields.number(EXPECTED)?;
    fields.key(b" other=", EXPECTED)?;
    Ok(object(ObjectFields { key, kind, room, call, ret, other: fields.hex(EXPECTED)? }))
}

#[inline]
fn switch(fields: &mut Fields<'_>, comms: &mut CommTable) -> Result<SchedEvent, Expected> {
    const EXPECTED: Expected =
        "prev_comm=NAME prev_pid=N prev_prio=N prev_state=S ==> next_comm=NAME next_pid=N next_prio=N";
    if !fields.eat(b"prev_comm=") {
        return switch_of_plugin(fields, comms);
    }
    let comm = fields.name(b" prev_pid=", EXPECTED)?;
    let pid = Pid(fields.number(EXPECTED)?);
    fields.key(b" prev_prio=", EXPECTED)?;
    let prio = fields.number(EXPECTED)?;
    let prev = SwitchSide { pid, comm: comms.intern(pid.0, comm), prio };
    fields.key(b" prev_state=", EXPECTED)?;
    let prev_state = if fields.eat(b"S ==> next_comm=") {
        TaskState::Interruptible
    } else {
        state(fields.until(b" ==> next_comm=", EXPECTED)?)
    };
    let comm = fields.name(b" next_pid=", EXPECTED)?;
    let pid = Pid(fields.number(EXPECTED)?);
    fields.key(b" next_prio=", EXPECTED)?;
    let prio = fields.number(EXPECTED)?;
    let next = SwitchSide { pid, comm: comms.intern(pid.0, comm), prio };
    Ok(SchedEvent::Switch { prev, prev_state, next })
}

/// `bash:812 [120] S ==> cat:813 [120]`.
fn switch_of_plugin(fields: &mut Fields<'_>, comms: &mut CommTable) -> Result<SchedEvent, Expected> {
    const EXPECTED: Expected = "NAME:PID [PRIO] STATE ==> NAME:PID [PRIO]";
    let prev = side(fields.until(b"] ", EXPECTED)?, comms).ok_or(EXPECTED)?;
    // A name may hold "] ", but hardly a whole side.
    let prev_state = state(fields.until(b" ==> ", EXPECTED)?);
    let rest = fields.rest.strip_suffix(b"]").ok_or(EXPECTED)?;
    let next = side(rest, comms).ok_or(EXPECTED)?;
    Ok(SchedEvent::Switch { prev, prev_state, next })
}

/// `bash:812 [120`.
fn side(text: &[u8], comms: &mut CommTable) -> Option<SwitchSide> {
    let bracket = text.iter().rposition(|byte| *byte == b'[')?;
    let prio = Fields { rest: &text[bracket + 1..] }.number("").ok()?;
    let task = text[..bracket].strip_suffix(b" ")?;
    let colon = task.iter().rposition(|byte| *byte == b':')?;
    let pid = Pid(Fields { rest: &task[colon + 1..] }.number("").ok()?);
    Some(SwitchSide { pid, comm: comms.intern_text(pid.0, &task[..colon]), prio })
}

/// Letters of include/linux/sched.h, of all kernels, and of trace-cmd's plugin.
fn state(text: &[u8]) -> TaskState {
    match text {
        b"R" => TaskState::Running,
        b"R+" => TaskState::RunningPreempted,
        b"S" => TaskState::Interruptible,
        b"D" => TaskState::Uninterruptible,
        b"I" | b"W" | b"D|N" => TaskState::Idle,
        b"Z" => TaskState::Zombie,
        b"X" | b"x" => TaskState::Dead,
        b"T" => TaskState::Stopped,
        b"t" => TaskState::Traced,
        b"P" => TaskState::Parked,
        // Old kernels combine: S|K, D|W, X|W.
        _ => match text.split_first() {
            Some((b'X' | b'x', _)) => TaskState::Dead,
            Some((b'Z', _)) => TaskState::Zombie,
            Some((b'D', _)) => TaskState::Uninterruptible,
            Some((b'S', _)) => TaskState::Interruptible,
            Some((b'T', _)) => TaskState::Stopped,
            _ => TaskState::Unknown,
        },
    }
}

#[inline]
fn wake(fields: &mut Fields<'_>, comms: &mut CommTable) -> Result<Wake, Expected> {
    const EXPECTED: Expected = "comm=NAME pid=N prio=N target_cpu=N";
    if !fields.eat(b"comm=") {
        return wake_of_plugin(fields, comms);
    }
    let comm = fields.name(b" pid=", EXPECTED)?;
    let pid = Pid(fields.number(EXPECTED)?);
    fields.key(b" prio=", EXPECTED)?;
    let prio = fields.number(EXPECTED)?;
    // Kernels before 4.3 print success=1 in between.
    if !fields.eat(b" target_cpu=") {
        fields.skip_to(b" target_cpu=", EXPECTED)?;
    }
    let target_cpu = CpuId(fields.number(EXPECTED)? as u32);
    Ok(Wake { pid, comm: comms.intern(pid.0, comm), prio, target_cpu })
}

/// `cat:813 [120] success=1 CPU:001`.
fn wake_of_plugin(fields: &mut Fields<'_>, comms: &mut CommTable) -> Result<Wake, Expected> {
    const EXPECTED: Expected = "NAME:PID [PRIO] CPU:N";
    let SwitchSide { pid, comm, prio } = side(fields.until(b"] ", EXPECTED)?, comms).ok_or(EXPECTED)?;
    fields.skip_to(b"CPU:", EXPECTED)?;
    Ok(Wake { pid, comm, prio, target_cpu: CpuId(fields.number(EXPECTED)? as u32) })
}

/// tracefs: `sys_setpriority(which: 0, who: 4d2, niceval: 5)` in hexadecimal, `sys_setpriority -> 0x0`;
/// trace-cmd and perf: `sys_enter_setpriority: which: 0x00000000, ...`, `sys_exit_setpriority: 0x0`.
#[cold]
fn syscall(name: &[u8], payload: &[u8]) -> Result<Option<SchedEvent>, Expected> {
    const EXPECTED: Expected = "the call's arguments in hexadecimal";
    let known = |name: &[u8]| {
        SyscallKind::NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, call)| *call)
    };
    let name = name.strip_prefix(b"sys_").unwrap_or(name);
    let (call, enter) = match (name.strip_prefix(b"enter_"), name.strip_prefix(b"exit_")) {
        (Some(name), _) => (known(name), true),
        (_, Some(name)) => (known(name), false),
        _ => (known(name), !payload.starts_with(b" -> ")),
    };
    let Some(call) = call else { return Ok(None) };
    let text = std::str::from_utf8(payload).map_err(|_| EXPECTED)?.trim();
    if !enter {
        let ret = text.trim_start_matches("-> ").trim();
        return Ok(Some(SchedEvent::SysExit { call, ret: hexadecimal(ret).ok_or(EXPECTED)? as i64 }));
    }
    let text = text.trim_start_matches('(').trim_end_matches(')');
    let mut arguments = [0i32; 3];
    for (argument, part) in arguments.iter_mut().zip(text.split(',').filter(|part| !part.trim().is_empty())) {
        let (_, value) = part.split_once(':').ok_or(EXPECTED)?;
        // int arguments are printed as wide as a register
        *argument = hexadecimal(value.trim()).ok_or(EXPECTED)? as i32;
    }
    Ok(Some(SchedEvent::SysEnter(call.with(arguments))))
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{CommId, Direction, Syscall};

    fn parsed(name: &str, payload: &str) -> Result<Option<SchedEvent>, Expected> {
        parse(name.as_bytes(), payload.as_bytes(), &mut CommTable::new())
    }

    #[track_caller]
    fn switch_of(payload: &str) -> (i32, i32, TaskState, i32, i32) {
        match parsed("sched_switch", payload).unwrap().unwrap() {
            SchedEvent::Switch { prev, prev_state, next } => {
                (prev.pid.0, prev.prio, prev_state, next.pid.0, next.prio)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn switches_of_kernel_and_plugin() {
        use TaskState::*;
        let kernel = |state: &str| {
            format!(
                "prev_comm=a b prev_pid=7 prev_prio=-1 prev_state={state} ==> next_comm=: 1] ==> next_pid=8 \
                    next_prio=120"
            )
        };
        for (text, state) in [
            ("R", Running),
            ("R+", RunningPreempted),
            ("S", Interruptible),
            ("D", Uninterruptible),
            ("D|K", Uninterruptible),
            ("D|N", Idle),
            ("I", Idle),
            ("X", Dead),
            ("Z", Zombie),
            ("T", Stopped),
            ("t", Traced),
            ("P", Parked),
            ("?", Unknown),
        ] {
            assert_eq!(switch_of(&kernel(text)), (7, -1, state, 8, 120));
        }
        let plugin = "kworker/0:1:7 [120] W ==> a [b] c:8 [98]";
        assert_eq!(switch_of(plugin), (7, 120, Idle, 8, 98));
        for (length, _) in kernel("S").char_indices() {
            assert!(
                parsed("sched_switch", &kernel("S")[..length]).is_err() || length > kernel("S").len() - 3
            );
        }
    }

    #[test]
    fn wakings_and_calls() {
        for payload in [
            "comm=x y pid=7 prio=99 target_cpu=003",
            "comm=x y pid=7 prio=99 success=1 target_cpu=003",
            "x y:7 [99] CPU:003",
            "x y:7 [99] success=1 CPU:003",
        ] {
            let Ok(Some(SchedEvent::Waking(wake))) = parsed("sched_waking", payload) else {
                panic!("{payload}")
            };
            assert_eq!((wake.pid, wake.prio, wake.target_cpu), (Pid(7), 99, CpuId(3)));
        }
        let nice = SchedEvent::SysEnter(Syscall::SetPriority { which: 0, who: 0x4d2, nice: -5 });
        let hex = "fffffffffffffffb";
        assert_eq!(
            parsed("sys_setpriority", &format!("(which: 0, who: 4d2, niceval: {hex})")),
            Ok(Some(nice))
        );
        let padded = format!("which: 0x00000000, who: 0x000004d2, niceval: 0x{hex}");
        assert_eq!(parsed("sys_enter_setpriority", &padded), Ok(Some(nice)));
        let ret = SchedEvent::SysExit { call: SyscallKind::Nice, ret: -13 };
        for (name, payload) in
            [("sys_nice", " -> 0xfffffffffffffff3"), ("sys_exit_nice", "0xfffffffffffffff3")]
        {
            assert_eq!(parsed(name, payload), Ok(Some(ret)), "{name}");
        }
        assert_eq!(parsed("sys_enter_sched_yield", ""), Ok(Some(SchedEvent::SysEnter(Syscall::SchedYield))));
        assert_eq!(parsed("sys_read", "(fd: 0)"), Ok(None));
        assert!(parsed("sys_setpriority", "(which: zero)").is_err());
    }

    #[test]
    fn the_other_events() {
        let fork = "comm=a pid=1 child_comm=b child_pid=2 child_pid=3";
        let Ok(Some(SchedEvent::Fork { parent, child, .. })) = parsed("sched_process_fork", fork) else {
            panic!()
        };
        assert_eq!((parent, child), (Pid(1), Pid(2)));
        let exec = SchedEvent::Exec { pid: Pid(5), old_pid: Pid(4) };
        assert_eq!(parsed("sched_process_exec", "filename=/bin/a pid b pid=5 old_pid=4"), Ok(Some(exec)));
        let migrate = SchedEvent::Migrate { pid: Pid(5), prio: 98, orig_cpu: CpuId(1), dest_cpu: CpuId(0) };
        assert_eq!(
            parsed("sched_migrate_task", "comm=a pid=5 prio=98 orig_cpu=1 dest_cpu=0"),
            Ok(Some(migrate))
        );
        let lent = SchedEvent::PiSetPrio { pid: Pid(5), old_prio: 120, new_prio: 98 };
        assert_eq!(parsed("sched_pi_setprio", "comm=a pid=5 oldprio=120 newprio=98"), Ok(Some(lent)));
        let object = parsed("object", "key=f8 kind=1 room=65536 call=1 ret=12 other=0");
        let Ok(Some(SchedEvent::Object(call))) = object else { panic!("{object:?}") };
        assert_eq!((call.key, call.amount, call.room, call.direction), (0xf8, 12, 65_536, Direction::Send));
        let unknown = parsed("object", "key=f8 kind=99 room=0 call=1 ret=12 other=0");
        assert_eq!(unknown, Ok(Some(SchedEvent::UnknownObject)));
        // FUTEX_LOCK_PI that fails, and an operation that futex has not
        for (text, event) in [
            ("key=f8 kind=9 room=0 call=393418 ret=-110 other=0", SchedEvent::FoundNothing),
            ("key=f8 kind=9 room=0 call=4194506 ret=0 other=0", SchedEvent::UnknownObject),
        ] {
            assert_eq!(parsed("object", text), Ok(Some(event)), "{text}");
        }
        let negative = parsed("object", "key=f8 kind=1 room=0 call=1 ret=-12 other=0");
        assert_eq!(negative, Ok(Some(SchedEvent::UnknownObject)));
        let cut = parsed("object", "key=f8 kind=1 room=0 call=1");
        assert_eq!(cut, Err("key=HEX kind=N room=N call=N ret=N other=HEX"));
        assert_eq!(parsed("object", "of another program"), Ok(None));
        assert_eq!(parsed("stranger", "busy=1"), Ok(Some(SchedEvent::Stranger { busy: true })));
        assert_eq!(parsed("stranger", "lazy=1"), Err("busy=0 or busy=1"));
        let ran = SchedEvent::StatRuntime { pid: Pid(5), runtime_ns: 67827 };
        assert_eq!(
            parsed("sched_stat_runtime", "comm=a pid=5 runtime=67827 [ns] vruntime=5 [ns]"),
            Ok(Some(ran))
        );
        assert_eq!(
            parsed("softirq_entry", "vec=3 [action=NET_RX]"),
            Ok(Some(SchedEvent::SoftIrqEntry { vec: 3 }))
        );
        assert_eq!(
            parsed("irq_handler_exit", "irq=24 ret=handled"),
            Ok(Some(SchedEvent::IrqExit { irq: 24 }))
        );
        assert_eq!(parsed("print", "anything"), Ok(None));
        for before in ["", "0: ", "0x0: ", "               0x0: ", "tracing_mark_write: "] {
            let marker = Ok(Some(SchedEvent::Marker(Marker::Yield)));
            assert_eq!(parsed("print", &format!("{before}schedlab: yields and runs on")), marker);
            assert_eq!(
                parsed("tracing_mark_write", &format!("{before}schedlab: yields and runs on")),
                marker
            );
        }
    }

    /// A comm is kept to 16 bytes.
    #[test]
    fn names_are_interned() {
        let mut comms = CommTable::new();
        let text = b"comm=one pid=7 prio=99 target_cpu=003";
        let Ok(Some(SchedEvent::Waking(wake))) = parse(b"sched_waking", text, &mut comms) else { panic!() };
        assert_eq!(comms.name(wake.comm), "one");
        assert_ne!(wake.comm, CommId(0));
    }
}
