//! One bundle's events, in order of time: those that stand alone, and the compact columns of switches and wakings.

use super::wire::{Fields, Packed, Value, Wrong};
use crate::comm::CommTable;
use crate::event::{
    CommId, Context, PRIO_UNKNOWN, Pid, SchedEvent, SwitchSide, SyscallKind, TraceEvent, Wake,
};
use crate::marker;
use crate::state::StateDecoder;
use schedlab_units::CpuId;

/// What a CPU's bundle leaves to the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuState {
    /// Who came last, and its name: not known at first, and after lost events.
    current: Option<(Pid, CommId)>,
    /// Whether that was asked for in vain.
    pub asked_in_vain: u64,
}

/// What all bundles have in common.
pub(super) struct Common {
    pub states: StateDecoder,
    pub comms: CommTable,
    /// Names of a bundle's own table.
    names: Vec<[u8; 16]>,
    /// Names that tasks got by exec in this bundle, in order: the compact form does not tell the name of who
    /// leaves a CPU.
    exec_names: Vec<(Pid, CommId)>,
}

/// What is not known yet of an event when it is read: put in when events are in order.
const CURRENT: Pid = Pid(-1);

impl Common {
    pub fn new(states: StateDecoder) -> Common {
        Common { states, comms: CommTable::new(), names: Vec::new(), exec_names: Vec::new() }
    }

