//! How is a small program for the kernel's virtual machine put together? Its instructions, eight bytes each,
//! with labels for jumps.
//!
//! ```text
//! mov r0, 0 ; exit          b7 00 00 00 00 00 00 00   95 00 00 00 00 00 00 00
//! ```
//!
//! Only the instructions that the recorder's programs need. include/uapi/linux/bpf.h and
//! Documentation/bpf/standardization/.

/// A register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reg(pub u8);

pub(super) const R0: Reg = Reg(0);
pub(super) const R1: Reg = Reg(1);
pub(super) const R2: Reg = Reg(2);
pub(super) const R3: Reg = Reg(3);
pub(super) const R6: Reg = Reg(6);
pub(super) const R7: Reg = Reg(7);
pub(super) const R8: Reg = Reg(8);
pub(super) const R9: Reg = Reg(9);
/// The end of the program's own 512 bytes.
pub(super) const FRAME: Reg = Reg(10);

/// Functions of the kernel that programs may call, by number (`enum bpf_func_id`).
#[derive(Debug, Clone, Copy)]
pub(super) enum Helper {
    MapLookup = 1,
    KtimeGetNs = 5,
    SmpProcessorId = 8,
    CurrentPidTgid = 14,
    ProbeReadUser = 112,
    ProbeReadKernel = 113,
    ProbeReadKernelStr = 115,
    RingbufReserve = 131,
    RingbufSubmit = 132,
    RingbufQuery = 134,
    ThisCpuPtr = 154,
    CurrentTask = 158,
    TaskPtRegs = 175,
}

/// How many bytes a load or store moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Byte,
    Half,
    Word,
    Long,
}

impl Size {
    /// Of so many bytes.
    pub(super) fn of(bytes: u32) -> Option<Size> {
        Some(match bytes {
            1 => Size::Byte,
            2 => Size::Half,
            4 => Size::Word,
            8 => Size::Long,
            _ => return None,
        })
    }
    fn code(self) -> u8 {
        match self {
            Size::Word => 0x00,
            Size::Half => 0x08,
            Size::Byte => 0x10,
            Size::Long => 0x18,
        }
    }
}

/// A place that jumps may name before it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// What a jump asks.
#[derive(Debug, Clone, Copy)]
pub(super) enum If {
    Always,
    Eq(i32),
    Ne(i32),
    /// Unsigned, at least.
    Ge(i32),
    /// Signed, at most a register's value.
    LeReg(Reg),
    /// Has one of these bits.
    Has(i32),
}

/// A program under construction.
#[derive(Default)]
pub(super) struct Asm {
    code: Vec<[u8; 8]>,
    labels: Vec<Option<usize>>,
    /// Jumps whose distance is not known yet.
    jumps: Vec<(usize, Label)>,
}

