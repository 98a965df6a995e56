//! Who called whom, on a kernel stack without frame pointers?
//!
//! Every word up to the stack's end that points behind a call instruction of the kernel's code. Some may be
//! left-overs of earlier calls, as in the traces of kernels without an unwinder.

/// The kernel's `THREAD_SIZE`: stacks are aligned to it.
const STACK: usize = 16 << 10;

/// Return addresses from `sp` upward, at most as many as `out` holds; returns how many there are. `texts` are
/// where code begins and ends: the kernel's and its schedulers'. Allocates nothing.
///
/// # Safety
/// `sp` lies in a mapped kernel stack; what `texts` name is mapped.
pub unsafe fn walk(sp: usize, texts: &[(usize, usize)], out: &mut [u64]) -> usize {
    let mut at = sp & !7;
    let end = (at | (STACK - 1)) + 1;
    let mut found = 0;
    while at < end && found < out.len() {
        // SAFETY: within the stack.
        let word = unsafe { *(at as *const usize) };
        if texts.iter().any(|(start, end)| (start + 8..*end).contains(&word)) {
            // SAFETY: within code.
            let before = unsafe { std::slice::from_raw_parts((word - 6) as *const u8, 6) };
            // near call; indirect calls of 2, 3 and 6 bytes
            let indirect = |n: usize| before[6 - n] == 0xff && before[7 - n] & 0x38 == 0x10;
            if before[1] == 0xe8 || indirect(2) || indirect(3) || indirect(6) {
                out[found] = word as u64;
                found += 1;
            }
        }
        at += 8;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code with a call at offset 16 that ends at 21, and a stack with that address, one without a call
    /// before it, and data.
    #[test]
    fn words_behind_calls_are_found() {
        let mut code = [0x90u8; 64];
        code[16] = 0xe8;
        (code[30], code[31]) = (0xff, 0xd0);
        let text = code.as_ptr() as usize..code.as_ptr() as usize + 64;
        #[repr(align(16384))]
        struct Stack([usize; 2048]);
        let mut stack = Box::new(Stack([0; 2048]));
        stack.0[2040] = text.start + 21;
        stack.0[2042] = text.start + 40;
        stack.0[2044] = 7;
        stack.0[2047] = text.start + 32;
        let mut out = [0; 8];
        // SAFETY: both are ours.
        let n = unsafe { walk(&raw const stack.0[2000] as usize, &[(text.start, text.end)], &mut out) };
        assert_eq!(out[..n], [text.start as u64 + 21, text.start as u64 + 32]);
    }
}