    /// Appends a bundle's events to `events`, which is empty.
    pub fn read(
        &mut self,
        bundle: &[u8],
        cpu: CpuId,
        state: &mut CpuState,
        events: &mut Vec<TraceEvent>,
    ) -> Result<(), Wrong> {
        let mut fields = Fields::new(bundle);
        let mut lost = false;
        self.exec_names.clear();
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (2, Value::Bytes(event)) => {
                    if let Some(event) = self.event(event, cpu)? {
                        events.push(event);
                    }
                }
                (3, Value::Number(flag)) => lost = flag != 0,
                (4, Value::Bytes(compact)) => self.compact(compact, cpu, events)?,
                _ => {}
            }
        }
        // Columns and lone events are each in order; a stable sort of a few runs costs little more than a merge.
        if !events.is_sorted_by_key(|event| event.time_ns) {
            events.sort_by_key(|event| event.time_ns);
        }
        if lost {
            state.forget();
            let time_ns = events.first().map_or(0, |event| event.time_ns);
            let what = SchedEvent::Lost { count: None };
            events.insert(
                0,
                TraceEvent { time_ns, cpu, pid: Pid::IDLE, context: Context::Task, preempt_count: 0, what },
            );
        }
        for event in events {
            state.complete(event);
            if let SchedEvent::Exec { pid, .. } = event.what
                && let Some(row) = self.exec_names.iter().position(|(known, _)| *known == pid)
            {
                state.current = Some(self.exec_names.remove(row));
            }
        }
        Ok(())
    }

    /// A lone event; `None`: one without time or kind.
    fn event(&mut self, bytes: &[u8], cpu: CpuId) -> Result<Option<TraceEvent>, Wrong> {
        let mut fields = Fields::new(bytes);
        let (mut time_ns, mut pid, mut context, mut what) = (None, CURRENT, Context::Unknown, None);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (1, Value::Number(number)) => time_ns = Some(number),
                (2, Value::Number(number)) => pid = pid_of(number)?,
                (5, Value::Number(flags)) => context = Context::from_flags(flags as u8),
                (_, Value::Bytes(message)) => what = Some(self.what(field, message)?),
                _ => {}
            }
        }
        let (Some(time_ns), Some(what)) = (time_ns, what) else { return Ok(None) };
        Ok(Some(TraceEvent { time_ns, cpu, pid, context, preempt_count: 0, what }))
    }

    /// Field numbers are those of ftrace_event.proto; of the messages, those of sched.proto, irq.proto,
    /// raw_syscalls.proto.
    fn what(&mut self, event: u32, message: &[u8]) -> Result<SchedEvent, Wrong> {
        let other = SchedEvent::Other { id: u16::try_from(event).unwrap_or(u16::MAX) };
        // A field that is left out is 0 (proto2's default).
        let mut numbers = [0u64; 8];
        let mut texts: [&[u8]; 8] = [&[]; 8];
        let mut arguments = [0i32; 3];
        let mut nr_arguments = 0;
        let mut fields = Fields::new(message);
        while let Some((field, value)) = fields.next()? {
            let slot = (field as usize).min(7);
            match value {
                // args of sys_enter: one after the other
                Value::Number(number) if event == 329 && field == 2 => {
                    if let Some(argument) = arguments.get_mut(nr_arguments) {
                        *argument = number as i32;
                    }
                    nr_arguments += 1;
                }
                Value::Number(number) => numbers[slot] = number,
                Value::Bytes(text) => texts[slot] = text,
                Value::Fixed => {}
            }
        }
        let int = |field: usize| numbers[field] as i32;
        let pid = |field: usize| pid_of(numbers[field]);
        Ok(match event {
            4 => {
                let (prev, next) = (pid(2)?, pid(6)?);
                SchedEvent::Switch {
                    prev: SwitchSide {
                        pid: prev,
                        comm: self.comms.intern_text(prev.0, texts[1]),
                        prio: int(3),
                    },
                    prev_state: self.states.decode(numbers[4] as i64),
                    next: SwitchSide {
                        pid: next,
                        comm: self.comms.intern_text(next.0, texts[5]),
                        prio: int(7),
                    },
                }
            }
            17 | 20 | 114 => {
                let pid = pid(2)?;
                let comm = self.comms.intern_text(pid.0, texts[1]);
                let wake = Wake { pid, comm, prio: int(3), target_cpu: CpuId(numbers[5] as u32) };
                match event {
                    17 => SchedEvent::Wakeup(wake),
                    20 => SchedEvent::Waking(wake),
                    _ => SchedEvent::WakeupNew(wake),
                }
            }
            237 => {
                let pid = pid(2)?;
                // begin_new_exec (fs/exec.c): the file's name without its folder, cut to 15 bytes
                let name = texts[1].rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                if !name.is_empty() {
                    let comm = self.comms.intern_text(pid.0, &name[..name.len().min(15)]);
                    self.exec_names.push((pid, comm));
                }
                SchedEvent::Exec { pid, old_pid: pid_of(numbers[3])? }
            }
            238 => {
                let pid = pid(2)?;
                SchedEvent::Exit { pid, comm: self.comms.intern_text(pid.0, texts[1]), prio: int(4) }
            }
            239 => {
                let child = pid(4)?;
                SchedEvent::Fork {
                    parent: pid(2)?,
                    child,
                    child_comm: self.comms.intern_text(child.0, texts[3]),
                }
            }
            353 => SchedEvent::PiSetPrio { pid: pid(4)?, old_prio: int(3), new_prio: int(2) },
            491 => SchedEvent::Migrate {
                pid: pid(2)?,
                prio: int(3),
                orig_cpu: CpuId(numbers[4] as u32),
                dest_cpu: CpuId(numbers[5] as u32),
            },
            3 => marker::event(texts[2], &mut self.comms).unwrap_or(other),
            36 => SchedEvent::IrqEntry { irq: int(1) },
            37 => SchedEvent::IrqExit { irq: int(1) },
            24 => SchedEvent::SoftIrqEntry { vec: numbers[1] as u32 },
            25 => SchedEvent::SoftIrqExit { vec: numbers[1] as u32 },
            329 => syscall(numbers[1]).map_or(other, |call| SchedEvent::SysEnter(call.with(arguments))),
            330 => {
                syscall(numbers[1]).map_or(other, |call| SchedEvent::SysExit { call, ret: numbers[2] as i64 })
            }
            _ => other,
        })
    }

    /// Columns of switches and wakings.
    fn compact(&mut self, bytes: &[u8], cpu: CpuId, events: &mut Vec<TraceEvent>) -> Result<(), Wrong> {
        let mut columns = [Packed::default(); 13];
        self.names.clear();
        let mut fields = Fields::new(bytes);
        while let Some((field, value)) = fields.next()? {
            match (field, value) {
                (5, Value::Bytes(name)) => {
                    let mut padded = [0; 16];
                    let length = name.len().min(15);
                    padded[..length].copy_from_slice(&name[..length]);
                    self.names.push(padded);
                }
                (1..=12, Value::Bytes(column)) => columns[field as usize] = Packed::new(column),
                _ => {}
            }
        }
        const SHORT: Wrong = "compact events whose columns differ in length";
        let [_, mut times, mut states, mut pids, mut prios, _, mut names, ..] = columns;
        let mut time_ns = 0u64;
        while let Some(delta) = times.next()? {
            time_ns = time_ns.wrapping_add(delta);
            let prev_state = self.states.decode(states.next()?.ok_or(SHORT)? as i64);
            let pid = pid_of(pids.next()?.ok_or(SHORT)?)?;
            let prio = prios.next()?.ok_or(SHORT)? as i32;
            let comm = self.name(names.next()?.ok_or(SHORT)?, pid)?;
            let what = SchedEvent::Switch {
                prev: SwitchSide { pid: CURRENT, comm: CommId::default(), prio: PRIO_UNKNOWN },
                prev_state,
                next: SwitchSide { pid, comm, prio },
            };
            events.push(TraceEvent {
                time_ns,
                cpu,
                pid: CURRENT,
                context: Context::Task,
                preempt_count: 0,
                what,
            });
        }
        let [.., mut times, mut pids, mut targets, mut prios, mut names, mut flags] = columns;
        let mut time_ns = 0u64;
        while let Some(delta) = times.next()? {
            time_ns = time_ns.wrapping_add(delta);
            let pid = pid_of(pids.next()?.ok_or(SHORT)?)?;
            let target_cpu = CpuId(targets.next()?.ok_or(SHORT)? as u32);
            let prio = prios.next()?.ok_or(SHORT)? as i32;
            let comm = self.name(names.next()?.ok_or(SHORT)?, pid)?;
            // Traces before Perfetto 44 have no such column.
            let context = flags.next()?.map_or(Context::Unknown, |flags| Context::from_flags(flags as u8));
            let what = SchedEvent::Waking(Wake { pid, comm, prio, target_cpu });
            events.push(TraceEvent { time_ns, cpu, pid: CURRENT, context, preempt_count: 0, what });
        }
        Ok(())
    }

    fn name(&mut self, row: u64, pid: Pid) -> Result<CommId, Wrong> {
        let name = usize::try_from(row).ok().and_then(|row| self.names.get(row));
        let name = name.ok_or("a name beyond the bundle's table")?;
        Ok(self.comms.intern(pid.0, *name))
    }
}

