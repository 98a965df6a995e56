//! The part of protobuf's wire format that writing a trace takes. Field numbers: protos/perfetto/trace in
//! google/perfetto.

/// Fields of the messages written, named as in the `.proto` files.
pub(crate) mod field {
    pub const TRACE_PACKET: u32 = 1;
    // TracePacket
    pub const FTRACE_EVENTS: u32 = 1;
    pub const PROCESS_TREE: u32 = 2;
    pub const TRUSTED_PACKET_SEQUENCE_ID: u32 = 10;
    pub const SYSTEM_INFO: u32 = 45;
    // FtraceEventBundle
    pub const BUNDLE_CPU: u32 = 1;
    pub const BUNDLE_EVENT: u32 = 2;
    // FtraceEvent
    pub const EVENT_TIMESTAMP: u32 = 1;
    pub const EVENT_PID: u32 = 2;
    pub const EVENT_COMMON_FLAGS: u32 = 5;
    pub const PRINT: u32 = 3;
    pub const SCHED_SWITCH: u32 = 4;
    pub const SCHED_WAKING: u32 = 20;
    pub const SCHED_WAKEUP_NEW: u32 = 114;
    pub const TASK_NEWTASK: u32 = 235;
    pub const SCHED_PROCESS_EXIT: u32 = 238;
    pub const SCHED_PROCESS_FORK: u32 = 239;
    pub const SCHED_PROCESS_FREE: u32 = 240;
    pub const SYS_ENTER: u32 = 329;
    pub const SYS_EXIT: u32 = 330;
}

/// Appends a number as protobuf's varint.
#[inline]
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a number field; negative numbers are sign-extended by the caller (`as i64 as u64`).
#[inline]
pub(crate) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, value);
}

/// Appends a field of bytes: a string or an encoded message.
#[inline]
pub(crate) fn bytes(out: &mut Vec<u8>, field: u32, content: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

/// Encodes a message with `fill` and appends it as a field.
pub(crate) fn message(out: &mut Vec<u8>, field: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    fill(&mut content);
    bytes(out, field, &content);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of protobuf.dev/programming-guides/encoding.
    #[test]
    fn wire_format_is_protobufs() {
        let encoded = |f: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            f(&mut out);
            out
        };
        assert_eq!(encoded(&|out| number(out, 1, 150)), [0x08, 0x96, 0x01]);
        assert_eq!(encoded(&|out| bytes(out, 2, b"testing")), b"\x12\x07testing");
        assert_eq!(encoded(&|out| message(out, 3, |m| number(m, 1, 150))), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(
            encoded(&|out| number(out, 2, -2i64 as u64)),
            b"\x10\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        );
    }
}
