//! Where is something in the executable, wherever the loader has put that?
//!
//! Two processes of one executable have it at different addresses. What is inside has the same distance from
//! the beginning in both:
//!
//! ```text
//! here   0x55d0_0000_0000 + 0x1a_2b40   a function
//! there  0x5610_8000_0000 + 0x1a_2b40   the same function
//! ```

use std::ffi::{c_int, c_void};

/// What of the executable is loaded.
#[derive(Clone, Default)]
struct Image {
    /// What the loader adds to the addresses of the file.
    base: usize,
    /// Loaded parts: first address, length.
    parts: Vec<(usize, usize)>,
}

unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, image: *mut c_void) -> c_int {
    // SAFETY: the loader hands in its description of an object, whose headers are as many as it says; `image`
    // is the caller's local.
    unsafe {
        let (info, image) = (&*info, &mut *image.cast::<Image>());
        image.base = info.dlpi_addr as usize;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let part =
            |header: &libc::Elf64_Phdr| (image.base + header.p_vaddr as usize, header.p_memsz as usize);
        image.parts = loaded.map(part).collect();
    }
    1 // the executable comes first: no more
}

/// The executable of this process.
fn image() -> Image {
    let mut image = Image::default();
    // SAFETY: the callback has the type that is asked for and does not keep the pointer.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut image).cast()) };
    image
}

impl Image {
    fn holds(&self, address: usize) -> bool {
        self.parts.iter().any(|(start, length)| (*start..start + length).contains(&address))
    }
}

/// How far an address is from the executable's beginning; `None` if it is not in the executable (but in a
/// library, on the heap, ...).
pub fn offset_of_address(address: usize) -> Option<usize> {
    let image = image();
    image.holds(address).then(|| address - image.base)
}

/// The reverse, in another process of the same executable ([`Started::is_own`](crate::Started::is_own)).
pub fn address_of_offset(offset: usize) -> Option<usize> {
    let image = image();
    let address = image.base.checked_add(offset)?;
    image.holds(address).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_statics_are_in_the_executable_and_the_heap_is_not() {
        static HERE: u8 = 1;
        for address in [image as *const () as usize, (&raw const HERE).addr()] {
            let offset = offset_of_address(address).expect("it is in the executable");
            assert_eq!(address_of_offset(offset), Some(address));
        }
        let heap = Box::new(1_u64);
        let library = libc::getpid as *const () as usize;
        assert_eq!(offset_of_address((&raw const *heap).addr()), None);
        assert_eq!(offset_of_address(library), None, "it is libc's, unless that is linked statically");
        assert_eq!(address_of_offset(usize::MAX), None);
    }
}