fn pid_of(number: u64) -> Result<Pid, Wrong> {
    let pid = number as i64;
    i32::try_from(pid).map(Pid).map_err(|_| "a thread's number beyond 32 bits")
}

/// The calls that matter, by their numbers on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl; the trace does
/// not name them).
fn syscall(number: u64) -> Option<SyscallKind> {
    Some(match number {
        24 => SyscallKind::SchedYield,
        112 => SyscallKind::Setsid,
        141 => SyscallKind::SetPriority,
        142 => SyscallKind::SchedSetParam,
        144 => SyscallKind::SchedSetScheduler,
        203 => SyscallKind::SchedSetAffinity,
        314 => SyscallKind::SchedSetAttr,
        _ => return None,
    })
}

impl CpuState {
    /// Events are missing: who is on the CPU is not known any more.
    pub fn forget(&mut self) {
        self.current = None;
    }

    /// Puts in who is on the CPU where the event leaves that open, and notes who is from now on.
    #[inline]
    fn complete(&mut self, event: &mut TraceEvent) {
        if event.pid == CURRENT {
            match self.current {
                Some((pid, _)) => event.pid = pid,
                None => {
                    event.pid = Pid::IDLE;
                    self.asked_in_vain += u64::from(!matches!(event.what, SchedEvent::Lost { .. }));
                }
            }
        }
        if let SchedEvent::Switch { prev, next, .. } = &mut event.what {
            if prev.pid == CURRENT {
                prev.pid = event.pid;
                prev.comm =
                    self.current.filter(|(pid, _)| *pid == prev.pid).map_or(CommId::default(), |c| c.1);
            }
            self.current = Some((next.pid, next.comm));
        } else if !matches!(event.what, SchedEvent::Lost { .. })
            && self.current.is_none_or(|(pid, _)| pid != event.pid)
        {
            self.current = Some((event.pid, CommId::default()));
        }
    }
}