impl Asm {
    fn put(&mut self, code: u8, dst: Reg, src: Reg, off: i16, imm: i32) {
        let mut bytes = [code, dst.0 | src.0 << 4, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&off.to_le_bytes());
        bytes[4..].copy_from_slice(&imm.to_le_bytes());
        self.code.push(bytes);
    }
    pub(super) fn mov(&mut self, dst: Reg, src: Reg) {
        self.put(0xbf, dst, src, 0, 0);
    }
    pub(super) fn set(&mut self, dst: Reg, value: i32) {
        self.put(0xb7, dst, R0, 0, value);
    }
    pub(super) fn add(&mut self, dst: Reg, value: i32) {
        self.put(0x07, dst, R0, 0, value);
    }
    pub(super) fn add_reg(&mut self, dst: Reg, src: Reg) {
        self.put(0x0f, dst, src, 0, 0);
    }
    pub(super) fn sub_reg(&mut self, dst: Reg, src: Reg) {
        self.put(0x1f, dst, src, 0, 0);
    }
    pub(super) fn or(&mut self, dst: Reg, value: i32) {
        self.put(0x47, dst, R0, 0, value);
    }
    pub(super) fn or_reg(&mut self, dst: Reg, src: Reg) {
        self.put(0x4f, dst, src, 0, 0);
    }
    pub(super) fn and(&mut self, dst: Reg, value: i32) {
        self.put(0x57, dst, R0, 0, value);
    }
    pub(super) fn shift_left(&mut self, dst: Reg, bits: i32) {
        self.put(0x67, dst, R0, 0, bits);
    }
    pub(super) fn shift_right(&mut self, dst: Reg, bits: i32) {
        self.put(0x77, dst, R0, 0, bits);
    }
    /// Swaps the lower two bytes; the others are 0 then.
    pub(super) fn swap16(&mut self, dst: Reg) {
        self.put(0xdc, dst, R0, 0, 16);
    }
    /// dst = *(src + off)
    pub(super) fn load(&mut self, size: Size, dst: Reg, src: Reg, off: impl Into<i64>) {
        self.put(0x61 | size.code(), dst, src, off.into() as i16, 0);
    }
    /// *(dst + off) = src
    pub(super) fn store(&mut self, size: Size, dst: Reg, off: i32, src: Reg) {
        self.put(0x63 | size.code(), dst, src, off as i16, 0);
    }
    /// *(dst + off) = value
    pub(super) fn store_value(&mut self, size: Size, dst: Reg, off: i32, value: i32) {
        self.put(0x62 | size.code(), dst, R0, off as i16, value);
    }
    /// *(u64 *)(dst + off) += src, at once for all CPUs and interrupts
    pub(super) fn atomic_add(&mut self, dst: Reg, off: i32, src: Reg) {
        self.put(0xdb, dst, src, off as i16, 0);
    }
    pub(super) fn call(&mut self, helper: Helper) {
        self.put(0x85, R0, R0, 0, helper as i32);
    }
    /// dst = the map behind this descriptor
    pub(super) fn map(&mut self, dst: Reg, fd: i32) {
        self.wide(dst, 1, fd, 0);
    }
    /// dst = address of the only element of the array behind this descriptor
    pub(super) fn map_value(&mut self, dst: Reg, fd: i32) {
        self.wide(dst, 2, fd, 0);
    }
    /// dst = the kernel's variable with this number in its description
    pub(super) fn variable(&mut self, dst: Reg, id: u32) {
        self.wide(dst, 3, id as i32, 0);
    }
    /// dst = a value of eight bytes
    pub(super) fn set_long(&mut self, dst: Reg, value: u64) {
        self.wide(dst, 0, value as i32, (value >> 32) as i32);
    }
    fn wide(&mut self, dst: Reg, what: u8, low: i32, high: i32) {
        self.put(0x18, dst, Reg(what), 0, low);
        self.put(0, R0, R0, 0, high);
    }
    pub(super) fn exit(&mut self) {
        self.put(0x95, R0, R0, 0, 0);
    }
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }
    /// The label is here.
    pub(super) fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }
    pub(super) fn jump(&mut self, if_: If, reg: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        match if_ {
            If::Always => self.put(0x05, R0, R0, 0, 0),
            If::Eq(value) => self.put(0x15, reg, R0, 0, value),
            If::Ne(value) => self.put(0x55, reg, R0, 0, value),
            If::Ge(value) => self.put(0x35, reg, R0, 0, value),
            If::LeReg(other) => self.put(0xdd, reg, other, 0, 0),
            If::Has(bits) => self.put(0x45, reg, R0, 0, bits),
        }
    }
    /// The program's bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        for (at, label) in std::mem::take(&mut self.jumps) {
            let to = self.labels[label.0].expect("every label has a place");
            let distance = (to as i64 - at as i64 - 1) as i16;
            self.code[at][2..4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_as_the_assembler_of_llvm_writes_them() {
        // llvm-mc -triple bpfel: r1 = *(u32 *)(r6 + 8); if r1 != 5 goto +2; *(u64 *)(r10 - 8) = r1; r1 += r2;
        // call 14; exit
        let mut asm = Asm::default();
        let end = asm.label();
        asm.load(Size::Word, R1, R6, 8);
        asm.jump(If::Ne(5), R1, end);
        asm.store(Size::Long, FRAME, -8, R1);
        asm.add_reg(R1, R2);
        asm.here(end);
        asm.call(Helper::CurrentPidTgid);
        asm.exit();
        let expected: [[u8; 8]; 6] = [
            [0x61, 0x61, 8, 0, 0, 0, 0, 0],
            [0x55, 0x01, 2, 0, 5, 0, 0, 0],
            [0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0],
            [0x0f, 0x21, 0, 0, 0, 0, 0, 0],
            [0x85, 0, 0, 0, 14, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(asm.finish(), expected.concat());
    }
}
