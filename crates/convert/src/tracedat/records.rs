//! What do the kernel's events look like as bytes? The formats of Linux 6.12 on x86-64, and records of them.
//!
//! Readers find fields by the format texts that stand in the file, so these texts and the records below must
//! agree and nothing else.

use crate::calls::CALLS;

/// Numbers of the events in the file (any; below 20 are ftrace's own).
pub(super) mod id {
    pub const PRINT: u16 = 5;
    pub const SWITCH: u16 = 300;
    pub const WAKING: u16 = 301;
    pub const WAKEUP_NEW: u16 = 302;
    pub const FORK: u16 = 303;
    pub const EXIT: u16 = 304;
    pub const MIGRATE: u16 = 305;
    /// `sys_enter_*`, in the order of [`crate::calls::CALLS`]; `sys_exit_*` follow.
    pub const ENTER: u16 = 310;
    pub const LEAVE: u16 = 320;
}

/// TRACE_FLAG_HARDIRQ (include/linux/trace_events.h).
pub(super) const HARDIRQ: u8 = 0x08;

/// Bytes of a comm.
pub(super) const COMM: usize = 16;

pub(super) const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

pub(super) const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\
    \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\
    \tdata max type_len  == 28\n";

/// A field: declaration, offset, size, signed.
type Field = (&'static str, u32, u32, bool);

const WAKE: [Field; 4] = [
    ("char comm[16]", 8, 16, false),
    ("pid_t pid", 24, 4, true),
    ("int prio", 28, 4, true),
    ("int target_cpu", 32, 4, true),
];
const WAKE_PRINT: &str =
    r#""comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu"#;

fn format(name: &str, id: u16, fields: &[(String, u32, u32, bool)], print: &str) -> Vec<u8> {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let mut line = |declaration: &str, offset: u32, size: u32, signed: bool| {
        let signed = u8::from(signed);
        text += &format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n");
    };
    line("unsigned short common_type", 0, 2, false);
    line("unsigned char common_flags", 2, 1, false);
    line("unsigned char common_preempt_count", 3, 1, false);
    line("int common_pid", 4, 4, true);
    fields.iter().for_each(|(declaration, offset, size, signed)| line(declaration, *offset, *size, *signed));
    // the blank line between common and own fields
    let text = text.replacen(
        "common_pid;\toffset:4;\tsize:4;\tsigned:1;\n",
        "common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n",
        1,
    );
    format!("{text}\nprint fmt: {print}\n").into_bytes()
}

fn plain(name: &str, id: u16, fields: &[Field], print: &str) -> Vec<u8> {
    let fields: Vec<_> =
        fields.iter().map(|(d, offset, size, signed)| (d.to_string(), *offset, *size, *signed)).collect();
    format(name, id, &fields, print)
}

/// A system's name and the format texts of its events.
type System = (&'static str, Vec<Vec<u8>>);

/// The format texts by system; ftrace's own apart.
pub(super) fn formats() -> (Vec<Vec<u8>>, Vec<System>) {
    let print = plain(
        "print",
        id::PRINT,
        &[("unsigned long ip", 8, 8, false), ("char buf[]", 16, 0, false)],
        r#""%ps: %s", (void *)REC->ip, REC->buf"#,
    );
    let sched = vec![
        plain(
            "sched_switch",
            id::SWITCH,
            &[
                ("char prev_comm[16]", 8, 16, false),
                ("pid_t prev_pid", 24, 4, true),
                ("int prev_prio", 28, 4, true),
                ("long prev_state", 32, 8, true),
                ("char next_comm[16]", 40, 16, false),
                ("pid_t next_pid", 56, 4, true),
                ("int next_prio", 60, 4, true),
            ],
            r#""prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio"#,
        ),
        plain("sched_waking", id::WAKING, &WAKE, WAKE_PRINT),
        plain("sched_wakeup_new", id::WAKEUP_NEW, &WAKE, WAKE_PRINT),
        plain(
            "sched_process_fork",
            id::FORK,
            &[
                ("char parent_comm[16]", 8, 16, false),
                ("pid_t parent_pid", 24, 4, true),
                ("char child_comm[16]", 28, 16, false),
                ("pid_t child_pid", 44, 4, true),
            ],
            r#""comm=%s pid=%d child_comm=%s child_pid=%d", REC->parent_comm, REC->parent_pid, REC->child_comm, REC->child_pid"#,
        ),
        plain(
            "sched_process_exit",
            id::EXIT,
            &WAKE[..3],
            r#""comm=%s pid=%d prio=%d", REC->comm, REC->pid, REC->prio"#,
        ),
        plain(
            "sched_migrate_task",
            id::MIGRATE,
            &[
                ("char comm[16]", 8, 16, false),
                ("pid_t pid", 24, 4, true),
                ("int prio", 28, 4, true),
                ("int orig_cpu", 32, 4, true),
                ("int dest_cpu", 36, 4, true),
            ],
            r#""comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d", REC->comm, REC->pid, REC->prio, REC->orig_cpu, REC->dest_cpu"#,
        ),
    ];
    let mut calls = Vec::new();
    for (row, (name, _, arguments)) in (0u16..).zip(CALLS) {
        let mut fields = vec![("int __syscall_nr".to_string(), 8, 4, true)];
        let mut print = Vec::new();
        for (place, argument) in (2u32..).zip(arguments.iter()) {
            fields.push((argument.to_string(), 8 * place, 8, false));
            let name = argument.rsplit(' ').next().unwrap_or(argument);
            print.push((format!("{name}: 0x%08lx"), format!("((unsigned long)(REC->{name}))")));
        }
        let texts: Vec<&str> = print.iter().map(|(text, _)| text.as_str()).collect();
        let values: String = print.iter().map(|(_, value)| format!(", {value}")).collect();
        calls.push(format(
            &format!("sys_enter_{name}"),
            id::ENTER + row,
            &fields,
            &format!("\"{}\"{values}", texts.join(", ")),
        ));
        let fields = [("int __syscall_nr".to_string(), 8, 4, true), ("long ret".to_string(), 16, 8, true)];
        calls.push(format(&format!("sys_exit_{name}"), id::LEAVE + row, &fields, r#""0x%lx", REC->ret"#));
    }
    (vec![print], vec![("sched", sched), ("syscalls", calls)])
}

/// Who is current when an event is written, and in which context.
#[derive(Clone, Copy)]
pub(super) struct Common {
    pub pid: i32,
    pub flags: u8,
}

/// One side of an event: a task as it is written.
#[derive(Clone, Copy)]
pub(super) struct Side {
    pub comm: [u8; COMM],
    pub pid: i32,
    pub prio: i32,
}

/// A record under construction; the buffer is reused.
pub(super) struct Record<'b>(&'b mut Vec<u8>);

impl<'b> Record<'b> {
    #[inline]
    pub fn begin(buffer: &'b mut Vec<u8>, id: u16, common: Common) -> Record<'b> {
        buffer.clear();
        buffer.extend_from_slice(&id.to_le_bytes());
        buffer.extend_from_slice(&[common.flags, 0]);
        buffer.extend_from_slice(&common.pid.to_le_bytes());
        Record(buffer)
    }
    #[inline]
    pub fn int(self, value: i32) -> Record<'b> {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    #[inline]
    pub fn long(self, value: i64) -> Record<'b> {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    #[inline]
    pub fn comm(self, comm: &[u8; COMM]) -> Record<'b> {
        self.0.extend_from_slice(comm);
        self
    }
    /// comm, pid, prio.
    #[inline]
    pub fn side(self, side: &Side) -> Record<'b> {
        self.comm(&side.comm).int(side.pid).int(side.prio)
    }
    pub fn text(self, text: &str) -> Record<'b> {
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        self
    }
}

/// At most 15 bytes of a name, at a character's end, then zeros.
pub(super) fn comm(name: &str) -> [u8; COMM] {
    let mut bytes = [0; COMM];
    let length = (0..=name.len().min(COMM - 1)).rev().find(|&at| name.is_char_boundary(at)).unwrap_or(0);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}
